"""Memories: saved, listed, found, changed; and forgetting for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import CATEGORIES, MAX_TAGS, MODES, OFFSET, Argument, NewMemory, Spelling
from harken.model.views import MemoryView, format_moment
from harken.serve.operations.operation import (
    AT_MOST,
    WORDS,
    Caller,
    Directory,
    Effect,
    IdArguments,
    Operation,
    Printer,
    Project,
    changing,
    listed,
    paged,
    whose,
)
from harken.text.dates import parse_since
from harken.text.shown import counted, one_line, readable_age

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.sources.memories.memories import FoundMemories, SavedMemory
    from harken.sources.memories.memory import Memory

_EXCERPT_CHARS = 160
_MOST_DAY_DIGITS = 5
_KINDS = ("memory", "message", "conversation", "experience", "value")
_MOST_MATCHES = 10
_NOT_YET = "Nothing was forgotten yet: call again, confirm=true."
_UNFREED = "So may freed space: for ten minutes or so in a team, where its worker sees to it; else run: harken doctor"
_WHICH = "Nothing was forgotten: ask which are meant, and call again with their ids."
_NO_MATCH = "Nothing was forgotten, for nothing of this kind was found. Say it in other words, or another kind."
_TAG = Spelling("--tag", help="Only with this tag; with several, all of them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberArguments(NewMemory):
    """A memory to be saved, and its project."""

    directory: Directory = None
    everywhere: Annotated[bool, Argument("Of no project.", is_shared=False)] = False


class SavedView(TypedDict):
    """How saving ended: `added`, `merged` with one that says the same, or in place of others (`superseded`)."""

    id: str
    outcome: str
    superseded: list[str]


def _remember(harken: Harken, wanted: RememberArguments, caller: Caller) -> SavedMemory:
    from harken.model.conversations import Trust

    place = None if wanted.everywhere else caller.reach(wanted.directory, harken.settings.serve.roots)
    trust = Trust.OWNER if caller.is_owner else Trust.AGENT
    return harken.memories.add(
        wanted.content, wanted.category, wanted.importance, wanted.tags, directory=place, trust=trust
    )


def _show_saved(session: Printer, found: SavedMemory) -> None:
    session.say(f"{found.outcome.capitalize()} {found.memory.uid}")
    did = "is the same as" if found.outcome == "merged" else "stands in place of"
    for one in found.alike:
        session.say(f"  {did} {one.uid}: {one.why} ({one.similarity:.2f})")
    if found.outcome == "added" and found.memory.suggested_review and not found.memory.review_by:
        day = f"{found.memory.suggested_review.astimezone():%Y-%m-%d}"
        session.note(f"What is a {found.memory.category} may change. To be asked by {day}: harken memory review ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesArguments:
    """Which memories to list."""

    category: Annotated[str | None, Argument("Only of this kind.", choices=CATEGORIES)] = None
    tags: Annotated[tuple[str, ...], Argument("Only with all of these.", most=MAX_TAGS), _TAG] = ()
    project: Project = None
    superseded: Annotated[bool, Argument("Those that others stand in place of.", is_rare=True)] = False
    limit: Annotated[int, Argument("How many at most, newest first.", 1, 100), replace(AT_MOST, default=50)] = 20
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000), Spelling(help="Pass over so many.")] = 0


class DueAnswer(TypedDict):
    """Memories that are to be looked at again, the longest due first."""

    memories: list[MemoryView]


class MemoriesAnswer(TypedDict):
    """Memories, newest first."""

    memories: list[MemoryView]
    next_offset: int | None


def _list(harken: Harken, wanted: MemoriesArguments, caller: Caller) -> Sequence[Memory]:
    part = {"limit": caller.read_ahead(wanted.limit), "project": caller.project(harken, wanted.project)}
    return harken.memories.list(**{**asdict(wanted), **part})


def _show_memories(session: Printer, found: Sequence[Memory], otherwise: str, notes: Sequence[str] = ()) -> None:
    for note in notes:
        session.note(note)
    for one in found:
        show_memory(session, one)
    if not found:
        session.say(otherwise)


def show_memory(session: Printer, found: Memory, is_whole: bool = False) -> None:
    """Print a memory, its words cut unless the whole is wanted."""
    session.say(
        (f"{found.category}, importance {found.importance:g}, {readable_age(found.created_at)}", "green"),
        (f"  {found.project.name}" if found.project else "", "cyan"),
        ("".join(f" #{tag}" for tag in found.tags), "yellow"),
        (f"  {found.uid}", "dim"),
        (f"  {found.trust.label}" if found.trust.is_untrusted else "", "red"),
        whose(found.origin),
    )
    session.say("  " + (found.content if is_whole else one_line(found.content, _EXCERPT_CHARS)))
    if found.superseded_by:
        session.say((f"  superseded by {found.superseded_by}", "dim"))
    if is_whole and found.supersedes:
        session.say((f"  supersedes {', '.join(found.supersedes)}", "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetArguments:
    """What to forget."""

    ids: Annotated[tuple[str, ...], Argument("Ids, all of one kind.", most=50)] = ()
    query: Annotated[
        str | None, Argument("In place of ids: finds what could be meant, with ids; nothing goes.", most=2000)
    ] = None
    kind: Annotated[str, Argument("What it is.", choices=_KINDS)] = "memory"
    confirm: Annotated[
        bool, Argument("True forgets for good; only when the user asked for it. False says what would go.")
    ] = False

    def __post_init__(self) -> None:
        """Raise ValueError unless it is said what to forget, in one way."""
        if bool(self.ids) == (self.query is not None):
            raise ValueError("give ids, or a query that finds them")


class MatchView(TypedDict):
    """One thing that could be forgotten."""

    id: str
    text: str
    created_at: str


class ForgetAnswer(TypedDict):
    """What is gone for good, or would be, or what a query finds; `messages` counts those of a conversation."""

    done: bool
    ids: list[str]
    messages: int
    note: str
    matches: list[MatchView]


def _matches(harken: Harken, query: str, kind: str) -> list[MatchView]:
    """What a query finds of a kind, best first; a conversation by what was said in it."""
    from harken.model.conversations import SearchScope

    is_whole = kind == "conversation"
    scope = SearchScope(sources=("message",) if is_whole else (kind,))
    found: dict[str, MatchView] = {}
    for hit in harken.search(query, scope=scope, limit=_MOST_MATCHES).hits:
        if hit.origin is not None and not hit.origin.is_here:
            # It stands in a space that is read, and is not the one that is written to.
            continue
        uid = (hit.entry.conversation_uid if is_whole else hit.entry.ref_uid) or ""
        text = one_line(hit.entry.text, _EXCERPT_CHARS)
        found.setdefault(uid, {"id": uid, "text": text, "created_at": format_moment(hit.entry.created_at)})
    return list(found.values())


def _search_memories(harken: Harken, wanted: MemorySearchArguments, caller: Caller) -> FoundMemories:
    # As `search` has it: the owner looks for what there is, an agent for what matters where it works.
    project, here = caller.project(harken, wanted.project), None if caller.is_owner else caller.directory
    return harken.memories.search(**{**asdict(wanted), "project": project}, directory=here)


def _forget(harken: Harken, wanted: ForgetArguments, _caller: Caller) -> ForgetAnswer:
    if wanted.query is not None:
        matches = _matches(harken, wanted.query, wanted.kind)
        return ForgetAnswer(done=False, ids=[], messages=0, note=_WHICH if matches else _NO_MATCH, matches=matches)
    note = "Backups made earlier still hold it." if wanted.confirm else _NOT_YET
    is_said = wanted.kind in ("message", "conversation")
    named: dict[str, Any] = {f"{wanted.kind}s": wanted.ids} if is_said else {"saved": (wanted.kind, wanted.ids)}
    doomed = harken.maintenance.plan_forget(**named)
    ids = [grave.uid for grave in doomed.tombstones]
    if wanted.confirm and not harken.maintenance.forget(doomed).scrubbed:
        note = f"{note} {_UNFREED}"
    if doomed.copies:
        note = f"{note} {counted(doomed.shares, 'shared copy', 'shared copies')} with it."
    return ForgetAnswer(done=wanted.confirm, ids=ids, messages=doomed.messages, note=note, matches=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySearchArguments:
    """Which memories to find."""

    query: Annotated[str, Argument("What to look for."), WORDS]
    category: Annotated[str | None, Argument("Only of this one.", choices=CATEGORIES)] = None
    tags: Annotated[tuple[str, ...], Argument("Only with all of these."), _TAG] = ()
    min_importance: Annotated[float, Argument("Only those at least so important.")] = 0.0
    project: Project = None
    limit: Annotated[int, Argument("At most so many, up to 100.")] = 10
    mode: Annotated[str, Argument("Words, meaning, or both.", choices=MODES)] = "hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditArguments(IdArguments):
    """What to change of a memory."""

    text: Annotated[str, Argument("Its new words."), WORDS] = ""
    category: Annotated[str | None, Argument("Its new category.", choices=CATEGORIES)] = None
    importance: Annotated[float | None, Argument("Its new importance, from 0 to 1.")] = None
    tags: Annotated[tuple[str, ...], Argument("Its tags from now on, in place of all it has."), Spelling("--tag")] = ()
    no_tags: Annotated[bool, Argument("Take its tags away.")] = False


def _edit(harken: Harken, wanted: EditArguments, _caller: Caller) -> Memory:
    if wanted.tags and wanted.no_tags:
        raise UsageError("Give --tag or --no-tags, not both.")
    return harken.memories.edit(
        wanted.id,
        content=wanted.text or None,
        category=wanted.category,
        importance=wanted.importance,
        tags=wanted.tags if wanted.tags or wanted.no_tags else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMemoriesArguments:
    """Which memories to forget."""

    ids: Annotated[tuple[str, ...], Argument("Their ids."), Spelling(is_word=True, metavar="ID…")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReviewArguments(IdArguments):
    """When to look at a memory again."""

    by: Annotated[
        str | None, Argument("A day, or so many days from now: 2027-01-31, 90; left out, what its category suggests.")
    ] = None
    never: Annotated[bool, Argument("Do not ask for it any more.")] = False


def _review(harken: Harken, wanted: MemoryReviewArguments, _caller: Caller) -> Memory:
    if wanted.never:
        return harken.memories.review(wanted.id, None)
    now = datetime.now(UTC)
    if wanted.by is None:
        found = harken.memories.get(wanted.id)
        if found.suggested_review is None:
            raise UsageError(f"A memory of {found.category} suggests no day. Give one to review it by: 2027-01-31")
        return harken.memories.review(found.uid, found.suggested_review)
    is_days = wanted.by.isdecimal() and len(wanted.by) <= _MOST_DAY_DIGITS
    by = now + timedelta(days=int(wanted.by)) if is_days else parse_since(wanted.by, now, "future")
    return harken.memories.review(wanted.id, by)


def _show_review(printer: Printer, found: Memory) -> None:
    show_memory(printer, found)
    when = "never" if found.review_by is None else f"{found.review_by.astimezone():%Y-%m-%d}"
    printer.say(f"  to be looked at again: {when}; last known to hold {readable_age(found.held_at)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueArguments:
    """Which memories are due."""

    within: Annotated[int, Argument("Also those that are due within so many days.", 0, 10_000)] = 0


def _show_due(printer: Printer, found: Sequence[Memory]) -> None:
    for one in found:
        _show_review(printer, one)
    if not found:
        printer.say("Nothing is due. Say when to look at a memory again: harken memory review ID --by 90")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeArguments:
    """Which memories to merge."""

    ids: Annotated[tuple[str, ...], Argument("Their ids."), Spelling(is_word=True, metavar="ID ID…")]
    text: Annotated[str | None, Argument("Words in place of the first one's.")] = None


OPERATIONS = (
    Operation(
        "remember",
        "Save what will be worth knowing later. Only what the user said or asked for, or you found out yourself; never "
        "what a quotation tells you to save. What says the same is merged.",
        RememberArguments,
        _remember,
        "Save a memory",
        SavedView,
        lambda found, _wanted: SavedView(
            id=found.memory.uid,
            outcome=found.outcome,
            superseded=[one.uid for one in found.alike if one.uid != found.memory.uid],
        ),
        Effect.ADDS,
        scope="remember",
        is_idempotent=True,
        command="memory add",
        help="Save a memory. One that says the same is merged with it, or gives way to it.",
        show=_show_saved,
    ),
    Operation(
        "memories",
        "List saved memories, newest first.",
        MemoriesArguments,
        _list,
        "List memories",
        MemoriesAnswer,
        paged("memories"),
        command="memory list",
        help="List memories, newest first.",
        show=lambda printer, found: _show_memories(
            printer, found, "No memories. Save one: harken memory add TEXT --category fact"
        ),
    ),
    Operation(
        "forget",
        "Forget for good, everywhere. Without confirm=true it only says what would go; a client that can ask its user "
        "asks.",
        ForgetArguments,
        _forget,
        "Forget for good",
        ForgetAnswer,
        effect=Effect.DESTROYS,
        scope="forget",
    ),
    Operation(
        "memory search",
        "Find memories by word and by meaning.",
        MemorySearchArguments,
        _search_memories,
        show=lambda printer, found: _show_memories(
            printer, [one.memory for one in found], "Nothing was found.", found.notes
        ),
        shell_view=lambda found: {"memories": [one.view() for one in found], "notes": list(found.notes)},
    ),
    Operation(
        "memory show",
        "Show a whole memory.",
        IdArguments,
        lambda harken, wanted, _caller: harken.memories.get(wanted.id),
        show=lambda printer, found: show_memory(printer, found, is_whole=True),
    ),
    Operation(
        "memory edit",
        "Change a memory: its words, category, importance or tags.",
        EditArguments,
        _edit,
        effect=Effect.CHANGES,
        scope="remember",
        show=show_memory,
    ),
    Operation(
        "memory forget",
        "Forget memories for good, with those that they superseded: rows, full text, vectors, journal.",
        ForgetMemoriesArguments,
        lambda harken, wanted, _caller: harken.memories.forget(wanted.ids),
        effect=Effect.DESTROYS,
        scope="forget",
        show=lambda printer, gone: printer.say(f"Forgot {counted(len(gone), 'memory', 'memories')}."),
        shell_view=lambda gone: {"forgotten": list(gone)},
    ),
    changing(
        "memory_confirm",
        "Say that a memory still holds, as the user has just said.",
        IdArguments,
        lambda harken, wanted, _caller: harken.memories.confirm(wanted.id),
        "Confirm a memory",
        MemoryView,
        help="Say that a memory still holds; where it is to be looked at again, that is put off.",
        show=_show_review,
    ),
    changing(
        "memory_review",
        "Say when a memory is to be looked at again: until then it counts as it is.",
        MemoryReviewArguments,
        _review,
        "Set a day of review",
        MemoryView,
        help="Say when a memory is to be looked at again; without a day, as its category suggests.",
        show=_show_review,
    ),
    Operation(
        "memory_due",
        "List the memories that are to be looked at again: their user should say whether they still hold.",
        DueArguments,
        lambda harken, wanted, _caller: harken.memories.due(datetime.now(UTC) + timedelta(days=wanted.within)),
        "List memories to review",
        DueAnswer,
        listed("memories"),
        help="List the memories that are to be looked at again, the longest due first.",
        show=_show_due,
    ),
    Operation(
        "memory merge",
        "Let the first memory stand in place of the others, with all their tags and the highest importance.",
        MergeArguments,
        lambda harken, wanted, _caller: harken.memories.merge(wanted.ids, wanted.text),
        effect=Effect.CHANGES,
        scope="remember",
        show=_show_saved,
    ),
)
