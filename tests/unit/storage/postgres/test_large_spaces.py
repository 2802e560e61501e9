"""A space that has outgrown comparing all gets an index, and is searched through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import URL, text

from harken.storage.open import open_store
from harken.storage.ports import RowScope, Store
from harken.storage.postgres import fulltext
from harken.storage.postgres import vectors as nearest
from harken.testing.store_conformance.asking import (
    embed,
    entry_ids,
    found,
    keep,
    space_of,
    spoken_at_length,
    unit_vectors,
)

COUNT = 120


@pytest.fixture
def store(server_url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(nearest, "EXACT_UP_TO", COUNT // 2)
    monkeypatch.setattr(fulltext, "ALL_RANKED_UP_TO", COUNT // 2)
    monkeypatch.setattr(fulltext, "MATCHES_TO_RANK", COUNT // 4)
    store = open_store(server_url.render_as_string(hide_password=False), tmp_path)
    yield store
    store.close()


def indexes(store: Store) -> list[str]:
    with store.reading() as tx:
        named = "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'ix_vectors_hnsw%'"
        return list(tx.connection.execute(text(named)).scalars())


def test_the_nearest_are_found_through_the_index(store: Store) -> None:
    talk = spoken_at_length("row", COUNT)
    keep(store, talk)
    space, ids = space_of(store), entry_ids(store, talk.messages)
    matrix = unit_vectors(COUNT)
    embed(store, space, ids[:10], matrix[:10])
    store.nearest.build_index()
    assert indexes(store) == []
    embed(store, space, ids, matrix)
    store.nearest.build_index()
    store.nearest.build_index()
    assert indexes(store) == [f"ix_vectors_hnsw_{space.id}"]
    query = unit_vectors(1, seed=9)[0]
    expected = [ids[place] for place in np.argsort(-(matrix @ query))[:5]]
    with store.reading() as tx:
        near = store.nearest.nearest(tx, space, query, RowScope(), 5)
        inside = store.nearest.nearest(tx, space, query, RowScope(roles=("assistant",)), 5)
        plan = tx.connection.execute(text("SELECT current_setting('hnsw.iterative_scan')")).scalar()
        assert store.nearest.problems(tx.connection) == []
    assert list(near) == expected
    assert inside == {}
    assert plan == "relaxed_order"


def test_rare_words_choose_and_pairs_where_all_are_common(store: Store) -> None:
    talk = spoken_at_length("row", COUNT)
    rare = talk.say("A heron among all these words that people say to agents.")
    pair = talk.say("Vectors of people.")
    keep(store, talk)
    with store.writing() as tx:
        tx.connection.execute(text("ANALYZE entry_words"))
    assert found(store, "heron", "words", with_context=False)[0] == rare.uid
    assert found(store, "vector", "people", limit=4)[0] == pair.uid
    assert len(found(store, "people", "say", limit=7)) == 7
