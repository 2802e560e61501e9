from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import delete

from harken.journal.replay import FORGETTING
from harken.model.conversations import Role, Tombstone
from harken.storage.conversations import find_conversation, tombstones_of
from harken.storage.events import forget_rows
from harken.storage.state import journal_offset, journal_offsets, put_journal_offset
from harken.storage.tables import exchanges, journal_files, messages
from recorded import RecordedHome


class TestTails:
    def test_nothing_is_done_where_nothing_is_new(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        done = place.reopen()
        assert (done.messages, done.conversations, done.torn) == (0, 0, [])

    def test_a_message_that_was_journalled_and_not_committed_is_brought_in(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        place.snapshot()
        place.talk("c", "three", "four")
        before = place.rows()
        done = place.die_back()
        assert (done.messages, done.conversations) == (2, 1)
        assert place.rows() == before
        assert place.reopen().messages == 0

    def test_segments_ends_and_titles_are_brought_in_as_well(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        place.snapshot()
        place.recorder.new_segment(place.uid("c"))
        place.record("c", title="A title", finish=True)
        place.say("c", "three")
        before = place.rows()
        place.die_back()
        assert place.rows() == before

    @pytest.mark.parametrize("days", [0, 1])
    def test_whoever_writes_next_brings_the_tail_in_first(self, place: RecordedHome, days: int) -> None:
        place.talk("c", "one", "first")
        place.snapshot()
        place.talk("c", "two", "second")
        # Opened by a process that looks at nothing until it writes.
        place.die_back(replaying=False)
        place.clock.go_on(days=days)
        place.say("c", "three")
        assert place.texts("c") == ["one", "first", "two", "second", "three"]
        with place.store.reading() as tx:
            numbers = tx.connection.scalars(tx.select(exchanges.c.number).order_by(exchanges.c.id)).all()
            positions = tx.connection.scalars(tx.select(messages.c.position).order_by(messages.c.id)).all()
        assert numbers == [1, 2, 3]
        assert positions == sorted(set(positions))
        assert place.doctor() == []

    def test_every_conversation_has_its_tail_brought_in(self, place: RecordedHome) -> None:
        for name in "abc":
            place.say(name, "one")
        place.snapshot()
        for name in "abcd":
            place.say(name, "two")
        assert place.die_back().messages == 4
        assert [place.texts(name) for name in "ad"] == [["one", "two"], ["two"]]

    def test_a_tail_over_several_days_is_brought_in(self, place: RecordedHome) -> None:
        place.say("c", "one")
        place.snapshot()
        for text in ("two", "three", "four"):
            place.clock.go_on(days=1)
            place.say("c", text)
        assert place.die_back().messages == 3
        assert place.texts("c") == ["one", "two", "three", "four"]

    def test_a_tail_of_something_forgotten_stays_out(self, place: RecordedHome) -> None:
        message = place.say("c", "one")
        place.snapshot()
        kept = place.lines("c")
        place.forget(message)
        place.close()
        (place.home / "conversations" / f"{place.uid('c')}" / "2023-05-08.jsonl").write_bytes(b"".join(kept))
        place.open()
        assert place.texts("c") == []


class TestDamage:
    def test_a_torn_last_line_is_set_aside_and_reported(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        (file,) = place.journal_files("c")
        whole = file.read_bytes()
        file.write_bytes(whole + b'{"event":"message","id":"x","te')
        done = place.reopen()
        (torn,) = done.torn
        assert (torn.offset, torn.length, torn.kept_in.read_bytes()[:9]) == (len(whole), 31, b'{"event":')
        assert file.read_bytes() == whole
        assert place.reopen().torn == []
        assert place.say("c", "three").text == "three"
        assert place.texts("c") == ["one", "two", "three"]

    def test_a_damaged_line_in_the_middle_costs_that_line_alone(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two", "three")
        (file,) = place.journal_files("c")
        file.write_bytes(file.read_bytes().replace(b'"text":"two"', b'"text:"two"'))
        place.lose_database()
        assert place.texts("c") == ["one", "three"]
        (torn,) = place.replayed.torn
        assert b"two" in torn.kept_in.read_bytes()
        assert place.doctor() == []

    def test_damaged_lines_beside_each_other_are_set_aside_together(self, place: RecordedHome) -> None:
        for text in ("one", "two", "three", "four"):
            place.say("c", text)
        (file,) = place.journal_files("c")
        content = (
            file.read_bytes().replace(b'"text":"two"', b'"text:"two"').replace(b'"text":"three"', b'"text:"three"')
        )
        file.write_bytes(content)
        place.lose_database()
        assert place.texts("c") == ["one", "four"]
        assert len(place.replayed.torn) == 1

    def test_a_block_of_zeros_at_the_end_is_set_aside(self, place: RecordedHome) -> None:
        place.say("c", "one")
        (file,) = place.journal_files("c")
        file.write_bytes(file.read_bytes() + b"\0" * 4096)
        place.reopen()
        place.say("c", "two")
        place.lose_database()
        assert place.texts("c") == ["one", "two"]

    def test_a_file_that_was_cut_short_from_outside_costs_no_rows(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two", "three")
        (file,) = place.journal_files("c")
        file.write_bytes(b"".join(place.lines("c")[:-1]))
        done = place.reopen()
        assert done.messages == 0
        assert place.texts("c") == ["one", "two", "three"]
        place.say("c", "four")
        assert place.texts("c") == ["one", "two", "three", "four"]

    def test_a_file_that_is_gone_costs_no_rows(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        (file,) = place.journal_files("c")
        file.unlink()
        assert place.reopen().messages == 0
        place.say("c", "three")
        assert place.texts("c") == ["one", "two", "three"]
        with place.store.reading() as tx:
            assert journal_offsets(tx) == dict(place.journal.files())

    @pytest.mark.parametrize("lost", ["conversation", "segment", "exchange", "all heads"])
    def test_a_message_whose_head_line_is_lost_is_kept_under_a_plain_one(self, place: RecordedHome, lost: str) -> None:
        place.talk("c", "one", "two")
        (file,) = place.journal_files("c")
        gone = ("conversation", "segment", "exchange") if lost == "all heads" else (lost,)
        file.write_bytes(b"".join(line for line in place.lines("c") if _kind(line) not in gone))
        place.lose_database()
        assert place.texts("c") == ["one", "two"]
        with place.store.reading() as tx:
            head = find_conversation(tx, place.uid("c"))
        assert head is not None
        assert head.channel == ("test" if "conversation" not in gone else "unknown")
        assert place.say("c", "three", Role.ASSISTANT).text == "three"
        assert place.reopen().messages == 0

    def test_heads_whose_messages_are_all_forgotten_stand_without_their_own_head(self, place: RecordedHome) -> None:
        place.forget(place.say("c", "one"))
        (file,) = place.journal_files("c")
        file.write_bytes(b"".join(line for line in place.lines("c") if _kind(line) != "conversation"))
        place.lose_database()
        assert place.texts("c") == []
        with place.store.reading() as tx:
            assert [grave.kind for grave in tombstones_of(tx, place.uid("c"))] == ["message"]

    def test_lines_that_stand_twice_are_applied_once(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        (file,) = place.journal_files("c")
        file.write_bytes(file.read_bytes() * 2)
        place.reopen()
        assert place.texts("c") == ["one", "two"]
        place.lose_database()
        assert place.texts("c") == ["one", "two"]


class TestForgettingThatWasInterrupted:
    def test_the_next_to_open_takes_the_words_out(self, place: RecordedHome) -> None:
        place.talk("c", "one", "zebra")
        _forget_rows_alone(place, "zebra")
        assert any(b"zebra" in line for line in place.lines("c"))
        place.reopen()
        assert not any(b"zebra" in line for line in place.lines("c"))
        assert place.texts("c") == ["one"]
        assert place.doctor() == []

    def test_the_next_to_write_takes_the_words_out(self, place: RecordedHome) -> None:
        place.talk("c", "one", "zebra")
        _forget_rows_alone(place, "zebra")
        place.say("c", "three")
        assert not any(b"zebra" in line for line in place.lines("c"))
        assert place.texts("c") == ["one", "three"]
        place.lose_database()
        assert place.texts("c") == ["one", "three"]

    def test_a_reindex_takes_the_words_out(self, place: RecordedHome) -> None:
        place.talk("c", "one", "zebra")
        _forget_rows_alone(place, "zebra")
        place.reindex()
        assert not any(b"zebra" in line for line in place.lines("c"))
        assert place.texts("c") == ["one"]

    def test_a_dead_writers_tail_is_not_lost_over_it(self, place: RecordedHome) -> None:
        place.talk("c", "one", "zebra")
        place.snapshot()
        place.say("c", "three")
        place.die_back(replaying=False)
        _forget_rows_alone(place, "zebra")
        place.reopen()
        assert place.texts("c") == ["one", "three"]
        assert not any(b"zebra" in line for line in place.lines("c"))


def _kind(line: bytes) -> Any:
    return json.loads(line)["event"]


def _forget_rows_alone(place: RecordedHome, text: str) -> None:
    """As far as `forget` comes before it rewrites the journal."""
    with place.store.writing() as tx:
        uid = tx.connection.execute(messages.select().where(messages.c.text == text)).one().uid
        forget_rows(tx, [Tombstone(uid, place.uid("c"), "message", place.clock())])
        for path, _ in place.journal.files(place.uid("c")):
            put_journal_offset(tx, path, FORGETTING)


def test_offsets_that_are_lost_are_found_again(place: RecordedHome) -> None:
    place.talk("c", "one", "two")
    with place.store.writing() as tx:
        tx.connection.execute(delete(journal_files))
    assert place.reopen().messages == 0
    with place.store.reading() as tx:
        assert journal_offset(tx, next(iter(dict(place.journal.files())))) > 0
