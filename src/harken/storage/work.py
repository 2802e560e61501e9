"""Background work as rows: found by query, claimed with a lease, given up after enough failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select, update

from harken.storage.batches import batches
from harken.storage.store import StoredSpace, Transaction
from harken.storage.tables import entries, failed_work, work
from harken.storage.vectors import list_spaces

EMBED = "embed"
BACKOFF_SECONDS = (1, 2, 4, 8, 16, 32)
# Where failures are waited out, so that what was out of order is in use again within a minute of its repair.
WAITED_OUT_SECONDS = BACKOFF_SECONDS[:-1]


@dataclass(frozen=True, slots=True)
class Claimed:
    """An entry to embed: its row, what it is of, and its words with their speaker."""

    entry_id: int
    source: str
    author: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Work that was given up."""

    kind: str
    item_id: int
    attempts: int
    error_class: str
    failed_at: datetime


def is_free(now: datetime) -> ColumnElement[bool]:
    """Whether a joined row of work, if there is one, lets its item be taken now."""
    return or_(
        work.c.id.is_(None),
        and_(
            or_(work.c.lease_until.is_(None), work.c.lease_until < now),
            or_(work.c.retry_at.is_(None), work.c.retry_at <= now),
        ),
    )


def claim_unembedded(
    tx: Transaction, space: StoredSpace, owner: str, limit: int, now: datetime, lease_seconds: float
) -> list[Claimed]:
    """Take up to `limit` entries without a vector in the space, newest first, that nobody else is working on.

    What has failed before comes last, so that an outage does not use up the attempts of the newest, and in ever
    smaller parts, half as many each time: in the end, an entry that spoils every batch is tried, and given up, alone.
    """
    attempts = func.coalesce(work.c.attempts, 0)
    ready = (
        _waiting(
            tx,
            space,
            select(entries.c.id, entries.c.source, entries.c.author, entries.c.text, attempts.label("attempts")),
        )
        .where(is_free(now))
        .order_by(entries.c.created_at.desc(), entries.c.id.desc())
        .limit(limit)
    )
    # Where writers run beside each other, what another one claims at this moment is passed over.
    ready = ready.with_for_update(of=entries, skip_locked=True)
    rows = tx.connection.execute(ready.where(attempts == 0)).all() or tx.connection.execute(ready).all()
    alike = [row for row in rows if row.attempts == rows[0].attempts]
    rows = alike[: max(1, limit >> rows[0].attempts)] if rows else []
    mine = claim(tx, EMBED, [row.id for row in rows], owner, now, lease_seconds)
    return [Claimed(row.id, row.source, row.author, row.text) for row in rows if row.id in mine]


def count_unembedded(tx: Transaction, space: StoredSpace) -> int:
    """How many entries still wait for a vector in the space; what was given up is not among them."""
    return int(tx.connection.execute(_waiting(tx, space, select(func.count()))).scalar_one())


def count_embeddable(tx: Transaction) -> int:
    """How many entries have or wait for a vector."""
    statement = select(func.count()).where(entries.c.tenant == tx.tenant, entries.c.space_id.is_not(None))
    return int(tx.connection.execute(statement).scalar_one())


def _waiting(tx: Transaction, space: StoredSpace, columns: Select[Any]) -> Select[Any]:
    others = [0, *(other.id for other in list_spaces(tx) if other.id != space.id)]
    of_work = and_(work.c.tenant == entries.c.tenant, work.c.kind == EMBED, work.c.item_id == entries.c.id)
    given_up = select(failed_work.c.id).where(
        failed_work.c.tenant == tx.tenant, failed_work.c.kind == EMBED, failed_work.c.item_id == entries.c.id
    )
    return (
        columns.select_from(entries.outerjoin(work, of_work))
        .where(entries.c.tenant == tx.tenant, entries.c.space_id.in_(others))
        .where(~given_up.exists())
    )


def claim(
    tx: Transaction, kind: str, item_ids: Sequence[int], owner: str, now: datetime, lease_seconds: float
) -> set[int]:
    """Lease items to an owner; rows of earlier attempts keep their count.

    Returns:
        Those that are the owner's now: another worker may have been quicker.
    """
    lease = {"claimed_by": owner, "lease_until": now + timedelta(seconds=lease_seconds)}
    free = or_(work.c.lease_until.is_(None), work.c.lease_until < now)
    rows = [{"tenant": tx.tenant, "kind": kind, "item_id": item_id, "attempts": 0, **lease} for item_id in item_ids]
    if rows:
        # The rows apart from the statement, which is then made once however many they are.
        tx.connection.execute(tx.dialect.upsert(work, {}, ("kind", "item_id"), lease, where=free), rows)
    return owned(tx, kind, item_ids, owner)


def owned(tx: Transaction, kind: str, item_ids: Sequence[int], owner: str) -> set[int]:
    """Which of the items are still leased to the owner; the others were taken over after the lease ended."""
    rows = select(work.c.item_id).where(
        work.c.tenant == tx.tenant, work.c.kind == kind, work.c.item_id.in_(item_ids), work.c.claimed_by == owner
    )
    return set(tx.connection.scalars(rows))


def complete(tx: Transaction, kind: str, item_ids: Sequence[int]) -> None:
    """The items are done."""
    tx.connection.execute(_of(tx, delete(work), kind, item_ids))


def drop_work(tx: Transaction, kind: str, item_ids: Sequence[int]) -> None:
    """The items are no more: neither work nor failures of theirs remain."""
    for batch in batches(item_ids):
        for table in (work, failed_work):
            gone = (table.c.tenant == tx.tenant, table.c.kind == kind, table.c.item_id.in_(batch))
            tx.connection.execute(delete(table).where(*gone))


def release(tx: Transaction, kind: str, owner: str) -> None:
    """Give back everything the owner has leased, as if it had never been taken."""
    tx.connection.execute(
        update(work)
        .where(work.c.tenant == tx.tenant, work.c.kind == kind, work.c.claimed_by == owner)
        .values(claimed_by=None, lease_until=None)
    )


def fail(
    tx: Transaction, kind: str, item_ids: Sequence[int], error_class: str, now: datetime, gives_up: bool = True
) -> None:
    """An attempt failed: try again after a while, or, if that is wanted, give up after the last one."""
    steps = BACKOFF_SECONDS if gives_up else WAITED_OUT_SECONDS
    rows = tx.connection.execute(
        select(work.c.item_id, work.c.attempts).where(
            work.c.tenant == tx.tenant, work.c.kind == kind, work.c.item_id.in_(item_ids)
        )
    ).all()
    for row in rows:
        if row.attempts < len(BACKOFF_SECONDS) or not gives_up:
            retry_at = now + timedelta(seconds=steps[min(row.attempts, len(steps) - 1)])
            attempts = min(row.attempts + 1, len(BACKOFF_SECONDS))
            values = {"claimed_by": None, "lease_until": None, "attempts": attempts, "retry_at": retry_at}
            tx.connection.execute(_of(tx, update(work), kind, [row.item_id]).values(**values))
        else:
            given_up = {"item_id": row.item_id, "attempts": row.attempts + 1, "failed_at": now}
            tx.connection.execute(
                insert(failed_work).values(tenant=tx.tenant, kind=kind, error_class=error_class, **given_up)
            )
            tx.connection.execute(_of(tx, delete(work), kind, [row.item_id]))


def retry_failed(tx: Transaction) -> int:
    """Make everything that was given up work again.

    Returns:
        How many items that is.
    """
    return tx.connection.execute(delete(failed_work).where(failed_work.c.tenant == tx.tenant)).rowcount


def list_failed(tx: Transaction, limit: int = 100) -> list[Failure]:
    """What was given up, newest first."""
    rows = tx.connection.execute(
        select(failed_work)
        .where(failed_work.c.tenant == tx.tenant)
        .order_by(failed_work.c.failed_at.desc())
        .limit(limit)
    )
    return [Failure(row.kind, row.item_id, row.attempts, row.error_class, row.failed_at) for row in rows]


def next_retry(tx: Transaction) -> datetime | None:
    """When the earliest item that backs off may be tried again."""
    statement = select(func.min(work.c.retry_at)).where(work.c.tenant == tx.tenant, work.c.claimed_by.is_(None))
    return tx.connection.execute(statement).scalar()


def lease_owners(tx: Transaction, kind: str) -> list[str]:
    """Everybody who has leased work of the kind."""
    statement = select(work.c.claimed_by).where(
        work.c.tenant == tx.tenant, work.c.kind == kind, work.c.claimed_by.is_not(None)
    )
    return list(tx.connection.scalars(statement.distinct()))


def stale_leases(tx: Transaction, now: datetime) -> int:
    """How many leases have ended without their owner finishing or giving back."""
    statement = select(func.count()).where(
        work.c.tenant == tx.tenant, work.c.claimed_by.is_not(None), work.c.lease_until < now
    )
    return int(tx.connection.execute(statement).scalar_one())


def drop_stale_leases(tx: Transaction, now: datetime) -> None:
    """Give every ended lease back."""
    tx.connection.execute(
        update(work)
        .where(work.c.tenant == tx.tenant, work.c.claimed_by.is_not(None), work.c.lease_until < now)
        .values(claimed_by=None, lease_until=None)
    )


def _of(tx: Transaction, statement: Any, kind: str, item_ids: Sequence[int]) -> Any:
    return statement.where(work.c.tenant == tx.tenant, work.c.kind == kind, work.c.item_id.in_(item_ids))
