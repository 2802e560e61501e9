"""Connections to PostgreSQL: pooled, bound to one tenant in every transaction, errors in our own words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy import URL, Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from harken.errors import SchemaError, StoreBusyError, StoreError, StoreFullError, StoreReadOnlyError

LOCK_TIMEOUT_SECONDS = 5
CONNECT_TIMEOUT_SECONDS = 5
WORK_CHANNEL = "harken_work"
# Locks live in the server's shared memory, whose size is fixed: who writes to more things locks the tenant whole.
_MOST_LOCKS = 64

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN"
# The tenant is the setting that row-level security reads; all of them hold for this transaction alone. Compiling a
# search takes longer than the search.
_SETTINGS = "; SET LOCAL harken.tenant = {tenant}; SET LOCAL lock_timeout = {patience}; SET LOCAL jit = off"
_ALONE = "; SELECT pg_advisory_xact_lock(hashtextextended('harken ' || {tenant}, 0))"
_BESIDE_OTHERS = "; SELECT pg_advisory_xact_lock_shared(hashtextextended('harken ' || {tenant}, 0))"
# In one order everywhere, so that two writers never wait for each other.
_EACH = (
    "; SELECT pg_advisory_xact_lock(key) FROM (SELECT DISTINCT hashtextextended({tenant} || ' ' || part, 0) AS key"
    " FROM unnest(CAST({parts} AS text[])) part ORDER BY 1) keys"
)

# Without values the driver sends the text as it is.
_SEVERAL = {"no_parameters": True}

_FULL = {"53100", "53200"}
_READ_ONLY = {"25006", "42501"}
_BUSY = {"55P03", "40P01", "40001", "53300"}
_NO_SUCH = {"42P01", "42703", "42883", "3F000"}


def make_engine(url: URL, begins: bool = True) -> Engine:
    """An engine with a pool; nothing is opened yet. The driver begins transactions, or else `entered` does."""
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        **({} if begins else {"isolation_level": "AUTOCOMMIT"}),
        pool_size=8,
        max_overflow=56,
        pool_timeout=30,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "harken"},
    )


def shown(url: URL) -> str:
    """The URL as it may be printed: without the password."""
    return url.render_as_string(hide_password=True)


def reading_begins(tenant: str) -> str:
    """What begins a transaction that reads as a tenant, in one message to the server."""
    return _filled(_READ + _SETTINGS, tenant)


def writing_begins(tenant: str, of: Sequence[str] | None) -> str:
    """What begins a transaction that writes, and locks what it writes to; the locks end with the transaction."""
    alone = of is None or len(of) > _MOST_LOCKS
    each = _EACH if of and not alone else ""
    return _filled(_WRITE + _SETTINGS + (_ALONE if alone else _BESIDE_OTHERS) + each, tenant, of or ())


@contextmanager
def entered(engine: Engine, begins: str) -> Iterator[Connection]:
    """A connection inside the transaction that a statement begins; committed at the end, or rolled back.

    The statement also finds out whether the server closed what the pool still holds; then a new connection is opened.
    """
    connection = engine.connect()
    try:
        try:
            connection.exec_driver_sql(begins, execution_options=_SEVERAL)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            connection.close()
            connection = engine.connect()
            connection.exec_driver_sql(begins, execution_options=_SEVERAL)
        yield connection
        connection.commit()
    finally:
        connection.close()


def _filled(statements: str, tenant: str, parts: Sequence[str] = ()) -> str:
    """With the values written out, as several statements in one message cannot have them apart."""
    values = {"tenant": tenant, "patience": f"{LOCK_TIMEOUT_SECONDS}s", "parts": list(parts)}
    return sql.SQL(statements).format(**{name: sql.Literal(value) for name, value in values.items()}).as_string(None)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn the driver's errors into ours, naming the place and the fix."""
    try:
        yield
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg.Error):
            raise
        raise _translate(error.orig, place) from error
    except psycopg.Error as error:
        raise _translate(error, place) from error
    except PoolTimeoutError as error:
        raise StoreBusyError(f"{place}: all connections of this process are in use. Try again.") from error


def _translate(error: psycopg.Error, place: str) -> StoreError:
    state = error.sqlstate or ""
    reason = _reason(error)
    if state in _BUSY:
        return StoreBusyError(f"{place} is busy: {reason}. Try again.")
    if state in _FULL:
        return StoreFullError(
            f"{place} cannot grow: {reason}. Free some space on the server; nothing acknowledged is lost."
        )
    if state in _READ_ONLY:
        return StoreReadOnlyError(
            f"{place} refuses to write: {reason}. Grant the role its rights: harken migrate --role NAME"
        )
    if state in _NO_SUCH:
        return SchemaError(
            f"{place} lacks a table, column or function: {reason}. Bring its schema up to date: harken migrate"
        )
    if state and not state.startswith(("08", "28", "3D", "57P")):
        return StoreError(f"{place}: {reason}")
    if "password" in reason or "authentication" in reason:
        return StoreError(f"{place} refuses the login: {reason}. Check user and password in the store's URL.")
    if "does not exist" in reason:
        return StoreError(f"{place}: {reason}. Create it (createdb), then: harken migrate")
    return StoreError(f"{place} cannot be reached: {reason}. Is the server running? Then run the command again.")


def _reason(error: psycopg.Error) -> str:
    """The server's own sentence without positions, queries and values, which may be somebody's words."""
    stated = error.diag.message_primary
    if stated:
        return stated.rstrip(".")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "FATAL:" in line), lines[0] if lines else type(error).__name__)
    return told.rpartition("FATAL:")[2].rpartition("failed: ")[2].strip().rstrip(".")


# A table is passed over while an index of it is made beside running writers, which takes minutes.
COUNT_AGAIN = "ANALYZE (SKIP_LOCKED) messages, entries, vectors, exchanges, conversations"
# So many rows are planned for well enough; so many times more than are expected, and some, are not.
_WELL_FORESEEN, _MANY_TIMES, _SOME = 1_000, 10, 200
# Counting may not help: a tenant may be too small beside the others to be seen.
_AGAIN_SECONDS = 60.0


class Statistics:
    """Has the server count its tables again where it takes the tenant for far smaller than it is.

    By itself it counts when a tenth of a table has changed. Where it expects a single row, every index that begins with
    the tenant seems as good as any other to it, and each of two tables is read whole for each row of the other.
    """

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant
        self._again_at: dict[str, float] = {}

    def refresh(self, table: str) -> None:
        """Compare what is expected of a table with what there is; quick, and seldom done for the same table.

        A role that may not have tables counted changes nothing.
        """
        now = time.monotonic()
        if now < self._again_at.get(table, now):
            return
        self._again_at[table] = now + _AGAIN_SECONDS
        rows = f"SELECT 1 FROM {table} WHERE tenant = :of_tenant"
        with entered(self._engine, reading_begins(self._tenant)) as connection:
            mine = {"of_tenant": self._tenant}
            planned = connection.execute(text(f"EXPLAIN (FORMAT JSON) {rows}"), mine).scalar_one()
            expected = int(planned[0]["Plan"]["Plan Rows"])
            if expected >= _WELL_FORESEEN:
                return
            most = _MANY_TIMES * expected + _SOME
            counted = text(f"SELECT count(*) FROM ({rows} LIMIT :most) found")
            if int(connection.execute(counted, {**mine, "most": most}).scalar_one()) < most:
                return
        with self._engine.connect() as plain:
            plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(COUNT_AGAIN)
