"""How many vectors there are and how many are missing, by what they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, case, func, select

from harken.storage.store import StoredSpace, Transaction
from harken.storage.tables import entries, failed_work, work
from harken.storage.work import EMBED

# As many entries are embedded at once at most.
A_BATCH = 100


@dataclass(frozen=True, slots=True)
class Backlog:
    """Entries that never had a vector and wait for one.

    Attributes:
        waiting: how many; one more than a batch stands for any more. What was given up is not among them.
        in_hand: how many somebody is embedding.
    """

    waiting: int
    in_hand: int


@dataclass(frozen=True, slots=True)
class VectorCounts:
    """Vectors of one source; what was given up is neither embedded nor waiting."""

    embedded: int = 0
    waiting: int = 0


def count_vectors(tx: Transaction, space: StoredSpace | None) -> dict[str, VectorCounts]:
    """Vectors in a space by source; without a space, everything that may have one waits."""
    filled = entries.c.space_id == (space.id if space else -1)
    of_failed = and_(
        failed_work.c.tenant == entries.c.tenant, failed_work.c.kind == EMBED, failed_work.c.item_id == entries.c.id
    )
    rows = tx.connection.execute(
        select(
            entries.c.source,
            func.sum(case((filled, 1), else_=0)).label("embedded"),
            func.sum(case((and_(~filled, failed_work.c.id.is_(None)), 1), else_=0)).label("waiting"),
        )
        .select_from(entries.outerjoin(failed_work, of_failed))
        .where(entries.c.tenant == tx.tenant, entries.c.space_id.is_not(None))
        .group_by(entries.c.source)
    )
    return {row.source: VectorCounts(int(row.embedded), int(row.waiting)) for row in rows}


_OF_TENANT = bindparam("of_tenant", type_=entries.c.tenant.type)
_WAITING = select(entries.c.id).where(entries.c.tenant == _OF_TENANT, entries.c.space_id == 0)
_GIVEN_UP = select(failed_work.c.item_id).where(failed_work.c.tenant == _OF_TENANT, failed_work.c.kind == EMBED)
# Built once, and one statement: it runs with every search.
_BACKLOG = select(
    select(func.count()).select_from(_WAITING.limit(A_BATCH + 1).subquery()).scalar_subquery(),
    select(func.count()).select_from(_GIVEN_UP.subquery()).scalar_subquery(),
    select(func.count())
    .select_from(work)
    .where(
        work.c.tenant == _OF_TENANT,
        work.c.kind == EMBED,
        work.c.claimed_by.is_not(None),
        work.c.lease_until >= bindparam("of_now", type_=work.c.lease_until.type),
    )
    .scalar_subquery(),
)


def backlog(tx: Transaction, now: datetime) -> Backlog:
    """What waits for its first vector; quick however much that is."""
    asked = {"of_tenant": tx.tenant, "of_now": now}
    waiting, given_up, in_hand = tx.connection.execute(_BACKLOG, asked).one()
    return Backlog(waiting if waiting > A_BATCH else max(0, waiting - given_up), in_hand)


def count_waiting(tx: Transaction) -> int:
    """How many entries wait for their first vector, all of them counted; what was given up is not among them."""
    asked = {"of_tenant": tx.tenant}
    waiting = tx.connection.execute(select(func.count()).select_from(_WAITING.subquery()), asked).scalar_one()
    given_up = tx.connection.execute(select(func.count()).select_from(_GIVEN_UP.subquery()), asked).scalar_one()
    return int(waiting) - int(given_up)


def embeddable_texts(tx: Transaction, sources: Sequence[str] = ()) -> Iterator[str]:
    """The text of every entry that has or waits for a vector; all sources where none is named."""
    wanted = [entries.c.tenant == tx.tenant, entries.c.space_id.is_not(None)]
    if sources:
        wanted.append(entries.c.source.in_(sources))
    yield from tx.connection.scalars(select(entries.c.text).where(*wanted))
