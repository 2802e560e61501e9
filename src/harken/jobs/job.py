"""Background work: the one job, the worker that runs it, and its switch, which every process sees."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import uuid4

from harken.errors import (
    ConfigError,
    EndpointError,
    HarkenError,
    MissingExtraError,
    ProviderError,
    RateLimitError,
    SpendLimitError,
)
from harken.log import Log
from harken.providers.priority import Pace, begin_background, give_way
from harken.storage.enrichment import jobs
from harken.storage.enrichment.jobs import BACKOFF_SECONDS, WAITED_OUT_SECONDS
from harken.storage.ports import Store, Transaction

Item = TypeVar("Item")
Made = TypeVar("Made")
# How long a job that the day's limit stops waits before it looks again.
_LIMIT_POLL = timedelta(minutes=10)
_PATIENCE_SECONDS, _LONGEST_SECONDS = 0.5, 86_400.0
# What processes had leased that no longer run is looked for so often: it is a question more.
_RELEASED_EVERY_SECONDS = 5.0
# After these no other call can succeed now either.
_STOPS = (EndpointError, SpendLimitError)
_log = Log(__name__)


@dataclass(slots=True)
class Outage:
    """Leaves an endpoint that fails alone for a while, so that one outage does not use up every item's attempts.

    Where it is waited out, as by a worker in the background, the endpoint is asked again within
    `WAITED_OUT_SECONDS[-1]`, and no item is given up for failures of an endpoint that answers nobody. `useless` has of
    the model's last answers why each was of no use, empty where it was; `of` the settings that name it.
    """

    is_waited_out: bool = False
    of: object = None
    useless: list[str] = field(default_factory=list, init=False)
    _failures: int = field(default=0, init=False)
    _answered: bool = field(default=False, init=False)
    _until: datetime | None = field(default=None, init=False)

    def lasts(self, now: datetime) -> bool:
        """True while the endpoint is to be left alone."""
        return self._until is not None and now < self._until

    def begin(self, asked_at: datetime, until: datetime | None = None) -> None:
        """Leave the endpoint alone for longer each time, or until a moment that it named.

        Counted from when the failed call began: one that ran into its time limit has waited already.
        """
        steps = WAITED_OUT_SECONDS if self.is_waited_out else BACKOFF_SECONDS
        seconds = steps[min(self._failures, len(steps) - 1)]
        self._failures += 1
        self._answered = False
        self._until = until or asked_at + timedelta(seconds=seconds)

    def end(self) -> None:
        """It answered."""
        self._failures, self._answered, self._until = 0, True, None

    def gives_up(self, error: Exception) -> bool:
        """True where an item with too many failures, this the last, is to be given up; asked before `begin`."""
        return not self.is_waited_out or self._answered or not isinstance(error, EndpointError)


def is_dead(owner: str) -> bool:
    """True for a process of this machine that no longer runs: its leases need not be waited for."""
    host, pid, *_ = (*owner.rsplit(":", 2), "")
    if os.name != "posix" or host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


class Job(ABC, Generic[Item, Made]):
    """Work found by query, claimed with a lease, done in portions, and left alone for a while where it fails.

    A subclass says what there is to do, what is made of it, and where that is kept. Any number of processes may work at
    once; what another one has taken over after a lease ended is left to it.

    Attributes:
        name: the kind of work, under which rows are leased.
        row: the attribute of an item that holds its row.
        locks: the tables that keeping results writes; see `Store.writing`.
        wake_next: called after results were kept.
        fail_fast: raise an endpoint's failure, and what nobody expects, after noting it.
        is_paused: only what needs no model is wanted: an endpoint fails, or the day's money is spent.
        max_retries: how often an item that fails is tried again before it is given up.
        stored: results that were kept so far.
        is_drained: the last batch was all there was; told by work that is looked for behind each message.
        blocked_by: the failure because of which nothing is done at present.
    """

    name: str
    row: ClassVar[str]
    locks: ClassVar[Sequence[str] | None] = None
    store: Store
    now: Callable[[], datetime]
    wake_next: Callable[[], None] | None = None
    fail_fast = False
    is_paused = False
    max_retries = len(BACKOFF_SECONDS)
    stored = 0
    is_drained = False
    blocked_by: HarkenError | None = None

    def __post_init__(self) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self.outage = Outage()
        self._released_at = -math.inf

    @property
    def blocked_reason(self) -> str:
        """The reason why nothing is done at present, for a person; empty while work goes on."""
        return "" if self.blocked_by is None else str(self.blocked_by)

    def run_once(self) -> int:
        """Do one batch; how many items were taken on, well or not, 0 when there is nothing to do now."""
        self.is_paused = self.outage.lasts(self.now())
        portions = self._lease()
        for number, portion in enumerate(portions):
            if (not self.is_paused and self.outage.lasts(self.now())) or not self._do(portion):
                self._leave([item for left in portions[number:] for item in left])
                break
        if not portions and not self.is_paused:
            if self.blocked_by and not self.waiting():
                self.blocked_by = None
            self._idle()
        return sum(map(len, portions))

    def waiting(self) -> int:
        """Count the items that are still to be done."""
        with self.store.reading() as tx:
            return self._count(tx)

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        with self.store.writing(of=()) as tx:
            jobs.release(tx, self.name, self.owner)

    @abstractmethod
    def _count(self, tx: Transaction) -> int:
        """Count the items that are still to be done."""

    def _candidates(self) -> Iterator[Sequence[int]]:
        """Batches of rows to claim one of, until some are got; empty where claiming looks for itself."""
        if not self.is_paused:
            yield ()

    @abstractmethod
    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[Item]]:
        """Lease what is to be done, in portions that are made and kept together."""

    @abstractmethod
    def _make(self, items: list[Item]) -> Sequence[Made]:
        """The results of a portion, in order; says `_answered` where a model has made them."""

    @abstractmethod
    def _keep(self, tx: Transaction, made: Sequence[tuple[Item, Made]]) -> int:
        """Write results that are still wanted; how many that was."""

    def _leave(self, items: Sequence[Item]) -> None:
        """Let what is not done be found again: whoever can go on need not wait for leases to end."""
        self.give_back()

    def _idle(self) -> None:
        """Do what is to be done once nothing is found any more."""

    def _answered(self) -> None:
        """The model has answered: nothing blocks the work."""
        self.outage.end()
        self.blocked_by = None

    def _lease(self) -> list[list[Item]]:
        for rows in self._candidates():
            with self.store.writing(of=()) as tx:
                if time.monotonic() - self._released_at >= _RELEASED_EVERY_SECONDS:
                    self._released_at = time.monotonic()
                    for owner in filter(is_dead, jobs.lease_owners(tx, self.name)):
                        jobs.release(tx, self.name, owner)
                if portions := self._claim(tx, rows):
                    return portions
        return []

    def _do(self, items: list[Item]) -> bool:
        """Make and keep a portion, all or nothing; whether the rest of the batch may be tried."""
        asked_at = self.now()
        try:
            made = self._make(items)
        except Exception as error:  # noqa: BLE001 - a model of one's own may raise anything, of one text each time
            if len(items) > 1 and not isinstance(error, _STOPS):
                # One bad item must not take its batch with it into the list of the given up.
                middle = len(items) // 2
                return self._do(items[:middle]) and self._do(items[middle:])
            return self._failed(items, error, asked_at)
        give_way()
        with self.store.writing(of=self.locks) as tx:
            mine = self._owned(tx, items)
            done = [pair for pair in zip(items, made, strict=True) if getattr(pair[0], self.row) in mine]
            self.stored += self._keep(tx, done) if done else 0
            jobs.complete(tx, self.name, sorted(mine))
        if self.wake_next is not None:
            self.wake_next()
        return True

    def _failed(self, items: list[Item], error: Exception, asked_at: datetime) -> bool:
        """Note a failure; whether the rest of the batch may be tried."""
        self.is_drained = False
        _log.warning("job_failed", work=self.name, items=len(items), error_class=type(error).__name__)
        until = self.now() + _LIMIT_POLL if isinstance(error, SpendLimitError) else None
        if until is None:
            with self.store.writing(of=()) as tx:
                limits = self.outage.gives_up(error), self.max_retries
                jobs.fail(tx, self.name, sorted(self._owned(tx, items)), type(error).__name__, asked_at, *limits)
        if isinstance(error, RateLimitError) and error.retry_after_seconds is not None:
            until = self.now() + timedelta(seconds=min(error.retry_after_seconds, _LONGEST_SECONDS))
        stops, is_unexpected = isinstance(error, _STOPS), not isinstance(error, HarkenError)
        if isinstance(error, _STOPS):
            self.blocked_by = error
            self.outage.begin(asked_at, until)
        if self.fail_fast if stops or is_unexpected else not isinstance(error, ProviderError):
            self.give_back()
            raise error
        return not stops

    def _begun(self, items: Sequence[Item], lease_seconds: float) -> set[int]:
        """Note that it is their turn, for a batch is leased as a whole; rows of those that are still ours."""
        until = self.now() + timedelta(seconds=lease_seconds)
        with self.store.writing(of=()) as tx:
            return jobs.renew(tx, self.name, [getattr(item, self.row) for item in items], self.owner, until)

    def _owned(self, tx: Transaction, items: list[Item]) -> set[int]:
        return jobs.owned(tx, self.name, [getattr(item, self.row) for item in items], self.owner)


class AnyWork(Protocol):
    """What a worker does, batch by batch."""

    @property
    def name(self) -> str:
        """The kind of work."""

    @property
    def blocked_reason(self) -> str:
        """The reason why nothing is done at present, for a person; empty while work goes on."""

    def run_once(self) -> int:
        """Do one batch; how many items were taken on, 0 when there is nothing to do now."""

    @property
    def is_drained(self) -> bool:
        """Whether looking again now, behind a batch, would find nothing."""

    def waiting(self) -> int:
        """Count the items that are still to be done."""

    def give_back(self) -> None:
        """Return what was claimed and not finished."""


class WorkerState(StrEnum):
    """The states of a worker; IDLE and PROCESSING are both running."""

    STOPPED = "stopped"
    IDLE = "idle"
    PROCESSING = "processing"


class Worker:
    """Runs one job in a thread of its own.

    It polls as well, since nobody signals the work of another process. What it does is done in the background: see
    `harken.providers.priority`.

    Args:
        work: what it does.
        poll_seconds: how often it looks for some.
        is_gentle: whether a machine on its battery, or a busy one, is to be spared; asked with each step.

    Attributes:
        done: how many items it has taken on.
        last_error: class of the error that its last batch raised; None after one that did something.
    """

    def __init__(self, work: AnyWork, poll_seconds: float, is_gentle: Callable[[], bool] = lambda: False) -> None:
        self.state = WorkerState.STOPPED
        self.done = 0
        self.last_error: str | None = None
        self.work = work
        self._poll_seconds = poll_seconds
        self._is_gentle = is_gentle
        # An event's lock stays taken where Ctrl-C comes as it is set, and whoever has a worker woken waits for ever.
        self._signal = SimpleQueue[None]()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._late_at = math.inf

    def start(self) -> None:
        """Begin; a running worker is left alone."""
        if self._thread is None or not self._thread.is_alive() or self._stopping.is_set():
            # Of its own, so that one that could not stop in time does not go on with the new one.
            self._stopping = threading.Event()
            self.state = WorkerState.PROCESSING
            name = f"harken-{self.work.name}"
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), name=name, daemon=True)
            self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the batch in hand and end; one that takes longer is left at its next step, until its lease ends."""
        self._late_at = time.monotonic() + timeout_seconds
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def wake(self) -> None:
        """There is work; returns at once."""
        # One is enough; a worker that is at work takes none until it is done.
        if self._signal.empty():
            self._signal.put(None)

    def _run(self, stopping: threading.Event) -> None:
        pace = Pace(
            self._is_gentle, stopping.wait, is_late=lambda: stopping.is_set() and time.monotonic() > self._late_at
        )
        begin_background(pace)
        try:
            while not stopping.is_set():
                self.state = WorkerState.PROCESSING
                give_way()
                if self._batch() == 0:
                    self.state = WorkerState.IDLE
                    with suppress(Empty):
                        self._signal.get(timeout=self._poll_seconds)
        finally:
            if stopping is self._stopping:
                self.state = WorkerState.STOPPED

    def _batch(self) -> int:
        try:
            done = self.work.run_once()
        except SystemExit:
            return 0
        except Exception as error:  # noqa: BLE001 - a worker outlives whatever its work raises; it is logged and shown
            self.last_error = type(error).__name__
            _log.warning("work_failed", work=self.work.name, error_class=self.last_error)
            return 0
        self.done += done
        if done:
            self.last_error = None
        return done


def run_until_idle(work: AnyWork, progress: Callable[[int], None] = lambda _done: None, patient: bool = False) -> int:
    """Do everything there is to do now, in this thread, given back when interrupted; how many items were taken on.

    Args:
        work: a job, or one with a switch.
        progress: called after each batch with the number of items done so far.
        patient: wait for what backs off or is leased elsewhere, until nothing waits any more.
    """
    done = 0
    try:
        while True:
            if batch := work.run_once():
                done += batch
                progress(done)
            elif patient and work.waiting():
                time.sleep(_PATIENCE_SECONDS)
            else:
                return done
    except BaseException:
        work.give_back()
        raise


@dataclass(slots=True)
class SwitchedWork:
    """Does a job unless somebody switched it off, here or in another process; notes for all of them what blocks it.

    The endpoint of its model may not answer yet, or an extra not be installed. That is a failure like any other: it is
    said, and tried again for as long as it lasts.

    Args:
        name: the kind of work.
        opened: gives the job, with what it needs for a batch open; asked before each.
        is_wanted: do it even where it is switched off, for somebody asks for it.

    Attributes:
        blocked_reason: why nothing is done here at present, in words for a person; empty while work goes on.
    """

    store: Store
    name: str
    opened: Callable[[], Job[Any, Any]]
    now: Callable[[], datetime]
    is_wanted: bool = False
    blocked_reason: str = field(default="", init=False)
    _noted: str | None = field(default=None, init=False)
    _job: Job[Any, Any] | None = field(default=None, init=False)
    _outage: Outage = field(default_factory=lambda: Outage(is_waited_out=True), init=False)

    def run_once(self) -> int:
        """Do one batch; 0 when it is switched off, cannot be done, or there is nothing to do now."""
        if self._outage.lasts(self.now()) or not self._is_enabled():
            return 0
        asked_at = self.now()
        try:
            self._job = self.opened()
        except (ConfigError, MissingExtraError, ProviderError) as error:
            _log.warning("work_not_opened", work=self.name, error_class=type(error).__name__)
            self._outage.begin(asked_at)
            self._note(str(error))
            return 0
        self._outage.end()
        try:
            return self._job.run_once()
        finally:
            self._note(self._job.blocked_reason)

    @property
    def is_drained(self) -> bool:
        """Whether looking again now, behind a batch, would find nothing."""
        return self._job is not None and self._job.is_drained

    def waiting(self) -> int:
        """Count the items to wait for; none where it is switched off, or nothing more is spent today."""
        if self._job is None or not isinstance(self._job.blocked_by, EndpointError | None) or not self._is_enabled():
            return 0
        return self._job.waiting()

    def give_back(self) -> None:
        """Return what was claimed and not finished."""
        if self._job is not None:
            self._job.give_back()

    def _is_enabled(self) -> bool:
        if self.is_wanted:
            return True
        with self.store.reading() as tx:
            return jobs.is_enabled(tx, self.name, is_last=True)

    def _note(self, reason: str) -> None:
        self.blocked_reason = reason
        if self._noted is None:
            with self.store.reading() as tx:
                self._noted = jobs.blocked_reason(tx, self.name)
        if reason != self._noted:
            with self.store.writing() as tx:
                jobs.put_blocked_reason(tx, self.name, reason)
            self._noted = reason
