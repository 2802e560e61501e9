"""The order of a conversation: that of its transcript, however and whenever its messages come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from harken.importers.claude_code import ClaudeCode
from harken.importers.importer import Importer
from harken.importers.jsonl import Jsonl
from harken.journal.export import export
from harken.model.conversations import Message, Role
from harken.record.ids import conversation_uid
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.storage.conversations import look_up, messages_of
from recorded import NOON, RecordedHome

CLAUDE = ClaudeCode(Path("/nowhere"))
EVENING, MORNING = "2026-01-01T23:{:02d}:00.000Z", "2026-01-02T04:34:59.561Z"


def line(number: int, *, text: str = "") -> str:
    """A line of a session that was resumed: questions keep their times, answers have that of the copying."""
    role = "assistant" if number % 2 else "user"
    words = text or f"{role} {number}"
    return json.dumps(
        {
            "type": role,
            "uuid": f"line-{number}",
            "parentUuid": f"line-{number - 1}" if number else None,
            "sessionId": "resumed",
            "timestamp": MORNING if number % 2 else EVENING.format(number),
            "message": {"role": role, "content": [{"type": "text", "text": words}] if number % 2 else words},
        }
    )


def bring(place: RecordedHome, *numbers: int, name: str = "resumed.jsonl") -> None:
    file = place.home / name
    file.write_text("".join(line(number) + "\n" for number in numbers))
    Importer(place.recorder).run(CLAUDE, [file])


def numbers(place: RecordedHome) -> list[int]:
    with place.store.reading() as tx:
        return [int(one.text.split()[1]) for one in messages_of(tx, conversation_uid("claude-code", "resumed"))]


def test_a_session_that_was_stamped_anew_grows_in_its_own_order(place: RecordedHome) -> None:
    bring(place, *range(7))
    assert numbers(place) == list(range(7))
    bring(place, *range(20))
    assert numbers(place) == list(range(20))
    with place.store.reading() as tx:
        for message in messages_of(tx, conversation_uid("claude-code", "resumed"))[1:-1]:
            near = [int(one.text.split()[1]) for one in look_up(tx, message.uid, 1).messages]
            assert near == list(range(near[0], near[0] + 3))


def test_lines_that_are_found_late_stand_where_the_file_has_them(place: RecordedHome) -> None:
    bring(place, 0, 1, 5, 8, 9)
    bring(place, *range(12))
    assert numbers(place) == list(range(12))
    assert place.doctor() == []


def test_what_a_file_has_before_all_that_is_known_comes_first(place: RecordedHome) -> None:
    bring(place, 4, 5)
    bring(place, *range(8), name="whole.jsonl")
    assert numbers(place) == list(range(8))


def test_a_file_that_is_read_in_many_batches_finds_the_place_of_each(
    place: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harken.importers.transcript._PORTION_WEIGHT", 2)
    monkeypatch.setattr("harken.importers.reading.CHECKPOINT_EVERY", 1)
    bring(place, 0, 1, 10, 11)
    bring(place, *range(14))
    assert numbers(place) == list(range(14))


def test_a_conversation_that_is_made_anew_from_its_journal_keeps_its_order(place: RecordedHome) -> None:
    bring(place, 0, 1, 6, 7)
    bring(place, *range(9))
    assert len(place.journal.files(conversation_uid("claude-code", "resumed"))) == 2
    rows = place.rows()
    place.reindex()
    assert place.rows() == rows
    place.lose_database()
    assert numbers(place) == list(range(9))


def test_a_journal_without_positions_is_replayed_in_the_order_of_recording(place: RecordedHome) -> None:
    bring(place, *range(9))
    for path, _ in place.journal.files():
        file = place.home / "conversations" / path
        # As an older Harken wrote them.
        file.write_bytes(re.sub(rb'"position":\d+,|,"crc":"\w+"', b"", file.read_bytes()))
    place.lose_database()
    assert numbers(place) == list(range(9))
    bring(place, *range(12))
    assert numbers(place) == list(range(12))
    place.lose_database()
    assert numbers(place) == list(range(12))


def test_what_is_said_with_an_earlier_time_stands_behind_what_was_said_before(place: RecordedHome) -> None:
    for text, hours in (("one", 0), ("two", -5), ("three", 3), ("four", -9)):
        place.say("c", text, created_at=NOON + timedelta(hours=hours))
    assert place.texts("c") == ["one", "two", "three", "four"]


def test_two_who_write_into_one_conversation_at_once_get_places_one_behind_the_other(place: RecordedHome) -> None:
    def say(who: str) -> list[Message]:
        said = []
        for number in range(25):
            new = NewMessage(Role.USER, f"{who} {number}")
            said += place.recorder.record([Batch(NewConversation("test", "c"), [new])]).messages
        return said

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(say, ("Ada", "Bob")))
    with place.store.reading() as tx:
        positions = [one.position for one in messages_of(tx, place.uid("c"))]
    assert positions == sorted(set(positions))
    assert len(positions) == 50
    for said in told:
        assert [one.position for one in said] == sorted(one.position for one in said)


@pytest.fixture
def other(tmp_path: Path, empty_database: Path, place: RecordedHome) -> Iterator[RecordedHome]:
    (tmp_path / "other").mkdir()
    other = RecordedHome(tmp_path / "other" / "home", empty_database, place.clock)
    yield other
    other.close()


def carry(place: RecordedHome, to: RecordedHome) -> None:
    file = to.home / "export.jsonl"
    with file.open("wb") as stream:
        export(place.store, stream, lambda _done, _all: None)
    Importer(to.recorder, as_mine=True).run(Jsonl(), [file])


def test_an_export_keeps_the_order_and_the_positions(place: RecordedHome, other: RecordedHome) -> None:
    bring(place, 0, 1, 6, 7)
    bring(place, *range(9))
    carry(place, other)
    assert numbers(other) == list(range(9))
    bring(place, *range(12))
    carry(place, other)
    assert other.rows() == place.rows()


def test_two_stores_that_each_went_on_keep_the_order_of_both(
    place: RecordedHome, other: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harken.importers.merge._BATCH_EVENTS", 3)
    place.talk("c", "one", "two")
    carry(place, other)
    place.talk("c", "here three", "here four")
    other.talk("c", "there three", "there four", "there five")
    carry(other, place)
    texts = place.texts("c")
    assert [text for text in texts if not text.startswith("there")] == ["one", "two", "here three", "here four"]
    assert [text for text in texts if not text.startswith("here")] == other.texts("c")
    assert texts.index("there four") == texts.index("there three") + 1
    assert place.doctor() == []
