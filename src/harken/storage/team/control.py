"""Transactions on the tables of a team, each bound to one team."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Engine, Text, bindparam, select

from harken.model.team import ApiKey
from harken.storage.postgres.connection import Beginnings, driver_of, entered
from harken.storage.postgres.dialect import PostgresDialect, named_rows
from harken.storage.postgres.pipeline import Asked
from harken.storage.postgres.rights import passes_walls
from harken.storage.team.keys import read_key
from harken.storage.team.people import principal_question
from harken.storage.team.spaces import readable_question
from harken.storage.team.tables import KEY_SETTING, keys
from harken.storage.team.tables import TeamTransaction as TeamTransaction

_PARTS = ("team",)
_SHOW_KEY = f"SELECT set_config('{KEY_SETTING}', %(digest)s, true)"
_BIND = "SELECT set_config('harken.tenant', %(team)s, true)"
# Made once: it runs with every request.
_OF_DIGEST = select(keys).where(keys.c.digest == bindparam("digest", type_=Text))
_MOST_HOLDERS = 10_000


@dataclass(frozen=True, slots=True)
class ControlTables:
    """The tables of all teams of a server; who asks names the team, or has a key that does.

    Args:
        translated: turns the driver's errors into ours.
    """

    engine: Engine
    translated: Callable[[], AbstractContextManager[None]]
    # Team and principal by the hash of a key, which never changes hands: what the key may do is read each time.
    _holders: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)

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
        """A view of the team of whoever has a key, by its hash, and the key; None where there is no such key.

        Who held it when it was shown last is asked about by the same message.
        """
        shown: Asked = (_SHOW_KEY, {"digest": digest})
        team, principal = self._holders.get(digest, ("", ""))
        with self._entered(team, (*_begins(team).reading(), shown)) as tx:
            asked = (_OF_DIGEST, {"digest": digest})
            if principal:
                of_them = principal_question(team, principal), readable_question(team, principal)
                PostgresDialect().end_with(tx.connection, asked, *of_them)
            row = next(iter(named_rows(tx.connection, *asked)), None)
            if row is None:
                self._holders.pop(digest, None)
                yield None
                return
            if row.team != team:
                with driver_of(tx.connection) as driver:
                    driver.later(_BIND, {"team": row.team})
            if len(self._holders) > _MOST_HOLDERS:
                self._holders.clear()
            self._holders[digest] = row.team, row.principal
            yield TeamTransaction(tx.connection, row.team), read_key(row)

    @contextmanager
    def _entered(self, team: str, begins: tuple[Asked, ...]) -> Iterator[TeamTransaction]:
        with self.translated(), entered(self.engine, begins) as connection:
            yield TeamTransaction(connection, team)


def _begins(team: str) -> Beginnings:
    """What begins a transaction of a team, whose tables are on one machine, on a cluster as well."""
    return Beginnings(team, on_cluster=False)
