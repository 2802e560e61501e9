"""What every store must do, as tests that a backend inherits by overriding one fixture.

    # tests/store/conftest.py
    pytest.register_assert_rewrite("harken.testing.store_conformance")

    # tests/store/test_my_store.py
    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            ...  # an empty store, closed afterwards

Needs pytest, so nothing that Harken imports by itself imports it.
Source: the shape is that of Haystack's `testing/document_store.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harken.storage.ports import Store
from harken.testing.store_conformance.embedded import VectorTests
from harken.testing.store_conformance.full_text import FullTextTests
from harken.testing.store_conformance.looking import LookingTests
from harken.testing.store_conformance.marking import MarkTests
from harken.testing.store_conformance.recording import RecordingTests
from harken.testing.store_conformance.scoping import ScopeTests
from harken.testing.store_conformance.summarizing import SummaryTests
from harken.testing.store_conformance.transactions import TransactionTests
from harken.testing.store_conformance.working import WorkTests

__all__ = ["StoreConformance"]


class StoreConformance(
    TransactionTests,
    RecordingTests,
    FullTextTests,
    ScopeTests,
    VectorTests,
    WorkTests,
    SummaryTests,
    LookingTests,
    MarkTests,
):
    """Every test of a store; a subclass whose name begins with `Test` runs them on its own."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """An empty store of the backend under test, closed afterwards."""
        raise NotImplementedError("override the fixture `store` so that it gives an empty store")
