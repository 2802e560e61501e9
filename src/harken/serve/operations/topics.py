"""Topics of conversations, their map, and the digest of what was decided in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import Argument, Spelling
from harken.model.views import DigestTopicView, TopicView, format_moment
from harken.serve.operations.operation import WORD, WORDS, Caller, Effect, Operation, Printer, Project, number_listed
from harken.text.dates import parse_since
from harken.text.shown import counted, one_line

if TYPE_CHECKING:
    from harken.engine import Harken
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
class SuggestArguments:
    """A conversation that might get tags."""

    on: Annotated[
        str | None, Argument("Its id; left out in a chat, the chat's own conversation."), Spelling("--on")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestArguments:
    """Of which conversations to tell."""

    since: Annotated[
        str | None, Argument("Only where something was said since: yesterday, '2 weeks ago', 2026-05-08.", most=100)
    ] = None
    project: Project = None


class DigestAnswer(TypedDict):
    """Topics of three conversations or more, with what was decided in each, and the same as Markdown."""

    topics: list[DigestTopicView]
    markdown: str


@dataclass(frozen=True, slots=True)
class Shown:
    """Topics, and what their conversations are called."""

    topics: Sequence[Topic]
    titles: Mapping[str, str]

    def view(self) -> TopicsAnswer:
        """The topics as JSON, each conversation with its place."""
        return TopicsAnswer(topics=[topic.view(self.titles) for topic in self.topics])


def _topics(harken: Harken, wanted: TopicsArguments, caller: Caller) -> Shown:
    known = harken.topics.list()
    if caller.is_owner and (wanted.refresh or wanted.by_model or not known):
        known = harken.topics.refresh(wanted.by_model)
    return Shown(known, harken.topics.titles())


def _show_topics(printer: Printer, found: Shown) -> None:
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
    if wanted.on is None and caller.talk is None:
        raise UsageError("Say which conversation: --on ID. Ids are printed by: harken list")
    label = harken.labels.show(wanted.on or (caller.talk.conversation_uid if caller.talk else ""))
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
        harken.topics.refresh()
    since = parse_since(wanted.since, datetime.now(UTC)) if wanted.since else None
    found = harken.topics.digest(since, caller.project(wanted.project))
    if caller.is_owner:
        number_listed(harken, [line.conversation_uid for each in found for line in each.lines])
    return found


def _markdown(found: Sequence[DigestTopic]) -> str:
    lines = ["# Digest", ""]
    for each in found:
        lines += [f"## {one_line(each.topic.name)} ({counted(len(each.lines), 'conversation')})", ""]
        for line in each.lines:
            day = f"{line.at.astimezone():%Y-%m-%d}"
            lines.append(
                f"- {day} **{one_line(line.title, _TITLE_CHARS) or 'untitled'}** `{line.conversation_uid[:8]}`"
            )
            lines += [f"  - decided: {line.decided}"] if line.decided else []
            lines += [f"  - open: {line.open}"] if line.open else []
        lines.append("")
    if not found:
        lines.append("No topic has three conversations yet.")
    return "\n".join(lines).rstrip() + "\n"


def _digest_answer(found: Sequence[DigestTopic]) -> DigestAnswer:
    topics = [
        DigestTopicView(
            id=each.topic.uid,
            name=each.topic.name,
            words=list(each.topic.words),
            conversations=[
                {
                    "conversation_id": line.conversation_uid,
                    "at": format_moment(line.at),
                    "title": line.title,
                    "decided": line.decided,
                    "open": line.open,
                }
                for line in each.lines
            ],
        )
        for each in found
    ]
    return DigestAnswer(topics=topics, markdown=_markdown(found))


def _clusters(words: str, name: str) -> Operation[TopicsArguments, Shown]:
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


OPERATIONS = (
    _clusters("topics", "topics"),
    _clusters("conversations clusters", "conversations clusters"),
    Operation(
        "topic_rename",
        "Give a topic another name; it keeps it however its conversations change.",
        RenameArguments,
        lambda harken, wanted, _caller: harken.topics.rename(wanted.id, wanted.name),
        "Rename a topic",
        TopicView,
        effect=Effect.CHANGES,
        is_idempotent=True,
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
        lambda found, _wanted: _digest_answer(found),
        help="Print as Markdown what was decided in each topic of three conversations or more, and what is open.",
        is_long=True,
        show=lambda printer, found: printer.write(_markdown(found)),
        shell_view=_digest_answer,
        is_paged=True,
    ),
)
