"""Statements that SQLite spells in its own way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Select, Table, Text, bindparam, func, select
from sqlalchemy.dialects.sqlite import insert

from harken.storage.dialect import AMONG


@dataclass(frozen=True, slots=True)
class SqliteDialect:
    """A `Dialect` of SQLite."""

    def among(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """By one bound list."""
        listed = func.json_each(bindparam(AMONG, type_=Text)).table_valued("value")
        return column.in_(select(listed.c.value))

    def listing(self, values: Sequence[Any]) -> str:
        """As JSON."""
        return json.dumps(list(values))

    def bare_rows(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """As they are read: there is no server between to be quick for."""
        return connection.execute(statement, values).all()

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """By one bound list: a parameter for each value takes half as long again among some hundred."""
        listed = func.json_each(bindparam(None, json.dumps(list(values)), type_=Text)).table_valued("value")
        return column.in_(select(listed.c.value))

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert rows, or change those that have their keys."""
        statement = insert(table).values(rows)
        if changes is None:
            return statement.on_conflict_do_nothing(index_elements=list(key))
        return statement.on_conflict_do_update(index_elements=list(key), set_=dict(changes), where=where)
