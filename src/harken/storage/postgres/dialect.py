"""Statements that PostgreSQL spells in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Insert, Table, any_, bindparam, func
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.types import UserDefinedType

from harken.storage.store import AMONG


class _Listed(UserDefinedType[str]):
    """An array in its text form, which takes a tenth of the time that the driver takes for each number."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_options: object) -> str:
        return "bigint[]"


@dataclass(frozen=True, slots=True)
class PostgresDialect:
    """A `Dialect` of PostgreSQL."""

    def among(self, column: ColumnElement[int]) -> ColumnElement[bool]:
        """By one bound array."""
        return column == func.any(self.list_of())

    def list_of(self) -> ColumnElement[Any]:
        """The place of what `listing` gives."""
        return bindparam(AMONG, type_=_Listed())

    def listing(self, ids: Sequence[int]) -> str:
        """As an array's text."""
        return "{" + ",".join(map(str, ids)) + "}"

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """By one bound array, so that the statement is the same however many there are."""
        return column == any_(bindparam(None, list(values), type_=ARRAY(column.type)))

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert rows, or change those that have their keys."""
        statement, unique = insert(table).values(rows), ["tenant", *key]
        if changes is None:
            return statement.on_conflict_do_nothing(index_elements=unique)
        return statement.on_conflict_do_update(index_elements=unique, set_=dict(changes), where=where)
