"""A conversation or an exchange in detail, as a quotation that is read page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from harken.context.render import Fence, Quote, minute
from harken.errors import NotFoundError
from harken.model.arguments import DetailsWanted
from harken.model.conversations import Exchange, ExchangeStatus, Message, MessageType, Role, Trust, least_trusted
from harken.model.provenance import Provenance
from harken.storage.conversations import (
    each_message_of,
    find_conversation,
    find_message,
    messages_of_exchange,
    resolve_uid,
)
from harken.storage.enrichment.summaries import EXCHANGE, StoredSummary, read_summaries
from harken.storage.past import conversation_heads, conversation_row, newest_exchanges
from harken.storage.ports import Readable, Transaction
from harken.text import tokens
from harken.text.shown import one_line

# What the questions and answers of a conversation may take together, so that a page of a tool's result holds them: each
# is whole where all fit, else the longest are cut, to no less than the second.
_WORDS_TOKENS, _LEAST_TOKENS = 1000, 50
# What stands around a page: its heading, its fence, where to go on.
_AROUND_TOKENS = 110
_WHERE = "Ids stand in the marks of quotations and in what a search finds."


@dataclass(frozen=True, slots=True)
class DetailsPage:
    """A conversation or an exchange as text.

    Attributes:
        kind: `conversation` or `exchange`.
        trust: of the least trusted words in it.
        origin: where it stands and whose it is, in a team; None where it is one's own.
    """

    kind: str
    uid: str
    at: datetime
    trust: Trust
    text: str
    origin: Provenance | None = None

    def cut(self, offset: int, room_tokens: int) -> tuple[str, int | None]:
        """A page of it, fenced, from an offset in characters; and the offset at which it goes on, None at the end."""
        if offset and offset >= len(self.text):
            return f"There is nothing at offset {offset}: it has {len(self.text)} characters.", None
        part = self.text[offset:]
        room = max(1, room_tokens - _AROUND_TOKENS)
        if not tokens.fits(part, room):
            part = tokens.clip(part, room, "")
            # A page ends with a line where that does not waste half of it.
            ends = part.rfind("\n") + 1
            part = part[:ends] if ends > len(part) // 2 else part
        fence = Fence()
        quotation = fence.quoted(Quote(part, self.kind, self.uid, "", self.at, self.trust.value, origin=self.origin))
        end = offset + len(part)
        goes_on = end < len(self.text)
        more = f"It goes on: next_offset={end} of {len(self.text)} characters." if goes_on else "That is all."
        return f"{fence.block(f'The {self.kind} as it was recorded:', [quotation])}\n{more}", end if goes_on else None


def read_details(store: Readable, wanted: DetailsWanted) -> DetailsPage:
    """A conversation or an exchange by its id or the beginning of it.

    Raises:
        NotFoundError: there is none, or more than one; the error says what to give instead.
    """
    kind = "conversation" if wanted.conversation_id else "exchange"
    beginning = wanted.conversation_id or wanted.exchange_id or ""
    with store.reading() as tx:
        found = resolve_uid(tx, beginning)
        mine = [uid for each, uid in found if each == kind]
        if len(mine) > 1:
            raise NotFoundError(f"'{beginning}' is the beginning of several ids: {', '.join(mine)}. Give a whole one.")
        if not mine:
            raise NotFoundError(_not_found(tx, beginning, kind, found))
        show = _transcript if wanted.include_full_transcript else _in_short
        details = (_conversation if wanted.conversation_id else _exchange)(tx, mine[0], show)
    if details is None:
        raise NotFoundError(f"Nothing is left of {kind} {mine[0]}: it was forgotten.")
    return details


def _not_found(tx: Transaction, beginning: str, wanted: str, found: list[tuple[str, str]]) -> str:
    for kind, uid in found:
        if kind != "message":
            return f"{uid} is the id of a {kind}, not of a {wanted}: give it as {kind}_id."
        message = find_message(tx, uid)
        if message is not None:
            return f"{uid} is the id of a message; it is in exchange_id={message.exchange_uid}."
    return f"There is no {wanted} '{beginning}'. {_WHERE}"


@dataclass(frozen=True, slots=True)
class _Said:
    """What is shown of an exchange: lines, some of them with a speaker, whose words may be cut."""

    trust: Trust
    lines: Sequence[tuple[str, str]]


_Show = Callable[[Sequence[Message]], _Said]


def _conversation(tx: Transaction, uid: str, show: _Show) -> DetailsPage | None:
    conversation, row = find_conversation(tx, uid), conversation_row(tx, uid)
    if conversation is None or row is None:
        return None
    exchanges = {each.uid: each for each in newest_exchanges(tx, uid)}
    head = conversation_heads(tx, [row])[row]
    states = Counter(each.status.value for each in exchanges.values())
    lines = [
        f"Title: {one_line(head.title) or 'untitled'}",
        f"Date: {minute(conversation.created_at)}, last {minute(conversation.updated_at)}",
        f"Channel: {conversation.channel}",
        f"Exchanges: {len(exchanges)}" + "".join(f", {count} {status}" for status, count in states.items()),
        *([f"Summary: {one_line(head.summary)}"] if head.summary else []),
    ]
    said = {
        exchange_uid: show(list(messages))
        for exchange_uid, messages in groupby(each_message_of(tx, uid), key=lambda message: message.exchange_uid)
    }
    most = _most([tokens.estimate(text) for each in said.values() for name, text in each.lines if name])
    summaries = read_summaries(tx, EXCHANGE, list(said))
    for exchange_uid, each in said.items():
        lines += ["", *_head(exchanges.get(exchange_uid), summaries.get(exchange_uid)), *_lines(each, most)]
    trust = least_trusted([Trust.AGENT, *(each.trust for each in said.values())])
    return DetailsPage("conversation", uid, conversation.created_at, trust, "\n".join(lines))


def _exchange(tx: Transaction, uid: str, show: _Show) -> DetailsPage | None:
    messages = messages_of_exchange(tx, uid)
    if not messages:
        return None
    first, said = messages[0], show(messages)
    exchange = next((each for each in newest_exchanges(tx, first.conversation_uid) if each.uid == uid), None)
    head = _head(exchange, read_summaries(tx, EXCHANGE, [uid]).get(uid))
    lines = [f"Conversation: {first.conversation_uid}", *head, *_lines(said)]
    return DetailsPage("exchange", uid, first.created_at, said.trust, "\n".join(lines))


def _head(exchange: Exchange | None, summary: StoredSummary | None) -> Iterator[str]:
    if exchange is not None:
        status = exchange.status.value.replace("_", " ")
        if exchange.status is ExchangeStatus.FAILED:
            status += f": {exchange.error or 'no answer'}"
        yield f"Exchange {exchange.number}, id {exchange.uid}, {minute(exchange.started_at)}, {status}"
    if summary is not None and summary.text:
        yield f"Summary: {one_line(summary.text)}"


def _lines(said: _Said, most_tokens: int | None = None) -> Iterator[str]:
    for name, text in said.lines:
        if not name:
            yield text
        else:
            whole = most_tokens is None or tokens.fits(text, most_tokens)
            yield f"{name}: {text if whole else tokens.clip(one_line(text), most_tokens or 0)}"


def _most(sizes: Sequence[int]) -> int:
    """The tokens that each text may take, so that all of these sizes fit together."""
    room = _WORDS_TOKENS
    for place, size in enumerate(sorted(sizes)):
        fair = room // (len(sizes) - place)
        if size > fair:
            return max(_LEAST_TOKENS, fair)
        room -= size
    return max(sizes, default=0)


def _transcript(messages: Sequence[Message]) -> _Said:
    """Every word, tools included."""
    lines = []
    for message in messages:
        if message.role is Role.SYSTEM or not message.text.strip():
            continue
        speaker = message.author or message.role.value
        if message.type is not MessageType.TEXT:
            speaker = f"{message.type.value} {message.tool_name or 'tool'}"
        lines.append(("", f"[{minute(message.created_at)}] {speaker}: {message.text.strip()}"))
    return _Said(least_trusted([message.trust for message in messages]), lines)


def _in_short(messages: Sequence[Message]) -> _Said:
    """The first question, the last answer, and how many tools were used between."""
    words = [each for each in messages if each.type is MessageType.TEXT and each.text.strip()]
    lines = []
    for name, role, place in (("User", Role.USER, 0), ("Assistant", Role.ASSISTANT, -1)):
        if said := [each.text for each in words if each.role is role]:
            lines.append((name, said[place].strip()))
    if calls := sum(message.type is MessageType.TOOL_CALL for message in messages):
        lines.append(("", f"Tool calls: {calls}"))
    return _Said(least_trusted([message.trust for message in messages]), lines)
