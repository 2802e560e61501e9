"""The embedded store in memory does what every store must, its vectors found by the index however few they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.storage.sqlite import vectors
from harken.storage.tables import metadata
from harken.testing.store_conformance import StoreConformance

# The store on a file runs the same lines.
pytestmark = pytest.mark.no_cover


@pytest.fixture(scope="module")
def kept_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all tests: making the tables takes longer than most of them."""
    store = open_store("sqlite://", Path(tmp_path_factory.mktemp("cache")))
    yield store
    store.close()


class TestSqliteMemory(StoreConformance):
    @pytest.fixture
    def store(self, kept_store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
        monkeypatch.setattr(vectors, "EXACT_UP_TO", 0)
        with kept_store.writing() as tx:
            for table in metadata.tables.values():
                tx.connection.execute(table.delete())
            tx.text.rebuild(tx.connection)
        kept_store.nearest.discard()
        return kept_store
