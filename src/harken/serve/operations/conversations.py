"""Conversations recorded, listed and outlined; their tags, titles and projects, and tags of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, groupby
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.model.arguments import OFFSET, Argument, Spelling
from harken.model.views import ConversationView, InjectionView, ListedView, MessageView
from harken.model.views import view_of as form_view
from harken.serve.operations.operation import (
    HIDDEN,
    Caller,
    Effect,
    Operation,
    Printer,
    Project,
    number_listed,
    view_of,
)
from harken.text.dates import parse_since, parse_until, since_of
from harken.text.shown import counted, one_line, readable_age, readable_bytes

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.conversations import Conversation, Message
    from harken.model.lookups import ListedConversation

_DAY, _PROJECT, _AGENT = "day", "project", "agent"
_OUTLINE_CHARS, _MOST_SUBAGENTS, _MOST_RECALLS = 100, 100, 1000


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
    parent: Annotated[
        str | None, Argument("Only those of the subagents of this conversation: its id.", most=200, is_rare=True)
    ] = None
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
            project=caller.project(harken, wanted.project),
            channel=wanted.agent,
            since=parse_since(wanted.since, now) if wanted.since else None,
            until=parse_until(wanted.until, now) if wanted.until else None,
            with_subagents=wanted.subagents,
            tags=wanted.tags,
            parent=harken.chats.find(wanted.parent).conversation_uid if wanted.parent else None,
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
        none = "No such conversation is recorded. Bring in what there is: harken import"
        printer.say(
            f"There is no page {found.page} of {counted(found.total, 'conversation')}." if found.total else none
        )
    numbers = count(1)
    for name, group in groupby(found.conversations, key=lambda each: _group(each, found.by)):
        printer.say((name, "bold cyan"))
        for each in group:
            head = each.conversation
            said = head.updated_at.astimezone()
            when = f"{said:%H:%M}" if found.by == _DAY else f"{said:%Y-%m-%d %H:%M}"
            printer.say(f"{next(numbers):>4}  ", (f"{when}  ", "green"), (head.title or "untitled", "bold"))
            where = [name for name in (head.channel, head.project and head.project.name) if name]
            where += [*(f"#{tag}" for tag in each.tags), *([head.origin.label] if head.origin else [])]
            facts = " · ".join([*where, _size(each.messages, each.chars), readable_age(head.updated_at), each.short_id])
            printer.say((f"      {facts}", "dim"))
        printer.say()
    if found.next_offset:
        printer.note(f"{found.next_offset:,} of {found.total:,}; the next: the same with --page {found.page + 1}")


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


class SaidView(MessageView):
    """A message, its segment, and its branch: of what was said again in another way, the first message's own name."""

    segment_id: str
    branch: str | None


class ReadAnswer(TypedDict):
    """So many messages of a conversation, oldest first, from `offset` on, of `total`; and what came back in it.

    `parent` is the conversation whose subagent spoke here.
    """

    conversation: ConversationView
    parent: str | None
    messages: list[SaidView]
    offset: int
    total: int
    next_offset: int | None
    subagents: list[ListedView]
    recalls: list[InjectionView]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArguments:
    """What to read, and from where on."""

    id: Annotated[
        str,
        Argument(
            "Of a conversation, a message or an exchange; the beginning of it; or a conversation's own name.", 1, 200
        ),
    ]
    offset: Annotated[
        int | None,
        Argument("How many messages to pass over; left out, the page that has the message, or the first.", 0, 10**9),
    ] = None
    limit: Annotated[int, Argument("How many messages at most.", 1, 200)] = 50


def _read(harken: Harken, wanted: ReadArguments, _caller: Caller) -> ReadAnswer:
    from harken.model.lookups import ConversationFilter

    page = harken.archive.page(wanted.id, wanted.offset, wanted.limit)
    head = page.conversation
    of_agents = ConversationFilter(parent=head.uid, limit=_MOST_SUBAGENTS)
    title = head.title or harken.maintenance.titles([head.uid]).get(head.uid, "")
    return ReadAnswer(
        conversation={**head.view(), "title": title},
        parent=head.parent_uid,
        messages=[_said(message) for message in page.messages],
        offset=page.offset,
        total=page.total,
        next_offset=page.next_offset,
        subagents=view_of(harken.maintenance.conversations(of_agents)[0]),
        recalls=view_of(harken.archive.recalls(_MOST_RECALLS, conversation_uid=head.uid, with_questions=False)),
    )


def _said(message: Message) -> SaidView:
    branch = message.metadata.get("branch")
    return {**message.view(), "segment_id": message.segment_uid, "branch": branch if isinstance(branch, str) else None}


class DayView(TypedDict):
    """A day of the clock of the machine on which the memory is, and how many questions were asked on it."""

    day: str
    questions: int


class DaysAnswer(TypedDict):
    """Days on which something was asked, oldest first."""

    days: list[DayView]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysArguments:
    """Which days."""

    since: Annotated[str | None, Argument("Not before this: 2026-05-08, '2 years ago'.", most=100)] = None


def _days(harken: Harken, wanted: DaysArguments, _caller: Caller) -> DaysAnswer:
    found = harken.archive.days(since_of(wanted.since))
    return DaysAnswer(days=[DayView(day=str(day), questions=number) for day, number in found.items()])


# A conversation by the name that an agent without hooks has for it.
CHANNEL = "api"
_MOST_TEXT = 1_000_000
_ROLES = ("user", "assistant", "tool", "system")
_TYPES = ("text", "tool_call", "tool_result")
Channel = Annotated[str, Argument("Where it takes place: the name of the agent or application.", 1, 100, is_rare=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordArguments:
    """A message that was said."""

    conversation: Annotated[str, Argument("Your own name for the conversation; new ones are made.", 1, 200)]
    role: Annotated[str, Argument("Who said it.", choices=_ROLES)]
    text: Annotated[str, Argument("Its words, whole.", 1, _MOST_TEXT, is_verbatim=True)]
    channel: Channel = CHANNEL
    author: Annotated[str | None, Argument("The name of who said it.", most=200)] = None
    type: Annotated[str, Argument("What it is.", choices=_TYPES)] = "text"
    call_id: Annotated[
        str | None, Argument("Of a tool's call and its result: what links them.", most=200, is_rare=True)
    ] = None
    tool_name: Annotated[str | None, Argument("Which tool.", most=200, is_rare=True)] = None
    once: Annotated[
        str | None, Argument("Your own name for this very message: said again under it, it is kept once.", most=200)
    ] = None
    ends: Annotated[bool, Argument("True where this completes the answer.")] = False


class RecordedView(TypedDict):
    """Where a message was put."""

    id: str
    conversation_id: str
    exchange_id: str
    created_at: str


def _record(harken: Harken, wanted: RecordArguments, caller: Caller) -> Message:
    found = harken.record_message(
        wanted.conversation,
        wanted.role,
        wanted.text,
        channel=wanted.channel,
        author=wanted.author,
        type=wanted.type,
        call_id=wanted.call_id,
        tool_name=wanted.tool_name,
        directory=caller.directory,
        once=wanted.once or caller.once or None,
    )
    if wanted.ends:
        harken.end_exchange(wanted.conversation, channel=wanted.channel)
    return found


OPERATIONS = (
    Operation(
        "record",
        "Record a message of a conversation as it was said; secrets are taken out. For agents without hooks.",
        RecordArguments,
        _record,
        "Record a message",
        RecordedView,
        lambda found, _wanted: form_view(RecordedView, found),
        Effect.ADDS,
        scope="record",
    ),
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
        "read_conversation",
        "Read a conversation as it was said, page by page, with its segments, branches and subagents, and what came "
        "back in it by itself, and why.",
        ReadArguments,
        _read,
        "Read a conversation as it was said",
        ReadAnswer,
    ),
    Operation("days", "Count the questions of each day.", DaysArguments, _days, "Days", DaysAnswer),
)
