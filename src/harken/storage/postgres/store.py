"""The store on a PostgreSQL server: opening, transactions, signals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
from sqlalchemy import URL, Engine, text
from sqlalchemy.exc import DBAPIError

from harken.errors import StoreBusyError, StoreError, UsageError
from harken.log import Log
from harken.storage import migrations
from harken.storage.migrations import Migrated
from harken.storage.ports import Right, Transaction
from harken.storage.postgres import schema
from harken.storage.postgres.connection import (
    CONNECT_ARGUMENTS,
    WORK_CHANNEL,
    Beginnings,
    Statistics,
    asks_together,
    entered,
    is_cluster,
    make_engine,
    shown,
    translated,
)
from harken.storage.postgres.dialect import PostgresDialect
from harken.storage.postgres.fulltext import TsvectorIndex
from harken.storage.postgres.rights import check_functions, make_role
from harken.storage.postgres.vectors import PgvectorIndex
from harken.storage.state import INJECTIONS
from harken.storage.team.control import ControlTables

_LISTEN_SECONDS = 1.0
_RECONNECT_SECONDS = 3.0
_MIGRATION_ATTEMPTS, _MIGRATION_PAUSE_SECONDS = 40, 0.7
# A message is a row of each of the last two, often begins an exchange, and at times a conversation.
_RECORDED = ("conversations", "segments", "exchanges", "messages", "entries")

_DATABASE_SIZE = text("SELECT pg_database_size(current_database())")
# Tables without their indexes: the cluster asks each machine once for these, and for every table for the others.
_SHARDS_SIZE = text("SELECT coalesce(sum(size), 0) FROM citus_shard_sizes()")

_log = Log(__name__)


class PostgresStore:
    """A `Store` of one tenant on a PostgreSQL server.

    Args:
        url: of the database.
        tenant: whose rows.
        beside: a store of another tenant there, whose connections it shares; it was opened before, and is closed later.
    Raises:
        SchemaBehindError: the database was not made, or not upgraded, by `harken migrate`.
        SchemaError: it was upgraded to what this Harken cannot go on with.
        StoreError: the server cannot be reached, or refuses the login.
    """

    def __init__(self, url: URL, tenant: str, beside: PostgresStore | None = None) -> None:
        self.url = shown(url)
        self.tenant = tenant
        self._target = url
        self._is_shared = beside is not None
        self._engine: Engine = make_engine(url, begins=False) if beside is None else beside._engine
        self._translated = partial(translated, self.url)
        self.text = TsvectorIndex(tenant)
        self._on_cluster: bool
        self._dialect: PostgresDialect
        self._on_cluster, self._dialect = self._check() if beside is None else (beside._on_cluster, beside._dialect)
        self._begins = Beginnings(tenant, self._on_cluster)
        self._statistics = Statistics(self._engine, self._begins)
        self.nearest = PgvectorIndex(self._engine, tenant, self._translated, self._statistics, self.text)

    def _check(self) -> tuple[bool, PostgresDialect]:
        """See that these are tables that this Harken can go on with; whether it is a cluster, and what it asks."""
        try:
            with self._translated(), self._engine.connect() as connection:
                version = migrations.current_version(connection)
                serves_from = schema.serves_from(connection)
                found = is_cluster(connection), PostgresDialect(asks_together(connection))
            schema.check_version(self.url, version, serves_from)
        except BaseException:
            self._engine.dispose()
            raise
        return found

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
        reserved = _RECORDED if of and tuple(of) != INJECTIONS else ()
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

        False while a machine of a cluster does not answer, which may be that of other tenants; and of one that shares
        connections: it is work in the tables of all tenants, which no space of a team asks for by itself.
        """
        if self._is_shared:
            return False
        vacuum = f"VACUUM messages, entries, {schema.WORDS}, vectors"
        with self._translated(), self._engine.connect() as plain:
            try:
                plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(vacuum)
            except DBAPIError as error:
                if not self._on_cluster or error.connection_invalidated:
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
            f"A database on a server ({self.url}) is backed up there, by the login that owns its tables, for others see"
            " not all rows: pg_dump --format=custom --file=FILE OWNER'S-URL (and pg_restore)."
        )

    def size_bytes(self) -> int:
        """All tables with their indexes; of every tenant, and on every machine of a cluster that answers."""
        with self.reading() as tx:
            size = int(tx.connection.execute(_DATABASE_SIZE).scalar_one())
            return size + int(tx.connection.execute(_SHARDS_SIZE).scalar_one()) if self._on_cluster else size

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` whenever anyone commits work of this tenant, and once whenever listening begins."""
        return self.listen_to_all(lambda tenant: wake() if tenant in ("", self.tenant) else None)

    def listen_to_all(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call `heard` with a tenant whenever anyone commits work of it, and with "" whenever listening begins."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._listen, args=(heard, stopping), name="harken-listen", daemon=True)
        thread.start()

        def stop() -> None:
            stopping.set()
            thread.join(2 * _LISTEN_SECONDS)

        return stop

    def close(self) -> None:
        """Give every connection back; those that are another store's as well are left to it."""
        if not self._is_shared:
            self._engine.dispose()

    let_go = close

    def of_tenant(self, tenant: str) -> PostgresStore:
        """A store of another tenant that shares the connections of this one."""
        return PostgresStore(self._target, tenant, self)

    def control_tables(self) -> ControlTables:
        """The tables of teams."""
        return ControlTables(self._engine, self._translated)

    def _listen(self, heard: Callable[[str], None], stopping: threading.Event) -> None:
        # As SQLAlchemy reads the URL: of several hosts in its query the driver itself takes the last.
        named = {**self._engine.dialect.create_connect_args(self._target)[1], **CONNECT_ARGUMENTS}
        while not stopping.is_set():
            try:
                with psycopg.connect(autocommit=True, **named) as connection:
                    connection.execute(f"LISTEN {WORK_CHANNEL}")
                    # What was signalled before this connection stood was heard by nobody.
                    heard("")
                    while not stopping.is_set():
                        for signal in connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1):
                            heard(signal.payload)
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
        for attempts_left in reversed(range(_MIGRATION_ATTEMPTS)):
            try:
                with translated(shown(url)), engine.begin() as connection:
                    # Whoever waits for a table keeps others out of it. After a second the server looks who waits for
                    # each other, and might end a client's transaction instead of this one.
                    connection.exec_driver_sql("SET LOCAL lock_timeout = '500ms'")
                    before = migrations.current_version(connection)
                    return Migrated(before, migrations.HEAD, schema.migrate(connection, language, role, distribute))
            except StoreBusyError:
                if not attempts_left:
                    raise
                time.sleep(_MIGRATION_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")
    finally:
        engine.dispose()


def make_login(url: URL, role: str, password: str) -> bool:
    """Make a role that may log in, as who may make roles; False where there is one of that name.

    Raises:
        StoreError: the server cannot be reached, or refuses.
    """
    engine = make_engine(url)
    try:
        with translated(shown(url)), engine.begin() as connection:
            return make_role(connection, role, password)
    finally:
        engine.dispose()
