"""What a search says while not everything is embedded, and that saying it is cheap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harken.jobs.embed import EmbedWork
from harken.model.conversations import Role
from harken.record.recorder import NewMessage
from harken.search.session import GO_ON, Coverage
from harken.storage.enrichment.jobs import claim_unembedded, fail, put_blocked_reason, put_enabled
from harken.storage.ports import StoredSpace, Transaction
from harken.storage.vectors import EMBED, ensure_space
from harken.testing import HashingEmbedder
from recorded import LONG, RecordedHome


def say(place: RecordedHome, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        place.record("c", NewMessage(Role.USER, f"Number {number}: {LONG}"))


def space_of(place: RecordedHome, embedder: HashingEmbedder) -> StoredSpace:
    with place.store.writing() as tx:
        return ensure_space(tx, embedder.space.id, embedder.space.dims, embedder.space.threshold, {})


def embed(place: RecordedHome, count: int) -> None:
    embedder = HashingEmbedder()
    EmbedWork(place.store, embedder, space_of(place, embedder), count, 60, place.clock).run_once()


@contextmanager
def noting(tx: Transaction, asked: list[str]) -> Iterator[None]:
    """Add what the database is asked meanwhile."""
    driver: Any = tx.connection.connection.driver_connection
    driver.set_trace_callback(asked.append)
    try:
        yield
    finally:
        driver.set_trace_callback(None)


def notes(place: RecordedHome, coverage: Coverage | None = None) -> list[str]:
    with place.store.reading() as tx:
        return (coverage or Coverage()).notes(tx, place.clock())


def test_the_share_is_said_until_everything_is_embedded(place: RecordedHome) -> None:
    say(place, 40)
    embed(place, 1)
    assert notes(place) == [f"2 % embedded; the rest is found by words alone. Go on: {GO_ON}"]
    embed(place, 38)
    assert notes(place) == [f"97 % embedded; the rest is found by words alone. Go on: {GO_ON}"]
    embed(place, 1)
    assert notes(place) == []


def test_less_than_a_percent_is_not_none(place: RecordedHome) -> None:
    say(place, 120)
    embed(place, 1)
    assert notes(place)[0].startswith("Under 1 % embedded; ")


def test_a_batch_in_hand_is_no_news_and_more_goes_on_in_the_background(place: RecordedHome) -> None:
    say(place, 130)
    space = space_of(place, HashingEmbedder())
    with place.store.writing() as tx:
        claim_unembedded(tx, space, "somebody", 100, place.clock(), 60)
    assert notes(place)[0].endswith("Embedding goes on in the background.")
    embed(place, 30)
    assert notes(place) == []
    place.clock.go_on(seconds=61)
    assert notes(place)[0].endswith(GO_ON)


def test_what_was_given_up_is_waited_for_by_nobody(place: RecordedHome) -> None:
    say(place, 3)
    embed(place, 1)
    space = space_of(place, HashingEmbedder())
    assert notes(place)[0].startswith("33 % embedded")
    for _ in range(14):
        with place.store.writing() as tx:
            claimed = claim_unembedded(tx, space, "somebody", 1, place.clock(), 60)
            fail(tx, EMBED, [item.entry_id for item in claimed], "EndpointError", place.clock())
        place.clock.go_on(seconds=60)
    assert notes(place) == []


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("off", f"Embedding is switched off. Go on: harken embeddings on, and then: {GO_ON}"),
        ("halted", "Embedding stands still: no answer"),
    ],
)
def test_why_nothing_goes_on_is_said(place: RecordedHome, why: str, said: str) -> None:
    say(place, 2)
    embed(place, 1)
    with place.store.writing() as tx:
        if why == "off":
            put_enabled(tx, EMBED, False)
        else:
            put_blocked_reason(tx, EMBED, "no answer")
    assert notes(place)[0].endswith(said)


def test_everything_is_counted_once_for_many_searches_and_never_where_all_is_embedded(place: RecordedHome) -> None:
    say(place, 20)
    embed(place, 5)
    asked: list[str] = []
    coverage = Coverage()
    with place.store.reading() as tx, noting(tx, asked):
        for _ in range(10):
            assert coverage.notes(tx, place.clock())
        assert sum("IS NOT NULL" in statement and "LIMIT" not in statement for statement in asked) <= 1
        assert len(asked) >= 10
    embed(place, 15)
    asked.clear()
    with place.store.reading() as tx, noting(tx, asked):
        assert coverage.notes(tx, place.clock()) == []
    assert len(asked) == 1
