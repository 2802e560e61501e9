"""Which records the store has, and which it has forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Table, bindparam, select

from harken.storage.batches import batches
from harken.storage.store import Transaction
from harken.storage.tables import conversations, exchanges, messages, segments, tombstones


def find_known(tx: Transaction, table: Table, uids: Sequence[str]) -> set[str]:
    """Which of the uids the table has."""
    known: set[str] = set()
    for batch in batches(uids):
        known.update(tx.connection.scalars(_BY_UID[table.name], {"of_tenant": tx.tenant, "uids": batch}))
    return known


# Built once: they run with every recorded message.
_BY_UID = {
    table.name: select(table.c.uid).where(
        table.c.tenant == bindparam("of_tenant"), table.c.uid.in_(bindparam("uids", expanding=True))
    )
    for table in (conversations, segments, exchanges, messages, tombstones)
}


def find_tombstones(tx: Transaction, uids: Iterable[str]) -> set[str]:
    """Which of the uids were forgotten."""
    return find_known(tx, tombstones, list(uids))
