"""How many vectors there are and how many are missing, by what they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, case, func, select

from harken.storage.store import StoredSpace, Transaction
from harken.storage.tables import entries, failed_work
from harken.storage.work import EMBED


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


def embeddable_texts(tx: Transaction, sources: Sequence[str] = ()) -> Iterator[str]:
    """The text of every entry that has or waits for a vector; all sources where none is named."""
    wanted = [entries.c.tenant == tx.tenant, entries.c.space_id.is_not(None)]
    if sources:
        wanted.append(entries.c.source.in_(sources))
    yield from tx.connection.scalars(select(entries.c.text).where(*wanted))
