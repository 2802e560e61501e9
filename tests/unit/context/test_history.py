"""Reading a task's runs out of the journal: what stands there decides, whoever wrote it and however it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from harken.chat.tasks import Runs
from harken.context.task_history import TaskHistory
from harken.model.conversations import ExchangeStatus, Role
from harken.record.recorder import NewMessage
from recorded import RecordedHome


@pytest.fixture
def place(tmp_path: Path, empty_database: Path) -> Iterator[RecordedHome]:
    place = RecordedHome(tmp_path / "home", empty_database)
    yield place
    place.close()


def run(place: RecordedHome, request: str, *answers: str, days_between: float = 0) -> None:
    """A complete run; its answers may come on later days."""
    place.clock.go_on(minutes=1)
    runs = Runs(place.recorder)
    begun, _ = runs.begin("daily", request)
    place.clock.go_on(days=days_between)
    runs.finish(begun, [NewMessage(Role.ASSISTANT, answer) for answer in answers], ExchangeStatus.COMPLETED)


def read(place: RecordedHome, count: int = 5, only_complete: bool = True) -> list[list[str]]:
    history = TaskHistory(place.store, place.journal)
    found = [[m.text for m in one.messages] for one in history.last_runs("daily", count, only_complete)]
    from_rows = TaskHistory(place.store, None).last_runs("daily", count, only_complete)
    if not place_is_damaged(place):
        assert [[m.text for m in one.messages] for one in from_rows] == found
    return found


def place_is_damaged(place: RecordedHome) -> bool:
    return any(b"{broken" in file.read_bytes() for file in files(place))


def files(place: RecordedHome) -> list[Path]:
    return sorted((place.home / "conversations").glob("scheduler_daily/*.jsonl"))


def damage(file: Path, holding: bytes) -> None:
    """Make the one line that holds these words unreadable, at the same length."""
    lines = file.read_bytes().splitlines(keepends=True)
    (number,) = (number for number, line in enumerate(lines) if b'"message"' in line and holding in line)
    lines[number] = b"{broken".ljust(len(lines[number]) - 1) + b"\n"
    file.write_bytes(b"".join(lines))


def test_a_missing_folder_is_an_empty_history(place: RecordedHome) -> None:
    with capture_logs() as logs:
        assert read(place) == []
    assert logs == []


def test_an_empty_file_is_passed_over(place: RecordedHome) -> None:
    run(place, "one", "two")
    (files(place)[0].parent / "2023-05-07.jsonl").touch()
    assert read(place) == [["one", "two"]]


def test_a_single_complete_run_is_given_whole(place: RecordedHome) -> None:
    run(place, "one", "thinking", "two")
    assert read(place) == [["one", "thinking", "two"]]


def test_the_last_runs_come_oldest_first_and_no_more_than_asked_for(place: RecordedHome) -> None:
    for number in range(8):
        run(place, f"ask {number}", f"answer {number}", days_between=number % 2)
    assert read(place, 3) == [[f"ask {number}", f"answer {number}"] for number in (5, 6, 7)]
    assert len(read(place, 100)) == 8


def test_a_last_run_without_an_answer_is_skipped(place: RecordedHome) -> None:
    run(place, "one", "two")
    Runs(place.recorder).begin("daily", "three")
    assert read(place) == [["one", "two"]]
    assert read(place, only_complete=False) == [["one", "two"], ["three"]]


def test_runs_without_an_answer_in_the_middle_are_skipped_too(place: RecordedHome) -> None:
    run(place, "one", "two")
    Runs(place.recorder).begin("daily", "died")
    run(place, "five", "six")
    assert read(place, 2) == [["one", "two"], ["five", "six"]]


def test_without_any_complete_run_it_is_empty(place: RecordedHome) -> None:
    Runs(place.recorder).begin("daily", "one")
    assert read(place) == []


def test_a_run_may_span_several_days(place: RecordedHome) -> None:
    run(place, "one", "two")
    run(place, "three", "four", days_between=2)
    assert len(files(place)) == 2
    assert read(place, 1) == [["three", "four"]]
    assert read(place, 2) == [["one", "two"], ["three", "four"]]


def test_only_the_days_that_are_needed_are_read(place: RecordedHome) -> None:
    for number in range(5):
        run(place, f"ask {number}", f"answer {number}")
        place.clock.go_on(days=1)
    files(place)[0].write_bytes(b"{broken\n")
    with capture_logs() as logs:
        assert read(place, 2) == [["ask 3", "answer 3"], ["ask 4", "answer 4"]]
    assert logs == []


def test_a_malformed_line_is_skipped_with_a_warning_that_quotes_nothing(place: RecordedHome) -> None:
    run(place, "one", "quetzalcoatl", "two")
    damage(files(place)[0], b"quetzalcoatl")
    with capture_logs() as logs:
        assert read(place) == [["one", "two"]]
    assert [(log["event"], log["log_level"], log["error_class"]) for log in logs] == [
        ("task_line_skipped", "warning", "JournalError")
    ]
    assert "broken" not in repr(logs)


def test_a_run_whose_answer_is_malformed_is_not_complete(place: RecordedHome) -> None:
    run(place, "one", "two")
    run(place, "three", "four")
    damage(files(place)[0], b'"four"')
    assert read(place) == [["one", "two"]]


def test_a_run_whose_beginning_is_lost_keeps_the_rest(place: RecordedHome) -> None:
    run(place, "one", "two")
    file = files(place)[0]
    lines = [line for line in file.read_bytes().splitlines(keepends=True) if b'"event":"exchange"' not in line]
    file.write_bytes(b"{broken\n" + b"".join(lines))
    assert read(place) == [["one", "two"]]


def test_what_another_program_records_into_the_channel_is_a_run_once_it_is_answered(place: RecordedHome) -> None:
    from harken.record.recorder import Batch, NewConversation

    head = NewConversation("task", "daily")
    place.recorder.record([Batch(head, [NewMessage(Role.USER, "one")])])
    assert read(place) == []
    place.recorder.record([Batch(head, [NewMessage(Role.ASSISTANT, "two")])])
    assert read(place) == [["one", "two"]]
