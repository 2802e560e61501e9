"""Vectors and their spaces: kept beside their entries, compared exactly, replaced while the old ones answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from harken.model.conversations import SearchScope
from harken.storage import tables, vectors
from harken.storage.conversations import count_all
from harken.storage.enrichment.jobs import count_unembedded
from harken.storage.entries import row_scope
from harken.storage.ports import RowScope, Store, StoredSpace
from harken.testing.store_conformance.asking import (
    DIMS,
    apply,
    embed,
    entry_ids,
    keep,
    read,
    space_of,
    spoken_at_length,
    unit_vectors,
    write,
)


def _embedded(store: Store, count: int, dims: int = DIMS) -> tuple[StoredSpace, list[int]]:
    talk = keep(store, spoken_at_length("row", count))
    space, ids = space_of(store, dims=dims), entry_ids(store, talk.messages)
    embed(store, space, ids, unit_vectors(count, dims))
    return space, ids


def _states(store: Store) -> dict[str, str]:
    return {space.name: space.state for space in read(store, vectors.list_spaces)}


class VectorTests:
    """Inherited by `StoreConformance`."""

    def test_vectors_come_back_to_a_thousandth(self, store: Store) -> None:
        space, ids = _embedded(store, 20)
        found, matrix = read(store, vectors.read_vectors, space, [*ids, max(ids) + 1])
        assert matrix.dtype == np.float32
        assert sorted(found.tolist()) == sorted(ids)
        expected = unit_vectors(20)[[ids.index(entry_id) for entry_id in found.tolist()]]
        assert np.abs(matrix - expected).max() < 0.001
        none, matrix = read(store, vectors.read_vectors, space, [])
        assert (none.shape, matrix.shape) == ((0,), (0, DIMS))

    def test_an_entry_has_one_vector_in_a_space(self, store: Store) -> None:
        space, ids = _embedded(store, 3)
        assert embed(store, space, ids, unit_vectors(3, seed=8)) == 0
        found, matrix = read(store, vectors.read_vectors, space, ids[:1])
        assert found.tolist() == ids[:1]
        assert np.abs(matrix[0] - unit_vectors(3)[0]).max() < 0.001

    def test_an_entry_that_is_gone_gets_no_vector(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        ids = entry_ids(store, talk.messages)
        apply(store, [talk.forget(talk.messages[0])])
        assert embed(store, space_of(store), ids, unit_vectors(2)) == 1

    def test_the_nearest_are_among_the_candidates(self, store: Store) -> None:
        space, ids = _embedded(store, 400)
        matrix, queries = unit_vectors(400), unit_vectors(10, seed=9)
        for query in queries:
            nearest = [ids[index] for index in np.argsort(-(matrix @ query))[:5]]
            candidates = read(store, store.nearest.nearest, space, query, RowScope(), 50)
            assert len(candidates) == 50
            assert set(nearest) <= set(candidates)

    def test_a_space_of_any_size_is_searched(self, store: Store) -> None:
        space, ids = _embedded(store, 10, dims=7)
        near = read(store, store.nearest.nearest, space, unit_vectors(10, 7)[3], RowScope(), 10)
        assert sorted(near) == sorted(ids)

    def test_the_index_catches_up_with_new_vectors(self, store: Store) -> None:
        space, ids = _embedded(store, 5)
        query = unit_vectors(1, seed=3)[0]
        assert sorted(read(store, store.nearest.nearest, space, query, RowScope(), 10)) == sorted(ids)
        more = keep(store, spoken_at_length("more", 2))
        added = entry_ids(store, more.messages)
        embed(store, space, added, unit_vectors(2, seed=4))
        assert sorted(read(store, store.nearest.nearest, space, query, RowScope(), 10)) == sorted(ids + added)

    def test_a_segments_nearest_follow_what_is_said_and_what_is_forgotten(self, store: Store) -> None:
        talk, beside = spoken_at_length("row", 6), spoken_at_length("beside", 3)
        keep(store, talk, beside)
        space, ids = space_of(store), entry_ids(store, talk.messages)
        query, *matrix = unit_vectors(7)
        segment = read(store, row_scope, SearchScope(segment=talk.segment.uid, sources=("message",)))

        def nearest(limit: int) -> list[int]:
            with store.reading() as tx:
                found = store.nearest.nearest(tx, space, query, segment, limit)
                near, told = store.nearest.compare(tx, space, query, segment, 1, [*ids[:4], 10_000])
                none, named = store.nearest.compare(tx, space, query, segment, 0, ids[:4])
            assert named == pytest.approx({e: told[e] for e in ids[:4] if e in told}, abs=0.002)
            assert none == {}
            assert found | told == pytest.approx({e: float(matrix[ids.index(e)] @ query) for e in found}, abs=0.002)
            assert list(near) == list(found)[:1]
            assert set(told) == {entry_id for entry_id in found if entry_id in (*near, *ids[:4])}
            return list(found)

        def expected(inside: Sequence[int]) -> list[int]:
            return sorted(inside, key=lambda entry_id: -float(matrix[ids.index(entry_id)] @ query))

        assert nearest(9) == []
        embed(store, space, ids[:3], np.stack(matrix[:3]))
        assert nearest(9) == expected(ids[:3])
        embed(store, space, ids[3:], np.stack(matrix[3:]))
        embed(store, space, entry_ids(store, beside.messages), unit_vectors(3, seed=9))
        assert nearest(9) == expected(ids)
        write(store, vectors.delete_vectors, ids[:1])
        assert nearest(9) == expected(ids[1:])
        best = read(store, store.nearest.nearest, space, query, segment, 2)
        assert list(best) == expected(ids[1:])[:2]

    def test_a_discarded_index_is_made_again(self, store: Store) -> None:
        space, ids = _embedded(store, 5)
        store.nearest.build_index()
        store.nearest.discard()
        with store.reading() as tx:
            assert store.nearest.problems(tx.connection) == []
            assert len(store.nearest.nearest(tx, space, unit_vectors(1)[0], RowScope(), 10)) == len(ids)

    def test_an_empty_space_has_no_nearest(self, store: Store) -> None:
        space = space_of(store)
        with store.reading() as tx:
            assert store.nearest.nearest(tx, space, unit_vectors(1)[0], RowScope(), 10) == {}
            assert not vectors.has_vectors(tx, space)

    def test_vectors_that_are_put_again_are_found_again(self, store: Store) -> None:
        space, ids = _embedded(store, 4)
        query = unit_vectors(1, seed=3)[0]
        read(store, store.nearest.nearest, space, query, RowScope(), 4)
        with store.writing() as tx:
            vectors.delete_vectors(tx, ids)
            vectors.put_vectors(tx, space, ids, unit_vectors(4, seed=5))
        assert sorted(read(store, store.nearest.nearest, space, query, RowScope(), 10)) == sorted(ids)

    def test_the_first_space_answers_at_once_and_is_the_same_by_its_name(self, store: Store) -> None:
        assert space_of(store, "first").state == "active"
        assert space_of(store, "first") == space_of(store, "first")

    def test_the_old_space_answers_while_the_new_one_is_filled_and_what_that_lacks_waits(self, store: Store) -> None:
        old, ids = _embedded(store, 3)
        new = space_of(store, "new")
        embed(store, new, ids[:2], unit_vectors(2))
        assert _states(store) == {"words": "active", "new": "filling"}
        with store.reading() as tx:
            assert count_unembedded(tx, new) == 1
            assert len(vectors.read_vectors(tx, old, ids)[0]) == 3
        write(store, vectors.activate_space, new)
        assert read(store, count_unembedded, new) == 1

    def test_a_full_space_takes_over_and_the_old_vectors_go(self, store: Store) -> None:
        old, ids = _embedded(store, 3)
        new = space_of(store, "new")
        embed(store, new, ids, unit_vectors(3))
        write(store, vectors.activate_space, new)
        assert _states(store) == {"words": "retired", "new": "active"}
        with store.reading() as tx:
            assert not vectors.has_vectors(tx, old)
            assert len(tx.connection.execute(tx.select(tables.vectors.c.id)).all()) == 3
            assert count_all(tx, new.id).embedded == 3

    def test_a_store_without_vectors_follows_a_change_of_model_at_once(self, store: Store) -> None:
        space_of(store, "old")
        assert space_of(store, "new").state == "active"
        assert _states(store) == {"old": "retired", "new": "active"}

    def test_going_back_to_the_answering_space_ends_the_filling(self, store: Store) -> None:
        _, ids = _embedded(store, 3)
        embed(store, space_of(store, "new"), ids[:1], unit_vectors(1))
        assert space_of(store, "words").state == "active"
        assert _states(store) == {"words": "active", "new": "retired"}

    def test_a_retired_space_that_is_wanted_again_is_filled_again(self, store: Store) -> None:
        old, ids = _embedded(store, 3)
        query = unit_vectors(1, seed=3)[0]
        read(store, store.nearest.nearest, old, query, RowScope(), 5)
        new = space_of(store, "new")
        embed(store, new, ids, unit_vectors(3))
        write(store, vectors.activate_space, new)
        again = space_of(store, "words")
        assert (again.id, again.state) == (old.id, "filling")
        assert embed(store, again, ids, unit_vectors(3, seed=5)) == 3
        with store.writing() as tx:
            assert count_unembedded(tx, again) == 0
            vectors.activate_space(tx, again)
        assert sorted(read(store, store.nearest.nearest, again, query, RowScope(), 5)) == sorted(ids)

    def test_a_space_follows_its_models_settings(self, store: Store) -> None:
        space_of(store, "words")
        write(store, vectors.ensure_space, "words", DIMS, 0.7, {"name": "words", "threads": 4})
        (space,) = read(store, vectors.list_spaces)
        assert (space.threshold, space.spec) == (0.7, {"name": "words", "threads": 4})
