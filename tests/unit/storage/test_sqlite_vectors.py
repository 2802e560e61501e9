from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harken.model.conversations import ProjectIdentity, Role
from harken.storage.open import open_store
from harken.storage.ports import RowScope, Store, StoredSpace
from harken.storage.sqlite import vectors
from harken.testing.store_conformance.asking import embed, entry_ids, keep, space_of, unit_vectors
from harken.testing.talk import START, Talk

COUNT = 60


class Town:
    """Sixty entries with vectors: every tenth is of the house, every second by the agent."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.matrix = unit_vectors(COUNT)
        talks = [Talk("house", ProjectIdentity("k:house", "house")), Talk("nowhere")]
        messages = [
            talks[0 if number % 10 == 0 else 1].say(f"text {number}", (Role.USER, Role.ASSISTANT)[number % 2], at=START)
            for number in range(COUNT)
        ]
        keep(store, *talks)
        self.ids = entry_ids(store, messages)
        self.space: StoredSpace = space_of(store)
        embed(store, self.space, self.ids, self.matrix)

    def nearest(self, query: np.ndarray, scope: RowScope, limit: int = 5) -> dict[int, float]:  # type: ignore[type-arg]
        """As a search asks."""
        with self.store.reading() as tx:
            return self.store.nearest.nearest(tx, self.space, query, scope, limit)

    def expected(self, query: np.ndarray, inside: list[int], limit: int = 5) -> list[int]:  # type: ignore[type-arg]
        """The same by comparing with each."""
        order = sorted(inside, key=lambda number: -float(self.matrix[number] @ query))
        return [self.ids[number] for number in order[:limit]]


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    store = open_store("sqlite://", tmp_path / "cache")
    yield Town(store)
    store.close()


EVERYTHING = list(range(COUNT))
SCOPES = {
    "everywhere": (RowScope(), EVERYTHING),
    "a source": (RowScope(sources=("message",)), EVERYTHING),
    "a role": (RowScope(roles=("assistant",)), EVERYTHING[1::2]),
    "a project": (RowScope(project_id=1), EVERYTHING[::10]),
    "a conversation": (RowScope(conversation_id=1), EVERYTHING[::10]),
    "nothing": (RowScope(roles=("system",)), []),
}


@pytest.mark.parametrize("exact_up_to", [4000, 1], ids=["all compared", "by the index"])
@pytest.mark.parametrize("name", SCOPES)
class TestNearest:
    def test_the_nearest_of_a_scope_are_found_with_their_similarity(
        self, town: Town, monkeypatch: pytest.MonkeyPatch, name: str, exact_up_to: int
    ) -> None:
        monkeypatch.setattr(vectors, "EXACT_UP_TO", exact_up_to)
        scope, inside = SCOPES[name]
        for query in unit_vectors(4, seed=5):
            found = town.nearest(query, scope)
            assert list(found) == town.expected(query, inside)
            for entry_id, similarity in found.items():
                exact = float(town.matrix[town.ids.index(entry_id)] @ query)
                assert similarity == pytest.approx(exact, abs=0.002)


class TestSparseScopes:
    """A scope that is a small part of the store, all of it far from the query."""

    @pytest.fixture
    def far(self, town: Town) -> np.ndarray:  # type: ignore[type-arg]
        """A query to which every entry of the house is farther than any other."""
        outside = [number for number in EVERYTHING if number % 10]
        return np.asarray(town.matrix[outside].mean(axis=0) - 3 * town.matrix[::10].mean(axis=0), dtype=np.float32)

    def test_it_is_widened_until_enough_are_inside(
        self,
        town: Town,
        far: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,  # type: ignore[type-arg]
    ) -> None:
        monkeypatch.setattr(vectors, "EXACT_UP_TO", 1)
        monkeypatch.setattr(vectors, "_OVER_FETCH", 2)
        assert list(town.nearest(far, RowScope(project_id=1), 3)) == town.expected(far, EVERYTHING[::10], 3)

    def test_where_it_would_be_widened_too_far_the_scope_is_scanned(
        self,
        town: Town,
        far: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,  # type: ignore[type-arg]
    ) -> None:
        monkeypatch.setattr(vectors, "EXACT_UP_TO", 1)
        monkeypatch.setattr(vectors, "_OVER_FETCH", 2)
        monkeypatch.setattr(vectors, "_WIDEST", 8)
        assert list(town.nearest(far, RowScope(project_id=1), 3)) == town.expected(far, EVERYTHING[::10], 3)

    def test_where_that_is_too_much_as_well_the_nearest_seen_are_given(
        self,
        town: Town,
        far: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,  # type: ignore[type-arg]
    ) -> None:
        for name, value in (("EXACT_UP_TO", 1), ("_OVER_FETCH", 2), ("_WIDEST", 8), ("_SPARSE", 1)):
            monkeypatch.setattr(vectors, name, value)
        assert list(town.nearest(far, RowScope(project_id=1), 3)) == []


def test_similarities_of_given_entries_are_exact_beside_the_nearest(town: Town) -> None:
    query = unit_vectors(1, seed=5)[0]
    with town.store.reading() as tx:
        near, told = town.store.nearest.compare(tx, town.space, query, RowScope(), 3, [*town.ids[:9], 99_999])
        assert town.store.nearest.compare(tx, town.space, query, RowScope(), 3, []) == (near, near)
    assert near == town.nearest(query, RowScope(), 3)
    named = {entry_id: similarity for entry_id, similarity in told.items() if entry_id in town.ids[:9]}
    assert sorted(named, key=lambda entry_id: -named[entry_id]) == town.expected(query, EVERYTHING[:9], 9)
