"""What a search sees by its scope, by words and by vectors alike: messages, and entries of other sources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harken.errors import NotFoundError
from harken.model.conversations import MessageType, NewEntry, ProjectIdentity, Role, SavedRecord, SearchScope, Trust
from harken.storage.conversations import find_tombstones
from harken.storage.entries import (
    RecordHead,
    add_record_entries,
    drop_record_entries,
    in_scope,
    load_entries,
    row_scope,
)
from harken.storage.past import conversation_row
from harken.storage.ports import RowScope, Store
from harken.storage.projects import PREFER, ProjectScope, all_projects, ensure_project
from harken.storage.records.rows import drop_kept, each_kept, find_kept, kept_uid
from harken.storage.tables import entries, entry_facets
from harken.testing.store_conformance.asking import (
    LONG,
    apply,
    embed,
    entry_ids,
    found,
    keep,
    quoting,
    read,
    space_of,
    text_problems,
    unit_vectors,
    write,
)
from harken.testing.talk import START, Talk, talk_of
from harken.text.shown import short_key

HOUSE, GARDEN = ProjectIdentity("git:example.org/o/house", "house"), ProjectIdentity("path:/src/garden", "garden")


class Town:
    """Three conversations, two projects, two segments, three days; every message says `zebra`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.house = Talk("house", HOUSE)
        self.house.say(f"zebra one {LONG}")
        self.first_segment = self.house.segment.uid
        self.house.begin_segment()
        self.house.say(f"zebra two {LONG}", Role.ASSISTANT)
        self.house.say("zebra tool", Role.TOOL, type=MessageType.TOOL_RESULT)
        self.garden = Talk("garden", GARDEN, START + timedelta(days=1))
        self.garden.say(f"zebra three {LONG}")
        self.nowhere = Talk("nowhere", start=START + timedelta(days=2))
        self.nowhere.say(f"zebra four {LONG}")
        keep(store, self.house, self.garden, self.nowhere)
        self.messages = [*self.house.messages, *self.garden.messages, *self.nowhere.messages]
        self.names = dict(zip(["one", "two", "tool", "three", "four"], (m.uid for m in self.messages), strict=True))

    def found(self, scope: SearchScope) -> set[str]:
        """Which messages a search by words finds, by their names; the entries themselves must agree."""
        rows = read(self.store, row_scope, scope)
        uids = set(found(self.store, "zebra", scope=rows))
        ids = dict(zip(self.names, entry_ids(self.store, self.messages), strict=True))
        inside = read(self.store, in_scope, list(ids.values()), rows)
        named = {name for name, uid in self.names.items() if uid in uids}
        assert named == {name for name, entry_id in ids.items() if entry_id in inside}
        return named


DAY = timedelta(days=1)
SCOPES: dict[str, tuple[Callable[[Town], SearchScope], str]] = {
    "everywhere": (lambda _: SearchScope(), "one two tool three four"),
    "source": (lambda _: SearchScope(sources=("message",)), "one two tool three four"),
    "another source": (lambda _: SearchScope(sources=("memory",)), ""),
    "one of two sources": (lambda _: SearchScope(sources=("memory", "message"), roles=("tool",)), "tool"),
    "project by name": (lambda _: SearchScope(project="garden"), "three"),
    "project by key": (lambda _: SearchScope(project=HOUSE.key), "one two tool"),
    "project by path": (lambda _: SearchScope(project="/src/garden"), "three"),
    "conversation": (lambda town: SearchScope(conversation=town.nowhere.uid), "four"),
    "the beginning of its id": (lambda town: SearchScope(conversation=town.house.uid[:13]), "one two tool"),
    "conversation by its own name": (lambda _: SearchScope(conversation="garden"), "three"),
    "segment": (lambda town: SearchScope(segment=town.first_segment), "one"),
    "what may be trusted": (lambda _: SearchScope(without_untrusted=True), "one two three four"),
    "that, of a project": (lambda _: SearchScope(project="house", without_untrusted=True), "one two"),
    "that, of a day": (lambda _: SearchScope(until=START + DAY, without_untrusted=True), "one two"),
    "role": (lambda _: SearchScope(roles=("assistant",)), "two"),
    "roles": (lambda _: SearchScope(roles=("assistant", "tool")), "two tool"),
    "since, inclusive": (lambda _: SearchScope(since=START + DAY), "three four"),
    "until, exclusive": (lambda _: SearchScope(until=START + DAY), "one two tool"),
    "between": (lambda _: SearchScope(since=START + DAY, until=START + 2 * DAY), "three"),
    "project and role": (lambda _: SearchScope(project="house", roles=("user",)), "one"),
    "nothing meets both": (lambda town: SearchScope(project="garden", conversation=town.house.uid), ""),
}


_AXES = ("full", "surprise")
_RECORDS = {
    "m1": ("memory", [NewEntry("", "zebra one", ("category:fact", "author:Ann O'Neil"), 1.2)]),
    "m2": ("memory", [NewEntry("", "zebra two", ("category:decision", "language:c++"))]),
    "e1": ("experience", [NewEntry(axis, "zebra", (f"axis:{axis}", "domain:debugging")) for axis in _AXES]),
    "c1": ("code", [NewEntry("", "zebra five", ("language:c",))]),
    "c2": ("code", [NewEntry("", "  ", ("language:c",))]),
}
SOURCE_SCOPES: dict[str, tuple[SearchScope, list[str]]] = {
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
        house = ensure_project(tx, HOUSE)
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
    return SavedRecord("memory", uid, START + timedelta(days=more.pop("day", 0)), {**fields, **more}, HOUSE)


def _kept(store: Store) -> list[SavedRecord]:
    return read(store, lambda tx: list(each_kept(tx, "memory")))


class ScopeTests:
    """Inherited by `StoreConformance`."""

    @pytest.mark.parametrize("name", SCOPES)
    def test_only_what_is_in_scope_is_found(self, store: Store, name: str) -> None:
        scope, expected = SCOPES[name]
        town = Town(store)
        assert town.found(scope(town)) == set(expected.split())

    @pytest.mark.parametrize(
        ("several", "without", "expected"),
        [
            (("garden", "nowhere"), None, {"three", "four"}),
            ((), "house", {"three", "four"}),
            (("house", "garden"), "house", {"three"}),
        ],
    )
    def test_conversations_are_named_together_and_one_is_left_out(
        self, store: Store, several: tuple[str, ...], without: str | None, expected: set[str]
    ) -> None:
        town = Town(store)
        space = space_of(store)
        ids = entry_ids(store, town.messages)
        matrix = unit_vectors(5)
        embed(store, space, ids, matrix)
        talks = {"house": town.house, "garden": town.garden, "nowhere": town.nowhere}
        with store.reading() as tx:
            rows = {name: conversation_row(tx, talk.conversation.uid) or 0 for name, talk in talks.items()}
            scope = RowScope(
                conversation_ids=tuple(rows[name] for name in several),
                without_conversation_id=rows[without] if without else None,
            )
            near = set(store.nearest.nearest(tx, space, matrix[0], scope, 10))
        assert set(found(store, "zebra", scope=scope)) == {town.names[name] for name in expected}
        assert near == {ids[list(town.names).index(name)] for name in expected}

    @pytest.mark.parametrize(
        ("sources", "without", "expected"),
        [
            ((), {"house"}, {"three", "four"}),
            ((), {"garden"}, {"one", "two", "tool", "four"}),
            ((), {"house", "garden"}, {"four"}),
            (("message",), {"house"}, {"three", "four"}),
            (("memory",), {"house"}, set()),
        ],
    )
    @pytest.mark.parametrize("talk", ["", "garden"])
    def test_projects_are_left_out_and_what_is_of_none_stays(
        self, store: Store, sources: tuple[str, ...], without: set[str], expected: set[str], talk: str
    ) -> None:
        town, space = Town(store), space_of(store)
        ids, matrix = entry_ids(store, town.messages), unit_vectors(5)
        embed(store, space, ids, matrix)
        if talk:
            expected = expected - {"three"}
        with store.reading() as tx:
            others = ProjectScope(
                PREFER, others={row: key for row, key in all_projects(tx).items() if short_key(key) in without}
            )
            left_out = conversation_row(tx, town.garden.uid) if talk else None
            rows = others.inside(RowScope(sources=sources, without_conversation_id=left_out))
            near = set(store.nearest.nearest(tx, space, matrix[0], rows, 10))
            held = tx.text.holders(tx.connection, ["zebra", "three"], rows)
            inside = in_scope(tx, ids, rows)
        named = {town.names[name] for name in expected}
        wanted = {ids[list(town.names).index(name)] for name in expected}
        assert set(found(store, "zebra", scope=rows)) == named
        assert near == inside == wanted
        assert (set(held.of["zebra"]), held.entries) == (wanted, len(wanted))
        # What is named is asked for.
        for named_scope in (RowScope(project_id=1), RowScope(conversation_ids=(1,)), RowScope(segment_id=1)):
            assert others.inside(named_scope) == named_scope

    def test_more_projects_are_left_out_than_a_query_is_deep(self, store: Store) -> None:
        talks = [talk_of(f"t{n}", f"zebra {n}", project=ProjectIdentity(f"path:/p{n}", f"p{n}")) for n in range(300)]
        keep(store, *talks)
        with store.reading() as tx:
            others = {row: key for row, key in all_projects(tx).items() if key != "path:/p0"}
            rows = ProjectScope(PREFER, others=others).inside(RowScope())
        assert found(store, "zebra", scope=rows) == [talks[0].messages[0].uid]

    def test_moments_before_1970_have_their_place(self, store: Store) -> None:
        talk = Talk("old", start=datetime(1950, 1, 1, tzinfo=UTC))
        old = talk.say("zebra")
        keep(store, talk)
        for scope in (
            SearchScope(until=datetime(1960, 1, 1, tzinfo=UTC)),
            SearchScope(since=datetime(1940, 1, 1, tzinfo=UTC)),
            SearchScope(until=datetime(1970, 1, 1, tzinfo=UTC)),
        ):
            rows = read(store, row_scope, scope)
            assert found(store, "zebra", scope=rows) == [old.uid]

    def test_an_empty_scope_is_open(self, store: Store) -> None:
        with store.reading() as tx:
            assert row_scope(tx, SearchScope()).is_open
            assert not row_scope(tx, SearchScope(roles=("user",))).is_open
        assert RowScope().is_open

    @pytest.mark.parametrize(
        ("scope", "words"),
        [
            (SearchScope(project="castle"), "no project castle"),
            (SearchScope(conversation="nothing"), "no conversation nothing"),
            (SearchScope(conversation=""), "There is no conversation"),
            (SearchScope(segment="nothing"), "no segment nothing"),
        ],
    )
    def test_a_name_that_names_nothing_or_several_says_so(self, store: Store, scope: SearchScope, words: str) -> None:
        Town(store)
        with pytest.raises(NotFoundError, match=words), store.reading() as tx:
            row_scope(tx, scope)

    def test_a_segment_of_another_conversation_is_not_there(self, store: Store) -> None:
        town = Town(store)
        elsewhere = SearchScope(segment=town.first_segment, conversation=town.garden.conversation.uid)
        with pytest.raises(NotFoundError, match="is not of conversation"), store.reading() as tx:
            row_scope(tx, elsewhere)

    def test_two_projects_of_one_name_are_named_by_their_keys(self, store: Store) -> None:
        Town(store)
        twin = Talk("twin", ProjectIdentity("path:/other/garden", "garden"))
        twin.say("zebra")
        keep(store, twin)
        with pytest.raises(NotFoundError, match=r"path:/src/garden"), store.reading() as tx:
            row_scope(tx, SearchScope(project="garden"))
        rows = read(store, row_scope, SearchScope(project="path:/other/garden"))
        assert found(store, "zebra", scope=rows) == [twin.messages[0].uid]

    @pytest.mark.parametrize("name", SOURCE_SCOPES)
    def test_words_vectors_and_rows_agree_on_what_a_scope_lets_through(self, store: Store, name: str) -> None:
        scope, expected = SOURCE_SCOPES[name]
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
            "memory", "m1", START, {k: v for k, v in (first.fields or {}).items() if v is not None}, HOUSE
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
