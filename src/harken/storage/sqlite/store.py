"""The store on one SQLite file or in memory: opening, transactions, statements that SQLite spells in its own way."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, FromClause, Insert, Select, Table, Text, bindparam, func, select, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError

from harken.errors import StoreCorruptError, StoreReadOnlyError
from harken.files import make_private
from harken.storage import migrations
from harken.storage.columns import AMONG
from harken.storage.ports import Right, Transaction
from harken.storage.sqlite import fulltext
from harken.storage.sqlite.connection import begin, make_engine, rewrite, translated, wait_to_write
from harken.storage.sqlite.fulltext import Fts5Index

if TYPE_CHECKING:
    from harken.storage.sqlite.vectors import ScopedNearest


@dataclass(frozen=True, slots=True)
class SqliteDialect:
    """A `Dialect` of SQLite."""

    def of_tenant(self, table: FromClause, tenant: str) -> tuple[ColumnElement[bool], ...]:
        """None: no index has the tenant, which all rows have, so that every row would be read for it."""
        return ()

    def among(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """By one bound list."""
        listed = func.json_each(bindparam(AMONG, type_=Text)).table_valued("value")
        return column.in_(select(listed.c.value))

    def listing(self, values: Sequence[Any]) -> str:
        """As JSON."""
        return json.dumps(list(values))

    def bare_rows(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """As they are read: there is no server between to be quick for."""
        return connection.execute(statement, values).all()

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """By one bound list: a parameter for each value takes half as long again among some hundred."""
        listed = func.json_each(bindparam(None, json.dumps(list(values)), type_=Text)).table_valued("value")
        return column.in_(select(listed.c.value))

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert rows, or change those that have their keys."""
        statement = insert(table).values(rows)
        if changes is None:
            return statement.on_conflict_do_nothing(index_elements=list(key))
        return statement.on_conflict_do_update(index_elements=list(key), set_=dict(changes), where=where)


_ANOTHER_HOME = "Make it and its folder writable, or choose another home: harken --home PATH, or HARKEN_HOME"


class SqliteStore:
    """A `Store` on one SQLite file, or in memory where there is none."""

    def __init__(self, path: Path | None, cache: Path) -> None:
        self.url = "sqlite://" if path is None else f"sqlite:///{path}"
        self.tenant = "local"
        self.path = path
        self.text = Fts5Index()
        self._cache = cache
        self._dialect = SqliteDialect()
        # One connection serves a store in memory, so its transactions take turns.
        self._turn = threading.RLock() if self.path is None else nullcontext()
        self._place = str(self.path or "The store in memory")
        if self.path is not None:
            self._make_folder(self.path.parent)
        self._engine = make_engine(self.path)
        try:
            with translated(self._place):
                self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    @cached_property
    def nearest(self) -> ScopedNearest:
        """The index of nearest vectors; numpy is imported with it, which a store that is only counted needs not."""
        from harken.storage.sqlite.vectors import ScopedNearest

        return ScopedNearest(None if self.path is None else self._cache)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A consistent view that writes nothing."""
        with self._turn, translated(self._place), self._engine.begin() as connection:
            begin(connection, to_write=False)
            yield Transaction(connection, self.tenant, self.text, self._dialect)

    @contextmanager
    def writing(self, of: Sequence[str] | None = None) -> Iterator[Transaction]:
        """A transaction that holds the write lock from its start; there is one lock for everything."""
        with self._turn, translated(self._place), self._engine.begin() as connection:
            begin(connection, to_write=True)
            yield Transaction(connection, self.tenant, self.text, self._dialect)

    def rows_imported(self) -> None:
        """No-op: SQLite needs no ANALYZE after bulk inserts."""

    def check(self) -> list[str]:
        """What SQLite's own integrity check finds, ten lines at most."""
        try:
            with self.reading() as tx:
                rows = tx.connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
        except StoreCorruptError as error:
            return [str(error)]
        # From 3.44 on SQLite looks into the full text as well, which is the text index's own matter.
        return [f"The database is damaged: {row}" for row in rows if row != "ok" and fulltext.INDEX not in row]

    def check_rights(self, fix: bool = False) -> list[Right]:
        """None: the file's own mode guards it."""
        return []

    def scrub(self) -> bool:
        """Rewrite the file and empty the write-ahead log, so that no deleted text is left in free pages."""
        with self.writing() as tx:
            self.text.optimize(tx.connection)
        if self.path is None:
            return True
        with self._turn, translated(self._place), self._driver() as driver:
            return rewrite(driver)

    def backup(self, target: Path) -> None:
        """Copy the database page by page while others use it."""
        with self._turn, translated(self._place), self._driver() as driver, closing(sqlite3.connect(target)) as copy:
            driver.backup(copy)

    def size_bytes(self) -> int:
        """The database file and its write-ahead log."""
        if self.path is None:
            return 0
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def listen(self, wake: Callable[[], None]) -> None:
        """No-op: an embedded store has nobody who could pass a signal on."""

    def close(self) -> None:
        """Keep what was derived, give every connection back."""
        if "nearest" in vars(self):
            self.nearest.save()
        self._engine.dispose()

    def _make_folder(self, folder: Path) -> None:
        try:
            make_private(folder)
        except OSError as error:
            raise StoreReadOnlyError(f"{folder} cannot be made: {error.strerror}. {_ANOTHER_HOME}") from error

    def _prepare(self) -> None:
        if self.path is not None:
            self._enable_wal()
        with self._engine.begin() as connection:
            version = migrations.current_version(connection)
        if version == migrations.HEAD:
            return
        with self.writing() as tx:
            # Another process may have done it while this one waited for the lock.
            version = migrations.current_version(tx.connection)
            if version is None:
                self._create(tx.connection)
            elif version != migrations.HEAD:
                migrations.upgrade(tx.connection)
                self.text.renew(tx.connection)

    def _enable_wal(self) -> None:
        try:
            with self._driver() as driver:
                if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    # Another process may be making the same database.
                    wait_to_write(driver, "PRAGMA journal_mode=WAL")
            if self.path is not None:
                self.path.chmod(0o600)
        except (OSError, DBAPIError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            raise StoreReadOnlyError(f"{self._place} cannot be written: {reason}. {_ANOTHER_HOME}") from error

    @contextmanager
    def _driver(self) -> Iterator[sqlite3.Connection]:
        """A connection without SQLAlchemy, outside of any transaction."""
        raw = self._engine.raw_connection()
        try:
            driver = raw.driver_connection
            assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the driver's type
            yield driver
        finally:
            raw.close()

    def _create(self, connection: Connection) -> None:
        migrations.upgrade(connection)
        for statement in fulltext.SCHEMA:
            connection.exec_driver_sql(statement)
        connection.execute(
            text("INSERT INTO settings (tenant, name, value) VALUES (:tenant, 'store.origin', :origin)"),
            {"tenant": self.tenant, "origin": f'"{secrets.token_hex(6)}"'},
        )
