"""What summaries are made from: messages as far as one needs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func

from harken.model.conversations import MessageType, Role
from harken.storage.ports import Transaction, rows_in
from harken.storage.tables import exchanges, joined, messages, reader

# Of a longer message only its head is read; of a longer conversation only both ends.
_MESSAGE_CHARS = 16_000
_ENDS = 250
# Exchanges of so few messages are read together.
_FEW = 20


@dataclass(frozen=True, slots=True)
class MessageText:
    """A message as far as a summary needs it."""

    exchange_uid: str
    role: Role
    type: MessageType
    author: str | None
    text: str
    tool_name: str | None
    call_id: str | None


def short_exchanges(tx: Transaction, wanted: Mapping[int, int]) -> dict[int, list[MessageText]]:
    """The messages of several exchanges (rows, each with its conversation's), oldest first, by one statement.

    Only of those with at most 20 messages: what longer ones say is too much to hold at once.
    """
    conversation_ids = set(wanted.values())
    short = (
        tx.select(messages.c.exchange_id)
        .where(messages.c.conversation_id.in_(conversation_ids), messages.c.exchange_id.in_(wanted))
        .group_by(messages.c.exchange_id)
        .having(func.count() <= _FEW)
    )
    statement = (
        _messages(tx, conversation_ids)
        .add_columns(messages.c.exchange_id)
        .where(messages.c.exchange_id.in_(short))
        .order_by(messages.c.position, messages.c.id)
    )
    found: dict[int, list[MessageText]] = {}
    for row in rows_in(tx, statement, messages.c.exchange_id, wanted):
        found.setdefault(row.exchange_id, []).append(_message_text(row))
    return found


def exchange_messages(tx: Transaction, conversation_id: int, exchange_id: int) -> list[MessageText]:
    """The messages of an exchange, oldest first, both ends of very many."""
    return _both_ends(tx, _messages(tx, [conversation_id]).where(messages.c.exchange_id == exchange_id))


def conversation_messages(tx: Transaction, conversation_id: int) -> list[MessageText]:
    """The texts of people and agents in a conversation, without tools, oldest first, both ends of very many."""
    spoken = messages.c.type == MessageType.TEXT.value
    return _both_ends(tx, _messages(tx, [conversation_id]).where(spoken))


def _messages(tx: Transaction, conversation_ids: Collection[int]) -> Select[Any]:
    columns = (messages.c.role, messages.c.type, messages.c.author, messages.c.tool_name, messages.c.call_id)
    text = func.substr(messages.c.text, 1, _MESSAGE_CHARS).label("text")
    return (
        tx.select(messages.c.id, exchanges.c.uid.label("exchange_uid"), *columns, text)
        .select_from(joined(messages, exchanges))
        .where(messages.c.conversation_id.in_(conversation_ids))
    )


def _both_ends(tx: Transaction, statement: Select[Any]) -> list[MessageText]:
    first = statement.order_by(messages.c.position, messages.c.id).limit(_ENDS)
    rows = list(tx.connection.execute(first).all())
    if len(rows) == _ENDS:
        last = statement.order_by(messages.c.position.desc(), messages.c.id.desc()).limit(_ENDS)
        known = {row.id for row in rows}
        rows += [row for row in reversed(tx.connection.execute(last).all()) if row.id not in known]
    return [_message_text(row) for row in rows]


_message_text = reader(MessageText, role=Role, type=MessageType)
