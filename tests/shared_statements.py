"""Statements compiled once in a process, however many stores its tests open: that is a third of a short test's time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, event, inspect
from sqlalchemy.util import LRUCache

from harken.storage.migrations import HEAD, schema

# More than there are: Harken has some 700.
_MOST = 5000


class SharedStatements:
    """A cache of compiled statements for SQLAlchemy, which keeps them by engine and not by kind of engine."""

    def __init__(self) -> None:
        self._kept: LRUCache[Any, Any] = LRUCache(_MOST)

    def get(self, key: Any) -> Any:
        """The compiled statement, or None; see `sqlalchemy.engine.interfaces.CompiledCacheType`."""
        return self._kept.get(_by_kind(key))

    def __setitem__(self, key: Any, compiled: Any) -> None:
        self._kept[_by_kind(key)] = compiled


def _by_kind(key: Any) -> tuple[Any, ...]:
    dialect, *what = key
    return dialect.name, dialect.driver, dialect.paramstyle, *what


class SharedSchema:
    """Makes the tables of an empty embedded store by the statements that made those of the first in this process.

    SQLAlchemy keeps no statement that makes a table, and a store on its first day has two hundred of them: compiled
    each time, they took 90 ms of processor time, and a tenth of the tests' own.
    """

    def __init__(self, create: Callable[[Connection, str], None]) -> None:
        self._create = create
        self._statements: list[tuple[str, Any]] = []

    def __call__(self, connection: Connection, version: str) -> None:
        """See `harken.storage.migrations.schema.create`, which is called for the first and for all others."""
        if connection.dialect.name != "sqlite" or version != HEAD or inspect(connection).get_table_names():
            self._create(connection, version)
        elif self._statements:
            cursor = connection.connection.cursor()
            for statement, values in self._statements:
                cursor.execute(statement, values)
        else:
            self._statements = self._noted(connection, version)

    def _noted(self, connection: Connection, version: str) -> list[tuple[str, Any]]:
        """Make them, and note what changed the database."""
        noted: list[tuple[str, Any]] = []

        def note(_connection: object, _cursor: object, statement: str, values: Any, *_others: object) -> None:
            if statement.split(maxsplit=1)[0] in ("CREATE", "DELETE", "INSERT"):
                noted.append((statement, values))

        event.listen(connection, "before_cursor_execute", note)
        try:
            self._create(connection, version)
        finally:
            event.remove(connection, "before_cursor_execute", note)
        return noted


def share_statements() -> None:
    """Have all engines of this process, those of its forks too, share what they compile from now on."""
    statements = SharedStatements()
    schema.create = SharedSchema(schema.create)  # type: ignore[assignment]

    def share(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)

    event.listen(Engine, "engine_connect", share)
