"""Transactions of a server that begin with their first question and end with their last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import URL, bindparam, select
from sqlalchemy.exc import DBAPIError

from harken.errors import StoreError
from harken.storage.open import open_store
from harken.storage.ports import Question, Store, Transaction
from harken.storage.state import count_up, read_counters
from harken.storage.tables import counters
from round_trips import RoundTrips, counting

_VALUE = select(counters.c.value).where(
    counters.c.tenant == bindparam("of_tenant"), counters.c.name == bindparam("named")
)
_BROKEN = select(counters.c.value / bindparam("nought", 0)).where(counters.c.name == bindparam("named"))


@pytest.fixture
def trips(server_url: URL) -> Iterator[RoundTrips]:
    with counting(server_url) as trips:
        yield trips


@pytest.fixture
def store(trips: RoundTrips, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(trips.url.render_as_string(hide_password=False), tmp_path)) as store:
        with store.writing(of=["one"]) as tx:
            count_up(tx, {"herons": 3, "storks": 4})
        yield store


def value_of(tx: Transaction, name: str) -> Question:
    return _VALUE, {"of_tenant": tx.tenant, "named": name}


def test_who_asks_and_writes_nothing_waits_for_nothing(store: Store, trips: RoundTrips) -> None:
    with trips.counted() as told, store.reading():
        pass
    assert told == [0]


def test_what_was_foreseen_is_answered_together_and_what_was_not_is_asked(store: Store, trips: RoundTrips) -> None:
    with trips.counted() as told, store.reading() as tx:
        tx.dialect.foresee(tx.connection, value_of(tx, "herons"), value_of(tx, "geese"))
        tx.dialect.end_with(tx.connection, value_of(tx, "storks"))
        answers = [tx.dialect.bare_rows(tx.connection, *value_of(tx, name)) for name in ("storks", "herons", "geese")]
    assert (told, answers) == ([1], [[(4,)], [(3,)], []])


def test_what_is_asked_behind_the_end_is_of_the_same_tenant(store: Store, trips: RoundTrips) -> None:
    with store.reading() as tx:
        tx.dialect.end_with(tx.connection, value_of(tx, "storks"))
        assert tx.dialect.bare_rows(tx.connection, *value_of(tx, "storks")) == [(4,)]
        assert read_counters(tx, "her") == {"ons": 3}
        tenant = tx.connection.exec_driver_sql("SELECT current_setting('harken.tenant')").scalar()
    assert tenant == store.tenant


def test_a_writer_sees_what_it_wrote_after_it_had_asked(store: Store) -> None:
    with store.writing(of=["one"]) as tx:
        tx.dialect.foresee(tx.connection, value_of(tx, "herons"))
        assert tx.dialect.bare_rows(tx.connection, *value_of(tx, "herons")) == [(3,)]
        count_up(tx, {"herons": 1})
        assert tx.dialect.bare_rows(tx.connection, *value_of(tx, "herons")) == [(4,)]


def test_a_write_that_failed_where_somebody_made_light_of_it_is_told_at_the_end(store: Store) -> None:
    def write() -> None:
        with store.writing(of=["one"]) as tx:
            count_up(tx, {"herons": 1})
            with suppress(DBAPIError):
                tx.connection.execute(_BROKEN, {"named": "herons"}).all()

    with pytest.raises(StoreError):
        write()
    with store.reading() as tx:
        assert read_counters(tx, "herons") == {"": 3}


def test_a_write_that_fails_with_the_commit_is_told_and_undone(store: Store) -> None:
    row = {"tenant": store.tenant, "name": "herons", "value": 9}

    def write() -> None:
        with store.writing(of=["one"]) as tx:
            count_up(tx, {"storks": 1})
            tx.dialect.add_rows(tx.connection, counters, [row])

    with pytest.raises(StoreError, match="duplicate key"):
        write()
    with store.reading() as tx:
        assert read_counters(tx, "") == {"herons": 3, "storks": 4}
