"""Saved memories as rows, and what search sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Float, Text, and_, select

from harken.model.conversations import NewEntry, SavedRecord
from harken.storage.columns import Instant, Listed
from harken.storage.ports import Transaction, rows_in
from harken.storage.records.table import KeptTable, kept_table
from harken.storage.tables import entries

SOURCE = "memory"
# A memory of the middle importance weighs as much as anything else, the extremes a fifth less and more: enough to
# order what is equally alike, too little to bring up what was not asked for.
_WEIGHT_SPAN = 0.4

memories = kept_table(
    "memories",
    Column("content", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("importance", Float, nullable=False),
    Column("tags", Listed, nullable=False),
    Column("supersedes", Listed, nullable=False),
    Column("superseded_by", Text),
    Column("accessed_at", Instant),
)


def importance_weight(importance: float) -> float:
    """What a memory's score is multiplied by, 0.8 to 1.2, for its importance, 0 to 1."""
    return 1.0 + _WEIGHT_SPAN * (importance - 0.5)


def _entries(kept: SavedRecord) -> Sequence[NewEntry]:
    fields = kept.fields or {}
    if fields.get("superseded_by"):
        return []
    facets = (f"category:{fields['category']}", *(f"tag:{tag}" for tag in fields["tags"]))
    return [NewEntry("", fields["content"], facets, importance_weight(fields["importance"]))]


MEMORIES = KeptTable(SOURCE, memories, _entries, local=frozenset({"accessed_at"}))


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory that nothing supersedes.

    Attributes:
        entry_id: of its entry, by which it is compared by meaning.
    """

    uid: str
    content: str
    entry_id: int


def standing_memories(tx: Transaction, category: str, project_id: int | None) -> list[MemoryStanding]:
    """Every memory of a category and a project, or of none, that nothing supersedes."""
    of_memory = and_(
        entries.c.tenant == memories.c.tenant, entries.c.source == SOURCE, entries.c.ref_uid == memories.c.uid
    )
    rows = tx.connection.execute(
        select(memories.c.uid, memories.c.content, entries.c.id)
        .select_from(memories.join(entries, of_memory))
        .where(
            memories.c.tenant == tx.tenant,
            memories.c.category == category,
            memories.c.project_id.is_not_distinct_from(project_id),
        )
        .order_by(memories.c.id)
    )
    return [MemoryStanding(row.uid, row.content, row.id) for row in rows]


def list_memories(
    tx: Transaction, category: str | None, project_id: int | None, with_superseded: bool
) -> list[tuple[str, Sequence[str]]]:
    """(id, tags) of every memory, newest first; `project_id` None is every project."""
    statement = select(memories.c.uid, memories.c.tags).where(memories.c.tenant == tx.tenant)
    if category is not None:
        statement = statement.where(memories.c.category == category)
    if project_id is not None:
        statement = statement.where(memories.c.project_id == project_id)
    if not with_superseded:
        statement = statement.where(memories.c.superseded_by.is_(None))
    rows = tx.connection.execute(statement.order_by(memories.c.created_at.desc(), memories.c.id.desc()))
    return [(row.uid, row.tags) for row in rows]


def accessed_times(tx: Transaction, uids: Sequence[str]) -> dict[str, datetime]:
    """When each memory was last looked at, of those that were."""
    statement = select(memories.c.uid, memories.c.accessed_at).where(
        memories.c.tenant == tx.tenant, memories.c.accessed_at.is_not(None)
    )
    return {row.uid: row.accessed_at for row in rows_in(tx, statement, memories.c.uid, uids)}
