"""The messages that a summary is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, func, select

from harken.model import MessageType, Role
from harken.storage.batches import rows_in
from harken.storage.store import Transaction
from harken.storage.tables import exchanges, messages, refers

# Of a longer message only its head is read; of a longer conversation only both ends.
_MESSAGE_CHARS = 16_000
_ENDS = 250
# Exchanges of so few messages are read together.
_FEW = 20


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


def short_exchanges(tx: Transaction, wanted: Mapping[int, int]) -> dict[int, list[Told]]:
    """The messages of several exchanges by one statement, each's oldest first, by the exchange's row.

    Args:
        tx: any transaction.
        wanted: rows of exchanges, each with its conversation's.
    Returns:
        Those of at most 20 messages: what longer ones say is too much to hold at once.
    """
    conversation_ids = set(wanted.values())
    short = (
        select(messages.c.exchange_id)
        .where(messages.c.tenant == tx.tenant, messages.c.conversation_id.in_(conversation_ids))
        .where(messages.c.exchange_id.in_(wanted))
        .group_by(messages.c.exchange_id)
        .having(func.count() <= _FEW)
    )
    statement = (
        _messages(tx, conversation_ids)
        .add_columns(messages.c.exchange_id)
        .where(messages.c.exchange_id.in_(short))
        .order_by(messages.c.position, messages.c.id)
    )
    found: dict[int, list[Told]] = {}
    for row in rows_in(tx, statement, messages.c.exchange_id, wanted):
        found.setdefault(row.exchange_id, []).append(_told(row))
    return found


def exchange_messages(tx: Transaction, conversation_id: int, exchange_id: int) -> list[Told]:
    """The messages of an exchange, oldest first, both ends of very many."""
    return _both_ends(tx, _messages(tx, [conversation_id]).where(messages.c.exchange_id == exchange_id))


def conversation_messages(tx: Transaction, conversation_id: int) -> list[Told]:
    """What people and agents said in a conversation, without tools, oldest first, both ends of very many."""
    spoken = messages.c.type == MessageType.TEXT.value
    return _both_ends(tx, _messages(tx, [conversation_id]).where(spoken))


def _messages(tx: Transaction, conversation_ids: Collection[int]) -> Select[Any]:
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
        .where(messages.c.tenant == tx.tenant, messages.c.conversation_id.in_(conversation_ids))
    )


def _both_ends(tx: Transaction, statement: Select[Any]) -> list[Told]:
    first = statement.order_by(messages.c.position, messages.c.id).limit(_ENDS)
    rows = list(tx.connection.execute(first).all())
    if len(rows) == _ENDS:
        last = statement.order_by(messages.c.position.desc(), messages.c.id.desc()).limit(_ENDS)
        known = {row.id for row in rows}
        rows += [row for row in reversed(tx.connection.execute(last).all()) if row.id not in known]
    return [_told(row) for row in rows]


def _told(row: Row[Any]) -> Told:
    role, kind = Role(row.role), MessageType(row.type)
    return Told(row.exchange_uid, role, kind, row.author, row.text, row.tool_name, row.call_id)
