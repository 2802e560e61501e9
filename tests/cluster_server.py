"""A Citus cluster for tests of a server, in place of the one server of `postgres_server`: `make test-cluster`."""

from __future__ import annotations

import itertools
import os
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from harken.engine import Harken
from harken.storage.postgres.store import migrate

# Opens a tenant of a database: URL, name, and an embedder if not one of its own.
Open = Callable[..., Harken]
TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "cluster.py"))
PLAIN, WORKERS = TOOL["PLAIN"], TOOL["WORKERS"]
_numbers = itertools.count(1)


class ClusterServer:
    """A running cluster, and a plain server beside it.

    Attributes:
        nodes: what starts and stops them.
        url: of its first database, as the superuser.
    """

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes
        self.url = make_url(nodes.url("postgres"))

    def of(self, database: str, user: str | None = None) -> URL:
        """The URL of a database."""
        url = self.url.set(database=database)
        return url if user is None else url.set(username=user)

    def execute(self, statement: str, database: str | None = None) -> list[Any]:
        """Run one statement as the superuser, outside of a transaction."""
        rows: list[Any] = self.nodes.execute(statement, database or "postgres")
        return rows

    @contextmanager
    def database(self, distributed: bool = True) -> Iterator[URL]:
        """A fresh database with Harken's schema, spread over the workers or not yet, dropped afterwards."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.nodes.create_database(name)
        try:
            migrate(self.of(name), distribute=distributed)
            yield self.of(name)
        finally:
            self.nodes.drop_database(name)

    @contextmanager
    def role(self, name: str, database: URL) -> Iterator[URL]:
        """A login with rights on the tables, which owns none of them, and is refused what asks more than one shard."""
        assert database.database is not None
        self.execute(f"CREATE ROLE {name} LOGIN", database.database)
        self.execute(f"ALTER ROLE {name} SET citus.multi_task_query_log_level = 'error'", database.database)
        migrate(database, role=name)
        try:
            yield database.set(username=name)
        finally:
            self.execute(f"DROP OWNED BY {name}", database.database)
            self.execute(f"DROP ROLE {name}", database.database)

    @contextmanager
    def plain_database(self, role: str) -> Iterator[URL]:
        """A database of the plain server with Harken's schema, as a login with rights on its tables."""
        url = make_url(self.nodes.url("postgres", node=PLAIN))
        self.nodes.execute("CREATE EXTENSION IF NOT EXISTS vector", node=PLAIN)
        self.nodes.execute(f"CREATE ROLE {role} LOGIN", node=PLAIN)
        migrate(url, role=role)
        yield url.set(username=role)


@contextmanager
def running_cluster() -> Iterator[ClusterServer]:
    """A cluster in a folder of its own, both gone afterwards; it was built before."""
    with TOOL["running_cluster"](TOOL["build"](Path())) as nodes:
        yield ClusterServer(nodes)
