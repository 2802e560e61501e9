"""Tags of conversations and memories; titles and projects of conversations, corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import MAX_TAGS, Argument, Spelling
from harken.model.views import LabelView
from harken.serve.operations.operation import WORD, WORDS, Caller, Effect, Operation, Printer, id_listed
from harken.text.shown import counted, short_key

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.record.labels import ConversationLabel

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
