"""SQLite connections as Harken needs them: WAL, explicit transactions, the functions that the schema uses."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

from harken.errors import StoreBusyError, StoreCorruptError, StoreError, StoreFullError, StoreReadOnlyError
from harken.storage.columns import day_in_words, spaced

BUSY_TIMEOUT_SECONDS = 5.0
# A writer goes on for longer: what it would record is lost to its caller when it gives up.
WRITER_TIMEOUT_SECONDS = 30.0
_STEP_SECONDS = 0.003
# The rest of an error's code says which kind of busy it is.
_PRIMARY_CODE = 0xFF


def make_engine(path: Path | None) -> Engine:
    """An engine on a file, or in memory, whose connections are prepared; nothing is opened yet."""
    in_memory = path is None
    engine = create_engine(
        # Not put together as text: a path may hold what means something in a URL.
        URL.create("sqlite", database=None if path is None else str(path)),
        poolclass=StaticPool if in_memory else QueuePool,
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_SECONDS},
        **({} if in_memory else {"pool_size": 8, "max_overflow": 56}),
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None
    connection.create_function("harken_words", 1, spaced, deterministic=True)
    connection.create_function("harken_day", 1, day_in_words, deterministic=True)
    for pragma in ("synchronous=NORMAL", "cache_size=-32768", "temp_store=MEMORY", "foreign_keys=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def begin(connection: Connection, to_write: bool) -> None:
    """Begin what SQLAlchemy has begun only in its own books; a writer holds the write lock from here on."""
    # Not by its "begin" event: one listener makes it announce every statement, which costs recording a tenth.
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - narrows the driver's type
    if to_write:
        wait_to_write(driver, "BEGIN IMMEDIATE")
    else:
        driver.execute("BEGIN")


def wait_to_write(driver: sqlite3.Connection, statement: str) -> None:
    """Execute what needs the write lock, as soon as no other has it.

    Raises:
        sqlite3.OperationalError: another has it for too long.
    """
    if not _in_short_steps(driver, lambda: _is_executed(driver, statement), WRITER_TIMEOUT_SECONDS):
        raise sqlite3.OperationalError("database is locked")


def rewrite(driver: sqlite3.Connection) -> bool:
    """Leave nothing deleted in the file and in its log; False where others prevented it for too long."""

    def emptied_log() -> bool:
        return not driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    steps = (lambda: _is_executed(driver, "VACUUM"), emptied_log)
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
        raise _translate(error, place) from error


def _translate(error: DBAPIError | sqlite3.Error, place: str) -> StoreError:
    original = error.orig if isinstance(error, DBAPIError) else error
    reason = str(original)
    if "locked" in reason or "busy" in reason:
        return StoreBusyError(f"{place} is locked by another process. Try again, or see who holds it: harken doctor")
    if "disk is full" in reason or "disk I/O error" in reason:
        return StoreFullError(f"{place} cannot grow: {reason}. Free some space; nothing that was acknowledged is lost.")
    if "readonly" in reason or "read-only" in reason or "unable to open" in reason:
        return StoreReadOnlyError(
            f"{place} cannot be written: {reason}. Make it and its folder writable, or choose another home: "
            "harken --home PATH, or HARKEN_HOME"
        )
    if "malformed" in reason or "not a database" in reason or "corrupt" in reason:
        return StoreCorruptError(
            f"{place} is damaged: {reason}. Rebuild it from the journal: harken reindex --from-journal"
        )
    return StoreError(f"{place}: {reason}")
