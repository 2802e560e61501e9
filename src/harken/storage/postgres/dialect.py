"""Statements that PostgreSQL spells in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Insert, Table, any_, bindparam
from sqlalchemy.dialects.postgresql import ARRAY, insert


class PostgresDialect:
    """A `Dialect` of PostgreSQL."""

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
