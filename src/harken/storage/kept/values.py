"""Values as rows, and what search sees of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Float, Integer, Text

from harken.learned.axes import value_entries
from harken.learned.fields import VALUE, read_value
from harken.model import Kept, NewEntry
from harken.storage.columns import Listed
from harken.storage.kept.table import KeptTable, kept_table

learned_values = kept_table(
    "learned_values",
    Column("text", Text, nullable=False),
    Column("axis", Text, nullable=False),
    Column("cluster_id", Text, nullable=False),
    Column("cluster_size", Integer, nullable=False),
    Column("similarity_to_centroid", Float, nullable=False),
    Column("distance", Float, nullable=False),
    Column("distance_limit", Float, nullable=False),
    Column("space", Text, nullable=False),
    Column("members", Listed, nullable=False),
    Column("domains", Listed, nullable=False),
    Column("strategies", Listed, nullable=False),
)


def _entries(kept: Kept) -> Sequence[NewEntry]:
    return value_entries(read_value(kept))


VALUES = KeptTable(VALUE, learned_values, _entries)
