"""Who waits goes first: background work gives way to it, and spares a machine that is on its battery or busy."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from harken.engine import Harken
from harken.model.lookups import SearchResult
from harken.providers.embedder import Vectors
from harken.providers.embedders.onnx import OnnxEmbedder
from harken.providers.options import EmbedderOptions
from harken.providers.priority import FOREGROUND, Foreground, Machine, Pace, begin_background
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import OPERATIONS
from harken.testing import HashingEmbedder

# Far longer than any test may last.
NEVER, PATIENCE_SECONDS = 3600.0, 120.0
QUESTION = "Where does the ferry to the island leave from?"


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


@pytest.fixture
def endless() -> Iterator[None]:
    """However long somebody waits, the background gives way."""
    before, FOREGROUND.patience_seconds = FOREGROUND.patience_seconds, NEVER
    yield
    FOREGROUND.patience_seconds = before


class Attentive(HashingEmbedder):
    """Holds the first batch of texts until a query comes, and the query until the background stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.asked = threading.Event(), threading.Event()
        self.batches_at_question: list[int] = []
        self._batches = 0

    def embed_passages(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        self._batches += 1
        self.begun.set()
        assert self.asked.wait(PATIENCE_SECONDS)
        return super().embed_passages(texts)

    def embed_query(self, text: str) -> Vectors:
        self.asked.set()
        assert eventually(lambda: FOREGROUND.held_up > 0), "the worker goes on while somebody waits"
        self.batches_at_question.append(self._batches)
        return super().embed_passages([text])[0]  # type: ignore[no-any-return]


def by_search(harken: Harken) -> SearchResult:
    return harken.search(QUESTION)


def by_operation(harken: Harken) -> object:
    return OPERATIONS["search"].call(harken, {"query": QUESTION}, Caller())


@pytest.mark.parametrize("ask", [by_search, by_operation])
def test_a_query_waits_for_the_batch_under_way_and_for_no_other(
    tmp_path: Path, endless: None, ask: Callable[[Harken], object]
) -> None:
    embedder = Attentive()
    embedder.asked.set()
    with Harken(tmp_path, embedder=embedder, env={}, settings={"worker.batch_size": 2}) as harken:
        harken.record_message("talk", "user", "The ferry to the island leaves from the old harbour at nine o'clock.")
        harken.embed()
        embedder.asked.clear()
        embedder.begun.clear()
        for number in range(8):
            harken.record_message("talk", "user", f"{number} boats lie in the old harbour and wait for the ferry.")
        harken.start_worker()
        assert embedder.begun.wait(PATIENCE_SECONDS)
        ask(harken)
        # One from `embed` above, and the one that was under way.
        assert embedder.batches_at_question == [2]
        assert eventually(lambda: embedder.embedded >= 9), "the worker goes on once nobody waits"


def test_questions_without_end_do_not_end_background_work() -> None:
    foreground = Foreground(patience_seconds=0.001)
    with foreground:
        foreground.give_way()
    assert foreground.held_up == 0


def in_background(work: Callable[[], Vectors]) -> Vectors:
    """The work's result, by a thread of the background that does not spare the machine."""

    def run() -> Vectors:
        begin_background(Pace(lambda: False, time.sleep))
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(PATIENCE_SECONDS)


def niceness() -> list[int]:
    tasks = Path("/proc/self/task")
    return [int(task.joinpath("stat").read_text().rsplit(")", 1)[1].split()[16]) for task in tasks.iterdir()]


def test_a_model_stops_between_two_small_runs_and_on_a_lowered_priority(tmp_path: Path, endless: None) -> None:
    embedder = OnnxEmbedder(EmbedderOptions(home=tmp_path, threads=2))
    texts = [f"{QUESTION} {'It leaves from the old harbour. ' * number}" for number in range(24)]
    plain = embedder.embed_passages(texts)
    with ThreadPoolExecutor(1) as pool:
        with FOREGROUND:
            working = pool.submit(in_background, lambda: embedder.embed_passages(texts))
            assert eventually(lambda: FOREGROUND.held_up >= 2), "both threads stand still"
            assert not working.done()
            # A query has the same session for itself.
            assert embedder.embed_query(QUESTION).shape == plain[0].shape
            if sys.platform == "linux":
                assert sum(nice >= max(10, os.nice(0)) for nice in niceness()) >= 2
        assert np.allclose(working.result(PATIENCE_SECONDS), plain, atol=1e-4)


class TestSparing:
    def rests(self, is_gentle: bool, load: float) -> list[float]:
        taken: list[float] = []
        pace = Pace(lambda: is_gentle, taken.append, Machine(Path("/nowhere"), lambda: load))
        assert pace.step(sum, [1, 2]) == 3
        return taken

    def test_a_step_on_a_busy_machine_is_followed_by_a_rest(self) -> None:
        assert len(self.rests(is_gentle=True, load=99.0)) == 1

    def test_an_idle_machine_is_used(self) -> None:
        assert self.rests(is_gentle=True, load=0.0) == []

    def test_the_setting_says_whether(self) -> None:
        assert self.rests(is_gentle=False, load=99.0) == []

    def test_our_own_work_is_no_load(self) -> None:
        cores, now = os.cpu_count() or 1, [0.0]
        # Every core is ours, for so long that the load has followed.
        machine = Machine(Path("/nowhere"), lambda: cores, lambda: cores * now[0], lambda: now[0])
        machine.is_strained()
        now[0] = 600.0
        assert not machine.is_strained()
        idle = Machine(Path("/nowhere"), lambda: cores, lambda: 0.0, lambda: now[0])
        assert idle.is_strained()

    @pytest.mark.parametrize(
        ("files", "is_on_battery"),
        [
            ({"type": "Battery", "status": "Discharging"}, True),
            ({"type": "Battery", "status": "Charging"}, False),
            ({"type": "Battery", "status": "Discharging", "scope": "Device"}, False),
            ({"type": "Mains", "online": "1"}, False),
        ],
    )
    def test_a_battery_that_is_being_emptied_is_spared(
        self, tmp_path: Path, files: dict[str, str], is_on_battery: bool
    ) -> None:
        (supply := tmp_path / "supply").mkdir()
        for name, content in files.items():
            (supply / name).write_text(f"{content}\n")
        assert Machine(tmp_path, lambda: 0.0).is_strained() is is_on_battery
