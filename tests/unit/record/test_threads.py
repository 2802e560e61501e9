from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harken.errors import NotFoundError
from harken.model.conversations import Exchange, ExchangeEnd, ExchangeStatus, Message, MessageType, Role, Segment
from harken.record.recorder import NewMessage
from harken.record.threads import Thread, read_thread
from recorded import RecordedHome

NOON = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
CALL, RESULT, MARKER = MessageType.TOOL_CALL, MessageType.TOOL_RESULT, MessageType.MARKER
ASKED, ANSWERED = (Role.USER, MessageType.TEXT), (Role.ASSISTANT, MessageType.TEXT)
CALLED, GOT = (Role.ASSISTANT, CALL), (Role.TOOL, RESULT)


def placed(*said: tuple[Role, MessageType], finish: bool = False) -> Thread:
    """A thread after these messages, a second apart."""
    thread = Thread("c")
    for number, (role, kind) in enumerate(said):
        moment = NOON + timedelta(seconds=number)
        thread.place(Message(f"m{number}", "c", "", "", role, kind, "text", moment))
    if finish:
        thread.finish()
    return thread


def groups(thread: Thread) -> list[list[str]]:
    """Ids of the messages of each exchange, in order."""
    found: dict[str, list[str]] = {}
    for message in thread.messages:
        found.setdefault(message.exchange_uid, []).append(message.uid)
    return list(found.values())


def ends(thread: Thread) -> list[str]:
    return [event.status.value for event in thread.events if isinstance(event, ExchangeEnd)]


class TestExchanges:
    def test_a_question_and_its_answer_are_one(self) -> None:
        assert groups(placed(ASKED, ANSWERED)) == [["m0", "m1"]]

    def test_the_next_question_begins_the_next(self) -> None:
        thread = placed(ASKED, ANSWERED, ASKED, ANSWERED)
        assert groups(thread) == [["m0", "m1"], ["m2", "m3"]]
        assert [event.number for event in thread.events if isinstance(event, Exchange)] == [1, 2]
        assert ends(thread) == ["completed"]

    def test_calls_and_results_belong_to_the_question_that_led_to_them(self) -> None:
        assert groups(placed(ASKED, CALLED, GOT, CALLED, GOT, ANSWERED, ASKED)) == [
            ["m0", "m1", "m2", "m3", "m4", "m5"],
            ["m6"],
        ]

    def test_questions_before_any_reply_are_one(self) -> None:
        assert groups(placed(ASKED, ASKED, ANSWERED)) == [["m0", "m1", "m2"]]

    def test_several_answers_in_a_row_are_one(self) -> None:
        assert groups(placed(ASKED, ANSWERED, ANSWERED, ANSWERED)) == [["m0", "m1", "m2", "m3"]]

    def test_a_reply_that_nobody_asked_for_has_an_exchange(self) -> None:
        assert groups(placed(ANSWERED, ASKED)) == [["m0"], ["m1"]]

    def test_a_system_marker_begins_nothing_and_answers_nothing(self) -> None:
        marker = (Role.SYSTEM, MARKER)
        assert groups(placed(ASKED, marker, ASKED, marker, ANSWERED, marker)) == [["m0", "m1", "m2", "m3", "m4", "m5"]]

    def test_a_question_interrupts_an_exchange_that_has_its_first_reply(self) -> None:
        thread = placed(ASKED, CALLED, ASKED)
        assert groups(thread) == [["m0", "m1"], ["m2"]]
        assert ends(thread) == ["completed"]

    def test_everything_is_in_one_segment_until_a_new_one_is_begun(self) -> None:
        thread = placed(ASKED, ANSWERED, ASKED)
        assert len({message.segment_uid for message in thread.messages}) == 1
        assert [event.number for event in thread.events if isinstance(event, Segment)] == [1]

    def test_the_same_messages_get_the_same_exchanges_anywhere(self) -> None:
        assert placed(ASKED, ANSWERED, ASKED).events == placed(ASKED, ANSWERED, ASKED).events


class TestEnding:
    def test_the_last_exchange_is_ended_when_it_has_its_answer(self) -> None:
        thread = placed(ASKED, CALLED, GOT, ANSWERED, finish=True)
        (end,) = [event for event in thread.events if isinstance(event, ExchangeEnd)]
        assert (end.status, end.at) == (ExchangeStatus.COMPLETED, NOON + timedelta(seconds=3))

    @pytest.mark.parametrize("said", [(ASKED,), (ASKED, CALLED), (ASKED, CALLED, GOT), (ASKED, ANSWERED, CALLED), ()])
    def test_one_without_its_answer_stays_open(self, said: tuple[tuple[Role, MessageType], ...]) -> None:
        assert ends(placed(*said, finish=True)) == []

    def test_it_is_ended_once(self) -> None:
        thread = placed(ASKED, ANSWERED, finish=True)
        thread.finish()
        thread.end(ExchangeStatus.FAILED, "late")
        assert ends(thread) == ["completed"]


class TestGoingOn:
    """What was said in one call and goes on in the next, as everything does that is said now."""

    def test_an_answer_joins_the_question_of_an_earlier_call(self, place: RecordedHome) -> None:
        asked = place.say("c", "a question")
        answered = place.say("c", "an answer", Role.ASSISTANT)
        assert asked.exchange_uid == answered.exchange_uid
        assert place.say("c", "another question").exchange_uid != asked.exchange_uid

    def test_message_by_message_gives_what_a_batch_gives(self, place: RecordedHome) -> None:
        said = [ASKED, ASKED, CALLED, GOT, ANSWERED, ASKED, (Role.SYSTEM, MARKER), ANSWERED, CALLED, ASKED]
        batch = place.record("whole", *(NewMessage(role, f"t{i}", kind) for i, (role, kind) in enumerate(said)))
        single = [place.say("single", f"t{i}", role, type=kind) for i, (role, kind) in enumerate(said)]
        shapes = []
        for messages in (batch.messages, single):
            order = list(dict.fromkeys(message.exchange_uid for message in messages))
            shapes.append([order.index(message.exchange_uid) for message in messages])
        assert shapes[0] == shapes[1]

    def test_an_ended_exchange_takes_no_question_and_every_late_reply(self, place: RecordedHome) -> None:
        asked, _ = place.talk("c", "a question", "an answer")
        place.recorder.end_exchange(place.uid("c"), ExchangeStatus.COMPLETED)
        assert place.say("c", "an afterthought", Role.ASSISTANT).exchange_uid == asked.exchange_uid
        assert place.say("c", "a question").exchange_uid != asked.exchange_uid

    def test_an_exchange_that_was_ended_badly_keeps_why(self, place: RecordedHome) -> None:
        place.say("c", "a question")
        place.recorder.end_exchange(place.uid("c"), ExchangeStatus.FAILED, "out of paper, password=hunter2hunter2")
        (row,) = place.rows()["exchanges"]
        assert row["status"] == "failed"
        assert row["error"].startswith("out of paper")
        assert "hunter2" not in row["error"]
        assert not any(b"hunter2" in line for line in place.lines("c"))

    def test_a_new_segment_ends_what_was_open_and_starts_fresh(self, place: RecordedHome) -> None:
        place.talk("c", "a question", "an answer")
        place.say("c", "a question that is never answered")
        segment = place.recorder.new_segment(place.uid("c"))
        after = place.say("c", "a question in the new segment")
        assert (segment.number, after.segment_uid) == (2, segment.uid)
        statuses = sorted((row["number"], row["status"]) for row in place.rows()["exchanges"])
        assert statuses == [(1, "completed"), (2, "failed"), (3, "in_progress")]

    def test_segments_count_on(self, place: RecordedHome) -> None:
        place.say("c", "hello")
        numbers = [place.recorder.new_segment(place.uid("c")).number for _ in range(3)]
        assert numbers == [2, 3, 4]

    def test_a_conversation_that_is_not_there_has_nothing_to_end(self, place: RecordedHome) -> None:
        with pytest.raises(NotFoundError, match="no conversation nothing"):
            place.recorder.end_exchange("nothing", ExchangeStatus.COMPLETED)
        with pytest.raises(NotFoundError, match="no conversation nothing"):
            place.recorder.new_segment("nothing")

    def test_a_conversation_that_is_new_has_an_empty_thread(self, place: RecordedHome) -> None:
        with place.store.reading() as tx:
            assert read_thread(tx, "nothing") == Thread("nothing")
