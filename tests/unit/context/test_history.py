"""The last runs of a task: which of them a next run sees, in which order, whoever recorded them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.chat.tasks import Runs
from harken.context.task_history import last_runs
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
    return [[m.text for m in one.messages] for one in last_runs(place.store, "daily", count, only_complete)]


def test_a_task_that_never_ran_has_an_empty_history(place: RecordedHome) -> None:
    assert read(place) == []


def test_a_damaged_or_emptied_journal_takes_no_run_from_the_history(place: RecordedHome) -> None:
    run(place, "one", "two")
    for file in (place.home / "conversations").glob("scheduler_daily/*.jsonl"):
        file.write_bytes(b"{broken\n")
        (file.parent / "2023-05-07.jsonl").touch()
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
    assert read(place, 1) == [["three", "four"]]
    assert read(place, 2) == [["one", "two"], ["three", "four"]]


def test_runs_are_read_back_over_many_that_died(place: RecordedHome) -> None:
    run(place, "one", "two")
    for number in range(60):
        Runs(place.recorder).begin("daily", f"died {number}")
    assert read(place, 2) == [["one", "two"]]


def test_what_another_program_records_into_the_channel_is_a_run_once_it_is_answered(place: RecordedHome) -> None:
    from harken.record.recorder import Batch, NewConversation

    head = NewConversation("task", "daily")
    place.recorder.record([Batch(head, [NewMessage(Role.USER, "one")])])
    assert read(place) == []
    place.recorder.record([Batch(head, [NewMessage(Role.ASSISTANT, "two")])])
    assert read(place) == [["one", "two"]]
