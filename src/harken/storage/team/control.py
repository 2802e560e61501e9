"""Transactions on the tables of a team, each bound to one team."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, delete, insert, select, text, update

from harken.model.team import ApiKey
from harken.storage.postgres.connection import Beginnings, entered
from harken.storage.postgres.pipeline import Asked
from harken.storage.postgres.rights import passes_walls
from harken.storage.team.keys import read_key
from harken.storage.team.tables import KEY_SETTING, keys

_PARTS = ("team",)
_SHOW_KEY = f"SELECT set_config('{KEY_SETTING}', %(digest)s, true)"
_BIND = text("SELECT set_config('harken.tenant', :team, true)")


@dataclass(frozen=True, slots=True)
class TeamTransaction:
    """A connection inside a transaction, with the team that every statement is bound to."""

    connection: Connection
    team: str

    def select(self, *wanted: Any) -> Select[Any]:
        """A selection of the team's rows: of the table that the first of the columns is of."""
        table = wanted[0] if isinstance(wanted[0], Table) else wanted[0].table
        return select(*wanted).where(table.c.team == self.team)

    def rows(self, *wanted: Any, where: tuple[Any, ...] = ()) -> list[Any]:
        """The rows of a table, or some of their columns, that meet the conditions."""
        return list(self.connection.execute(self.select(*wanted).where(*where)).all())

    def insert(self, table: Table, **values: Any) -> None:
        """Insert a row."""
        self.connection.execute(insert(table).values(team=self.team, **values))

    def update(self, table: Table, *conditions: Any, **values: Any) -> int:
        """Change the rows that meet the conditions; how many they are."""
        return self.connection.execute(
            update(table).where(table.c.team == self.team, *conditions).values(**values)
        ).rowcount

    def delete(self, table: Table, *conditions: Any) -> int:
        """Delete the rows that meet the conditions; how many they were."""
        return self.connection.execute(delete(table).where(table.c.team == self.team, *conditions)).rowcount


@dataclass(frozen=True, slots=True)
class ControlTables:
    """The tables of all teams of a server; who asks names the team, or has a key that does.

    Args:
        translated: turns the driver's errors into ours.
    """

    engine: Engine
    translated: Callable[[], AbstractContextManager[None]]

    def passes_walls(self) -> str:
        """Why the server does not hold this login to the rows of one team and space; empty where it does."""
        with self.translated(), self.engine.connect() as connection:
            return passes_walls(connection)

    @contextmanager
    def reading(self, team: str) -> Iterator[TeamTransaction]:
        """A consistent view of a team."""
        with self._entered(team, _begins(team).reading()) as tx:
            yield tx

    @contextmanager
    def writing(self, team: str) -> Iterator[TeamTransaction]:
        """A transaction that changes a team; nobody else changes it meanwhile."""
        with self._entered(team, _begins(team).writing(_PARTS)) as tx:
            yield tx

    @contextmanager
    def of_key(self, digest: str) -> Iterator[tuple[TeamTransaction, ApiKey] | None]:
        """A view of the team of whoever has a key, by its hash, and the key; None where there is no such key."""
        shown: Asked = (_SHOW_KEY, {"digest": digest})
        with self._entered("", (*_begins("").reading(), shown)) as tx:
            row = tx.connection.execute(select(keys).where(keys.c.digest == digest)).first()
            if row is None:
                yield None
                return
            tx.connection.execute(_BIND, {"team": row.team})
            yield TeamTransaction(tx.connection, row.team), read_key(row)

    @contextmanager
    def _entered(self, team: str, begins: tuple[Asked, ...]) -> Iterator[TeamTransaction]:
        with self.translated(), entered(self.engine, begins) as connection:
            yield TeamTransaction(connection, team)


def _begins(team: str) -> Beginnings:
    """What begins a transaction of a team, whose tables are on one machine, on a cluster as well."""
    return Beginnings(team, on_cluster=False)
