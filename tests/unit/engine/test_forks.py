"""Processes that are forked beside an open Harken, as `multiprocessing` does."""

from __future__ import annotations

import multiprocessing
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.jobs.job import WorkerState
from harken.testing import HashingEmbedder
from recorded import LONG


@pytest.fixture
def home(ready_home: Path) -> Path:
    return ready_home


@pytest.fixture
def harken(home: Path) -> Iterator[Harken]:
    with Harken(home, embedder=HashingEmbedder(), env={}) as harken:
        yield harken


def in_a_fork(work: Callable[[Any], None], given: Any) -> int | None:
    """The exit code of a forked process that does something; None where it does not end."""
    child = multiprocessing.get_context("fork").Process(target=work, args=(given,))
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which is what this is about.
        warnings.simplefilter("ignore")
        child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    return code


def _search_in_a_fork(harken: Harken) -> None:
    assert harken.search(f"{LONG} again").hits[0].vector_rank == 1


def _record_in_a_fork(harken: Harken, is_closed: Event, is_recorded: Event, is_seen: Event) -> None:
    for number in range(30):
        harken.record_message("fork", "user", f"said beside it {number}")
    assert is_closed.wait(60)
    harken.record_message("fork", "user", "said behind its end")
    is_recorded.set()
    is_seen.wait(60)


def _work_in_a_fork(harken: Harken) -> None:
    assert not _workers()
    harken.start_worker()
    assert _workers()


def _record_in_another(home: Path) -> None:
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        harken.record_message("talk", "user", "said in a fork")


def _workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("harken-")]


def test_a_forked_process_searches_by_meaning_as_well(harken: Harken) -> None:
    """Its parent's threads, which embed queries, are not there: it waited for them for ever."""
    harken.record_message("talk", "user", LONG)
    harken.embed()
    assert harken.search(LONG).hits[0].vector_rank == 1
    assert in_a_fork(_search_in_a_fork, harken) == 0


def test_a_forked_process_starts_workers_of_its_own(harken: Harken) -> None:
    """Its parent's, whose threads it has not, were taken for its own: what a daemon recorded got no vectors."""
    harken.start_worker()
    # What a thread holds at the fork is held for ever in the child.
    idle, until = {WorkerState.IDLE}, time.monotonic() + 60
    while {each.state for each in harken.background._workers.values()} != idle and time.monotonic() < until:
        time.sleep(0.01)
    assert in_a_fork(_work_in_a_fork, harken) == 0


def test_a_forked_process_writes_where_others_read(home: Path, engine_settings: dict[str, Any]) -> None:
    """It had its parent's connections: a file was damaged by both, of a server they read each other's answers."""
    forking = multiprocessing.get_context("fork")
    signals = is_closed, is_recorded, is_seen = forking.Event(), forking.Event(), forking.Event()
    opened = partial(Harken, home, settings={"embedder": "none", **engine_settings}, env={})
    with opened() as harken:
        harken.record_message("talk", "user", "said before it")
        child = forking.Process(target=_record_in_a_fork, args=(harken, *signals))
        child.start()
        for number in range(30):
            harken.record_message("talk", "user", f"said beside it {number}")
    is_closed.set()
    is_recorded.wait(60)
    with opened() as harken:
        assert harken.replayed.messages == 0
        assert harken.maintenance.status().counts.messages == 62
    is_seen.set()
    child.join(60)
    child.kill()


def test_a_forked_process_writes_where_its_parent_was_writing(harken: Harken) -> None:
    """SQLite took its parent's transaction for one of its own: every write was "locked by another process"."""
    is_writing = threading.Event()

    def write() -> None:
        with harken.store.writing():
            is_writing.set()
            time.sleep(0.3)

    writing = threading.Thread(target=write)
    writing.start()
    assert is_writing.wait(60)
    assert in_a_fork(_record_in_another, harken.home) == 0
    writing.join()
    harken.record_message("talk", "user", "said behind it")
    assert harken.maintenance.status().counts.messages == 2
