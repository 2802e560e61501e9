"""Taking entries out with all that hangs on them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from harken.storage.entries import delete_entries
from harken.storage.store import Transaction
from harken.storage.tables import entries
from harken.storage.vectors import delete_vectors
from harken.storage.work import EMBED, drop_work


def remove_entries(tx: Transaction, condition: Any) -> None:
    """Remove the entries that a condition on their table names: rows, full text, vectors, work."""
    entry_ids = list(tx.connection.scalars(select(entries.c.id).where(entries.c.tenant == tx.tenant, condition)))
    delete_vectors(tx, entry_ids)
    drop_work(tx, EMBED, entry_ids)
    delete_entries(tx, entry_ids)
