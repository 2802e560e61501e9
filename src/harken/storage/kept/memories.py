"""Saved memories as rows, and what search sees of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Float, Text

from harken.model import Kept, NewEntry
from harken.storage.columns import Instant, Listed
from harken.storage.kept.table import KeptTable, kept_table

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


def _entries(kept: Kept) -> Sequence[NewEntry]:
    fields = kept.fields or {}
    if fields.get("superseded_by"):
        return []
    facets = (f"category:{fields['category']}", *(f"tag:{tag}" for tag in fields["tags"]))
    return [NewEntry("", fields["content"], facets, importance_weight(fields["importance"]))]


MEMORIES = KeptTable(SOURCE, memories, _entries, local=frozenset({"accessed_at"}))
