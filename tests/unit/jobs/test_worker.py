from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from harken.jobs import job as worker_module
from harken.jobs.job import Worker, WorkerState, run_until_idle
from harken.providers.priority import Foreground, small_step
from harken.storage.sqlite.store import SqliteStore

# Far longer than any test may last: whoever waits for it hangs.
NEVER = 3600.0
PATIENCE_SECONDS = 120.0


class Pile:
    """Work that is there in pieces; each piece is a number of items, or an error."""

    name = "pile"

    def __init__(self, *pieces: int | Exception) -> None:
        self.pieces = list(pieces)
        self.given_back = 0
        self.done = threading.Semaphore(0)
        self.idle = threading.Semaphore(0)
        self.hold: Callable[[], None] = lambda: None

    def run_once(self) -> int:
        if not self.pieces:
            self.idle.release()
            return 0
        piece = self.pieces.pop(0)
        self.hold()
        self.done.release()
        if isinstance(piece, Exception):
            raise piece
        return piece

    def waiting(self) -> int:
        return len(self.pieces)

    def give_back(self) -> None:
        self.given_back += 1

    def add(self, piece: int | Exception) -> None:
        self.pieces.append(piece)

    def is_idle(self) -> bool:
        """Whether it was found empty, within our patience."""
        return self.idle.acquire(timeout=PATIENCE_SECONDS)

    def is_done(self) -> bool:
        """Whether one more piece was done."""
        return self.done.acquire(timeout=PATIENCE_SECONDS)


class TestStates:
    def test_it_goes_from_stopped_over_idle_back_to_stopped(self) -> None:
        pile = Pile()
        worker = Worker(pile, NEVER)
        assert worker.state is WorkerState.STOPPED
        worker.start()
        assert pile.is_idle()
        assert worker.state in (WorkerState.IDLE, WorkerState.PROCESSING)
        worker.stop()
        assert worker.state is WorkerState.STOPPED

    def test_it_is_processing_while_it_works(self) -> None:
        pile, begun, go_on = Pile(1), threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

        pile.hold = hold
        worker = Worker(pile, NEVER)
        worker.start()
        assert begun.wait(PATIENCE_SECONDS)
        assert worker.state is WorkerState.PROCESSING
        go_on.set()
        worker.stop()
        assert worker.done == 1

    def test_it_does_everything_there_is_and_counts_it(self) -> None:
        pile = Pile(3, 4, 5)
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_idle()
        worker.stop()
        assert worker.done == 12

    def test_starting_it_twice_is_starting_it_once(self) -> None:
        pile = Pile()
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_idle()
        worker.start()
        # By name: threads that other tests have left end when they will.
        assert [thread.name for thread in threading.enumerate()].count("harken-pile") == 1
        worker.stop()

    def test_it_can_be_started_again(self) -> None:
        pile = Pile(1)
        worker = Worker(pile, NEVER)
        for _ in range(2):
            worker.start()
            assert pile.is_idle()
            worker.stop()
            pile.add(1)
        assert worker.done == 2

    def test_one_that_could_not_stop_in_time_ends_and_leaves_the_rest_to_the_next(self) -> None:
        pile, begun, go_on = Pile(1, 1, 1), threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

        pile.hold = hold
        worker = Worker(pile, NEVER)
        worker.start()
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop(timeout_seconds=0.01)
        slow = next(thread for thread in threading.enumerate() if thread.name == "harken-pile")
        pile.hold = lambda: None
        worker.start()
        go_on.set()
        slow.join(PATIENCE_SECONDS)
        assert not slow.is_alive()
        assert pile.is_idle()
        worker.stop()
        assert pile.pieces == []

    def test_one_that_could_not_stop_in_time_begins_no_other_step(self) -> None:
        pile, begun, go_on, steps = Pile(1, 1), threading.Event(), threading.Event(), list[int]()

        def step() -> None:
            steps.append(1)
            begun.set()
            assert go_on.wait(PATIENCE_SECONDS)

        pile.hold = lambda: [small_step(step) for _ in range(3)].clear()
        worker = Worker(pile, NEVER)
        worker.start()
        assert begun.wait(PATIENCE_SECONDS)
        worker.stop(timeout_seconds=0.01)
        go_on.set()
        for thread in [each for each in threading.enumerate() if each.name == "harken-pile"]:
            thread.join(PATIENCE_SECONDS)
        assert (steps, worker.state) == ([1], WorkerState.STOPPED)

    def test_stopping_what_never_ran_does_nothing(self) -> None:
        Worker(Pile(), NEVER).stop()


class TestSignals:
    def test_a_signal_wakes_it_at_once(self) -> None:
        pile = Pile()
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_idle()
        pile.add(1)
        worker.wake()
        assert pile.is_done()
        worker.stop()

    def test_it_looks_by_itself_now_and_then(self) -> None:
        pile = Pile()
        worker = Worker(pile, 0.01)
        worker.start()
        assert pile.is_idle()
        pile.add(1)
        assert pile.is_done()
        worker.stop()

    def test_it_stops_though_it_waits_for_a_signal(self) -> None:
        pile = Pile()
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_idle()
        worker.stop()
        assert worker.state is WorkerState.STOPPED


class TestInterrupts:
    """Ctrl-C in the midst of what the program's own thread does with workers, wherever Python looks for it."""

    def test_one_as_a_worker_is_woken_leaves_it_to_be_woken(self) -> None:
        pile = Pile()
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_idle()
        interrupted(worker.wake)
        pile.add(1)
        later = threading.Thread(target=worker.wake, daemon=True)
        later.start()
        assert pile.done.acquire(timeout=5)
        worker.stop()

    def test_one_as_somebody_begins_or_ends_to_wait_holds_no_worker_up(self) -> None:
        foreground = Foreground(patience_seconds=0.01)
        interrupted(foreground.__enter__)
        interrupted(foreground.__exit__)
        worker = threading.Thread(target=foreground.give_way, daemon=True)
        worker.start()
        worker.join(5)
        assert not worker.is_alive()

    def test_one_behind_the_wait_for_the_write_lock_lets_others_write(self, tmp_path: Path) -> None:
        store, lock = SqliteStore(tmp_path / "harken.db", tmp_path / "cache"), _TakenAndInterrupted()
        store.writers = lock  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt), store.writing():
            pass
        assert lock.is_free_for_others()
        store.close()


class _TakenAndInterrupted:
    """A lock that is there once the wait for it ends by Ctrl-C, as while other threads compute."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def acquire(self, timeout: float) -> bool:
        self._lock.acquire(timeout=timeout)
        raise KeyboardInterrupt

    def release(self) -> None:
        self._lock.release()

    def is_free_for_others(self) -> bool:
        with ThreadPoolExecutor(1) as other:
            return other.submit(self._lock.acquire, blocking=False).result()


def interrupted(call: Callable[[], object]) -> None:
    """Call it, with Ctrl-C as each of the functions returns by which `threading` takes a lock."""

    def strike(frame: FrameType, event: str, _given: object) -> Any:
        if frame.f_code.co_filename == threading.__file__ and event == "return":
            raise KeyboardInterrupt
        return strike

    traced = sys.gettrace()
    sys.settrace(strike)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(traced)


class TestErrors:
    def test_it_outlives_an_error_and_shows_its_class(self) -> None:
        pile = Pile(ValueError("a secret"))
        worker = Worker(pile, NEVER)
        worker.start()
        assert pile.is_done()
        worker.wake()
        assert pile.is_idle()
        assert worker.last_error == "ValueError"
        pile.add(1)
        worker.wake()
        assert pile.is_done()
        assert pile.is_idle()
        worker.stop()
        assert worker.last_error is None


class TestRunUntilIdle:
    def test_everything_is_done_and_told(self) -> None:
        told: list[int] = []
        assert run_until_idle(Pile(3, 4), told.append) == 7
        assert told == [3, 7]

    def test_an_error_gives_back_what_was_taken(self) -> None:
        pile = Pile(3, ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            run_until_idle(pile)
        assert pile.given_back == 1

    def test_an_interruption_gives_back_what_was_taken(self) -> None:
        pile = Pile(3)

        def interrupt(_done: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_until_idle(pile, interrupt)
        assert pile.given_back == 1

    def test_patience_waits_for_what_backs_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits: list[float] = []
        pile = _BackingOff(3)
        monkeypatch.setattr(worker_module.time, "sleep", waits.append)
        assert run_until_idle(pile, patient=True) == 1
        assert len(waits) == 3

    def test_without_patience_it_does_not(self) -> None:
        assert run_until_idle(_BackingOff(3)) == 0


class _BackingOff(Pile):
    """One item that is not ready before it was asked for so often."""

    def __init__(self, times: int) -> None:
        super().__init__(1)
        self._times = times

    def run_once(self) -> int:
        self._times -= 1
        return 0 if self._times >= 0 else super().run_once()
