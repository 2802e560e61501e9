"""A small space is compared in this process, by what the rows hold at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Connection

from harken.storage.open import open_store
from harken.storage.ports import Question, RowScope, Store, StoredSpace
from harken.storage.postgres import vectors as nearest
from harken.storage.postgres.dialect import PostgresDialect
from harken.storage.postgres.vectors import Matrix
from harken.storage.tables import vectors
from harken.storage.vectors import delete_vectors, delete_vectors_where, put_vectors
from harken.testing.store_conformance.asking import embed, entry_ids, keep, space_of, spoken_at_length, unit_vectors

COUNT = 60
QUERY = unit_vectors(1, seed=9)[0]
MATRIX = unit_vectors(COUNT)


@pytest.fixture
def store(server_url: URL, tmp_path: Path) -> Iterator[Store]:
    store = open_store(server_url.render_as_string(hide_password=False), tmp_path)
    yield store
    store.close()


@pytest.fixture
def other(server_url: URL, tmp_path: Path) -> Iterator[Store]:
    """As another process has it."""
    other = open_store(server_url.render_as_string(hide_password=False), tmp_path)
    yield other
    other.close()


@pytest.fixture
def ids(store: Store) -> list[int]:
    talk = spoken_at_length("row", COUNT)
    keep(store, talk)
    return entry_ids(store, talk.messages)


def near(store: Store, space: StoredSpace, limit: int = COUNT, also: list[int] | None = None) -> dict[int, float]:
    with store.reading() as tx:
        return store.nearest.compare(tx, space, QUERY, RowScope(), limit, also or [])[1]


def expected(ids: list[int], places: list[int]) -> list[int]:
    return [ids[place] for place in sorted(places, key=lambda place: -float(MATRIX[place] @ QUERY))]


def test_what_is_compared_here_is_what_the_server_finds(
    store: Store, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(store)
    embed(store, space, ids, MATRIX)
    with store.reading() as tx:
        here = store.nearest.compare(tx, space, QUERY, RowScope(), 7, ids[:5])
        monkeypatch.setattr(nearest, "MOST_VECTORS", 0)
        there = store.nearest.compare(tx, space, QUERY, RowScope(), 7, ids[:5])
    assert list(here[0]) == list(there[0])
    assert here[1].keys() == there[1].keys() == {*here[0], *ids[:5]}
    assert here[1] == pytest.approx(there[1], abs=1e-6)


def test_vectors_are_read_once_and_what_others_add_is_read_alone(
    store: Store, other: Store, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    with_rows = Matrix.with_rows

    def counted(matrix: Matrix, rows: Sequence[Sequence[Any]]) -> Matrix:
        read.append(len(rows))
        return with_rows(matrix, rows)

    monkeypatch.setattr(Matrix, "with_rows", counted)
    space = space_of(store)
    embed(store, space, ids[:40], MATRIX[:40])
    for _ in range(2):
        assert list(near(store, space)) == expected(ids, list(range(40)))
    embed(other, space, ids[40:], MATRIX[40:])
    assert list(near(store, space)) == expected(ids, list(range(COUNT)))
    assert read == [40, 20]


def test_what_nobody_has_compared_is_not_asked_for_ahead(
    store: Store, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    foresee = PostgresDialect.foresee

    def told(dialect: PostgresDialect, connection: Connection, *questions: Question) -> None:
        asked.extend(questions)
        foresee(dialect, connection, *questions)

    space = space_of(store)
    embed(store, space, ids, MATRIX)
    monkeypatch.setattr(PostgresDialect, "foresee", told)
    for is_compared in (False, True):
        with store.reading() as tx:
            store.nearest.foresee(tx, space, RowScope())
        assert [values["of_space"] for _, values in asked if "of_space" in values] == [space.id] * is_compared
        near(store, space)


def test_a_vector_that_is_committed_behind_a_later_one_is_seen(store: Store, other: Store, ids: list[int]) -> None:
    space = space_of(store)
    embed(store, space, ids[:10], MATRIX[:10])
    with other.writing(of=()) as late:
        put_vectors(late, space, ids[10:20], MATRIX[10:20])
        with store.writing(of=()) as early:
            put_vectors(early, space, ids[20:30], MATRIX[20:30])
        assert list(near(store, space)) == expected(ids, [*range(10), *range(20, 30)])
    assert list(near(store, space)) == expected(ids, list(range(30)))


def test_a_vector_that_another_removes_is_gone_at_the_next_question(store: Store, other: Store, ids: list[int]) -> None:
    space = space_of(store)
    embed(store, space, ids, MATRIX)
    assert len(near(store, space)) == COUNT
    with other.writing() as tx:
        delete_vectors(tx, ids[:3])
    embed(other, space, ids[:1], MATRIX[5:6])
    found = near(store, space)
    assert found.keys() == {ids[0], *ids[3:]}
    assert found[ids[0]] == pytest.approx(found[ids[5]])


def test_a_view_from_before_sees_what_was_then(store: Store, other: Store, ids: list[int]) -> None:
    space = space_of(store)
    embed(store, space, ids[:10], MATRIX[:10])
    with store.reading() as tx:
        before = store.nearest.nearest(tx, space, QUERY, RowScope(), COUNT)
        embed(other, space, ids[10:20], MATRIX[10:20])
        assert len(near(store, space)) == 20
        assert store.nearest.nearest(tx, space, QUERY, RowScope(), COUNT) == before


def test_a_space_that_outgrows_it_is_compared_by_the_server(
    store: Store, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_of(store)
    embed(store, space, ids[:10], MATRIX[:10])
    assert len(near(store, space)) == 10
    monkeypatch.setattr(nearest, "MOST_VECTORS", 15)
    embed(store, space, ids[10:], MATRIX[10:])
    assert list(near(store, space)) == expected(ids, list(range(COUNT)))


def test_an_empty_space_and_named_entries_without_vectors_find_nothing(store: Store, ids: list[int]) -> None:
    space = space_of(store)
    embed(store, space, ids[:2], MATRIX[:2])
    with store.writing() as tx:
        delete_vectors_where(tx, vectors.c.entry_id.in_(ids[:2]))
    assert near(store, space, also=ids) == {}
