"""When background work looks into the spaces of a team."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.engine import team_workers as workers
from harken.engine.team_workers import SpacesWork, TeamWorkers
from harken.jobs.workers import EXCHANGE
from harken.model.team import TeamSpace

SPACE = TeamSpace("one", "crew", "One")


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as harken:
        yield harken


@pytest.mark.parametrize(("took", "pause"), [(0.1, 5.0), (2.0, 20.0), (900.0, 60.0)])
def test_who_looks_long_for_summaries_that_fall_due_looks_seldom(
    harken: Harken, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    now, looked = [1000.0], list[float]()
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(workers, "_LOOKED_AGAIN_SECONDS", 1e9)

    def opened(_space: TeamSpace) -> Harken:
        looked.append(now[0])
        now[0] += took
        return harken

    work = SpacesWork("summaries", (EXCHANGE,), opened, lambda: (), patience_seconds=5.0, share=0.1)
    work.hear(SPACE)
    began = now[0]
    assert work.run_once() == 0
    work.hear(SPACE)
    for seconds, times in ((pause - 0.5, 1), (pause, 2)):
        now[0] = max(now[0], began + seconds)
        work.run_once()
        assert len(looked) == (times if took < pause else 2)


def test_work_that_is_signalled_one_by_one_waits_for_nothing(harken: Harken, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def opened(space: TeamSpace) -> Harken:
        looked.append(space.id)
        return harken

    work = SpacesWork("embeddings", (EXCHANGE,), opened, lambda: ())
    for _ in range(3):
        work.hear(SPACE)
        work.run_once()
    assert looked == ["one"] * 3


def test_all_spaces_are_looked_at_once_signals_are_heard_again(harken: Harken) -> None:
    told, looked = list[Callable[[str], None]](), list[str]()

    def opened(space: TeamSpace) -> Harken:
        looked.append(space.id)
        return harken

    def listen(heard: Callable[[str], None]) -> Callable[[], None]:
        told.append(heard)
        return lambda: None

    team = TeamWorkers("crew", opened, lambda: (SPACE,), listen, lambda: 0)
    team.start()
    try:
        for times in (3, 6):
            wait_until(lambda times=times: len(looked) >= times)  # type: ignore[misc]
            told[0]("")
    finally:
        team.stop()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
