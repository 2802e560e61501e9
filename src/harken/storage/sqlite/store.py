"""The store on one SQLite file or in memory: connections, transactions, statements that SQLite spells alone."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from sqlalchemy import URL, Text, bindparam, create_engine, event, func, select, text
from sqlalchemy.dialects.sqlite import dialect, insert
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from harken.errors import StoreBusyError, StoreCorruptError, StoreError, StoreFullError, StoreReadOnlyError
from harken.files import make_private
from harken.storage import migrations
from harken.storage.ports import AMONG, Question, Right, RowCount, Transaction, Values
from harken.storage.sqlite import counts, fulltext, indexed
from harken.storage.sqlite.fulltext import Fts5Index
from harken.storage.state import recount
from harken.storage.statements import bare, bare_each, compiled, placed_insertion
from harken.storage.tables import REPAIR
from harken.text.words import as_indexed, day_in_words

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ClauseElement, ColumnElement, Connection, Engine, FromClause, Insert, Table

    from harken.storage.sqlite.vectors import ScopedNearest

BUSY_TIMEOUT_SECONDS = 5.0
# A writer goes on for longer: what it would record is lost to its caller when it gives up.
WRITER_TIMEOUT_SECONDS = 30.0
_FUNCTION = "user-defined function"
_STOPPED = threading.Event()  # one of them, by Ctrl-C, which comes in the main thread alone
_STEP_SECONDS = 0.001
# So many connections stay open without a transaction, beside one of the pool's.
_MOST_IDLE = 8
# Pages in memory a connection: with more, searches and imports take as long. The log: docs/adr/0003.
_PRAGMAS = "synchronous=NORMAL", "cache_size=-8192", "temp_store=MEMORY", "foreign_keys=OFF", "wal_autocheckpoint=4000"
# The rest of an error's code says which kind of busy it is.
_PRIMARY_CODE = 0xFF
_COMPILER, _BY_PLACE = dialect(paramstyle="named"), dialect(paramstyle="qmark")
REBUILD = "Rebuild it from the journal: harken reindex --from-journal"
_DAMAGE = ("malformed", "not a database", "corrupt", "no such table", "no such column", "fts5", "vtable constructor")
_ANOTHER_HOME = "Make it and its folder writable, or choose another home: harken --home PATH, or HARKEN_HOME"


@dataclass(frozen=True, slots=True)
class SqliteDialect:
    """A `Dialect` of SQLite."""

    is_remote: ClassVar[bool] = False

    def of_tenant(self, table: FromClause, tenant: str | BindParameter[str]) -> tuple[ColumnElement[bool], ...]:
        """None: no index has the tenant, which all rows have, so that every row would be read for it."""
        return ()

    def among(self, column: ColumnElement[Any], name: str = AMONG) -> ColumnElement[bool]:
        """By one bound list."""
        listed = func.json_each(bindparam(name, type_=Text)).table_valued("value")
        return column.in_(select(listed.c.value))

    def listing(self, values: Sequence[Any]) -> str:
        """As JSON."""
        return json.dumps(list(values))

    def bare_rows(self, connection: Connection, statement: ClauseElement, values: Values) -> Sequence[Sequence[Any]]:
        """Without what SQLAlchemy does for each execution."""
        made = compiled(statement, _COMPILER)
        return bare(connection, made.text, {**made.fixed, **values})

    def execute_each(self, connection: Connection, statement: ClauseElement, values: Sequence[Values]) -> None:
        """By the driver's `executemany`."""
        if values:
            made = compiled(statement, _COMPILER, tuple(values[0]))
            bare_each(connection, made.text, map(made.bound, values))

    def add_rows(self, connection: Connection, table: Table, rows: Sequence[Values]) -> Sequence[int]:
        """Likewise, with the ids that SQLite would take: nobody else makes rows while this transaction writes."""
        if not rows:
            return ()
        placed = placed_insertion(table, tuple(rows[0]), _BY_PLACE)
        if len(rows) == 1:
            return (_driver_of(connection).execute(placed.text, placed.bound(None, rows[0])).lastrowid or 0,)
        is_kept = table.dialect_options["sqlite"]["autoincrement"]
        newest = f"SELECT seq FROM sqlite_sequence WHERE name = '{table.name}'"
        found = bare(connection, newest if is_kept else f"SELECT max(id) FROM {table.name}")
        first = 1 + (found[0][0] or 0 if found else 0)
        bare_each(connection, placed.text, map(placed.bound, count(first), rows))
        return range(first, first + len(rows))

    def foresee(self, connection: Connection, *questions: Question) -> None:
        """No-op: a question is answered in this process."""

    def end_with(self, connection: Connection, *questions: Question) -> None:
        """No-op."""

    def kept_counts(self, connection: Connection) -> Mapping[RowCount, int]:
        """See `harken.storage.sqlite.counts`."""
        return counts.kept_counts(_driver_of(connection))[0]

    def keep_counts(self, connection: Connection, counted: Mapping[RowCount, int]) -> None:
        """With tables and triggers, whatever has become of them."""
        counts.prepare_counts(_driver_of(connection), counted)

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
        self.writers = threading.RLock()
        self._idle, self._most_idle = list["Connection"](), _MOST_IDLE
        self._place = str(self.path or "The store in memory")
        self.is_read_only = path is not None and _is_read_only(path)
        if path is not None:
            try:
                make_private(path.parent)
            except OSError as error:
                raise StoreReadOnlyError(f"{path.parent} cannot be made: {error.strerror}. {_ANOTHER_HOME}") from error
        self._engine = _make_engine(path, self.is_read_only)
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
        with self._turn, self._damage_told(), translated(self._place), self._begun(to_write=False) as tx:
            yield tx

    @contextmanager
    def writing(self, of: Sequence[str] | None = None) -> Iterator[Transaction]:
        """A transaction that holds the write lock from its start; there is one lock for everything."""
        if self.is_read_only:
            raise StoreReadOnlyError(f"{self._place} cannot be written: it may only be read. {_ANOTHER_HOME}")
        with self._turn, self._damage_told(), translated(self._place), self._own_turn(), self._begun(True) as tx:
            yield tx

    @contextmanager
    def _begun(self, to_write: bool) -> Iterator[Transaction]:
        """A transaction on one of the open connections: to take one from the pool takes a twelfth of a record."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
        is_sound = False
        try:
            with connection.begin():
                _begin(connection, to_write)
                yield Transaction(connection, self.tenant, self.text, self._dialect)
            is_sound = True
        finally:
            if is_sound and len(self._idle) < self._most_idle:
                self._idle.append(connection)
            else:
                if not self._most_idle and not connection.closed:
                    # The store was closed meanwhile, and what pooled its connections let go.
                    connection.detach()
                connection.close()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """Let one thread of this process after another ask for the write lock: whoever is next wakes at once."""
        writers = self.writers
        try:
            # In here, for Ctrl-C often comes right behind the wait: nobody would write any more.
            if not writers.acquire(timeout=WRITER_TIMEOUT_SECONDS):
                raise sqlite3.OperationalError("database is locked")
            yield
        finally:
            with suppress(RuntimeError):
                writers.release()

    def rows_imported(self) -> None:
        """Count them: SQLite needs no ANALYZE after bulk inserts."""
        self.count_ahead()

    def count_ahead(self) -> None:
        """Move the row up to which counts are kept; see `harken.storage.sqlite.counts`."""
        if self.is_read_only:
            return
        with self._turn, translated(self._place), self._driver() as driver:
            found, uncounted = counts.kept_counts(driver)
            is_complete = counts.has_pairs(found)
            if is_complete and uncounted <= counts.MOST_UNCOUNTED:
                return
            begun = partial(_is_executed, driver, "BEGIN IMMEDIATE")
            if is_complete and _in_short_steps(driver, begun, patience_seconds=0):
                counts.keep_counts(driver, counts.kept_counts(driver)[0])
                driver.execute("COMMIT")
        if not is_complete:
            # An older Harken did not count summaries.
            with self.writing() as tx:
                recount(tx)

    def check(self) -> list[str]:
        """What SQLite's own integrity check finds, ten lines at most."""
        try:
            with self.reading() as tx:
                rows = tx.connection.exec_driver_sql("PRAGMA integrity_check(10)").scalars().all()
        except StoreCorruptError as error:
            return [str(error)]
        # From 3.44 on SQLite looks into the full text as well, which is the text index's own matter.
        return [f"The database is damaged: {row}" for row in rows if row != "ok" and indexed.INDEX not in row]

    def mend(self) -> bool:
        """Make the indexes anew from the rows; whether all is well then."""
        try:
            with self.writing() as tx:
                tx.connection.exec_driver_sql("REINDEX")
        except StoreError:
            return False
        return not self.check()

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
            return _rewrite(driver)

    def backup(self, target: Path) -> None:
        """Copy the database page by page while others use it."""
        with self._turn, translated(self._place), self._driver() as driver, closing(sqlite3.connect(target)) as copy:
            driver.backup(copy)

    def size_bytes(self) -> int:
        """The database file and its write-ahead log."""
        files = (self.path, self.path.with_name(self.path.name + "-wal")) if self.path else ()
        return sum(file.stat().st_size for file in files if file.exists())

    def listen(self, wake: Callable[[], None]) -> None:
        """No-op: an embedded store has nobody who could pass a signal on."""

    def close(self) -> None:
        """Keep what was derived, give every connection back; those that other threads use as soon as they are done."""
        if "nearest" in vars(self):
            self.nearest.save()
        self._most_idle = 0
        self.let_go()
        self._engine.dispose()

    def let_go(self) -> None:
        """Give idle connections to a file back; others are opened when they are needed."""
        while self._idle:
            self._idle.pop().close()
        if self.path is not None:
            self._engine.dispose()

    def _prepare(self) -> None:
        if self.path is not None and not self.is_read_only:
            self._enable_wal()
        with self._engine.begin() as connection:
            version = migrations.current_version(connection)
        if version == migrations.HEAD:
            return
        with self.writing() as tx:
            # Another process may have done it while this one waited for the lock.
            version = migrations.current_version(tx.connection)
            if version is None:
                migrations.upgrade(tx.connection)
                for statement in fulltext.SCHEMA:
                    tx.connection.exec_driver_sql(statement)
                recount(tx)
                origin = {"tenant": self.tenant, "origin": f'"{secrets.token_hex(6)}"'}
                named = "INSERT INTO settings (tenant, name, value) VALUES (:tenant, 'store.origin', :origin)"
                tx.connection.execute(text(named), origin)
            elif version != migrations.HEAD:
                migrations.upgrade(tx.connection)
                self.text.renew(tx.connection)
                recount(tx)

    def _enable_wal(self) -> None:
        try:
            with self._driver() as driver:
                if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    # Another process may be making the same database.
                    _wait_to_write(driver, "PRAGMA journal_mode=WAL")
            Path(self._place).chmod(0o600)
        except (OSError, DBAPIError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            raise StoreReadOnlyError(f"{self._place} cannot be written: {reason}. {_ANOTHER_HOME}") from error

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        """Tell of damage where something else came of it."""
        try:
            yield
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            if problems := self.check():
                raise StoreCorruptError(f"{problems[0]}. {REBUILD}") from error
            raise

    @contextmanager
    def _driver(self) -> Iterator[sqlite3.Connection]:
        """A connection without SQLAlchemy, outside of any transaction."""
        with closing(self._engine.raw_connection()) as raw:
            driver: Any = raw.driver_connection
            yield driver


def _is_read_only(path: Path) -> bool:
    """Whether a database is there, and may be read and not written: on a read-only disk, or another user's."""
    # In this order, for another process may be making it.
    return os.access(path, os.R_OK) and not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK))


def _make_engine(path: Path | None, is_read_only: bool) -> Engine:
    """An engine on a file, or in memory, whose connections are prepared; nothing is opened yet."""
    # Not put together as text: a path may hold what means something in a URL.
    url = URL.create("sqlite", database=None if path is None else str(path))
    if path is not None and is_read_only:
        # Reading a write-ahead log takes a file beside it; where neither is there, nobody can be writing either.
        log = path.with_name(f"{path.name}-wal")
        how = {"mode": "ro"} if log.exists() and log.stat().st_size else {"immutable": "1"}
        url = URL.create("sqlite", database=f"file:{quote(str(path))}", query={**how, "uri": "true"})
    engine = create_engine(
        url,
        poolclass=StaticPool if path is None else QueuePool,
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_SECONDS},
        **({} if path is None else {"pool_size": 1, "max_overflow": 63}),
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "handle_error", _survive_ctrl_c)
    return engine


def _prepare(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None
    for name, function in (("harken_words", as_indexed), ("harken_day", day_in_words)):
        answers = _answers(function)
        next(answers)
        connection.create_function(name, 1, answers.send, deterministic=True)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _answers(function: Callable[[Any], str]) -> Generator[Any, Any, None]:
    """Answer SQL and note Ctrl-C, also that before a call: SQLite knows only that it failed, as by what is no value."""
    answer: Any = None
    while True:
        try:
            answer = function((yield answer))
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the next call is answered again
            answer = _STOPPED
            if isinstance(error, KeyboardInterrupt):
                _STOPPED.set()


def _survive_ctrl_c(context: ExceptionContext) -> None:
    """Have a transaction that Ctrl-C stops rolled back like any other.

    SQLAlchemy would close its connection: a store in memory would be gone, and on a file the statement, which the
    traceback holds, would keep the write lock.
    """
    context.is_disconnect = False


def _driver_of(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the driver's type
    return driver


def _begin(connection: Connection, to_write: bool) -> None:
    """Begin what SQLAlchemy has begun only in its own books; a writer holds the write lock from here on."""
    # Not by its "begin" event: one listener makes it announce every statement, which costs recording a tenth.
    driver = _driver_of(connection)
    if to_write:
        _wait_to_write(driver, "BEGIN IMMEDIATE")
    else:
        driver.execute("BEGIN")


def _wait_to_write(driver: sqlite3.Connection, statement: str) -> None:
    """Execute what needs the write lock once no other has it; raise OperationalError where one has it for too long."""
    if not _in_short_steps(driver, lambda: _is_executed(driver, statement), WRITER_TIMEOUT_SECONDS):
        raise sqlite3.OperationalError("database is locked")


def _rewrite(driver: sqlite3.Connection) -> bool:
    """Leave nothing deleted in the file and in its log; False where others prevented it for too long."""
    steps = (
        lambda: _is_executed(driver, "VACUUM"),
        lambda: not driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0],
    )
    return all(_in_short_steps(driver, step, BUSY_TIMEOUT_SECONDS) for step in steps)


def _in_short_steps(driver: sqlite3.Connection, attempt: Callable[[], bool], patience_seconds: float) -> bool:
    """Try something until it succeeds or the patience ends; whether it did.

    SQLite itself looks only ten times a second, so that of several who write without a pause one may never see the lock
    free; and where it suspects a deadlock it does not wait at all.
    """
    deadline = time.monotonic() + patience_seconds
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while not attempt():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_STEP_SECONDS)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_SECONDS * 1000)}")
    return True


def _is_executed(driver: sqlite3.Connection, statement: str) -> bool:
    """Execute it, unless another holds a lock that it needs; whether it was."""
    try:
        driver.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & _PRIMARY_CODE not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    return True


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn the driver's errors into ours, naming the place and the fix."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        if _FUNCTION in str(error) and _STOPPED.is_set():
            _STOPPED.clear()
            raise KeyboardInterrupt from error
        raise _translate(error, place) from error


def _translate(error: DBAPIError | sqlite3.Error, place: str) -> StoreError:
    reason = str(error.orig if isinstance(error, DBAPIError) else error)
    if "locked" in reason or "busy" in reason:
        return StoreBusyError(f"{place} is locked by another process. Try again, or see who holds it: harken doctor")
    if "disk is full" in reason or "disk I/O error" in reason:
        return StoreFullError(f"{place} cannot grow: {reason}. Free some space; nothing that was acknowledged is lost.")
    if "readonly" in reason or "read-only" in reason or "unable to open" in reason:
        return StoreReadOnlyError(f"{place} cannot be written: {reason}. {_ANOTHER_HOME}")
    if "decode to UTF-8" in reason or _FUNCTION in reason:
        # The reason would quote what somebody said.
        return StoreCorruptError(f"{place} is damaged: a text in it is none. {REPAIR}")
    if any(sign in reason for sign in _DAMAGE):
        return StoreCorruptError(f"{place} is damaged: {reason}. {REBUILD}")
    return StoreError(f"{place}: {reason}")
