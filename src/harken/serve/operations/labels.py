"""What conversations are called: tags, titles, projects; their topics, and what was decided in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.errors import NotFoundError, StoreReadOnlyError, UsageError
from harken.model.arguments import MAX_TAGS, OFFSET, Argument, Spelling
from harken.model.views import DigestTopicView, LabelView, TopicView
from harken.serve.operations.operation import (
    HIDDEN,
    WORD,
    WORDS,
    Caller,
    NoArguments,
    Operation,
    Printer,
    Project,
    changing,
    id_meant,
    number_listed,
    paged,
    view_of,
)
from harken.text.dates import since_of
from harken.text.decisions import outcome
from harken.text.shown import counted, one_line, short_key

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.record.labels import ConversationLabel
    from harken.sources.topics.topics import DigestTopic, Topic

_SHOWN, _TITLE_CHARS = 5, 70


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsArguments:
    """Whether topics are looked for anew."""

    refresh: Annotated[bool, Argument("Look for them anew; takes some seconds.", is_shared=False)] = False
    by_model: Annotated[
        bool,
        Argument("Have the language model name them, which is paid for; looks for them anew.", is_shared=False),
        Spelling("--named-by-model"),
    ] = False


class TopicsAnswer(TypedDict):
    """Topics, the largest first; conversations of none come last, without a name."""

    topics: list[TopicView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameArguments:
    """A topic and its name."""

    id: Annotated[str, Argument("Its id, or the beginning of it.", 1, 200), WORD]
    name: Annotated[str, Argument("Its name from now on.", 1, 60), WORDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestArguments:
    """Of which conversations to tell."""

    since: Annotated[
        str | None, Argument("Only where something was said since: yesterday, '2 weeks ago', 2026-05-08.", most=100)
    ] = None
    project: Project = None
    limit: Annotated[int, Argument("How many topics at most, the largest first.", 1, 1000, is_rare=True)] = 1000
    newest: Annotated[
        int | None, Argument("Of each topic only so many conversations, the newest.", 1, 1000, is_rare=True)
    ] = None
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000, is_rare=True), HIDDEN] = 0


class DigestAnswer(TypedDict):
    """Topics of three conversations or more, with what was decided in each, and the same as Markdown."""

    topics: list[DigestTopicView]
    next_offset: int | None
    markdown: str


@dataclass(frozen=True, slots=True)
class ShownTopics:
    """Topics, and what their conversations are called."""

    topics: Sequence[Topic]
    titles: Mapping[str, str]

    def view(self) -> TopicsAnswer:
        """The topics as JSON, each conversation with its place."""
        return TopicsAnswer(topics=[topic.view(self.titles) for topic in self.topics])


def _topics(harken: Harken, wanted: TopicsArguments, caller: Caller) -> ShownTopics:
    known, is_asked = harken.topics.list(), wanted.refresh or wanted.by_model
    if caller.is_owner and (is_asked or not known):
        with suppress(*() if is_asked else (StoreReadOnlyError,)):
            known = harken.topics.refresh(wanted.by_model)
    return ShownTopics(known, harken.topics.titles())


def _show_topics(printer: Printer, found: ShownTopics) -> None:
    named = [topic for topic in found.topics if topic.name]
    for topic in named:
        count = counted(len(topic.members), "conversation")
        printer.say((topic.name, "bold"), (f"  {count}", "green"), (f"  {topic.uid}", "dim"))
        printer.say((f"  {', '.join(topic.words)}", "cyan"))
        for place in topic.members[:_SHOWN]:
            printer.say(f"  - {one_line(found.titles.get(place.conversation_uid, 'untitled'), _TITLE_CHARS)}")
        if len(topic.members) > _SHOWN:
            printer.say((f"  … and {len(topic.members) - _SHOWN:,} more", "dim"))
    rest = sum(len(topic.members) for topic in found.topics if not topic.name)
    if not named:
        printer.say("No topics yet: three conversations that are about the same make one, once they are embedded.")
    elif rest:
        printer.say((f"{counted(rest, 'conversation')} of no topic.", "dim"))


def _suggest(harken: Harken, wanted: SuggestArguments, caller: Caller) -> dict[str, Any]:
    label = harken.labels.show(_named(harken, wanted.on, caller))
    tags = [tag for tag in harken.topics.suggested_tags(label.conversation_uid) if tag not in label.tags]
    return {"id": label.conversation_uid, "suggested": tags}


def _show_suggested(printer: Printer, found: Mapping[str, Any]) -> None:
    if not found["suggested"]:
        printer.say("No suggestion: it is of no topic, or has its tags already. See: harken topics")
        return
    quoted = " ".join(f'"{tag}"' for tag in found["suggested"])
    printer.say(f"Its topic suggests {quoted}. To give it these: harken tag add {quoted} --on {found['id']}")


def _digest(harken: Harken, wanted: DigestArguments, caller: Caller) -> Sequence[DigestTopic]:
    if caller.is_owner and not harken.topics.list():
        _topics(harken, TopicsArguments(), caller)
    limit = caller.read_ahead(wanted.limit)
    part: dict[str, Any] = {"limit": limit, "offset": wanted.offset, "newest": wanted.newest}
    found = harken.topics.digest(since_of(wanted.since), caller.project(harken, wanted.project), **part)
    if caller.is_owner:
        number_listed(harken, [line.conversation_uid for each in found for line in each.lines])
    return found


def _markdown(found: Sequence[DigestTopic]) -> str:
    lines = ["# Digest", ""]
    for each in found:
        lines += [f"## {one_line(each.topic.name)} ({counted(len(each.lines), 'conversation')})", ""]
        for line in each.lines:
            title = one_line(line.title, _TITLE_CHARS) or "untitled"
            lines.append(f"- {line.at.astimezone():%Y-%m-%d} **{title}** `{line.conversation_uid[:8]}`")
            lines += [f"  - {outcome(line.decided)}: {line.decided}"] if line.decided else []
            lines += [f"  - open: {line.open}"] if line.open else []
        lines.append("")
    lines += [] if found else ["Nothing is here of a topic that has three conversations or more."]
    return "\n".join(lines).rstrip() + "\n"


def _clusters(words: str, name: str) -> Operation[TopicsArguments, ShownTopics]:
    return Operation(
        name,
        "List what conversations are about: topics with their words, and each conversation's place on a map.",
        TopicsArguments,
        _topics,
        "List topics",
        TopicsAnswer if name == "topics" else type(None),
        command=words,
        help="Show what conversations are about, the largest topic first.",
        is_long=True,
        show=_show_topics,
        is_paged=True,
    )


# A conversation's own name may be a number.
_SHORTEST_NAME = 4
_ON = Annotated[
    str | None,
    Argument("Its id, or the beginning of it; left out in a chat, the chat's own conversation.", most=200),
    Spelling("--on", help="Its id, or its number in the last list; left out in a chat, the chat's own conversation."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestArguments:
    """A conversation that might get tags."""

    on: _ON = None


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
            how = "--on ID. Ids are printed by: harken list" if caller.is_owner else "give its id as `on`."
            raise UsageError(f"Say which conversation: {how}")
        if harken.chats.newest(caller.talk.conversation_uid).segment_uid is None:
            said = "Nothing was said in this conversation yet. Say something first, or name another one: --on ID"
            raise UsageError(said)
        return caller.talk.conversation_uid
    return id_meant(harken, on, caller, _SHORTEST_NAME)


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


def _used(harken: Harken, _wanted: NoArguments, _caller: Caller) -> TagsAnswer:
    said, kept = harken.labels.used(), harken.memories.used_tags()
    counts = [TagCount(tag=tag, conversations=said.get(tag, 0), memories=kept.get(tag, 0)) for tag in {**said, **kept}]
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
    _clusters("topics", "topics"),
    _clusters("conversations clusters", "conversations clusters"),
    changing(
        "topic_rename",
        "Give a topic another name; it keeps it however its conversations change.",
        RenameArguments,
        lambda harken, wanted, _caller: harken.topics.rename(wanted.id, wanted.name),
        "Rename a topic",
        TopicView,
        command="topics rename",
        help="Give a topic another name, for good.",
        show=lambda printer, found: printer.say(f"{found.name}  {found.uid}"),
    ),
    Operation(
        "tag suggest",
        "Show tags that a conversation might get, by its topic; nothing is set.",
        SuggestArguments,
        _suggest,
        show=_show_suggested,
    ),
    Operation(
        "digest",
        "Tell what was decided in topics of three conversations or more, and what is still open.",
        DigestArguments,
        _digest,
        "Digest of topics",
        DigestAnswer,
        lambda found, wanted: {**paged("topics")(found, wanted), "markdown": _markdown(found[: wanted.limit])},
        help="Print as Markdown what was decided in each topic of three conversations or more, and what is open.",
        is_long=True,
        show=lambda printer, found: printer.write(_markdown(found)),
        shell_view=lambda found: {"topics": view_of(found), "markdown": _markdown(found)},
        is_paged=True,
    ),
    Operation(
        "tags",
        "List all tags of conversations and memories, the most used first.",
        NoArguments,
        _used,
        "List tags",
        TagsAnswer,
        command="tag",
        help="List all tags; give some to a conversation or a memory, take some from it.",
        show=_show_tags,
    ),
    changing(
        "tag",
        "Change the tags of a conversation or a memory: only as the user asked. Searches can be limited by them.",
        RetagArguments,
        lambda harken, wanted, _caller: _retag(harken, wanted.id, wanted.add, wanted.remove),
        "Change tags",
        TaggedAnswer,
    ),
    Operation("tag list", "List all tags, the most used first.", NoArguments, _used, show=_show_tags),
    changing(
        "tag add",
        "Give a conversation or a memory tags; search and recall can be limited by them.",
        TagArguments,
        lambda harken, wanted, caller: _retag(harken, _named(harken, wanted.on, caller), wanted.tags, ()),
        show=_show_tagged,
    ),
    changing(
        "tag remove",
        "Take tags from a conversation or a memory.",
        TagArguments,
        lambda harken, wanted, caller: _retag(harken, _named(harken, wanted.on, caller), (), wanted.tags),
        show=_show_tagged,
    ),
    changing(
        "conversation_title",
        "Correct a conversation's title; no import changes it any more. Empty takes the correction back.",
        TitleArguments,
        lambda harken, wanted, caller: harken.labels.entitle(_named(harken, wanted.on, caller), wanted.title),
        "Correct a title",
        LabelView,
        command="conversations title",
        help="Correct the title of a conversation; no import changes it any more. Without words, take that back.",
        show=_show_label,
    ),
    changing(
        "conversation_project",
        "Correct which project a conversation belongs to. Empty takes the correction back.",
        ProjectArguments,
        _move,
        "Correct a project",
        LabelView,
        command="conversations project",
        help="Correct the project of a conversation: a short name, key or folder. Without one, take that back.",
        show=_show_label,
    ),
)
