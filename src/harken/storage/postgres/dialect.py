"""Statements that PostgreSQL spells in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.dialects.postgresql.psycopg import dialect
from sqlalchemy.types import UserDefinedType

from harken.storage.ports import AMONG, Question, RowCount, Values
from harken.storage.postgres.connection import driver_of
from harken.storage.statements import compiled, insertion, row_reader

_COMPILER = dialect()  # type: ignore[no-untyped-call]


def bare_rows(connection: Connection, statement: ClauseElement, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    """The rows of a statement, in a third of the client's time of `Connection.execute`.

    It is kept, and compiled once. Its columns' types convert nothing, and it has no list (`IN`), which SQLAlchemy
    writes out with each execution.
    """
    with driver_of(connection) as driver:
        return driver.rows(*_asked(statement, values))


def named_rows(connection: Connection, statement: Select[Any], values: Mapping[str, Any]) -> list[Any]:
    """The same by name, and as the types of the columns convert them; for rows that are few."""
    kind: Any = type(_COMPILER)
    read = row_reader(statement, kind)
    return [read(row) for row in bare_rows(connection, statement, values)]


def _asked(statement: ClauseElement, values: Values) -> tuple[str, Values]:
    made = compiled(statement, _COMPILER)
    return made.text, {**made.fixed, **values}


class _Listed(UserDefinedType[str]):
    """An array in its text form, which takes a tenth of the time that the driver takes for each number."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_options: object) -> str:
        return "bigint[]"


@dataclass(frozen=True, slots=True)
class PostgresDialect:
    """A `Dialect` of PostgreSQL.

    Attributes:
        asks_together: whether what is foreseen is asked as one question.
    """

    is_remote: ClassVar[bool] = True
    asks_together: bool = field(default=False, compare=False)

    def of_tenant(self, table: FromClause, tenant: str | BindParameter[str]) -> tuple[ColumnElement[bool], ...]:
        """By the column that leads every index."""
        return (table.c.tenant == tenant,)

    def among(self, column: ColumnElement[Any], name: str = AMONG) -> ColumnElement[bool]:
        """By one bound array."""
        if isinstance(column.type, Text):
            return column == any_(bindparam(name, type_=ARRAY(Text)))
        return column == func.any(self.list_of(name))

    def list_of(self, name: str = AMONG) -> ColumnElement[Any]:
        """The place of what `listing` gives."""
        return bindparam(name, type_=_Listed())

    def listing(self, values: Sequence[Any]) -> str | list[str]:
        """Numbers as an array's text; texts as they are."""
        are_texts = bool(values) and isinstance(values[0], str)
        return list(values) if are_texts else "{" + ",".join(map(str, values)) + "}"

    def bare_rows(self, connection: Connection, statement: ClauseElement, values: Values) -> Sequence[Sequence[Any]]:
        """Without what SQLAlchemy does for each execution."""
        return bare_rows(connection, statement, values)

    def kept_counts(self, connection: Connection) -> None:
        """None: writers of a tenant would wait for each other at a count, and a sharded server has no triggers."""

    def keep_counts(self, connection: Connection, counts: Mapping[RowCount, int]) -> None:
        """No-op."""

    def execute_each(self, connection: Connection, statement: ClauseElement, values: Sequence[Values]) -> None:
        """They are sent with the next question, or at the end."""
        if values:
            made = compiled(statement, _COMPILER, tuple(values[0]))
            with driver_of(connection) as driver:
                driver.later(made.text, list(map(made.bound, values)))

    def add_rows(self, connection: Connection, table: Table, rows: Sequence[Values]) -> Sequence[int]:
        """Likewise; their ids are taken from the table's sequence before."""
        if not rows:
            return ()
        with driver_of(connection) as driver:
            ids = driver.new_ids(table.name, len(rows))
        named = [{"id": key, **row} for key, row in zip(ids, rows, strict=True)]
        self.execute_each(connection, insertion(table), named)
        return ids

    def foresee(self, connection: Connection, *questions: Question) -> None:
        """They are sent with the first one, or with whatever else is waited for."""
        with driver_of(connection) as driver:
            for statement, values in questions:
                driver.foresee(*self._foreseen(statement, values))

    def end_with(self, connection: Connection, *questions: Question) -> None:
        """The commit goes with them."""
        with driver_of(connection) as driver:
            driver.end_with([self._foreseen(statement, values) for statement, values in questions])

    def _foreseen(self, statement: ClauseElement, values: Values) -> tuple[str, Values, int]:
        return *_asked(statement, values), compiled(statement, _COMPILER).columns if self.asks_together else 0

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
