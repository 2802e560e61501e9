"""Opening and migrating a store: where it is, as a URL says it, and which engine has it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from harken.errors import ConfigError, MissingExtraError, UsageError
from harken.storage.migrations import Migrated
from harken.storage.ports import EMBEDDED_TENANT, Store

if TYPE_CHECKING:
    from harken.storage.postgres.store import PostgresStore

SERVER_ENGINE = "postgresql"
_SERVER_NEEDED = "A team needs a store on a server: harken --store postgresql://USER@HOST/DATABASE …"


def parse_url(place: str) -> URL:
    """A store's URL.

    Raises:
        ConfigError: it is none, or names an engine that this Harken does not have.
    """
    usage = "Use sqlite:///PATH or postgresql://USER@HOST/DATABASE."
    try:
        url = make_url(place)
    except ArgumentError as error:
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
        _need_driver()
        from harken.storage.postgres.store import PostgresStore

        return PostgresStore(url, tenant)
    if tenant != EMBEDDED_TENANT:
        raise ConfigError(f"tenant: the embedded store has one tenant, '{EMBEDDED_TENANT}', not '{tenant}'.")
    from harken.storage.sqlite.store import SqliteStore

    return SqliteStore(place if isinstance(place, Path) else file_of(url), cache)


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

    return PostgresStore(url, tenant)


def make_server_role(place: str, role: str, password: str) -> tuple[str, bool]:
    """Make a role that may log in to a server and do nothing else yet; one of that name stays as it is.

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
    from harken.storage.postgres.store import make_login

    is_new = make_login(url, role, password)
    own = url.set(username=role, password=password if is_new else None)
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
