"""Background work: what every job shares, the worker that runs it, and its switch, which every process sees."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import uuid4

import structlog

from harken.errors import ConfigError, EndpointError, HarkenError, MissingExtraError, ProviderError, RateLimitError
from harken.storage.enrichment.jobs import (
    BACKOFF_SECONDS,
    WAITED_OUT_SECONDS,
    blocked_reason,
    is_enabled,
    put_blocked_reason,
)
from harken.storage.ports import Store

# How long a worker waits for a setting to change before it looks again.
LIMIT_POLL = timedelta(minutes=10)


@dataclass(slots=True)
class Outage:
    """Leaves an endpoint that fails alone for a while, so that one outage does not use up every item's attempts.

    Attributes:
        is_waited_out: however long it lasts, as by a worker in the background: the endpoint is asked again within
            `WAITED_OUT_SECONDS[-1]`, and no item is given up for failures of an endpoint that answers nobody.
    """

    is_waited_out: bool = False
    _failures: int = field(default=0, init=False)
    _answered: bool = field(default=False, init=False)
    _until: datetime | None = field(default=None, init=False)

    def lasts(self, now: datetime) -> bool:
        """Whether the endpoint is still to be left alone."""
        return self._until is not None and now < self._until

    def begin(self, asked_at: datetime, until: datetime | None = None) -> None:
        """It failed: leave it alone for longer each time, or until a moment that it named.

        Args:
            asked_at: when the call began: one that ran into its time limit has waited already.
            until: that moment.
        """
        steps = WAITED_OUT_SECONDS if self.is_waited_out else BACKOFF_SECONDS
        seconds = steps[min(self._failures, len(steps) - 1)]
        self._failures += 1
        self._answered = False
        self._until = until or asked_at + timedelta(seconds=seconds)

    def end(self) -> None:
        """It answered."""
        self._failures, self._answered, self._until = 0, True, None

    def gives_up(self, error: HarkenError) -> bool:
        """Whether an item with too many failures, of which this is the last, is to be given up; before `begin`."""
        return not self.is_waited_out or self._answered or not isinstance(error, EndpointError)


def asked_for(error: EndpointError, now: datetime) -> datetime | None:
    """When an endpoint wants to be asked again; None where it does not say."""
    seconds = error.retry_after_seconds if isinstance(error, RateLimitError) else None
    return None if seconds is None else now + timedelta(seconds=seconds)


def new_owner() -> str:
    """A name for whoever takes leases in this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that no longer runs; its leases need not be waited for."""
    host, pid, *_ = (*owner.rsplit(":", 2), "")
    if os.name != "posix" or host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


_PATIENCE_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class WorkerState(StrEnum):
    """What a worker is doing; IDLE and PROCESSING are both running."""

    STOPPED = "stopped"
    IDLE = "idle"
    PROCESSING = "processing"


class Work(Protocol):
    """A kind of work."""

    @property
    def name(self) -> str:
        """The kind of work."""
        ...

    def run_once(self) -> int:
        """Do one batch; the number of items taken on, 0 when there is nothing to do now."""
        ...

    def waiting(self) -> int:
        """How many items are still to be done."""
        ...

    def give_back(self) -> None:
        """Return what was claimed and not finished."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """How a worker stands."""

    name: str
    state: WorkerState
    done: int
    last_error: str | None


class Worker:
    """Runs one kind of work in a thread of its own.

    Args:
        work: what is done.
        poll_seconds: how often it looks for work that nobody signalled, another process's for instance.
    """

    def __init__(self, work: Work, poll_seconds: float) -> None:
        self._work = work
        self._poll_seconds = poll_seconds
        self._signal = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = WorkerState.STOPPED
        self._done = 0
        self._last_error: str | None = None

    def start(self) -> None:
        """Begin; a running worker is left alone."""
        if self._thread is None or not self._thread.is_alive() or self._stopping.is_set():
            # Of its own, so that one that could not stop in time does not go on with the new one.
            self._stopping = threading.Event()
            self._state = WorkerState.PROCESSING
            name = f"harken-{self._work.name}"
            self._thread = threading.Thread(target=self._run, args=(self._stopping,), name=name, daemon=True)
            self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the batch in hand and end; what is not finished in time is given back when its lease ends."""
        self._stopping.set()
        self._signal.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def wake(self) -> None:
        """There is work; returns at once."""
        self._signal.set()

    def status(self) -> WorkerStatus:
        """How it stands now."""
        return WorkerStatus(self._work.name, self._state, self._done, self._last_error)

    def _run(self, stopping: threading.Event) -> None:
        try:
            while not stopping.is_set():
                self._state = WorkerState.PROCESSING
                if self._batch() == 0:
                    self._state = WorkerState.IDLE
                    self._signal.wait(self._poll_seconds)
                    self._signal.clear()
        finally:
            if stopping is self._stopping:
                self._state = WorkerState.STOPPED

    def _batch(self) -> int:
        try:
            done = self._work.run_once()
        except Exception as error:  # noqa: BLE001 - a worker outlives whatever its work raises; it is logged and shown
            self._last_error = type(error).__name__
            _log.warning("work_failed", work=self._work.name, error_class=self._last_error)
            return 0
        self._done += done
        if done:
            self._last_error = None
        return done


def run_until_idle(work: Work, progress: Callable[[int], None] = lambda _done: None, patient: bool = False) -> int:
    """Do everything there is to do now, in this thread; given back cleanly when interrupted.

    Args:
        work: what is done.
        progress: called after each batch with the number of items done so far.
        patient: wait for what backs off or is leased elsewhere, until nothing waits any more.
    Returns:
        How many items were taken on.
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


class HaltingWork(Work, Protocol):
    """Work that knows why it stands still."""

    @property
    def halted(self) -> str:
        """Why nothing is done at present, in words for a person; empty while work goes on."""
        ...

    @property
    def is_limited(self) -> bool:
        """Whether that is because the day's money is spent."""
        ...


@dataclass(slots=True)
class SwitchedWork:
    """Does work unless somebody switched it off, here or in another process.

    What the work needs may not be there yet: an endpoint that does not answer, an extra that is not installed. That is
    a failure like any other: it is said, and tried again for as long as it lasts.

    Args:
        name: the kind of work.
        opened: gives the work, with what it needs for a batch open; asked before each.
        is_wanted: do it even where it is switched off, for somebody asks for it.

    Attributes:
        halted: why nothing is done here at present, in words for a person; empty while work goes on.
    """

    store: Store
    name: str
    opened: Callable[[], HaltingWork]
    now: Callable[[], datetime]
    is_wanted: bool = False
    halted: str = field(default="", init=False)
    _kept: str | None = field(default=None, init=False)
    _work: HaltingWork | None = field(default=None, init=False)
    _outage: Outage = field(default_factory=lambda: Outage(is_waited_out=True), init=False)

    def run_once(self) -> int:
        """Do one batch; 0 when it is switched off, cannot be done, or there is nothing to do now."""
        if self._outage.lasts(self.now()) or not self._enabled():
            return 0
        asked_at = self.now()
        try:
            self._work = self.opened()
        except (ConfigError, MissingExtraError, ProviderError) as error:
            _log.warning("work_not_opened", work=self.name, error_class=type(error).__name__)
            self._outage.begin(asked_at)
            self._note(str(error))
            return 0
        self._outage.end()
        try:
            return self._work.run_once()
        finally:
            self._note(self._work.halted)

    def waiting(self) -> int:
        """How many items somebody may wait for; none where it is switched off or the day's money is spent."""
        if self._work is None or self._work.is_limited or not self._enabled():
            return 0
        return self._work.waiting()

    def give_back(self) -> None:
        """Return what was claimed and not finished."""
        if self._work is not None:
            self._work.give_back()

    def _enabled(self) -> bool:
        if self.is_wanted:
            return True
        with self.store.reading() as tx:
            return is_enabled(tx, self.name)

    def _note(self, why: str) -> None:
        self.halted = why
        if self._kept is None:
            with self.store.reading() as tx:
                self._kept = blocked_reason(tx, self.name)
        if why != self._kept:
            with self.store.writing() as tx:
                put_blocked_reason(tx, self.name, why)
            self._kept = why
