from __future__ import annotations

import pytest

from harken.storage.ports import RowScope, StoredSpace, Transaction
from harken.storage.sqlite import known_vectors
from harken.storage.sqlite.store import SqliteStore
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
    """A conversation of twelve messages, none of which has a vector yet."""

    def __init__(self, store: SqliteStore) -> None:
        talk = spoken_at_length("long", COUNT)
        keep(store, talk)
        self.ids = entry_ids(store, talk.messages)
        self.space: StoredSpace = space_of(store)
        self.matrix = unit_vectors(COUNT)

    def embed(self, store: SqliteStore, *places: int) -> None:
        """Give some of them their vectors."""
        embed(store, self.space, [self.ids[place] for place in places], self.matrix[list(places)])

    def compared(self, tx: Transaction, store: SqliteStore, *also: int) -> list[int]:
        """Those that a search for the nearest three, and these besides, can compare; by place."""
        scope = RowScope(conversation_id=1)
        asked = [self.ids[place] for place in also]
        _, told = store.nearest.compare(tx, self.space, QUERY, scope, 3, asked)
        for entry_id, similarity in told.items():
            assert similarity == pytest.approx(float(self.matrix[self.ids.index(entry_id)] @ QUERY), abs=0.002)
        return sorted(map(self.ids.index, told))

    def nearest(self, store: SqliteStore) -> list[int]:
        """All that a store finds, by place."""
        with store.reading() as tx:
            return self.compared(tx, store, *range(COUNT))


def test_what_another_process_embeds_and_forgets_is_seen_at_once(store: SqliteStore, other: SqliteStore) -> None:
    talk = Conversation(store)
    assert talk.nearest(store) == []
    talk.embed(store, 0, 1, 2)
    assert talk.nearest(store) == [0, 1, 2]
    talk.embed(other, 3, 4)
    assert talk.nearest(store) == [0, 1, 2, 3, 4]
    with other.writing() as tx:
        delete_vectors(tx, talk.ids[1:3])
    assert talk.nearest(store) == [0, 3, 4]
    # Embedded anew elsewhere: another vector of the same entry.
    talk.matrix[1] *= -1
    talk.embed(other, 1)
    assert talk.nearest(store) == [0, 1, 3, 4]


@pytest.mark.parametrize(("name", "value"), [("MOST_BYTES", 5 * 2 * DIMS), ("_READ_AHEAD", 1), ("_READ_AHEAD", 3)])
def test_no_limit_of_what_is_kept_changes_an_answer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(known_vectors, name, value)
    talk = Conversation(store)
    for place in range(0, COUNT, 2):
        talk.embed(store, place, place + 1)
        assert talk.nearest(store) == list(range(place + 2))


def test_a_view_of_the_store_does_not_see_what_was_embedded_after_it_began(
    store: SqliteStore, other: SqliteStore
) -> None:
    talk = Conversation(store)
    talk.embed(store, 0, 1)
    with store.reading() as earlier:
        assert talk.compared(earlier, store) == [0, 1]
        talk.embed(other, 2)
        assert talk.nearest(store) == [0, 1, 2]
        assert talk.compared(earlier, store, *range(COUNT)) == [0, 1]
        with other.writing() as tx:
            delete_vectors(tx, talk.ids[:1])
        assert talk.nearest(store) == [1, 2]
        assert talk.compared(earlier, store, *range(COUNT)) == [0, 1]
    assert talk.nearest(store) == [1, 2]
