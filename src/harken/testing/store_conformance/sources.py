"""What is remembered beside conversations: entries of records, their facets, and records that are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harken.errors import NotFoundError
from harken.model.conversations import NewEntry, ProjectIdentity, SavedRecord, SearchScope, Trust
from harken.storage.conversations import find_tombstones
from harken.storage.entries import (
    RecordHead,
    add_record_entries,
    drop_record_entries,
    in_scope,
    load_entries,
    row_scope,
)
from harken.storage.ports import RowScope, Store
from harken.storage.projects import ensure_project
from harken.storage.records.rows import drop_kept, each_kept, find_kept, kept_uid
from harken.storage.tables import entries, entry_facets
from harken.testing.store_conformance.asking import (
    apply,
    embed,
    found,
    keep,
    quoting,
    read,
    space_of,
    text_problems,
    unit_vectors,
    write,
)
from harken.testing.talk import START, talk_of

_HOUSE = ProjectIdentity("git:example.org/o/house", "house")
_AXES = ("full", "surprise")
_RECORDS = {
    "m1": ("memory", [NewEntry("", "zebra one", ("category:fact", "author:Ann O'Neil"), 1.2)]),
    "m2": ("memory", [NewEntry("", "zebra two", ("category:decision", "language:c++"))]),
    "e1": (
        "experience",
        [NewEntry(axis, "zebra", (f"axis:{axis}", "domain:debugging")) for axis in ("full", "surprise")],
    ),
    "c1": ("code", [NewEntry("", "zebra five", ("language:c",))]),
    "c2": ("code", [NewEntry("", "  ", ("language:c",))]),
}
SCOPES: dict[str, tuple[SearchScope, list[str]]] = {
    "everywhere": (SearchScope(), ["c1 ", "e1 full", "e1 surprise", "m1 ", "m2 ", "message"]),
    "a source": (SearchScope(sources=("memory",)), ["m1 ", "m2 "]),
    "two sources": (SearchScope(sources=("memory", "message")), ["m1 ", "m2 ", "message"]),
    "without a source": (SearchScope(without_sources=("code", "commit", "experience")), ["m1 ", "m2 ", "message"]),
    "what may be trusted": (SearchScope(without_untrusted=True), ["c1 ", "e1 full", "e1 surprise", "m1 ", "message"]),
    "what may be trusted, of a source": (SearchScope(sources=("memory",), without_untrusted=True), ["m1 "]),
    "a facet": (SearchScope(facets=("domain:debugging",)), ["e1 full", "e1 surprise"]),
    "two facets, both of them": (SearchScope(facets=("domain:debugging", "axis:surprise")), ["e1 surprise"]),
    "a facet with spaces and marks": (SearchScope(facets=("author:Ann O'Neil",)), ["m1 "]),
    "a facet that another begins with": (SearchScope(facets=("language:c",)), ["c1 "]),
    "a facet of a source": (SearchScope(sources=("memory",), facets=("language:c++",)), ["m2 "]),
    "a facet that nothing has": (SearchScope(facets=("domain:gardening",)), []),
    "a project": (SearchScope(project="house"), ["m1 ", "m2 "]),
    "a project and a facet": (SearchScope(project="house", facets=("category:fact",)), ["m1 "]),
}


def _remember(store: Store) -> None:
    keep(store, talk_of("town", "zebra six"))
    with store.writing() as tx:
        house = ensure_project(tx, _HOUSE)
        for uid, (source, made) in _RECORDS.items():
            trust = Trust.UNTRUSTED if uid == "m2" else Trust.AGENT
            head = RecordHead(source, uid, START, house if source == "memory" else None, trust)
            add_record_entries(tx, [(head, made)])


def _named(store: Store, ids: list[int]) -> list[str]:
    known = read(store, load_entries, ids).values()
    return sorted("message" if one.source == "message" else f"{one.ref_uid} {one.part}" for one in known)


def _all_entries(store: Store) -> list[int]:
    return sorted(read(store, lambda tx: tx.connection.scalars(tx.select(entries.c.id)).all()))


def _facets(store: Store) -> list[str]:
    return sorted(read(store, lambda tx: tx.connection.scalars(tx.select(entry_facets.c.facet)).all()))


def _memory(uid: str, content: str, **more: Any) -> SavedRecord:
    fields = {
        "content": content,
        "category": "fact",
        "importance": 0.5,
        "tags": ["animals"],
        "supersedes": [],
        "trust": "owner",
        "created_at": "2023-05-08T12:00:00.000000Z",
    }
    return SavedRecord("memory", uid, START + timedelta(days=more.pop("day", 0)), {**fields, **more}, _HOUSE)


def _kept(store: Store) -> list[SavedRecord]:
    with store.reading() as tx:
        return list(each_kept(tx, "memory"))


class SourceTests:
    """Inherited by `StoreConformance`."""

    @pytest.mark.parametrize("name", SCOPES)
    def test_words_vectors_and_rows_agree_on_what_a_scope_lets_through(self, store: Store, name: str) -> None:
        scope, expected = SCOPES[name]
        _remember(store)
        ids = _all_entries(store)
        space = space_of(store)
        matrix = unit_vectors(len(ids))
        embed(store, space, ids, matrix)
        with store.reading() as tx:
            rows = row_scope(tx, scope)
            worded = [entry_id for entry_id, _ in tx.text.search(tx.connection, ["zebra"], rows, 100)]
            quoted = quoting(tx, "zebra", rows)
            near = list(store.nearest.nearest(tx, space, matrix[0], rows, 100))
            inside = in_scope(tx, ids, rows)
        for found_ids in (worded, quoted, near, sorted(inside)):
            assert _named(store, found_ids) == expected

    def test_sources_without_entries_are_not_left_out_for_nothing(self, store: Store) -> None:
        keep(store, talk_of("town", "zebra"))
        assert read(store, row_scope, SearchScope(without_sources=("code", "commit"))).is_open

    def test_entries_that_go_take_their_facets_with_them(self, store: Store) -> None:
        _remember(store)
        assert "domain:debugging" in _facets(store)
        write(store, drop_record_entries, "experience", ["e1", "nobody"])
        left = {
            facet for source, made in _RECORDS.values() if source != "experience" for e in made for facet in e.facets
        }
        assert _facets(store) == sorted(left)
        assert text_problems(store) == []

    def test_a_kept_record_comes_back_whole_and_is_found(self, store: Store) -> None:
        first = _memory("m1", "zebra", superseded_by=None)
        apply(store, [first])
        [back] = _kept(store)
        assert back == SavedRecord(
            "memory", "m1", START, {k: v for k, v in (first.fields or {}).items() if v is not None}, _HOUSE
        )
        assert found(store, "zebra") == ["m1"]
        assert _facets(store) == ["category:fact", "tag:animals"]
        assert read(store, find_kept, "memory", ["m1", "m2"]) == {"m1": back}

    def test_records_are_named_by_the_beginnings_of_their_ids(self, store: Store) -> None:
        apply(store, [_memory("lions", "one"), _memory("lionesses", "two"), _memory("lion", "three")])
        with store.reading() as tx:
            assert kept_uid(tx, "memory", "lione") == "lionesses"
            assert kept_uid(tx, "memory", "lion") == "lion"
            for beginning, words in (("liz", "no memory liz"), ("zebra", "no memory zebra"), ("lio", "no memory lio")):
                with pytest.raises(NotFoundError, match=words):
                    kept_uid(tx, "memory", beginning)
        apply(store, [SavedRecord("memory", "lion", START, None)])
        with pytest.raises(NotFoundError, match="Several"), store.reading() as tx:
            kept_uid(tx, "memory", "lion")

    def test_the_later_state_of_a_record_holds(self, store: Store) -> None:
        apply(store, [_memory("m1", "zebra", day=1), _memory("m1", "lion")])
        assert found(store, "lion") == []
        apply(store, [_memory("m1", "tiger", day=2, category="decision")])
        assert (found(store, "zebra"), found(store, "tiger")) == ([], ["m1"])
        assert _facets(store) == ["category:decision", "tag:animals"]
        assert text_problems(store) == []

    def test_the_same_state_again_changes_nothing(self, store: Store) -> None:
        apply(store, [_memory("m1", "zebra")])
        before = _all_entries(store)
        apply(store, [_memory("m1", "zebra")])
        assert _all_entries(store) == before

    def test_a_forgotten_record_never_comes_back(self, store: Store) -> None:
        apply(store, [_memory("m1", "zebra"), _memory("m2", "lion")])
        apply(store, [SavedRecord("memory", "m1", START, None)])
        apply(store, [_memory("m1", "zebra", day=9)])
        assert [one.uid for one in _kept(store)] == ["m2"]
        assert found(store, "zebra", scope=RowScope()) == []
        assert read(store, find_tombstones, ["m1", "m2"]) == {"m1"}
        assert text_problems(store) == []

    def test_a_rebuild_begins_without_records(self, store: Store) -> None:
        keep(store, talk_of("town", "zebra"))
        apply(store, [_memory("m1", "zebra")])
        write(store, drop_kept, "memory")
        assert _kept(store) == []
        assert len(found(store, "zebra")) == 1
        assert _facets(store) == []
