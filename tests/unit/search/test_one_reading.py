"""One view of the store for several questions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.errors import StoreError
from harken.search.session import SharedTransaction
from harken.storage.sqlite.store import SqliteStore
from harken.storage.state import get_setting, set_setting


@pytest.fixture
def store(tmp_path: Path, empty_database: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(Path(shutil.copy(empty_database, tmp_path / "harken.db")), tmp_path / "cache")
    yield store
    store.close()


def put(store: SqliteStore, colour: str) -> None:
    with store.writing() as tx:
        set_setting(tx, "colour", colour)


def colour_in(view: SharedTransaction) -> object:
    with view.reading() as tx:
        return get_setting(tx, "colour")


def test_its_readings_see_the_store_as_the_first_one_did_until_it_is_released(store: SqliteStore) -> None:
    put(store, "green")
    with SharedTransaction(store) as view:
        assert colour_in(view) == "green"
        put(store, "red")
        assert colour_in(view) == "green"
        view.release()
        assert colour_in(view) == "red"
    assert (view.text, view.nearest) == (store.text, store.nearest)


def test_a_failure_is_told_in_our_words_and_the_next_reading_begins_anew(store: SqliteStore) -> None:
    put(store, "green")
    with SharedTransaction(store) as view:
        assert colour_in(view) == "green"
        put(store, "red")
        with pytest.raises(StoreError, match="no such table"), view.reading() as tx:
            tx.connection.exec_driver_sql("SELECT * FROM nowhere")
        assert colour_in(view) == "red"


def test_what_fails_outside_of_the_store_goes_through_as_it_is(store: SqliteStore) -> None:
    with SharedTransaction(store) as view:
        with pytest.raises(KeyError), view.reading():
            raise KeyError("colour")
        assert colour_in(view) is None


def test_its_transaction_ends_with_it(store: SqliteStore) -> None:
    with SharedTransaction(store) as view, view.reading() as tx:
        assert tx.connection.in_transaction()
    assert not tx.connection.in_transaction()
