"""Answers to hooks: what a model is to read as a session begins, with a prompt, or after a failed check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harken.context.render import Quote, block, core_block, fenced
from harken.engine import Harken
from harken.log import Log
from harken.model.conversations import ContextItem, SavedRecord, Trust
from harken.model.experience_texts import experience_markdown, value_markdown
from harken.model.experiences import EXPERIENCE, read_experience, read_value
from harken.record.ids import conversation_uid
from harken.serve.daemon.spool import Transcript, put
from harken.serve.hooks.events import (
    AGENTS,
    CHECKED,
    PROMPT,
    SESSION_START,
    TOOL_FAILED,
    Agent,
    event_name,
    grown,
    is_path,
    read_payload,
)
from harken.sources.experiences.checks import CheckFailure, failure_of
from harken.text import tokens
from harken.text.fence import BRIEF, PAST, PREMORTEM


def open_experience(harken: Harken, directory: str, session: str) -> list[Quote]:
    """The experience that is under way in a folder's project, and whether another session has left it open."""
    found = harken.experiences.active(directory=directory, session=session)
    if found is None:
        return []
    one = found.experience
    text = (
        f"Open experience: {one.goal}\nHypothesis: {one.hypothesis}\nAction: {one.action}\nPrediction: {one.prediction}"
    )
    if found.is_orphan:
        text += "\nBegun in another session, and still open: it can be adopted, or resolved as abandoned."
    return [Quote(text, "experience", one.uid, "", one.updated_at, "agent")]


_DEFAULT_DOMAIN = "debugging"
_EXPERIENCES_SHOWN = 4
_WITH_CAUSE = "root_cause"
_LINE_TOKENS = 80
# Of each kind so many are looked at: those that are near are few.
_LIMIT = 10
# What failed is told at the end of what is printed, however much that is.
_READ_CHARS = 200_000
# Gemini CLI frames what its shell printed.
_GEMINI_FRAME = ("<untrusted_context>\n", "Output: ")


def failed_check(event: str, agent: Agent, payload: Mapping[str, Any]) -> CheckFailure | None:
    """The test or build that an event tells the failure of; None where it tells of none.

    Args:
        event: `events.TOOL_USED` or `events.TOOL_FAILED`.
        agent: whose.
        payload: what it told its hook.
    """
    name, given = payload.get("tool_name"), payload.get("tool_input")
    if not isinstance(name, str) or not isinstance(given, dict) or payload.get("is_interrupt") is True:
        return None
    if event == TOOL_FAILED:
        printed, facts = _text(payload.get("error")), {"is_error": True}
    else:
        printed, facts = _printed(payload.get("tool_response")), {"is_error": False} if agent.marks else {}
    return failure_of(name, json.dumps(given), printed[-_READ_CHARS:], facts)


def premortem_quotes(harken: Harken, failure: CheckFailure, directory: str | None) -> list[Quote]:
    """The experiences and values that tell of such a failure, most relevant first; none where none is near to it.

    Args:
        harken: the store.
        failure: what has failed.
        directory: where; the experience that is under way there says what kind of work it is.
    """
    if not failure.words:
        return []
    active = harken.experiences.active(directory=directory) if directory else None
    domain, strategy = (active.experience.domain, active.experience.strategy) if active else (_DEFAULT_DOMAIN, None)
    told = harken.assembler.get_premortem_context(domain, strategy, _LIMIT, about=failure.words)
    return _quotes(harken, told.items)[:_EXPERIENCES_SHOWN]


def _quotes(harken: Harken, items: Sequence[ContextItem]) -> list[Quote]:
    """One quotation for each record, whichever parts of the premortem it stands in."""
    found = harken.sources.records((item.source, item.metadata["id"]) for item in items)
    return [_failure_quote(kept) for kept in found]


def _failure_quote(kept: SavedRecord) -> Quote:
    return Quote(_story(kept), kept.source, kept.uid, "", kept.at, (kept.fields or {}).get("trust", Trust.AGENT.value))


def _story(kept: SavedRecord) -> str:
    """All that a record tells, root cause included; cut in each of its lines, for what a warning is about ends it."""
    is_experience = kept.source == EXPERIENCE
    told = (
        experience_markdown(read_experience(kept), _WITH_CAUSE) if is_experience else value_markdown(read_value(kept))
    )
    return "\n".join(tokens.clip(line, _LINE_TOKENS) for line in told.split("\n"))


def _printed(response: Any) -> str:
    """What a shell printed: Codex tells the text, the others an object that has it."""
    if not isinstance(response, dict):
        return _text(response)
    if response.get("interrupted") is True:
        return ""
    framed = _text(response.get("llmContent"))
    for mark in _GEMINI_FRAME:
        framed = framed.removeprefix(mark)
    return "\n".join(text for text in (_text(response.get("stdout")), _text(response.get("stderr")), framed) if text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The text that a conversation's model reads, empty where nothing matters, and the ids of what it is told by it."""

    conversation_uid: str = ""
    text: str = ""
    given: tuple[str, ...] = ()


NOTHING = HookAnswer()


@dataclass(frozen=True, slots=True)
class Hooks:
    """Answers hooks from an open store.

    Args:
        harken: the store.
        reports: folder where transcripts that have grown are put down.
        unwritten: those that could not be, the disk being full, say; whoever reads the folder tries again.
    """

    harken: Harken
    reports: str
    unwritten: set[Transcript] = field(default_factory=set)

    def answer(self, event: str, agent: str, content: bytes, is_gone: Callable[[], bool] = lambda: False) -> bytes:
        """Return what the hook is to print; nothing where nothing matters.

        Args:
            event: in any spelling.
            agent: one of `events.AGENTS`.
            content: what the agent told its hook, unread.
            is_gone: whether nobody waits for the answer any more; what was not heard is told another time.
        """
        payload = read_payload(content)
        transcripts = grown(event, agent, payload)
        if payload is None or transcripts is None:
            return b""
        for transcript in transcripts:
            try:
                put(self.reports, transcript)
            except OSError as error:
                _log.warning("report_failed", error_class=type(error).__name__)
                self.unwritten.add(transcript)
        answer = self.context(event_name(event), agent, payload)
        if not answer.text:
            return b""
        if answer.given and not self.harken.chats.note_given(answer.conversation_uid, answer.given, unless=is_gone):
            return b""
        called = payload.get("hook_event_name")
        told = {"hookEventName": called if isinstance(called, str) else event, "additionalContext": answer.text}
        return json.dumps({"hookSpecificOutput": told}).encode()

    def context(self, event: str, agent_name: str, payload: Mapping[str, Any]) -> HookAnswer:
        """Return what the agent's model is to read with this event."""
        agent, wanted = AGENTS[agent_name], self.harken.settings.hooks
        session_id = payload.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            return NOTHING
        if event == SESSION_START and wanted.brief:
            return self._brief(agent, session_id, payload)
        prompt = payload.get("prompt")
        if event == PROMPT and wanted.recall and isinstance(prompt, str):
            return self._recall(agent, session_id, prompt)
        if event in CHECKED and wanted.premortem:
            return self._premortem(event, agent, session_id, payload)
        return NOTHING

    def _recall(self, agent: Agent, session_id: str, prompt: str) -> HookAnswer:
        """Return what was saved or said elsewhere about the prompt, and this conversation was not told yet."""
        session = self.harken.chats.session(session_id, agent.format)
        found = self.harken.chats.quotes_about(prompt, session)
        return self._told(agent, session.conversation_uid, PAST, found)

    def _premortem(self, event: str, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> HookAnswer:
        """Return what earlier work says about the test or build that failed; once for each cause."""
        failure = failed_check(event, agent, payload)
        if failure is None:
            return NOTHING
        side = payload.get("agent_id")
        # A subagent's conversation is one of its own, by the name that its transcript has.
        name = f"{session_id}/agent-{side}" if isinstance(side, str) and side else session_id
        uid = conversation_uid(agent.format, name)
        if failure.cause in self.harken.chats.given(uid):
            return NOTHING
        quotes = premortem_quotes(self.harken, failure, _directory(payload))
        answer = self._told(agent, uid, PREMORTEM, quotes)
        return replace(answer, given=(failure.cause, *answer.given)) if answer.text else answer

    def _brief(self, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> HookAnswer:
        """Return what is always known, what is under way in the project, and what its last conversation came to.

        After a compaction all of it again: what was told before it is no longer in the context.
        """
        cwd = _directory(payload)
        uid = conversation_uid(agent.format, session_id)
        quotes: list[Quote] = []
        if cwd is not None:
            quotes = [*open_experience(self.harken, cwd, session_id), *self.harken.chats.latest(cwd, uid)]
        facts = self.harken.core.list()
        # Core memory, in no more than half of the room.
        core = tokens.clip(core_block(facts), self._room(agent) // 2)[: agent.max_chars // 2] if facts else ""
        return self._told(agent, uid, BRIEF, quotes, core, again=payload.get("source") == "compact")

    def _room(self, agent: Agent) -> int:
        return min(self.harken.settings.hooks.max_tokens, agent.max_tokens)

    def _told(
        self, agent: Agent, uid: str, heading: str, quotes: Sequence[Quote], before: str = "", again: bool = False
    ) -> HookAnswer:
        """Return as much as fits of what the conversation was not given yet, or, told again, of all.

        Args:
            agent: whose limits hold.
            uid: of the conversation.
            heading: above the quotations.
            quotes: the most important first.
            before: stands above the heading, and counts.
            again: whether what it was given before is gone from its context.
        """
        known = set() if again else self.harken.chats.given(uid)
        given: list[str] = []
        quotations: list[str] = []
        text = before
        for quote in quotes:
            if quote.uid in known:
                continue
            quotations.append(fenced(quote))
            quoted = block(heading, quotations)
            longer = f"{before}\n\n{quoted}" if before else quoted
            if len(longer) > agent.max_chars or tokens.estimate(longer) > self._room(agent):
                break
            given += (quote.uid, *quote.whole)
            text = longer
        return HookAnswer(uid, text, tuple(given))


def _directory(payload: Mapping[str, Any]) -> str | None:
    cwd = payload.get("cwd")
    return cwd if is_path(cwd) and Path(cwd).is_absolute() else None
