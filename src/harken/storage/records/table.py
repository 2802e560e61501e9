"""What every table of kept records has, and the way between a record's fields and its row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Column, Row, Table, Text
from sqlalchemy.types import Float, Integer

from harken.model.conversations import NewEntry, SavedRecord, Trust
from harken.model.views import format_moment, parse_moment
from harken.storage.columns import Instant, Json, Listed
from harken.storage.tables import _key, _moment, _reference, _tenant, _uid, metadata

# Of the event itself; all other columns are fields of the record.
_OF_THE_EVENT = frozenset({"id", "tenant", "uid", "project_id", "updated_at"})
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class KeptTable:
    """How the records of one source are kept.

    Attributes:
        source: its name, one of `KEPT_FOLDERS`.
        table: made by `kept_table`.
        entries: what search sees of a record; nothing where it is not to be found.
        local: columns that this database alone knows and no journal has; they must be nullable.
    """

    source: str
    table: Table
    entries: Callable[[SavedRecord], Sequence[NewEntry]]
    local: frozenset[str] = frozenset()

    def row(self, kept: SavedRecord) -> dict[str, Any]:
        """The record's columns, without those of the event.

        Raises:
            ValueError: a field is missing, or of another kind.
        """
        fields = kept.fields or {}
        columns = _columns(self.table, self.local)
        row = {column.name: _column_value(column, fields.get(column.name)) for column in columns}
        Trust(row["trust"])
        return row

    def fields(self, row: Row[Any]) -> dict[str, Any]:
        """The record that a row holds; what it has no value for is left out."""
        found = row._mapping
        names = [column.name for column in _columns(self.table, self.local)]
        return {name: _field_value(value) for name in names if (value := found[name]) is not None}


def kept_table(name: str, *columns: Column[Any]) -> Table:
    """A table of kept records, with the columns that all of them have.

    Args:
        name: of the table.
        *columns: the record's own fields. Text, whole numbers, numbers, booleans, `Instant`, `Json` and `Listed`.
    """
    return Table(
        name,
        metadata,
        _key(),
        _tenant(),
        _uid(),
        _reference("project_id", nullable=True),
        Column("trust", Text, nullable=False),
        _moment("created_at"),
        _moment("updated_at"),
        *columns,
    )


@cache
def _columns(table: Table, local: frozenset[str]) -> tuple[Column[Any], ...]:
    return tuple(column for column in table.columns if column.name not in _OF_THE_EVENT | local)


def _column_value(column: Column[Any], value: Any) -> Any:
    if value is None:
        if not column.nullable:
            raise ValueError(f"{column.name} is missing")
        return None
    if isinstance(column.type, Instant):
        return parse_moment(value)
    if not _fits(column, value):
        raise ValueError(f"{column.name} is of another kind")
    return value


def _fits(column: Column[Any], value: Any) -> bool:
    kind = column.type
    if isinstance(kind, Json):
        return isinstance(value, Mapping)
    if isinstance(kind, Listed):
        return isinstance(value, list | tuple)
    if isinstance(kind, BigInteger | Integer):
        return isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST
    if isinstance(kind, Float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind.python_type)


def _field_value(value: Any) -> Any:
    return format_moment(value) if isinstance(value, datetime) else value
