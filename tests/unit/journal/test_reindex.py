from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from harken.journal.journal import Replayed
from harken.journal.replay import drop_set_aside, reindex, set_database_aside
from harken.model.conversations import Conversation, ExchangeStatus, MessageType, ProjectIdentity, Role
from harken.record.recorder import NewMessage
from harken.storage.conversations import count_all, find_conversation, messages_of
from harken.storage.enrichment.jobs import claim_unembedded, complete, count_unembedded, fail, list_failed
from harken.storage.enrichment.segments import RollingSummary, put_rolling, rolling_summaries
from harken.storage.ports import RowScope
from harken.storage.tables import entries, vectors
from harken.storage.vectors import EMBED, ensure_space, list_spaces, put_vectors, read_vectors
from harken.testing import hashed_vectors
from recorded import LONG, NOON, RecordedHome


def lived_in(place: RecordedHome) -> None:
    """A home in which everything has happened that a journal can tell."""
    project = ProjectIdentity("git:example.org/o/n", "n", ("path:/src/n",))
    place.record("a", NewMessage(Role.USER, LONG, author="Ada"), project=project, metadata={"branch": "main"})
    place.say("a", "grep zebra", Role.ASSISTANT, type=MessageType.TOOL_CALL, call_id="1", tool_name="grep")
    place.say("a", "zebra.txt", Role.TOOL, type=MessageType.TOOL_RESULT, call_id="1", tool_name="grep")
    place.say("a", f"found it, {LONG}", Role.ASSISTANT, metadata={"model": "m", "deep": [{"x": None}]})
    place.recorder.end_exchange(place.uid("a"), ExchangeStatus.COMPLETED)
    place.recorder.new_segment(place.uid("a"))
    place.clock.go_on(days=2)
    place.say("a", "and what of giraffes?")
    place.recorder.end_exchange(place.uid("a"), ExchangeStatus.FAILED, "interrupted")
    place.record("a", NewMessage(Role.SYSTEM, "moved", MessageType.MARKER), title="Animals")
    place.record("b", NewMessage(Role.USER, "the caller's wish"), parent_external_id="a", project=project)
    said = place.talk("c", "one", f"two {LONG}", "three")
    place.forget(said[0])
    place.talk("d", "gone", "gone as well")
    place.forget(conversation="d")
    place.say("c", "password=hunter2hunter2")


class TestRebuilding:
    def test_a_lost_database_comes_back_the_same(self, place: RecordedHome) -> None:
        lived_in(place)
        rows, told = place.rows(), {name: _told(place, name) for name in "abcd"}
        place.lose_database()
        assert place.rows() == rows
        assert {name: _told(place, name) for name in "abcd"} == told
        assert place.doctor() == []

    def test_rows_that_are_there_are_made_anew_the_same(self, place: RecordedHome) -> None:
        lived_in(place)
        rows, told = place.rows(), {name: _told(place, name) for name in "abcd"}
        place.reindex()
        assert place.rows() == rows
        assert {name: _told(place, name) for name in "abcd"} == told
        assert place.doctor() == []

    def test_rows_that_differ_become_what_the_journal_says(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        before = place.rows()
        with place.store.writing() as tx:
            tx.connection.exec_driver_sql("UPDATE messages SET text = 'changed', author = 'nobody'")
            tx.connection.exec_driver_sql("UPDATE exchanges SET status = 'failed'")
        place.reindex()
        assert place.rows() == before

    def test_it_tells_how_far_it_is(self, place: RecordedHome) -> None:
        for name in "abc":
            place.say(name, "hi")
        done = Replayed(0, 0, [])
        steps = list(reindex(place.store, place.journal, place.recorder.ingest, done))
        assert steps == [(1, 3), (2, 3), (3, 3)]
        assert (done.messages, done.conversations) == (3, 3)

    def test_a_child_is_rebuilt_before_or_after_its_parent(self, place: RecordedHome) -> None:
        place.record("child", NewMessage(Role.USER, "hi"), parent_external_id="parent")
        place.say("parent", "hello")
        place.reindex()
        with place.store.reading() as tx:
            child = find_conversation(tx, place.uid("child"))
        assert child is not None
        assert child.parent_uid == place.uid("parent")

    def test_an_exchange_that_went_on_with_an_earlier_time_is_as_complete_as_it_was(self, place: RecordedHome) -> None:
        midnight = NOON + timedelta(hours=12)
        for seconds, role, text in ((-9, Role.USER, "one"), (5, Role.ASSISTANT, "two"), (-5, Role.ASSISTANT, "three")):
            at = midnight + timedelta(seconds=seconds)
            place.record("c", NewMessage(role, text, created_at=at, origin=text, origin_at=at), finish=True)
        before = place.rows()
        place.reindex()
        assert place.rows() == before

    def test_what_a_model_has_summed_up_of_a_segment_stays(self, place: RecordedHome) -> None:
        first, second, third = place.talk("c", "one", "two", "three")
        made = RollingSummary(
            first.segment_uid,
            place.uid("c"),
            "One, then two.",
            "m",
            NOON,
            third.uid,
            tuple(sorted((first.uid, second.uid))),
        )
        with place.store.writing() as tx:
            assert put_rolling(tx, made)
        place.reindex()
        with place.store.reading() as tx:
            assert rolling_summaries(tx, place.uid("c")) == [made]
        place.forget(first)
        place.reindex()
        with place.store.reading() as tx:
            assert rolling_summaries(tx, place.uid("c")) == []


class TestVectors:
    def test_they_stay_with_their_entries(self, place: RecordedHome) -> None:
        place.talk("c", LONG, f"{LONG} again")
        texts, matrix = _embed(place)
        place.reindex()
        with place.store.reading() as tx:
            (space,) = list_spaces(tx)
            found = dict(tx.connection.execute(select(entries.c.id, entries.c.text)).all())
            ids, kept = read_vectors(tx, space, list(found))
            assert count_unembedded(tx, space) == 0
            nearest = place.store.nearest.nearest(tx, space, matrix[0], RowScope(), 10)
        assert [found[entry_id] for entry_id in ids.tolist()] == [found[i] for i in sorted(found)]
        for entry_id, vector in zip(ids.tolist(), kept, strict=True):
            assert abs(float(vector @ matrix[texts.index(found[entry_id])]) - 1) < 0.01
        assert sorted(nearest) == sorted(found)

    def test_those_of_a_space_that_is_being_filled_stay_too(self, place: RecordedHome) -> None:
        place.talk("c", LONG, f"{LONG} again")
        _embed(place, "old")
        with place.store.writing() as tx:
            new = ensure_space(tx, "new", 64, 0.2, {})
            (claimed, *_) = claim_unembedded(tx, new, "me", 1, place.clock(), 60)
            put_vectors(tx, new, [claimed.entry_id], hashed_vectors([claimed.text], 64))
        place.reindex()
        with place.store.reading() as tx:
            assert count_unembedded(tx, new) == 1
            assert len(tx.connection.execute(select(vectors)).all()) == 3

    def test_what_was_forgotten_meanwhile_has_none(self, place: RecordedHome) -> None:
        said = place.talk("c", LONG, f"{LONG} again")
        _embed(place)
        place.forget(said[0])
        place.reindex()
        with place.store.reading() as tx:
            assert count_all(tx, 1).embedded == 1

    def test_work_that_was_given_up_waits_again_under_its_new_entry(self, place: RecordedHome) -> None:
        place.say("c", LONG)
        with place.store.writing() as tx:
            space = ensure_space(tx, "words", 64, 0.2, {})
            (claimed,) = claim_unembedded(tx, space, "me", 1, place.clock(), 60)
            for _ in range(7):
                fail(tx, EMBED, [claimed.entry_id], "EndpointError", place.clock())
            assert count_unembedded(tx, space) == 0
        place.reindex()
        with place.store.reading() as tx:
            assert list_failed(tx) == []
            assert count_unembedded(tx, space) == 1


class TestDamagedDatabases:
    def test_one_is_moved_out_of_the_way_and_made_anew(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        place.close()
        database = place.home / "harken.db"
        database.write_bytes(b"garbage" * 1000)
        moved = set_database_aside(database)
        assert [file.name.startswith("harken.db.damaged-") for file in moved] == [True]
        place.open()
        assert place.texts("c") == ["one", "two"]
        assert drop_set_aside(database) == 1
        assert not list(place.home.glob("*damaged*"))


def _told(place: RecordedHome, name: str) -> tuple[Conversation | None, list[object]]:
    """A conversation with its messages, each with the ids of its segment and exchange."""
    with place.store.reading() as tx:
        return find_conversation(tx, place.uid(name)), list(messages_of(tx, place.uid(name)))


def _embed(place: RecordedHome, name: str = "words") -> tuple[list[str], Any]:
    with place.store.writing() as tx:
        space = ensure_space(tx, name, 64, 0.2, {})
        claimed = claim_unembedded(tx, space, "me", 100, place.clock(), 60)
        texts = [item.text for item in claimed]
        matrix = hashed_vectors(texts, 64)
        put_vectors(tx, space, [item.entry_id for item in claimed], matrix)
        complete(tx, EMBED, [item.entry_id for item in claimed])
    return texts, matrix


def test_a_home_without_a_journal_has_nothing_to_rebuild_from(place: RecordedHome) -> None:
    with pytest.raises(StopIteration):
        next(reindex(place.store, place.journal, place.recorder.ingest, Replayed(0, 0, [])))
