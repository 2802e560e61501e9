from __future__ import annotations

import numpy as np
import pytest

from harken.model.conversations import SearchScope
from harken.storage.ports import RowScope, StoredSpace
from harken.storage.scopes import row_scope
from harken.storage.sqlite import segment_vectors
from harken.storage.sqlite.store import SqliteStore
from harken.storage.vectors import delete_vectors
from harken.testing.store_conformance.asking import embed, entry_ids, keep, space_of, spoken_at_length, unit_vectors

COUNT = 8
QUERY = unit_vectors(1, seed=5)[0]


class Segment:
    """A segment of eight messages that all have a vector."""

    def __init__(self, store: SqliteStore, name: str = "long") -> None:
        self.talk = spoken_at_length(name, COUNT)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.space: StoredSpace = space_of(store)
        self.matrix = unit_vectors(COUNT)
        with store.reading() as tx:
            self.scope: RowScope = row_scope(tx, SearchScope(segment=self.talk.segment.uid))

    def nearest(self, store: SqliteStore) -> list[int]:
        """Those that a store finds, best first."""
        with store.reading() as tx:
            return list(store.nearest.nearest(tx, self.space, QUERY, self.scope, COUNT))

    def expected(self, *places: int) -> list[int]:
        """The same by comparing with each."""
        return [self.ids[place] for place in sorted(places, key=lambda place: -float(self.matrix[place] @ QUERY))]


def test_what_another_process_embeds_and_forgets_is_seen_at_once(store: SqliteStore, other: SqliteStore) -> None:
    segment = Segment(store)
    embed(store, segment.space, segment.ids[:4], segment.matrix[:4])
    assert segment.nearest(store) == segment.expected(0, 1, 2, 3)
    embed(other, segment.space, segment.ids[4:], segment.matrix[4:])
    assert segment.nearest(store) == segment.expected(*range(COUNT))
    with other.writing() as tx:
        delete_vectors(tx, segment.ids[2:4])
    assert segment.nearest(store) == segment.expected(0, 1, 4, 5, 6, 7)
    # Embedded anew elsewhere: another vector of the same entry.
    embed(other, segment.space, segment.ids[2:3], -segment.matrix[2:3])
    segment.matrix[2] *= -1
    assert segment.nearest(store) == segment.expected(0, 1, 2, 4, 5, 6, 7)


@pytest.mark.parametrize(("name", "value"), [("MOST_VECTORS", 3), ("_MOST_NEW", 1), ("_KEPT_SEGMENTS", 1)])
def test_no_limit_of_what_is_kept_changes_an_answer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(segment_vectors, name, value)
    segments = [Segment(store), Segment(store, "other")]
    for place in range(0, COUNT, 2):
        for segment in segments:
            embed(store, segment.space, segment.ids[place : place + 2], segment.matrix[place : place + 2])
        for segment in segments:
            assert segment.nearest(store) == segment.expected(*range(place + 2))


def test_a_part_of_a_segment_is_not_taken_for_the_whole(store: SqliteStore) -> None:
    segment = Segment(store)
    embed(store, segment.space, segment.ids, segment.matrix)
    assert len(segment.nearest(store)) == COUNT
    with store.reading() as tx:
        answers = row_scope(tx, SearchScope(segment=segment.talk.segment.uid, roles=("assistant",)))
        assert store.nearest.nearest(tx, segment.space, QUERY, answers, COUNT) == {}
        later = row_scope(tx, SearchScope(segment=segment.talk.segment.uid, since=segment.talk.messages[5].created_at))
        assert sorted(store.nearest.nearest(tx, segment.space, QUERY, later, COUNT)) == segment.ids[5:]


def test_an_unembedded_segment_has_no_nearest(store: SqliteStore) -> None:
    segment = Segment(store)
    assert segment.nearest(store) == []
    with store.reading() as tx:
        assert store.nearest.compare(tx, segment.space, np.asarray(QUERY), segment.scope, 5, segment.ids) == ({}, {})
