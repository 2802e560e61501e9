"""Transactions on the tables of a team, each bound to one team."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine, Text, bindparam, select

from harken.model.team import ApiKey
from harken.storage.postgres.connection import driver_of, entered, reading_begins, writing_begins
from harken.storage.postgres.pipeline import Asked
from harken.storage.postgres.rights import passes_walls
from harken.storage.team.keys import read_key
from harken.storage.team.tables import KEY_SETTING, keys
from harken.storage.team.tables import TeamTransaction as TeamTransaction

_PARTS = ("team",)
_SHOW_KEY = f"SELECT set_config('{KEY_SETTING}', %(digest)s, true)"
_BIND = "SELECT set_config('harken.tenant', %(team)s, true)"
# Made once: it runs with every request.
_OF_DIGEST = select(keys).where(keys.c.digest == bindparam("digest", type_=Text))


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
        with self._entered(team, reading_begins(team)) as tx:
            yield tx

    @contextmanager
    def writing(self, team: str) -> Iterator[TeamTransaction]:
        """A transaction that changes a team; nobody else changes it meanwhile."""
        with self._entered(team, writing_begins(team, _PARTS)) as tx:
            yield tx

    @contextmanager
    def of_key(self, digest: str) -> Iterator[tuple[TeamTransaction, ApiKey] | None]:
        """A view of the team of whoever has a key, by its hash, and the key; None where there is no such key."""
        shown: Asked = (_SHOW_KEY, {"digest": digest})
        with self._entered("", (*reading_begins(""), shown)) as tx:
            row = tx.connection.execute(_OF_DIGEST, {"digest": digest}).first()
            if row is None:
                yield None
                return
            with driver_of(tx.connection) as driver:
                driver.later(_BIND, {"team": row.team})
            yield TeamTransaction(tx.connection, row.team), read_key(row)

    @contextmanager
    def _entered(self, team: str, begins: tuple[Asked, ...]) -> Iterator[TeamTransaction]:
        with self.translated(), entered(self.engine, begins) as connection:
            yield TeamTransaction(connection, team)
