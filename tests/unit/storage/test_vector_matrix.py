"""What is held of the vectors is what the rows hold at that moment, whoever changed them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harken.model.conversations import SearchScope
from harken.storage.entries import row_scope
from harken.storage.ports import RowScope, StoredSpace, Transaction
from harken.storage.sqlite import vectors
from harken.storage.sqlite.store import SqliteStore
from harken.storage.sqlite.vectors import ScopedNearest
from harken.storage.vectors import delete_vectors
from harken.testing.store_conformance.asking import (
    DIMS,
    embed,
    entry_ids,
    keep,
    space_of,
    spoken_at_length,
    unit_vectors,
)

COUNT = 12
QUERY = unit_vectors(1, seed=5)[0]


class Conversation:
    """A conversation of twelve messages in one segment, none of which has a vector yet."""

    def __init__(self, store: SqliteStore, name: str = "long") -> None:
        self.talk = spoken_at_length(name, COUNT)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.space: StoredSpace = space_of(store)
        self.matrix = unit_vectors(COUNT)
        with store.reading() as tx:
            self.segment: RowScope = row_scope(tx, SearchScope(segment=self.talk.segment.uid))

    def embed(self, store: SqliteStore, *places: int) -> None:
        """Give some of them their vectors."""
        embed(store, self.space, [self.ids[place] for place in places], self.matrix[list(places)])

    def compared(self, tx: Transaction, store: SqliteStore, scope: RowScope, limit: int, *also: int) -> list[int]:
        """Those that a search for the nearest, and these besides, can compare, best first; by place."""
        near, told = store.nearest.compare(tx, self.space, QUERY, scope, limit, [self.ids[place] for place in also])
        for entry_id, similarity in told.items():
            assert similarity == pytest.approx(float(self.matrix[self.ids.index(entry_id)] @ QUERY), abs=0.002)
        assert list(told)[: len(near)] == list(near)
        return [self.ids.index(entry_id) for entry_id in told]

    def nearest(self, store: SqliteStore, scope: RowScope) -> list[int]:
        """All that a store finds, best first, by place."""
        with store.reading() as tx:
            return self.compared(tx, store, scope, COUNT)

    def by_similarity(self, *places: int) -> list[int]:
        """Places in the order in which a search finds them."""
        return sorted(places, key=lambda place: -float(self.matrix[place] @ QUERY))


@pytest.fixture(params=["all compared", "by the index", "without turbovec"])
def held(request: pytest.FixtureRequest, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """A store that compares in each of the ways."""
    if request.param == "by the index":
        monkeypatch.setattr(vectors, "EXACT_UP_TO", 0)
    if request.param == "without turbovec":
        monkeypatch.setattr(vectors, "EXACT_UP_TO", 0)
        store.nearest = ScopedNearest(None, with_index=False)
    return store


@pytest.mark.parametrize("limits", ["nothing", "conversation", "segment"])
def test_what_another_process_embeds_and_forgets_is_seen_at_once(
    held: SqliteStore, other: SqliteStore, limits: str
) -> None:
    talk = Conversation(held)
    inside = {"nothing": RowScope(), "conversation": replace(talk.segment, segment_id=None), "segment": talk.segment}
    scope = inside[limits]
    assert talk.nearest(held, scope) == []
    talk.embed(held, 0, 1, 2)
    assert talk.nearest(held, scope) == talk.by_similarity(0, 1, 2)
    talk.embed(other, 3, 4)
    assert talk.nearest(held, scope) == talk.by_similarity(0, 1, 2, 3, 4)
    with other.writing() as tx:
        delete_vectors(tx, talk.ids[1:3])
    assert talk.nearest(held, scope) == talk.by_similarity(0, 3, 4)
    # Embedded anew elsewhere: another vector of the same entry.
    talk.matrix[1] *= -1
    talk.embed(other, 1)
    assert talk.nearest(held, scope) == talk.by_similarity(0, 1, 3, 4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("MOST_BYTES", 5 * 4 * DIMS), ("_READ_AHEAD", 1), ("_READ_AHEAD", 3), ("_MOST_NEW", 1), ("_KEPT_SCOPES", 1)),
        *(("_SPARSE", 3), ("EXACT_UP_TO", 3)),
    ],
)
@pytest.mark.parametrize("narrowed", [True, False])
def test_no_limit_of_what_is_kept_changes_an_answer(
    held: SqliteStore, monkeypatch: pytest.MonkeyPatch, name: str, value: int, narrowed: bool
) -> None:
    monkeypatch.setattr(vectors, name, value)
    talks = [Conversation(held), Conversation(held, "other")]
    for place in range(0, COUNT, 2):
        for talk in talks:
            talk.embed(held, place, place + 1)
        for talk in talks:
            scope = talk.segment if narrowed else replace(talk.segment, segment_id=None)
            assert talk.nearest(held, scope) == talk.by_similarity(*range(place + 2))
        with held.reading() as tx:
            near = held.nearest.nearest(tx, talks[0].space, QUERY, RowScope(), 4 * COUNT)
        assert sorted(near) == sorted(entry_id for talk in talks for entry_id in talk.ids[: place + 2])


@pytest.mark.parametrize("scope", [RowScope(), RowScope(conversation_id=1)])
def test_a_view_of_the_store_does_not_see_what_was_embedded_after_it_began(
    held: SqliteStore, other: SqliteStore, scope: RowScope
) -> None:
    talk = Conversation(held)
    talk.embed(held, 0, 1)
    with held.reading() as earlier:
        assert talk.compared(earlier, held, scope, 3) == talk.by_similarity(0, 1)
        talk.embed(other, 2)
        assert talk.nearest(held, scope) == talk.by_similarity(0, 1, 2)
        assert talk.compared(earlier, held, scope, 3, *range(COUNT)) == talk.by_similarity(0, 1)
        with other.writing() as tx:
            delete_vectors(tx, talk.ids[:1])
        assert talk.nearest(held, scope) == talk.by_similarity(1, 2)
        assert talk.compared(earlier, held, scope, 3, *range(COUNT)) == talk.by_similarity(0, 1)
    assert talk.nearest(held, scope) == talk.by_similarity(1, 2)


def test_a_part_of_a_segment_is_not_taken_for_the_whole(held: SqliteStore) -> None:
    talk = Conversation(held)
    talk.embed(held, *range(COUNT))
    assert len(talk.nearest(held, talk.segment)) == COUNT
    with held.reading() as tx:
        answers = row_scope(tx, SearchScope(segment=talk.talk.segment.uid, roles=("assistant",)))
        later = row_scope(tx, SearchScope(segment=talk.talk.segment.uid, since=talk.talk.messages[5].created_at))
    assert talk.nearest(held, answers) == []
    assert talk.nearest(held, later) == talk.by_similarity(*range(5, COUNT))


def test_an_unembedded_segment_has_no_nearest(held: SqliteStore) -> None:
    talk = Conversation(held)
    assert talk.nearest(held, talk.segment) == []
    with held.reading() as tx:
        assert held.nearest.compare(tx, talk.space, np.asarray(QUERY), talk.segment, 5, talk.ids) == ({}, {})


def test_a_kept_index_is_found_again_by_a_store_that_is_opened_later(
    store: SqliteStore, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 0)
    monkeypatch.setattr("harken.storage.sqlite.vector_index._SAVE_FROM_ROWS", 1)
    talk = Conversation(store)
    talk.embed(store, *range(COUNT))
    found = talk.nearest(store, RowScope())
    store.nearest.build_index()
    assert len(list((database.parent / "cache").glob("*.tvim"))) == 1
    with closing(SqliteStore(database, database.parent / "cache")) as later:
        assert talk.nearest(later, RowScope()) == found == talk.by_similarity(*range(COUNT))
