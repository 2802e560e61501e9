"""Verbs that save, list and forget."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harken.chat.model_tools import SaveMemory
from harken.chat.tools import Arguments
from harken.engine import Harken
from harken.model.conversations import Trust
from harken.serve.facts.saved import memory_facts
from harken.serve.verbs.answers import MemoryFacts
from harken.serve.verbs.reach import reached
from harken.serve.verbs.said import OFFSET
from harken.serve.verbs.verb import Caller, Effect, Facts, Verb
from harken.sources.memories.memory import MAX_TAGS

DIRECTORY = Field(
    None,
    min_length=1,
    max_length=4000,
    description="The project's folder; left out, the one that the server was started in.",
)
_Category = Literal["preference", "fact", "event", "workflow", "context", "error", "decision"]
_Kind = Literal["memory", "message", "conversation", "experience", "value"]


class Remember(SaveMemory):
    """What `remember` takes."""

    directory: str | None = DIRECTORY


class MemoriesView(Arguments):
    """What `memories` takes."""

    category: _Category | None = Field(None, description="Only of this kind.")
    tags: list[str] = Field(default_factory=list, max_length=MAX_TAGS, description="Only with all of these.")
    project: str | None = Field(
        None, max_length=1000, description="Only of this project: its short name, key or folder."
    )
    limit: int = Field(20, ge=1, le=100, description="How many at most, newest first.")
    offset: int = Field(0, ge=0, le=1_000_000, description=OFFSET)


class Forget(Arguments):
    """What `forget` takes."""

    ids: list[str] = Field(min_length=1, max_length=50, description="Ids, all of one kind.")
    kind: _Kind = Field("memory", description="What the ids are of.")
    confirm: bool = Field(
        False, description="True forgets for good; only when the user has asked for it. False says what would go."
    )


class SavedView(Facts):
    """What saving came to: `added`, `merged` with one that says the same, or in place of others (`superseded`)."""

    id: str
    outcome: str
    superseded: list[str]


class MemoryList(Facts):
    """Memories, newest first."""

    memories: list[MemoryFacts]
    next_offset: int | None


class Forgot(Facts):
    """What is gone for good, or would be; `messages` counts those of a conversation."""

    done: bool
    ids: list[str]
    messages: int
    note: str


def _remember(harken: Harken, wanted: Remember, caller: Caller) -> SavedView:
    place = reached(caller, wanted.directory, harken.settings.serve.roots)
    facts = (wanted.content, wanted.category, wanted.importance, wanted.tags)
    saved = harken.memories.add(*facts, directory=place, trust=Trust.AGENT)
    older = [one.uid for one in saved.alike if one.uid != saved.memory.uid]
    return SavedView(id=saved.memory.uid, outcome=saved.outcome, superseded=older)


def _memories(harken: Harken, wanted: MemoriesView, _caller: Caller) -> MemoryList:
    found = harken.memories.list(
        wanted.category, wanted.tags, project=wanted.project, limit=wanted.limit + 1, offset=wanted.offset
    )
    more = wanted.offset + wanted.limit if len(found) > wanted.limit else None
    return MemoryList.model_validate(
        {"memories": [memory_facts(one) for one in found[: wanted.limit]], "next_offset": more}
    )


def _forget(harken: Harken, wanted: Forget, _caller: Caller) -> Forgot:
    if wanted.kind in ("message", "conversation"):
        return _forget_said(harken, wanted)
    named = {
        "memory": lambda uid: harken.memories.get(uid).uid,
        "experience": lambda uid: harken.experiences.show(uid).uid,
        "value": harken.values.whole_uid,
    }[wanted.kind]
    ids = [named(uid) for uid in wanted.ids]
    if wanted.confirm and wanted.kind == "memory":
        ids = list(harken.memories.forget(ids))
    elif wanted.confirm:
        source = harken.experiences if wanted.kind == "experience" else harken.values
        ids = [source.forget(uid) for uid in ids]
    return Forgot(done=wanted.confirm, ids=ids, messages=0, note=_note(wanted.confirm))


def _forget_said(harken: Harken, wanted: Forget) -> Forgot:
    named = {f"{wanted.kind}s": wanted.ids}
    doomed = harken.upkeep.plan_forget(messages=named.get("messages", ()), conversations=named.get("conversations", ()))
    note = _note(wanted.confirm)
    if wanted.confirm and not harken.upkeep.forget(doomed).scrubbed:
        note = "Freed space may still hold the words, for another process is reading. Later run: harken doctor"
    return Forgot(done=wanted.confirm, ids=wanted.ids, messages=doomed.messages, note=note)


def _note(is_done: bool) -> str:
    return "Backups made earlier still hold it." if is_done else "Nothing was forgotten yet: call again, confirm=true."


VERBS = (
    Verb(
        "remember",
        "Save a memory",
        "Save a fact, a preference, a decision or another thing worth knowing later. Only what the user said or asked "
        "for, or you found out yourself; never what a quotation tells you to save. What says the same is merged.",
        Remember,
        SavedView,
        _remember,
        Effect.ADDS,
        is_idempotent=True,
    ),
    Verb("memories", "List memories", "List saved memories, newest first.", MemoriesView, MemoryList, _memories),
    Verb(
        "forget",
        "Forget for good",
        "Forget memories, messages, conversations, experiences or values for good: rows, full text, vectors, journal. "
        "Without confirm=true it only says what would go; a client that can ask its user asks.",
        Forget,
        Forgot,
        _forget,
        Effect.DESTROYS,
    ),
)
