"""Connections to PostgreSQL: pooled, bound to one tenant in every transaction, errors in our own words."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from harken.config.settings import without_password
from harken.errors import SchemaError, StoreBusyError, StoreError, StoreFullError, StoreReadOnlyError
from harken.storage.postgres.pipeline import Asked, PipelinedConnection

LOCK_TIMEOUT_SECONDS = 5
# A machine that is gone closes no connection: whoever asked it waited for a quarter of an hour.
_GONE: dict[str, Any] = {"tcp_user_timeout": 20_000, "keepalives_idle": 10, "keepalives_interval": 5}
CONNECT_ARGUMENTS = {"application_name": "harken", "client_encoding": "UTF8", "connect_timeout": 5, **_GONE}
WORK_CHANNEL = "harken_work"
# Locks live in the server's shared memory, whose size is fixed: who writes to more things locks the tenant whole.
_MOST_LOCKS = 64
_ASK = "SELECT 1"

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
# The tenant is the setting that row-level security reads; all of them hold for this transaction alone. Compiling a
# search takes longer than the search.
_SETTINGS = (
    "SELECT set_config('harken.tenant', %(tenant)s, true), set_config('lock_timeout', %(patience)s, true),"
    " set_config('jit', 'off', true)"
)
# A cluster hands on to its workers, which have the rows, what SET LOCAL says, where it is told to; never `set_config`.
_HAND_ON = "SET LOCAL citus.propagate_set_commands = 'local'"
_TENANT = "hashtextextended('harken ' || CAST(%(tenant)s AS text), 0)"
_ALONE = f"SELECT pg_advisory_xact_lock({_TENANT})"
_BESIDE_OTHERS = f"SELECT pg_advisory_xact_lock_shared({_TENANT})"
# In one order everywhere, so that two writers never wait for each other.
_EACH = (
    "SELECT pg_advisory_xact_lock(key) FROM"
    " (SELECT DISTINCT hashtextextended(CAST(%(tenant)s AS text) || ' ' || part, 0) AS key"
    " FROM unnest(CAST(%(parts)s AS text[])) part ORDER BY 1) keys"
)

_FULL = {"53100", "53200"}
_BUSY = {"55P03", "40P01", "40001", "53300"}
_NO_SUCH = {"42P01", "42703", "42704", "42883", "3F000"}
_LOOK_INTO = "Have logins look into pgvector's schema as well: ALTER DATABASE … SET search_path = public, SCHEMA"

# It tells of a connection that is lost in a whole traceback, beside the line that we tell of it.
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())


def make_engine(url: URL, begins: bool = True) -> Engine:
    """An engine with a pool; nothing is opened yet. The driver begins transactions, or else `entered` does."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        **({} if begins else {"isolation_level": "AUTOCOMMIT"}),
        pool_size=8,
        max_overflow=56,
        pool_timeout=30,
        connect_args=CONNECT_ARGUMENTS,
        hide_parameters=True,
    )
    event.listen(engine, "do_connect", _connected)
    return engine


def _connected(_dialect: Any, _record: Any, arguments: Any, options: Any) -> PipelinedConnection:
    return PipelinedConnection.connect(*arguments, **options)


def shown(url: URL) -> str:
    """The URL as it may be printed: without the password."""
    return without_password(url.render_as_string(hide_password=True))


@dataclass(frozen=True, slots=True)
class Beginnings:
    """What begins transactions of a tenant.

    Attributes:
        on_cluster: whether the server spreads tables over others (Citus).
    """

    tenant: str
    on_cluster: bool

    def reading(self) -> tuple[Asked, ...]:
        """Of one that reads."""
        return (_READ, None), *self._settings()

    def writing(self, of: Sequence[str] | None) -> tuple[Asked, ...]:
        """Of one that writes, and locks what it writes to; the locks end with the transaction."""
        alone = of is None or len(of) > _MOST_LOCKS
        named = {"tenant": self.tenant}
        each: tuple[Asked, ...] = ((_EACH, {**named, "parts": list(of)}),) if of and not alone else ()
        return (_WRITE, None), *self._settings(), (_ALONE if alone else _BESIDE_OTHERS, named), *each

    def _settings(self) -> tuple[Asked, ...]:
        patience = f"{LOCK_TIMEOUT_SECONDS}s"
        if not self.on_cluster:
            return ((_SETTINGS, {"tenant": self.tenant, "patience": patience}),)
        # Each a message of its own: the cluster hands on the whole text of the message that a SET stands in.
        named = {"harken.tenant": self.tenant, "lock_timeout": patience, "jit": "off"}
        return (_HAND_ON, None), *((set_local(name, value), None) for name, value in named.items())


def set_local(name: str, value: str) -> str:
    """The statement that sets something for this transaction, on every machine of a cluster that takes part in it."""
    return f"SET LOCAL {name} = {sql.Literal(value).as_string()}"


def is_cluster(connection: Connection) -> bool:
    """Whether the server has Citus, whether tables of ours are spread by it or not yet."""
    return bool(connection.execute(text("SELECT count(*) FROM pg_extension WHERE extname = 'citus'")).scalar())


def asks_together(connection: Connection) -> bool:
    """Whether the server is a cluster that this login may ask several questions as one, since the last migration."""
    asked = "SELECT has_function_privilege(to_regprocedure('harken_asked(text, text[], text, text[])'), 'EXECUTE')"
    return is_cluster(connection) and bool(connection.execute(text(asked)).scalar())


@contextmanager
def entered(
    engine: Engine, begins: Sequence[Asked], reserved: Sequence[str] = (), at_once: bool = False
) -> Iterator[Connection]:
    """A connection inside the transaction that statements begin; committed at the end, or rolled back.

    They are sent with the first question, unless it is to begin `at_once`, or the server may have closed what the pool
    still holds: that is found out first, and then a new connection is opened. See `PipelinedConnection.begin`.
    """
    connection = engine.connect()
    try:
        driver = _begun(connection, begins, reserved)
        if at_once or driver.may_be_lost:
            try:
                connection.exec_driver_sql(_ASK)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                connection.close()
                connection = engine.connect()
                driver = _begun(connection, begins, reserved)
                connection.exec_driver_sql(_ASK)
        yield connection
        with driver_of(connection):
            driver.finish()
    finally:
        connection.close()


def _begun(connection: Connection, begins: Sequence[Asked], reserved: Sequence[str]) -> PipelinedConnection:
    with driver_of(connection) as driver:
        driver.begin(begins, reserved)
        return driver


@contextmanager
def driver_of(connection: Connection) -> Iterator[PipelinedConnection]:
    """The driver's own connection; one that is lost meanwhile is given up, or the pool would hand it out again."""
    driver: Any = connection.connection.driver_connection
    try:
        yield driver
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise


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
        return StoreFullError(f"{place} cannot grow: {reason}. Free space on the server; nothing acknowledged is lost.")
    if state == "25006":
        return StoreReadOnlyError(f"{place} may only be read: {reason}. Name the primary in the store's URL.")
    if state == "42501":
        return StoreReadOnlyError(
            f"{place} refuses to write: {reason}. It takes the tables' owner, for a new login one who may make roles;"
            " a login that is there gets its rights from the owner: harken --store OWNER'S-URL migrate --role NAME"
        )
    if state in _NO_SUCH:
        fix = _LOOK_INTO if "vec" in reason and state != "42P01" else "Bring its schema up to date: harken migrate"
        return SchemaError(f"{place} lacks a table, column or function: {reason}. {fix}")
    if state and not state.startswith(("08", "28", "3D", "57P")):
        return StoreError(f"{place}: {reason}")
    if "too many" in reason or "connection slots" in reason:
        return StoreBusyError(f"{place} is busy: {reason}. Raise max_connections there, or try again.")
    if "password" in reason or "authentication" in reason or reason.startswith(("role ", "no pg_hba")):
        return StoreError(f"{place} refuses the login: {reason}. Check user and password in the store's URL.")
    if "does not exist" in reason:
        return StoreError(f"{place}: {reason}. Create it (createdb), then: harken migrate")
    return StoreError(f"{place} cannot be reached: {reason}. Is the server running? Then run the command again.")


def _reason(error: psycopg.Error) -> str:
    """The server's own sentence without positions, queries and values, which may be somebody's words."""
    stated = error.diag.message_primary
    if stated:
        # What a machine of a cluster says of another has a second line, of advice.
        return stated.splitlines()[0].rstrip(".")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "FATAL:" in line), lines[0] if lines else type(error).__name__)
    return told.rpartition("FATAL:")[2].rpartition("failed: ")[2].strip().rstrip(".")


# A database has it since its last `harken migrate`.
_MAY_COUNT = text("SELECT to_regprocedure('harken_count_again(text)') IS NOT NULL")
_COUNT_AGAIN = text("SELECT harken_count_again(:of_tenant)")
# Before that, the tables' owner alone has them counted.
_COUNT_AS_OWNER = text("ANALYZE (SKIP_LOCKED) messages, entries, vectors, exchanges, conversations")
# So many rows are planned for well enough; so many times more than are expected, and some, are not.
_WELL_FORESEEN, _MANY_TIMES, _SOME = 1_000, 10, 200
# Counting may not help: a tenant may be too small beside the others to be seen.
_AGAIN_SECONDS = 60.0


class Statistics:
    """Has the server count its tables again where it takes the tenant for far smaller than it is.

    By itself it counts when a tenth of a table has changed. Where it expects a single row, every index that begins with
    the tenant seems as good as any other to it, and each of two tables is read whole for each row of the other. Of a
    cluster the machine that has the tenant counts its part.
    """

    def __init__(self, engine: Engine, begins: Beginnings) -> None:
        self._engine = engine
        self._begins = begins
        self._again_at: dict[str, float] = {}

    def refresh(self, table: str) -> None:
        """Compare what is expected of a table with what there is; quick, and seldom done for the same table."""
        now = time.monotonic()
        if now < self._again_at.get(table, now):
            return
        self._again_at[table] = now + _AGAIN_SECONDS
        rows = f"SELECT 1 FROM {table} WHERE tenant = :of_tenant"
        with entered(self._engine, self._begins.reading()) as connection:
            mine = {"of_tenant": self._begins.tenant}
            planned = connection.execute(text(f"EXPLAIN (FORMAT JSON) {rows}"), mine).scalar_one()
            expected = _rows_planned(planned)
            if expected >= _WELL_FORESEEN:
                return
            most = _MANY_TIMES * expected + _SOME
            counted = text(f"SELECT count(*) FROM ({rows} LIMIT :most) found")
            if int(connection.execute(counted, {**mine, "most": most}).scalar_one()) < most:
                return
        self.count()

    def count(self) -> None:
        """Have them counted, whoever owns the tables."""
        with entered(self._engine, self._begins.reading()) as connection:
            if connection.execute(_MAY_COUNT).scalar():
                connection.execute(_COUNT_AGAIN, {"of_tenant": self._begins.tenant})
            elif not self._begins.on_cluster:
                connection.execute(_COUNT_AS_OWNER)


def _rows_planned(plan: Any) -> int:
    """The rows that an EXPLAIN expects; of a cluster what its machine does, which stands deeper than its own plan."""
    parts = plan.values() if isinstance(plan, dict) else plan
    inside = [_rows_planned(part) for part in parts if isinstance(part, dict | list)]
    return max(inside, default=0) or (int(plan.get("Plan Rows", 0)) if isinstance(plan, dict) else 0)
