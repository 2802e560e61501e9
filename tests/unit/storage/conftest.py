from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.storage.sqlite.store import SqliteStore


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Path:
    """A database file without a record."""
    return Path(shutil.copy(empty_database, tmp_path / "harken.db"))


@pytest.fixture
def store(database: Path) -> Iterator[SqliteStore]:
    """A store on it."""
    store = SqliteStore(database, database.parent / "cache")
    yield store
    store.close()


@pytest.fixture
def other(database: Path, store: SqliteStore) -> Iterator[SqliteStore]:
    """The same database as another process has it open."""
    other = SqliteStore(database, database.parent / "other-cache")
    yield other
    other.close()
