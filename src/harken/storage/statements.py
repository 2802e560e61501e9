"""Statements made once for the driver alone: SQLAlchemy takes longer for each execution than a short one itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.expression import ClauseElement


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the driver takes it.

    Attributes:
        fixed: values that it was made with, as they are bound.
        conversions: how values are written whose column's type converts them, by name.
    """

    text: str
    fixed: Mapping[str, Any]
    conversions: tuple[tuple[str, Callable[[Any], Any]], ...]

    def bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of one execution, as the driver takes them."""
        given = {**self.fixed, **values}
        for name, convert in self.conversions:
            given[name] = convert(given[name])
        return given


@cache
def compiled(statement: ClauseElement, dialect: Dialect, names: tuple[str, ...] | None = None) -> Statement:
    """A statement that was made once and is kept for good; of one that inserts, the names of the columns given."""
    made: Any = statement.compile(dialect=dialect, column_keys=names)
    conversions = []
    for name, bind in made.binds.items():
        if convert := bind.type.dialect_impl(dialect).bind_processor(dialect):
            conversions.append((name, convert))
    fixed = {name: bind.value for name, bind in made.binds.items() if not bind.required}
    return Statement(str(made), fixed, tuple(conversions))


@cache
def insertion(table: Table, names: tuple[str, ...], dialect: Dialect, gives_id: bool = False) -> Statement:
    """Insert a row of these columns."""
    statement = insert(table)
    return compiled(statement.returning(table.c.id) if gives_id else statement, dialect, names)


def bare(connection: Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
    """The rows of a statement, without what SQLAlchemy does for each execution, which takes longer than a short one."""
    driver: Any = connection.connection.driver_connection
    rows: list[Any] = driver.execute(statement, values).fetchall()
    return rows


def bare_each(connection: Connection, statement: str, values: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
    """Execute a statement with each of the values, likewise."""
    driver: Any = connection.connection.driver_connection
    driver.executemany(statement, values)
