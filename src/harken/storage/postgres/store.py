"""The store on a PostgreSQL server: opening, transactions, signals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from harken.errors import SchemaError, StoreError, UsageError
from harken.log import Log
from harken.storage import migrations
from harken.storage.migrations import Migrated
from harken.storage.ports import Right, Transaction
from harken.storage.postgres import schema
from harken.storage.postgres.connection import (
    WORK_CHANNEL,
    Beginnings,
    Statistics,
    entered,
    is_cluster,
    make_engine,
    shown,
    translated,
)
from harken.storage.postgres.dialect import PostgresDialect
from harken.storage.postgres.fulltext import TsvectorIndex
from harken.storage.postgres.rights import check_functions
from harken.storage.postgres.vectors import PgvectorIndex

_LISTEN_SECONDS = 1.0
_RECONNECT_SECONDS = 3.0
# A message is a row of each of the last two, often begins an exchange, and at times a conversation.
_RECORDED = ("conversations", "segments", "exchanges", "messages", "entries")

_DATABASE_SIZE = text("SELECT pg_database_size(current_database())")
# Tables without their indexes: the cluster asks each machine once for these, and for every table for the others.
_SHARDS_SIZE = text("SELECT coalesce(sum(size), 0) FROM citus_shard_sizes()")

_log = Log(__name__)


class PostgresStore:
    """A `Store` of one tenant on a PostgreSQL server.

    Raises:
        SchemaError: the database was not made, or not upgraded, by `harken migrate`.
        StoreError: the server cannot be reached, or refuses the login.
    """

    def __init__(self, url: URL, tenant: str) -> None:
        self.url = shown(url)
        self.tenant = tenant
        self._target = url
        self._engine = make_engine(url, begins=False)
        self._translated = partial(translated, self.url)
        self._dialect = PostgresDialect()
        self.text = TsvectorIndex(tenant)
        try:
            with self._translated(), self._engine.connect() as connection:
                version = migrations.current_version(connection)
                self._begins = Beginnings(tenant, is_cluster(connection))
            if version is None:
                raise SchemaError(f"{self.url} has no tables of Harken yet. Make them: harken --store URL migrate")
            if version != migrations.HEAD:
                newer = version > migrations.HEAD
                fix = "pip install -U harken" if newer else "harken --store URL migrate"
                raise SchemaError(f"{self.url} has schema {version}, this Harken needs {migrations.HEAD}. Try: {fix}")
        except BaseException:
            self._engine.dispose()
            raise
        self._statistics = Statistics(self._engine, self._begins)
        self.nearest = PgvectorIndex(self._engine, tenant, self._translated, self._statistics)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A consistent view that writes nothing."""
        with self._translated(), entered(self._engine, self._begins.reading()) as connection:
            yield Transaction(connection, self.tenant, self.text, self._dialect)

    @contextmanager
    def writing(self, of: Sequence[str] | None = None) -> Iterator[Transaction]:
        """A transaction that has locked what it is to write."""
        # Who keeps everybody else out may have more to do than what is written here.
        begins, at_once = self._begins.writing(of), of is None
        reserved = _RECORDED if of else ()
        with self._translated(), entered(self._engine, begins, reserved, at_once) as connection:
            yield Transaction(connection, self.tenant, self.text, self._dialect)

    def rows_imported(self) -> None:
        """Many rows came: the server may have to learn of them before they are searched and summarized."""
        with self._translated():
            self._statistics.refresh("messages")

    def count_ahead(self) -> None:
        """No-op: counts are made when they are asked for."""

    def check(self) -> list[str]:
        """The server checks its own pages; here: whether it answers at all."""
        try:
            with self.reading() as tx:
                tx.connection.execute(text("SELECT 1"))
        except StoreError as error:
            return [str(error)]
        return []

    def mend(self) -> bool:
        """Nothing: that is a matter of the server's operator."""
        return False

    def check_rights(self, fix: bool = False) -> list[Right]:
        """Functions of ours that others may call than those who may use the tables."""
        with self.writing() as tx:
            return check_functions(tx.connection, fix)

    def scrub(self) -> bool:
        """Let the server free deleted rows; where the role may not, the server's own vacuum does it a little later.

        False while a machine of a cluster does not answer, which may be that of other tenants.
        """
        vacuum = f"VACUUM messages, entries, {schema.WORDS}, vectors"
        with self._translated(), self._engine.connect() as plain:
            try:
                plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(vacuum)
            except DBAPIError as error:
                if not self._begins.on_cluster or error.connection_invalidated:
                    raise
                _log.warning("not_scrubbed", error_class=type(error.orig).__name__)
                return False
        return True

    def backup(self, target: Path) -> None:
        """Refused: the server has better means.

        Raises:
            UsageError: always, naming them.
        """
        raise UsageError(
            f"A database on a server is backed up there: pg_dump --format=custom --file=FILE {self.url}"
            " (and pg_restore)."
        )

    def size_bytes(self) -> int:
        """All tables with their indexes; of every tenant, and on every machine of a cluster that answers."""
        with self.reading() as tx:
            size = int(tx.connection.execute(_DATABASE_SIZE).scalar_one())
            return size + int(tx.connection.execute(_SHARDS_SIZE).scalar_one()) if self._begins.on_cluster else size

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` whenever anyone commits work of this tenant, and once whenever listening begins."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._listen, args=(wake, stopping), name="harken-listen", daemon=True)
        thread.start()

        def stop() -> None:
            stopping.set()
            thread.join(2 * _LISTEN_SECONDS)

        return stop

    def close(self) -> None:
        """Give every connection back."""
        self._engine.dispose()

    def _listen(self, wake: Callable[[], None], stopping: threading.Event) -> None:
        conninfo = self._target.set(drivername="postgresql").render_as_string(hide_password=False)
        while not stopping.is_set():
            try:
                with psycopg.connect(conninfo, autocommit=True, application_name="harken") as connection:
                    connection.execute(f"LISTEN {WORK_CHANNEL}")
                    # What was signalled before this connection stood was heard by nobody.
                    wake()
                    while not stopping.is_set():
                        for signal in connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1):
                            if signal.payload == self.tenant:
                                wake()
            except psycopg.Error as error:
                # Whoever waits for a signal polls as well; a server that comes back is listened to again.
                _log.warning("listening_failed", error_class=type(error).__name__)
                with suppress(Exception):
                    stopping.wait(_RECONNECT_SECONDS)


def migrate(url: URL, language: str | None = None, role: str | None = None, distribute: bool = False) -> Migrated:
    """Make or upgrade the schema of a database, as the owner of its tables; see `migrate_store`.

    Raises:
        StoreError: the server cannot be reached, lacks pgvector, or refuses.
        UsageError: there is no such language or role.
    """
    engine = make_engine(url)
    try:
        with translated(shown(url)), engine.begin() as connection:
            before = migrations.current_version(connection)
            return Migrated(before, migrations.HEAD, schema.migrate(connection, language, role, distribute))
    finally:
        engine.dispose()
