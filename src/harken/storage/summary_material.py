"""The messages that a summary is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select

from harken.model import MessageType, Role
from harken.storage.store import Transaction
from harken.storage.tables import exchanges, messages, refers

# Of a longer message only its head is read; of a longer conversation only both ends.
_MESSAGE_CHARS = 16_000
_ENDS = 250


@dataclass(frozen=True, slots=True)
class Told:
    """A message as far as a summary needs it."""

    exchange_uid: str
    role: Role
    type: MessageType
    author: str | None
    text: str
    tool_name: str | None
    call_id: str | None


def exchange_messages(tx: Transaction, conversation_id: int, exchange_id: int) -> list[Told]:
    """The messages of an exchange, oldest first, both ends of very many."""
    return _both_ends(tx, _messages(tx, conversation_id).where(messages.c.exchange_id == exchange_id))


def conversation_messages(tx: Transaction, conversation_id: int) -> list[Told]:
    """What people and agents said in a conversation, without tools, oldest first, both ends of very many."""
    spoken = messages.c.type == MessageType.TEXT.value
    return _both_ends(tx, _messages(tx, conversation_id).where(spoken))


def _messages(tx: Transaction, conversation_id: int) -> Select[Any]:
    return (
        select(
            messages.c.id,
            exchanges.c.uid.label("exchange_uid"),
            messages.c.role,
            messages.c.type,
            messages.c.author,
            func.substr(messages.c.text, 1, _MESSAGE_CHARS).label("text"),
            messages.c.tool_name,
            messages.c.call_id,
        )
        .select_from(messages.join(exchanges, refers(messages.c.exchange_id, exchanges)))
        .where(messages.c.tenant == tx.tenant, messages.c.conversation_id == conversation_id)
    )


def _both_ends(tx: Transaction, statement: Select[Any]) -> list[Told]:
    first = statement.order_by(messages.c.created_at, messages.c.id).limit(_ENDS)
    rows = list(tx.connection.execute(first).all())
    if len(rows) == _ENDS:
        last = statement.order_by(messages.c.created_at.desc(), messages.c.id.desc()).limit(_ENDS)
        known = {row.id for row in rows}
        rows += [row for row in reversed(tx.connection.execute(last).all()) if row.id not in known]
    return [
        Told(row.exchange_uid, Role(row.role), MessageType(row.type), row.author, row.text, row.tool_name, row.call_id)
        for row in rows
    ]
