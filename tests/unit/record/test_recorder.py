from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, event

from harken.errors import JournalError, StoreError
from harken.model.conversations import Message, MessageType, ProjectIdentity, Role
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.storage.conversations import find_conversation, find_message, messages_of
from harken.storage.ports import Transaction
from harken.storage.state import journal_offsets, read_counters
from harken.text.characters import sound_value, valid_utf8
from recorded import NOON, RecordedHome


class TestRecording:
    def test_a_message_is_in_the_rows_and_in_the_journal(self, place: RecordedHome) -> None:
        message = place.say("c", "a zebra", author="Ada", metadata={"model": "m"})
        with place.store.reading() as tx:
            assert find_message(tx, message.uid) == message
            assert journal_offsets(tx) == dict(place.journal.files())
        assert sum(b"a zebra" in line for line in place.lines("c")) == 1

    def test_it_is_said_now_unless_somebody_knows_better(self, place: RecordedHome) -> None:
        assert place.say("c", "now").created_at == place.clock()
        assert place.say("c", "then", created_at=NOON - timedelta(days=9)).created_at == NOON - timedelta(days=9)

    def test_the_same_words_said_twice_are_two_messages(self, place: RecordedHome) -> None:
        assert place.say("c", "ok").uid != place.say("c", "ok").uid
        assert place.count() == 2

    def test_several_conversations_are_recorded_in_one_call(self, place: RecordedHome) -> None:
        batches = [Batch(NewConversation("test", name), [NewMessage(Role.USER, f"hello {name}")]) for name in "abc"]
        assert len(place.recorder.record(batches).messages) == 3
        assert [place.texts(name) for name in "abc"] == [["hello a"], ["hello b"], ["hello c"]]

    def test_whoever_waits_for_work_is_woken_after_each_call_that_brings_some(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        place.record("c", finish=True)
        assert place.woken == 2

    def test_a_conversation_keeps_what_its_first_record_says_of_it(self, place: RecordedHome) -> None:
        project = ProjectIdentity("git:example.org/o/n", "n")
        place.record("c", NewMessage(Role.USER, "hi"), project=project, parent_external_id="p", metadata={"k": "v"})
        with place.store.reading() as tx:
            head = find_conversation(tx, place.uid("c"))
        assert head is not None
        assert (head.channel, head.external_id, head.project, head.parent_uid) == ("test", "c", project, place.uid("p"))
        assert (head.created_at, head.metadata) == (NOON, {"k": "v"})

    def test_a_title_that_changes_is_kept_and_one_that_does_not_is_not_written_again(self, place: RecordedHome) -> None:
        for title in ("First", "First", "Second", ""):
            place.record("c", NewMessage(Role.USER, "hi"), title=title)
        with place.store.reading() as tx:
            head = find_conversation(tx, place.uid("c"))
        assert head is not None
        assert head.title == "Second"
        assert sum(b'"event":"title"' in line for line in place.lines("c")) == 1

    def test_nothing_is_recorded_of_nothing(self, place: RecordedHome) -> None:
        assert place.record("c", finish=True).messages == ()
        assert place.recorder.record([]).messages == ()
        assert place.journal.files() == []


class TestKnowing:
    """Messages that were read somewhere are told by their origin."""

    def test_a_message_is_known_by_where_it_was_read(self, place: RecordedHome) -> None:
        read = NewMessage(Role.USER, "a zebra", origin="line 1", origin_at=NOON)
        assert len(place.record("c", read).messages) == 1
        again = place.record("c", read, replace(read, origin="line 2"))
        assert (len(again.messages), again.known) == (1, 1)
        assert place.texts("c") == ["a zebra", "a zebra"]

    def test_what_comes_twice_in_one_call_is_kept_once(self, place: RecordedHome) -> None:
        read = NewMessage(Role.USER, "a zebra", origin="line 1")
        recorded = place.record("c", read, read)
        assert (len(recorded.messages), recorded.known) == (1, 1)

    @pytest.mark.parametrize("other", ["text", "role", "type", "origin", "origin_at", "conversation"])
    def test_every_part_of_the_origin_tells(self, place: RecordedHome, other: str) -> None:
        read = NewMessage(Role.USER, "a zebra", origin="line 1", origin_at=NOON)
        changed = {
            "text": replace(read, text="a giraffe"),
            "role": replace(read, role=Role.ASSISTANT),
            "type": replace(read, type=MessageType.TOOL_CALL),
            "origin": replace(read, origin="line 2"),
            "origin_at": replace(read, origin_at=NOON + timedelta(seconds=1)),
            "conversation": read,
        }[other]
        place.record("c", read)
        assert len(place.record("d" if other == "conversation" else "c", changed).messages) == 1

    def test_what_was_forgotten_is_not_recorded_again(self, place: RecordedHome) -> None:
        read = NewMessage(Role.USER, "a zebra", origin="line 1")
        place.forget(*place.record("c", read).messages)
        again = place.record("c", read, NewMessage(Role.USER, "a giraffe", origin="line 2"))
        assert (again.forgotten, [message.text for message in again.messages]) == (1, ["a giraffe"])

    def test_nothing_is_recorded_into_a_forgotten_conversation(self, place: RecordedHome) -> None:
        place.say("c", "a zebra")
        place.forget(conversation="c")
        again = place.record("c", NewMessage(Role.USER, "another zebra"))
        assert (again.forgotten, again.messages) == (1, ())


class TestRedacting:
    SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"

    def test_no_secret_of_any_part_touches_the_disk(self, place: RecordedHome) -> None:
        place.record(
            "c",
            NewMessage(Role.USER, f"my key is {self.SECRET}", metadata={"env": {"list": [f"TOKEN={self.SECRET}"]}}),
            title=f"About {self.SECRET}",
            metadata={"branch": self.SECRET},
        )
        place.record("c", NewMessage(Role.USER, "more"), title=f"Still about {self.SECRET}")
        place.close()
        assert not [f for f in place.home.rglob("*") if f.is_file() and self.SECRET.encode() in f.read_bytes()]

    def test_what_was_taken_out_is_counted_once(self, place: RecordedHome) -> None:
        place.say("c", f"my key is {self.SECRET} and <private>my diary</private>")
        with place.store.reading() as tx:
            counted = read_counters(tx, "redacted:")
            (message,) = messages_of(tx, place.uid("c"))
        assert counted["private"] == 1
        assert sum(counted.values()) == 2
        assert message.metadata["redacted"] == counted
        place.reindex()
        with place.store.reading() as tx:
            assert read_counters(tx, "redacted:") == counted


class TestUnsoundTexts:
    """What no database can keep must not stop a recording."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("a\x00b", "a\ufffdb"), ("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "\U0001f600"), ("ä", "ä"), ("", "")],
    )
    def test_it_is_replaced(self, text: str, expected: str) -> None:
        assert valid_utf8(text) == expected

    def test_it_is_replaced_everywhere_in_a_value(self) -> None:
        value = {"\ud800": ["\x00", ("\udfff", 1, None)], "k": {"x": "\ud800"}}
        assert sound_value(value) == {"\ufffd": ["\ufffd", ["\ufffd", 1, None]], "k": {"x": "\ufffd"}}

    def test_a_number_that_json_has_not_is_kept_as_none_everywhere(self, place: RecordedHome) -> None:
        message = place.say("c", "hi", metadata={"loss": float("nan"), "range": [1.5, float("-inf")]})
        assert dict(message.metadata) == {"loss": None, "range": [1.5, None]}
        [line] = [line for line in place.lines("c") if b'"loss"' in line]
        assert b'"metadata":{"loss":null,"range":[1.5,null]}' in line

    def test_every_part_of_a_message_and_of_a_conversation_is_kept(self, place: RecordedHome) -> None:
        bad = "a\ud800b\x00c"
        place.record(
            bad,
            NewMessage(
                Role.TOOL,
                bad,
                MessageType.TOOL_RESULT,
                author=bad,
                call_id=bad,
                tool_name=bad,
                external_id=bad,
                origin=bad,
                metadata={bad: [bad]},
            ),
            title=bad,
            project=ProjectIdentity(bad, bad, (bad + "2",)),
            metadata={bad: bad},
        )
        with place.store.reading() as tx:
            (message,) = messages_of(tx, place.uid(bad))
        good = "a\ufffdb\ufffdc"
        assert (message.text, message.author, message.call_id, message.tool_name) == (good,) * 4
        assert (message.external_id, dict(message.metadata)) == (good, {good: [good]})
        before = place.rows()
        place.lose_database()
        assert place.rows() == before


class TestFailing:
    def test_a_failure_of_the_rows_takes_the_journal_back(self, place: RecordedHome) -> None:
        place.say("c", "one")
        before = place.lines("c")

        def fails(_tx: Transaction) -> None:
            raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            place.recorder.record([Batch(NewConversation("test", "c"), [NewMessage(Role.USER, "two")])], within=fails)
        assert place.lines("c") == before
        assert place.reopen().messages == 0
        assert place.texts("c") == ["one"]

    def test_a_failure_of_the_commit_takes_the_journal_back(self, place: RecordedHome) -> None:
        place.say("c", "one")
        before = place.lines("c")
        with failing_commit(place), pytest.raises(StoreError):
            place.say("c", "two")
        assert place.lines("c") == before
        place.say("c", "two")
        assert place.reopen().messages == 0
        assert place.texts("c") == ["one", "two"]

    def test_what_another_process_brings_in_before_it_is_taken_back_is_recorded_once(self, place: RecordedHome) -> None:
        place.say("c", "one")
        engine = place.store._engine  # type: ignore[attr-defined]
        opened = False

        def another_opens(*_args: object) -> None:
            nonlocal opened
            if opened:
                return
            opened = True
            other = RecordedHome.__new__(RecordedHome)
            other.home, other.clock, other.woken = place.home, place.clock, 0
            assert other.open().messages == 1
            other.close()

        event.listen(engine, "checkin", another_opens)
        with failing_commit(place):
            assert place.say("c", "two").text == "two"
        assert place.texts("c") == ["one", "two"]
        assert place.doctor() == []

    def test_a_new_segment_whose_commit_fails_leaves_nothing(self, place: RecordedHome) -> None:
        place.say("c", "one")
        before = place.lines("c")
        with failing_commit(place), pytest.raises(StoreError):
            place.recorder.new_segment(place.uid("c"))
        assert place.lines("c") == before

    def test_an_interruption_leaves_the_message_in_both_places_or_in_none(self, place: RecordedHome) -> None:
        place.say("c", "one")
        before = place.lines("c")

        def interrupted(_tx: Transaction) -> None:
            raise KeyboardInterrupt

        batch = Batch(NewConversation("test", "c"), [NewMessage(Role.USER, "two")])
        with pytest.raises(KeyboardInterrupt):
            place.recorder.record([batch], within=interrupted)
        assert place.lines("c") == before
        assert place.texts("c") == ["one"]

    def test_without_a_journal_the_rows_are_all_there_is(self, place: RecordedHome) -> None:
        place.recorder.journal = None
        place.say("c", "one")
        assert place.texts("c") == ["one"]
        assert place.journal.files() == []
        with failing_commit(place), pytest.raises(StoreError):
            place.say("c", "two")
        assert place.texts("c") == ["one"]


class TestStatements:
    def test_a_message_of_a_talk_that_goes_on_takes_none_through_sqlalchemy(self, place: RecordedHome) -> None:
        """Which takes longer for each of them than SQLite does."""
        place.talk("c", "one", "two", "three")
        engine, through = place.store._engine, list[str]()  # type: ignore[attr-defined]

        def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
            through.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        place.talk("c", "four", "five")
        event.remove(engine, "before_cursor_execute", note)
        assert through == []
        assert place.texts("c") == ["one", "two", "three", "four", "five"]
        assert place.doctor() == []


class TestAtOnce:
    def test_threads_lose_and_double_nothing(self, place: RecordedHome) -> None:
        def record(number: int) -> list[Message]:
            name = f"c{number % 3}"
            return list(place.record(name, NewMessage(Role.USER, f"text {number}")).messages)

        with ThreadPoolExecutor(6) as threads:
            said = [message for messages in threads.map(record, range(60)) for message in messages]
        kept = [text for name in ("c0", "c1", "c2") for text in place.texts(name)]
        assert sorted(kept) == sorted(f"text {number}" for number in range(60))
        assert len({message.uid for message in said}) == 60
        assert place.doctor() == []
        before = place.rows()
        place.lose_database()
        assert place.rows() == before

    def test_two_recorders_on_one_home_see_each_other(self, place: RecordedHome) -> None:
        place.say("c", "one")
        other = RecordedHome.__new__(RecordedHome)
        other.home, other.clock, other.woken = place.home, place.clock, 0
        other.open()
        other.say("c", "two")
        place.say("c", "three")
        other.close()
        assert place.texts("c") == ["one", "two", "three"]
        assert place.doctor() == []


@contextmanager
def failing_commit(place: RecordedHome) -> Iterator[None]:
    """The next commit of the store fails as it does on a full disk: rolled back, the lock given away."""
    engine = place.store._engine  # type: ignore[attr-defined]

    def fail(_connection: Connection) -> None:
        event.remove(engine, "commit", fail)
        raise sqlite3.OperationalError("database or disk is full")

    event.listen(engine, "commit", fail)
    yield


def test_a_home_that_cannot_be_written_says_so(place: RecordedHome) -> None:
    blocked = place.home / "conversations"
    blocked.write_text("no folder")
    with pytest.raises(JournalError, match="conversations"):
        place.say("c", "one")
    assert place.count() == 0
