"""Conversations listed and outlined; their tags, titles and projects, and tags of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import MAX_TAGS, OFFSET, Argument, Spelling
from harken.model.views import LabelView, ListedView
from harken.serve.operations.operation import (
    HIDDEN,
    WORD,
    WORDS,
    Caller,
    Effect,
    Operation,
    Printer,
    Project,
    id_listed,
    number_listed,
    view_of,
)
from harken.text.dates import parse_since, parse_until
from harken.text.shown import counted, one_line, readable_age, readable_bytes, short_key

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.conversations import Conversation, Message
    from harken.model.lookups import ListedConversation
    from harken.record.labels import ConversationLabel

_DAY, _PROJECT, _AGENT = "day", "project", "agent"
_OUTLINE_CHARS = 100


class ListAnswer(TypedDict):
    """Conversations, the newest first."""

    conversations: list[ListedView]
    total: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListArguments:
    """Which conversations to list."""

    project: Project = None
    agent: Annotated[str | None, Argument("Only of this agent: claude-code, codex, chat…", most=100)] = None
    since: Annotated[
        str | None, Argument("Only where something was said since: yesterday, '2 weeks ago', 2026-05-08.", most=100)
    ] = None
    until: Annotated[str | None, Argument("Only where nothing was said after this day.", most=100)] = None
    tags: Annotated[
        tuple[str, ...],
        Argument("Only with all of these tags.", most=20),
        Spelling("--tag", help="Only with this tag; with several, all of them."),
    ] = ()
    subagents: Annotated[bool, Argument("Those of subagents as well.")] = False
    by: Annotated[str, Argument("How they are grouped.", choices=(_DAY, _PROJECT, _AGENT), is_shared=False)] = _DAY
    limit: Annotated[int, Argument("How many at most.", 1, 200), Spelling(limits=(1, 100_000))] = 30
    page: Annotated[int, Argument("The second so many, the third…", 1, is_shared=False)] = 1
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000), HIDDEN] = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list, and where it stands in the whole.

    Attributes:
        next_offset: where the rest begins; None where that is all.
        page: its number, from 1.
    """

    conversations: Sequence[ListedConversation]
    total: int
    next_offset: int | None
    by: str
    page: int

    def view(self) -> ListAnswer:
        """The page as JSON."""
        return ListAnswer(conversations=view_of(self.conversations), total=self.total, next_offset=self.next_offset)


def _list(harken: Harken, wanted: ListArguments, caller: Caller) -> Listing:
    from harken.model.lookups import ConversationFilter

    now = datetime.now(UTC)
    offset = wanted.offset + (wanted.page - 1) * wanted.limit
    found, total = harken.maintenance.conversations(
        ConversationFilter(
            project=caller.project(wanted.project),
            channel=wanted.agent,
            since=parse_since(wanted.since, now) if wanted.since else None,
            until=parse_until(wanted.until, now) if wanted.until else None,
            with_subagents=wanted.subagents,
            tags=wanted.tags,
            limit=wanted.limit,
            offset=offset,
        )
    )
    groups: dict[str, list[ListedConversation]] = {}
    for each in found:
        groups.setdefault(_group(each, wanted.by), []).append(each)
    found = [each for group in groups.values() for each in group]
    if caller.is_owner:
        number_listed(harken, [each.conversation.uid for each in found])
    end = offset + len(found)
    return Listing(found, total, end if end < total else None, wanted.by, wanted.page)


def _group(each: ListedConversation, by: str) -> str:
    head = each.conversation
    if by == _DAY:
        return f"{head.updated_at.astimezone():%A, %Y-%m-%d}"
    return head.channel if by == _AGENT else head.project.name if head.project else "no project"


def _show_list(printer: Printer, found: Listing) -> None:
    if not found.conversations:
        printer.say("No such conversation is recorded. Bring in what there is: harken import")
    numbers = count(1)
    for name, group in groupby(found.conversations, key=lambda each: _group(each, found.by)):
        printer.say((name, "bold cyan"))
        for each in group:
            head = each.conversation
            said = head.updated_at.astimezone()
            when = f"{said:%H:%M}" if found.by == _DAY else f"{said:%Y-%m-%d %H:%M}"
            printer.say(f"{next(numbers):>4}  ", (f"{when}  ", "green"), (head.title or "untitled", "bold"))
            where = [name for name in (head.channel, head.project and head.project.name) if name]
            where += [f"#{tag}" for tag in each.tags]
            facts = " · ".join([*where, _size(each.messages, each.chars), readable_age(head.updated_at), each.short_id])
            printer.say((f"      {facts}", "dim"))
        printer.say()
    if found.next_offset:
        printer.note(f"{found.next_offset:,} of {found.total:,}; the next: harken list --page {found.page + 1}")


@dataclass(frozen=True, slots=True)
class Outline:
    """A conversation, and of each of its exchanges, oldest first: `id`, `at`, `text`, `messages`, `chars`."""

    conversation: Conversation
    exchanges: Sequence[dict[str, Any]]

    def view(self) -> dict[str, Any]:
        """The outline as JSON."""
        return {
            "conversation": self.conversation.view(),
            "exchanges": [{**each, "at": each["at"].isoformat()} for each in self.exchanges],
        }


def outline_of(harken: Harken, conversation_uid: str) -> Outline:
    """The outline of a conversation; its lines are numbered for `show`."""
    found = harken.show(conversation_uid)
    exchanges: dict[str, list[Message]] = {}
    for message in found.messages:
        exchanges.setdefault(message.exchange_uid, []).append(message)
    lines = []
    for uid, said in exchanges.items():
        asked = next((each for each in said if each.role == "user" and each.type == "text"), said[0])
        size = {"messages": len(said), "chars": sum(len(each.text) for each in said)}
        lines.append({"id": uid, "at": asked.created_at, "text": one_line(asked.text, _OUTLINE_CHARS), **size})
    number_listed(harken, list(exchanges))
    return Outline(found.conversation, lines)


def show_outline(printer: Printer, found: Outline) -> None:
    """Print a conversation's outline."""
    head = found.conversation
    printer.say((f"{head.title or head.channel} · {head.uid}", "bold"))
    for number, each in enumerate(found.exchanges, 1):
        printer.say(f"{number:>4}  ", (f"{each['at'].astimezone():%Y-%m-%d %H:%M}  ", "green"), each["text"])
        printer.say((f"      {_size(each['messages'], each['chars'])}", "dim"))


def _size(messages: int, chars: int) -> str:
    return f"{counted(messages, 'message')}, {readable_bytes(chars)}"


# Shorter numbers are places in a list.
_SHORTEST_ID = 4
_ON = Annotated[
    str | None,
    Argument("Its id, or the beginning of it; left out in a chat, the chat's own conversation.", most=200),
    Spelling("--on", help="Its id, or its number in the last list; left out in a chat, the chat's own conversation."),
]


class TaggedAnswer(TypedDict):
    """What has which tags now; `kind` is `conversation` or `memory`."""

    id: str
    kind: str
    tags: list[str]


class TagCount(TypedDict):
    """How many conversations and memories have a tag."""

    tag: str
    conversations: int
    memories: int


class TagsAnswer(TypedDict):
    """All tags, the most used first."""

    tags: list[TagCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingNamed:
    """Nothing has to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagArguments:
    """Tags to give to a conversation or a memory, or to take from it."""

    tags: Annotated[tuple[str, ...], Argument("The tags.", 1, MAX_TAGS), Spelling(is_word=True, metavar="TAG...")]
    on: _ON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetagArguments:
    """What tags a conversation or a memory gets and loses."""

    id: Annotated[str, Argument("A conversation's or a memory's id, or the beginning of it.", 1, 200)]
    add: Annotated[tuple[str, ...], Argument("Tags that it gets.", most=MAX_TAGS)] = ()
    remove: Annotated[tuple[str, ...], Argument("Tags that it loses.", most=MAX_TAGS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleArguments:
    """A conversation's title."""

    title: Annotated[str, Argument("Its title; empty takes the corrected one back.", most=200), WORDS] = ""
    on: _ON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectArguments:
    """A conversation's project."""

    project: Annotated[
        str, Argument("Its short name, key or folder; empty takes the corrected one back.", most=1000), WORD
    ] = ""
    on: _ON = None


def _named(harken: Harken, on: str | None, caller: Caller) -> str:
    if on is None:
        if caller.talk is None:
            raise UsageError("Say which conversation: --on ID. Ids are printed by: harken list")
        return caller.talk.conversation_uid
    return id_listed(harken, on) if caller.is_owner and on.isdecimal() and len(on) < _SHORTEST_ID else on


def _retag(harken: Harken, uid: str, add: Sequence[str], remove: Sequence[str]) -> TaggedAnswer:
    """Change the tags of a conversation, or of a memory where no conversation has the id."""
    try:
        label = harken.labels.tag(uid, add, remove)
    except NotFoundError as error:
        try:
            memory = harken.memories.get(uid)
        except NotFoundError:
            raise error from None
        tags = [tag for tag in (*memory.tags, *add) if tag not in remove]
        memory = harken.memories.edit(memory.uid, tags=tags)
        return TaggedAnswer(id=memory.uid, kind="memory", tags=list(memory.tags))
    return TaggedAnswer(id=label.conversation_uid, kind="conversation", tags=list(label.tags))


def _move(harken: Harken, wanted: ProjectArguments, caller: Caller) -> ConversationLabel:
    project = wanted.project
    if project.startswith((".", "/", "~")):
        if not caller.is_owner:
            raise UsageError("Name a project by its short name or its key; only its owner names a folder.")
        project = str((caller.directory or Path.cwd()) / Path(project).expanduser())
    return harken.labels.move(_named(harken, wanted.on, caller), project or None)


def _used(harken: Harken, _wanted: NothingNamed, _caller: Caller) -> TagsAnswer:
    talks, saved = harken.labels.used(), harken.memories.used_tags()
    counts = [
        TagCount(tag=tag, conversations=talks.get(tag, 0), memories=saved.get(tag, 0)) for tag in {**talks, **saved}
    ]
    return TagsAnswer(tags=sorted(counts, key=lambda each: (-each["conversations"] - each["memories"], each["tag"])))


def _show_tags(printer: Printer, found: TagsAnswer) -> None:
    for each in found["tags"]:
        memories = counted(each["memories"], "memory", "memories")
        printer.say((f"{each['tag']}", "yellow"), f"  {counted(each['conversations'], 'conversation')}, {memories}")
    if not found["tags"]:
        printer.say("No tags yet. Give one: harken tag add TAG --on ID")


def _show_tagged(printer: Printer, found: TaggedAnswer) -> None:
    tags = " ".join(f"#{tag}" for tag in found["tags"]) or "no tags"
    printer.say(f"{found['kind'].capitalize()} {found['id']}: {tags}")


def _show_label(printer: Printer, found: ConversationLabel) -> None:
    printer.say(f"{found.title or 'untitled'}", (f"  {short_key(found.project)}" if found.project else "", "cyan"))
    printer.say((f"  {found.conversation_uid}", "dim"))


OPERATIONS = (
    Operation(
        "conversations",
        "List conversations, the newest first: title, agent, project, when something was said last, and size.",
        ListArguments,
        _list,
        "List conversations",
        ListAnswer,
        command="list",
        help="List conversations by day, project or agent; `harken show 2` shows the second.",
        show=_show_list,
        is_paged=True,
    ),
    Operation(
        "tags",
        "List all tags of conversations and memories, the most used first.",
        NothingNamed,
        _used,
        "List tags",
        TagsAnswer,
        command="tag",
        help="List all tags; give some to a conversation or a memory, take some from it.",
        show=_show_tags,
    ),
    Operation(
        "tag",
        "Change the tags of a conversation or a memory: only as the user asked. Searches can be limited by them.",
        RetagArguments,
        lambda harken, wanted, _caller: _retag(harken, wanted.id, wanted.add, wanted.remove),
        "Change tags",
        TaggedAnswer,
        effect=Effect.CHANGES,
        is_idempotent=True,
    ),
    Operation(
        "tag list",
        "List all tags, the most used first.",
        NothingNamed,
        _used,
        show=_show_tags,
    ),
    Operation(
        "tag add",
        "Give a conversation or a memory tags; search and recall can be limited by them.",
        TagArguments,
        lambda harken, wanted, caller: _retag(harken, _named(harken, wanted.on, caller), wanted.tags, ()),
        effect=Effect.CHANGES,
        is_idempotent=True,
        show=_show_tagged,
    ),
    Operation(
        "tag remove",
        "Take tags from a conversation or a memory.",
        TagArguments,
        lambda harken, wanted, caller: _retag(harken, _named(harken, wanted.on, caller), (), wanted.tags),
        effect=Effect.CHANGES,
        is_idempotent=True,
        show=_show_tagged,
    ),
    Operation(
        "conversation_title",
        "Correct a conversation's title; no import changes it any more. Empty takes the correction back.",
        TitleArguments,
        lambda harken, wanted, caller: harken.labels.entitle(_named(harken, wanted.on, caller), wanted.title),
        "Correct a title",
        LabelView,
        effect=Effect.CHANGES,
        is_idempotent=True,
        command="conversations title",
        help="Correct the title of a conversation; no import changes it any more. Without words, take that back.",
        show=_show_label,
    ),
    Operation(
        "conversation_project",
        "Correct which project a conversation belongs to. Empty takes the correction back.",
        ProjectArguments,
        _move,
        "Correct a project",
        LabelView,
        effect=Effect.CHANGES,
        is_idempotent=True,
        command="conversations project",
        help="Correct the project of a conversation: a short name, key or folder. Without one, take that back.",
        show=_show_label,
    ),
)
