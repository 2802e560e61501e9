"""Opening and migrating a store: where it is, as a URL says it, which engine has it, and one view of it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from harken.errors import ConfigError, MissingExtraError, UsageError
from harken.storage.migrations import Migrated
from harken.storage.ports import EMBEDDED_TENANT, Readable, Store, Transaction

if TYPE_CHECKING:
    from concurrent.futures import Future

    from harken.storage.postgres.store import PostgresStore
    from harken.storage.sqlite.store import SqliteStore

SERVER_ENGINE = "postgresql"
# A local model needs a tenth of it; so long a search keeps its view of the store, for another one costs a millisecond.
_SOON_SECONDS = 0.05
_SERVER_NEEDED = "A team needs a store on a server: harken --store postgresql://USER@HOST/DATABASE …"

_Value = TypeVar("_Value")
_opened = WeakSet["SqliteStore | PostgresStore"]()
# So long a fork waits for a thread that writes; and what keeps others from beginning to.
_STILL_SECONDS = 5.0
_held: list[Any] = []


def _let_go() -> None:
    """Leave nothing open to a process that is forked: it would read its parent's answers, and SQLite damages a file.

    Nor any transaction under way, which SQLite would take for one of the new process's own that never ends.
    """
    for store in list(_opened):
        if (writers := getattr(store, "writers", None)) and writers.acquire(timeout=_STILL_SECONDS):
            _held.append(writers)
        store.let_go()


def _go_on() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_go, after_in_parent=_go_on, after_in_child=_go_on)


def parse_url(place: str) -> URL:
    """A store's URL.

    Raises:
        ConfigError: it is none, or names an engine that this Harken does not have.
    """
    usage = "Use sqlite:///PATH or postgresql://USER@HOST/DATABASE."
    try:
        url = make_url(place)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(f"store: what was given is no URL. {usage}") from error
    engine = url.get_backend_name()
    if engine not in ("sqlite", SERVER_ENGINE):
        raise ConfigError(f"store: there is no engine '{engine}'. {usage}")
    return url


def file_of(url: URL | None) -> Path | None:
    """The file that a URL of the embedded engine names; None for a store in memory."""
    database = None if url is None else url.database
    return Path(database) if database and database != ":memory:" else None


def open_store(place: str | Path, cache: Path, tenant: str = EMBEDDED_TENANT) -> Store:
    """Open a store; the embedded one is made and upgraded as needed, a server's must have been (`harken migrate`).

    Args:
        place: the embedded store's file, or a URL: `sqlite:///PATH`, `sqlite://` for one in memory, or
            `postgresql://USER@HOST/DATABASE`.
        cache: a folder for derived indexes; made when it is first needed.
        tenant: whose rows of a server's tables; the embedded store has one tenant.
    Raises:
        ConfigError: the URL is none, or names an engine that this Harken does not have.
        MissingExtraError: what the engine needs is not installed.
        StoreError: the database cannot be opened.
    """
    url = None if isinstance(place, Path) else parse_url(place)
    if url is not None and url.get_backend_name() == SERVER_ENGINE:
        return open_server(str(place), tenant)
    if tenant != EMBEDDED_TENANT:
        raise ConfigError(f"tenant: the embedded store has one tenant, '{EMBEDDED_TENANT}', not '{tenant}'.")
    from harken.storage.sqlite.store import SqliteStore

    store = SqliteStore(place if isinstance(place, Path) else file_of(url), cache)
    _opened.add(store)
    return store


def open_server(place: str | None, tenant: str) -> PostgresStore:
    """Open a store that has to be on a server, for a team.

    Raises:
        ConfigError: no URL is given, or it is no server's.
        MissingExtraError: what the engine needs is not installed.
        StoreError: the database cannot be opened.
    """
    url = None if place is None else parse_url(place)
    if url is None or url.get_backend_name() != SERVER_ENGINE:
        raise ConfigError(_SERVER_NEEDED)
    _need_driver()
    from harken.storage.postgres.store import PostgresStore

    store = PostgresStore(url, tenant)
    _opened.add(store)
    return store


def make_server_role(place: str, role: str, password: str) -> tuple[str, bool]:
    """Make a role that may log in to a server and do nothing else yet, after the tables; one of that name stays.

    Args:
        place: URL of the server's database, for a login that may make roles.
        role: its name.
        password: what it is to log in with.
    Returns:
        The URL for the role, without a password where that is not known; and whether it was made.
    Raises:
        ConfigError: the URL is no server's.
        StoreError: the server cannot be reached, or refuses.
    """
    url = parse_url(place)
    if url.get_backend_name() != SERVER_ENGINE:
        raise ConfigError(_SERVER_NEEDED)
    _need_driver()
    from harken.storage.postgres.store import make_login, migrate

    # Or a server that refuses the tables would be left with a role whose password nobody was told.
    migrate(url)
    is_new = make_login(url, role, password)
    # What the query says of who logs in stands before it.
    own = url.set(username=role, password=password if is_new else None).difference_update_query(("user", "password"))
    return own.render_as_string(hide_password=False), is_new


def migrate_store(
    place: str, tenant: str, cache: Path, language: str | None = None, role: str | None = None, distribute: bool = False
) -> Migrated:
    """Make or upgrade a store's schema; the embedded one is upgraded whenever it is opened.

    Args:
        place: as for `open_store`.
        tenant: likewise.
        cache: likewise.
        language: whose word forms a server's full text knows; None keeps what is there, English at first.
        role: who gets the rights to use a server's tables.
        distribute: spread a server's tables over the machines of its Citus cluster by tenant.
    Raises:
        UsageError: the embedded store has no such options, or the server no such language or role, or no Citus.
        StoreError: the database cannot be opened or changed.
    """
    url = parse_url(place)
    if url.get_backend_name() == SERVER_ENGINE:
        _need_driver()
        from harken.storage.postgres.store import migrate

        return migrate(url, language, role, distribute)
    if language or role or distribute:
        raise UsageError("Language, role and distribution are a server's matter; this store is an embedded file.")
    open_store(place, cache, tenant).close()
    from harken.storage.migrations import HEAD

    return Migrated(HEAD, HEAD)


def _need_driver() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("A store on PostgreSQL", "postgres")


class SharedTransaction:
    """A store whose readings are one transaction; of one thread, and closed by leaving it as a context.

    Where a reading fails, the transaction ends with it, and the next one begins another.
    """

    def __init__(self, store: Readable) -> None:
        self.text, self.nearest = store.text, store.nearest
        self._store = store
        self._open = ExitStack()
        self._transaction: Transaction | None = None

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The one view, begun by whoever first reads."""
        if self._transaction is None:
            self._transaction = self._open.enter_context(self._store.reading())
        try:
            yield self._transaction
        except BaseException as error:
            self._transaction = None
            # The store's own reading sees the error, and says it in our words.
            self._open.__exit__(type(error), error, error.__traceback__)
            raise

    def release(self) -> None:
        """End the view before something that takes long; whoever reads next begins another."""
        self._transaction = None
        self._open.close()

    def wait_for(self, asked: Future[_Value]) -> _Value:
        """What another thread makes; where that takes seconds, it is waited for without a view."""
        from concurrent.futures import wait

        if not wait([asked], _SOON_SECONDS).done:
            self.release()
        return asked.result()

    def __enter__(self) -> SharedTransaction:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()
