"""The store on a PostgreSQL server does what every store must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.testing.store_conformance import StoreConformance


class TestPostgres(StoreConformance):
    @pytest.fixture
    def store(self, shared_database: str, tenant: str, tmp_path: Path) -> Iterator[Store]:
        store = open_store(shared_database, tmp_path / "cache", tenant)
        yield store
        store.close()
