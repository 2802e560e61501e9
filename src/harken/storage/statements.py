"""Statements made once for the driver alone: SQLAlchemy takes longer for each execution than a short one itself."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Float, Insert, Select, Table, and_, insert
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.expression import ClauseElement
from sqlalchemy.types import TypeEngine

# As PostgreSQL numbers the one type of numbers that no column's type names exactly.
_FLOAT8 = 701


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the driver takes it.

    Attributes:
        fixed: values that it was made with, as they are bound.
        conversions: how values are written whose column's type converts them, by name.
        columns: how many its rows have, as far as that is known; else 0.
    """

    text: str
    fixed: Mapping[str, Any]
    conversions: tuple[tuple[str, Callable[[Any], Any]], ...]
    columns: int

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
    return Statement(str(made), fixed, tuple(conversions), len(getattr(statement, "selected_columns", ())))


@cache
def row_reader(statement: Select[Any], kind: type[Dialect]) -> Callable[[Sequence[Any]], Any]:
    """What gives a driver's row of such a statement by name, as the types of its columns convert it."""
    columns: Sequence[ColumnElement[Any]] = list(statement.selected_columns)
    make: Any = namedtuple
    dialect = kind()
    names = [str(getattr(column, "key", place)) for place, column in enumerate(columns)]
    # As SQLAlchemy's rows have it.
    mapping = {"__slots__": (), "_mapping": property(lambda row: row._asdict())}
    row_type: Any = type("Row", (make("Row", names, rename=True),), mapping)
    processors = [column.type.dialect_impl(dialect).result_processor(dialect, _FLOAT8) for column in columns]
    conversions = [(place, convert) for place, convert in enumerate(processors) if convert]

    def read(row: Sequence[Any]) -> Any:
        values = list(row)
        for place, convert in conversions:
            values[place] = convert(values[place])
        return row_type._make(values)

    return read


def begins(uid: ColumnElement[str], beginning: str, is_remote: bool) -> ColumnElement[bool]:
    """Whether an id begins like this, by its index."""
    if not is_remote:
        return and_(uid >= beginning, uid < beginning + "\U0010ffff")
    # In the order of a database's language a rare character may count for nothing, and "aa" be a letter behind z.
    near = beginning.rstrip("a")[:-1]
    bounds = (uid >= near, uid < near + 9 * "z") if beginning.isascii() else ()
    return and_(uid.startswith(beginning, autoescape=True), *bounds)


@cache
def insertion(table: Table) -> Insert:
    """What inserts into a table, made once."""
    return insert(table)


@dataclass(frozen=True, slots=True)
class PlacedInsertion:
    """An insertion of rows that binds by place: by names thousands of them take a quarter longer.

    Attributes:
        given: the values of a row, but for its id, in the order in which they are bound behind that.
        conversions: how values are written whose column's type converts them, by place.
    """

    text: str
    given: Callable[[Mapping[str, Any]], Sequence[Any]]
    conversions: tuple[tuple[int, Callable[[Any], Any]], ...]

    def bound(self, row_id: int | None, row: Mapping[str, Any]) -> list[Any]:
        """The values of one row, as the driver takes them; without an id it gets its own."""
        values: list[Any] = [row_id, *self.given(row)]
        for place, convert in self.conversions:
            values[place] = convert(values[place])
        return values


def _written_as(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """How a value of this type is bound; the driver itself takes numbers with a fraction, and a truth as a number."""
    if isinstance(kind, Float):
        return None
    return int if isinstance(kind, Boolean) else kind.dialect_impl(dialect).bind_processor(dialect)


@cache
def placed_insertion(table: Table, names: tuple[str, ...], dialect: Dialect) -> PlacedInsertion:
    """Insert a row of an id and these columns, two or more, in a dialect that binds by place."""
    made: Any = insert(table).compile(dialect=dialect, column_keys=("id", *names))
    order: list[str] = made.positiontup
    processors = {name: _written_as(bind.type, dialect) for name, bind in made.binds.items()}
    conversions = tuple((place, convert) for place, name in enumerate(order) if (convert := processors[name]))
    # Every table has it first.
    return PlacedInsertion(str(made), itemgetter(*order[1:]), conversions)


def bare(connection: Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
    """The rows of a statement, without what SQLAlchemy does for each execution, which takes longer than a short one."""
    driver: Any = connection.connection.dbapi_connection
    rows: list[Any] = driver.execute(statement, values).fetchall()
    return rows


def bare_each(connection: Connection, statement: str, values: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
    """Execute a statement with each of the values, likewise."""
    driver: Any = connection.connection.dbapi_connection
    driver.executemany(statement, values)
