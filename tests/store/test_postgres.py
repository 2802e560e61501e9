"""The store on a PostgreSQL server does what every store must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.testing.store_conformance import StoreConformance


class TestPostgres(StoreConformance):
    @pytest.fixture
    def store(self, server_url: URL, tmp_path: Path) -> Iterator[Store]:
        store = open_store(server_url.render_as_string(hide_password=False), tmp_path / "cache")
        yield store
        store.close()
