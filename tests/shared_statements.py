"""Statements compiled once in a process, however many stores its tests open: that is a third of a short test's time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache

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


def share_statements() -> None:
    """Have all engines of this process, those of its forks too, share what they compile from now on."""
    statements = SharedStatements()

    def share(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)

    event.listen(Engine, "engine_connect", share)
