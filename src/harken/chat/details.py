"""A conversation or an exchange in detail, as a quotation that is read page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from harken.context.render import Fence, Quote, minute
from harken.errors import NotFoundError
from harken.model.arguments import DetailsWanted
from harken.model.conversations import Exchange, ExchangeStatus, Message, MessageType, Role, Trust, least_trusted
from harken.storage.conversations import (
    each_message_of,
    find_conversation,
    find_message,
    messages_of_exchange,
    resolve_uid,
)
from harken.storage.past import conversation_heads, conversation_row, newest_exchanges
from harken.storage.ports import Readable, Transaction
from harken.text import tokens
from harken.text.shown import one_line

_SHOWN_CHARS = 200
# What stands around a page: its heading, its fence, where to go on.
_AROUND_TOKENS = 110
_WHERE = "Ids stand in the marks of quotations and in the results of search_history."


@dataclass(frozen=True, slots=True)
class DetailsPage:
    """A conversation or an exchange as text.

    Attributes:
        kind: `conversation` or `exchange`.
        trust: of the least trusted words in it.
    """

    kind: str
    uid: str
    at: datetime
    trust: Trust
    text: str

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
        quotation = fence.quoted(Quote(part, self.kind, self.uid, "", self.at, self.trust.value))
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
        details = (_conversation if wanted.conversation_id else _exchange)(tx, mine[0], wanted.include_full_transcript)
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


def _conversation(tx: Transaction, uid: str, is_full: bool) -> DetailsPage | None:
    conversation, row = find_conversation(tx, uid), conversation_row(tx, uid)
    if conversation is None or row is None:
        return None
    exchanges = {each.uid: each for each in newest_exchanges(tx, uid)}
    head = conversation_heads(tx, [row])[row]
    trust = [Trust.AGENT]
    lines = [
        f"Title: {one_line(head.title) or 'untitled'}",
        f"Date: {minute(conversation.created_at)}, last {minute(conversation.updated_at)}",
        f"Channel: {conversation.channel}",
        f"Exchanges: {len(exchanges)}",
        *([f"Summary: {one_line(head.summary)}"] if head.summary else []),
    ]
    for exchange_uid, said in groupby(each_message_of(tx, uid), key=lambda message: message.exchange_uid):
        messages = list(said)
        trust += [message.trust for message in messages]
        lines += ["", *_lines(exchanges.get(exchange_uid), messages, is_full)]
    return DetailsPage("conversation", uid, conversation.created_at, least_trusted(trust), "\n".join(lines))


def _exchange(tx: Transaction, uid: str, is_full: bool) -> DetailsPage | None:
    messages = messages_of_exchange(tx, uid)
    if not messages:
        return None
    first = messages[0]
    exchange = next((each for each in newest_exchanges(tx, first.conversation_uid) if each.uid == uid), None)
    lines = [f"Conversation: {first.conversation_uid}", *_lines(exchange, messages, is_full)]
    trust = least_trusted([message.trust for message in messages])
    return DetailsPage("exchange", uid, first.created_at, trust, "\n".join(lines))


def _lines(exchange: Exchange | None, messages: list[Message], is_full: bool) -> Iterator[str]:
    if exchange is not None:
        failed = f", failed: {exchange.error or 'no answer'}" if exchange.status is ExchangeStatus.FAILED else ""
        yield f"Exchange {exchange.number}, id {exchange.uid}, {minute(exchange.started_at)}{failed}"
    yield from _transcript(messages) if is_full else _short(messages)


def _transcript(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        if message.role is Role.SYSTEM or not message.text.strip():
            continue
        speaker = message.author or message.role.value
        if message.type is not MessageType.TEXT:
            speaker = f"{message.type.value} {message.tool_name or 'tool'}"
        yield f"[{minute(message.created_at)}] {speaker}: {message.text.strip()}"


def _short(messages: list[Message]) -> Iterator[str]:
    """The first question, the last answer, and how many tools were used between."""
    words = [each for each in messages if each.type is MessageType.TEXT and each.text.strip()]
    for name, role, place in (("User", Role.USER, 0), ("Assistant", Role.ASSISTANT, -1)):
        if said := [each.text for each in words if each.role is role]:
            yield f"{name}: {one_line(said[place], _SHOWN_CHARS)}"
    calls = sum(message.type is MessageType.TOOL_CALL for message in messages)
    if calls:
        yield f"Tool calls: {calls}"
