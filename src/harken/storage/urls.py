"""Where a store is, as a URL says it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from harken.errors import ConfigError

SERVER_ENGINE = "postgresql"


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
