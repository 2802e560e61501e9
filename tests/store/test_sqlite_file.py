"""The embedded store on a file does what every store must."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.testing.store_conformance import StoreConformance


class TestSqliteFile(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path, empty_database: Path) -> Iterator[Store]:
        store = open_store(Path(shutil.copy(empty_database, tmp_path / "harken.db")), tmp_path / "cache")
        yield store
        store.close()
