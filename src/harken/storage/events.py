"""Rows as the events that make them: the way back from the database to a journal, or out to another store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, Select, select

from harken.model import (
    CORE_MEMORY,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Segment,
)
from harken.storage.core import core_facts
from harken.storage.kept.registry import SOURCE_OF_FOLDER
from harken.storage.kept.rows import each_kept, has_kept
from harken.storage.reading import each_message_of, find_conversation, tombstones_of
from harken.storage.scopes import project_identity
from harken.storage.store import Transaction
from harken.storage.tables import conversations, exchanges, projects, refers, segments, tombstones

_AT_ONCE = 1000


def known_conversations(tx: Transaction) -> list[str]:
    """Every conversation that the rows know, the forgotten ones included, by id."""
    present = select(conversations.c.uid).where(conversations.c.tenant == tx.tenant)
    gone = select(tombstones.c.conversation_uid).where(tombstones.c.tenant == tx.tenant)
    # Not by the database: engines differ in how they order texts.
    known = set(tx.connection.scalars(present.union(gone)))
    known |= {folder for folder, source in SOURCE_OF_FOLDER.items() if has_kept(tx, source)}
    return sorted(known | ({CORE_MEMORY} if core_facts(tx) else set()))


def events_of(tx: Transaction, uid: str) -> Iterator[Event]:
    """What the rows know of a conversation as events, in an order that can be replayed; always the same one.

    The conversation as it is now, its segments, exchanges, messages in their order, ends of exchanges, then what was
    forgotten. One at a time: a conversation may have more messages than fit in memory. A transaction that writes must
    take them all before it writes.
    """
    head = find_conversation(tx, uid)
    if head is not None:
        project = head.project and project_identity(tx, projects.c.key == head.project.key)
        yield replace(head, project=project)
        for row in _rows(tx, _segments(tx, uid)):
            yield Segment(row.uid, uid, row.number, row.started_at)
        placed = select_exchanges(tx, uid).order_by(exchanges.c.number, exchanges.c.started_at, exchanges.c.id)
        for row in _rows(tx, placed):
            begun = ExchangeStatus.IN_PROGRESS
            yield Exchange(row.uid, uid, row.segment_uid, row.number, begun, row.started_at)
        yield from each_message_of(tx, uid)
        ended = placed.where(exchanges.c.status != ExchangeStatus.IN_PROGRESS.value)
        for row in _rows(tx, ended):
            at = row.completed_at or row.started_at
            yield ExchangeEnd(row.uid, uid, ExchangeStatus(row.status), at, row.error)
    if uid == CORE_MEMORY:
        yield from core_facts(tx)
    if uid in SOURCE_OF_FOLDER:
        yield from each_kept(tx, SOURCE_OF_FOLDER[uid])
    yield from sorted(tombstones_of(tx, uid), key=lambda grave: (grave.at, grave.uid))


def select_exchanges(tx: Transaction, conversation_uid: str) -> Select[Any]:
    """The exchanges of a conversation, each with its segment's id as `segment_uid`."""
    placed = exchanges.join(conversations, refers(exchanges.c.conversation_id, conversations)).join(
        segments, refers(exchanges.c.segment_id, segments)
    )
    return (
        select(exchanges, segments.c.uid.label("segment_uid"))
        .select_from(placed)
        .where(exchanges.c.tenant == tx.tenant, conversations.c.uid == conversation_uid)
    )


def _segments(tx: Transaction, uid: str) -> Select[Any]:
    return (
        select(segments)
        .select_from(segments.join(conversations, refers(segments.c.conversation_id, conversations)))
        .where(segments.c.tenant == tx.tenant, conversations.c.uid == uid)
        .order_by(segments.c.number, segments.c.started_at, segments.c.id)
    )


def _rows(tx: Transaction, statement: Select[Any]) -> Iterator[Row[Any]]:
    yield from tx.connection.execute(statement, execution_options={"yield_per": _AT_ONCE})
