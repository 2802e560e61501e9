"""Tasks and their runs in the rows: a run is an exchange of the task's conversation."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import case, func, select

from harken.model import TASK_CHANNEL, TASK_UID, Exchange, ExchangeStatus
from harken.storage.events import select_exchanges
from harken.storage.store import Transaction
from harken.storage.tables import conversations, exchanges, refers

_AT_ONCE = 50


def list_tasks(tx: Transaction) -> list[tuple[str, str, int, int]]:
    """(id, name, runs, completed runs) of every task, by name."""
    completed = case((exchanges.c.status == ExchangeStatus.COMPLETED.value, 1), else_=0)
    rows = tx.connection.execute(
        select(conversations.c.uid, conversations.c.external_id, func.count(exchanges.c.id), func.sum(completed))
        .select_from(conversations.join(exchanges, refers(exchanges.c.conversation_id, conversations)))
        .where(
            conversations.c.tenant == tx.tenant,
            conversations.c.channel == TASK_CHANNEL,
            conversations.c.uid.startswith(TASK_UID, autoescape=True),
        )
        .group_by(conversations.c.uid, conversations.c.external_id)
    )
    return sorted(((row[0], row[1], int(row[2]), int(row[3])) for row in rows), key=lambda found: (found[1], found[0]))


def newest_exchanges(tx: Transaction, conversation_uid: str) -> Iterator[Exchange]:
    """A conversation's exchanges, the newest first, read as they are wanted."""
    ordered = select_exchanges(tx, conversation_uid).order_by(exchanges.c.number.desc(), exchanges.c.id.desc())
    offset = 0
    while rows := tx.connection.execute(ordered.limit(_AT_ONCE).offset(offset)).all():
        for row in rows:
            status = ExchangeStatus(row.status)
            times = (row.started_at, row.completed_at)
            yield Exchange(row.uid, conversation_uid, row.segment_uid, row.number, status, *times, row.error)
        offset += len(rows)
