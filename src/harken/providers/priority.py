"""Who waits goes first: background work stops at its next small step, its models run last, and a battery is spared.

A process has one processor's worth of Python, whatever its cores: a hook that shares it with summaries takes as long as
both. What somebody waits for is counted here, and a step of the background begins when nobody does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")
_LONGEST_REST_SECONDS = 1.0
_LOOK_SECONDS = 10.0
# That of the kernel's first figure.
_LOAD_SECONDS = 60.0
_NICE = 10


class Foreground:
    """What somebody waits for in this process; entered around it by as many threads as there are, and again inside.

    Attributes:
        patience_seconds: where questions come without end, background work goes on by a step as often as this.
        held_up: threads of the background that give way at this moment.
    """

    def __init__(self, patience_seconds: float = 0.5) -> None:
        self.patience_seconds = patience_seconds
        self.held_up = 0
        # Taken itself: Ctrl-C may leave that of a condition taken, and then all that works here waits for ever.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._asked = 0

    def __enter__(self) -> None:
        with self._lock:
            self._asked += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._asked -= 1
            if not self._asked:
                self._changed.notify_all()

    def give_way(self) -> None:
        """Wait until nobody waits for anything, but not for ever."""
        with self._lock:
            self.held_up += 1
            self._changed.wait_for(lambda: not self._asked, self.patience_seconds)
            self.held_up -= 1


FOREGROUND = Foreground()


@dataclass(slots=True, eq=False)
class Machine:
    """Tells whether this machine is to be spared: it runs on its battery, or others leave less than one of its cores.

    What this process itself adds to the load is not counted, or its workers would be in their own way.
    """

    supplies: Path = Path("/sys/class/power_supply")
    load: Callable[[], float] = lambda: os.getloadavg()[0]
    cpu: Callable[[], float] = time.process_time
    clock: Callable[[], float] = time.monotonic
    _own: float = field(default=0.0, init=False)
    _looked: tuple[float, float] | None = field(default=None, init=False)
    _is_strained: bool = field(default=False, init=False)

    def is_strained(self) -> bool:
        """True while background work had better do half; looked at every ten seconds."""
        now, cpu = self.clock(), self.cpu()
        at, used = self._looked or (now - _LOOK_SECONDS, cpu)
        if (passed := now - at) >= _LOOK_SECONDS:
            self._looked = now, cpu
            # As the kernel's own figure follows what runs.
            kept = exp(-passed / _LOAD_SECONDS)
            self._own = self._own * kept + (cpu - used) / passed * (1.0 - kept)
            self._is_strained = self._is_on_battery()
            with suppress(AttributeError, OSError):
                self._is_strained |= self.load() - self._own > (os.cpu_count() or 1) - 1
        return self._is_strained

    def _is_on_battery(self) -> bool:
        """True where a battery of the machine's own, not that of a mouse, is being emptied; Linux alone tells."""
        return any(
            _says(supply / "status") == "Discharging"
            and (_says(supply / "type"), _says(supply / "scope")) in (("Battery", ""), ("Battery", "System"))
            for supply in self.supplies.glob("*")
        )


def _says(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace").strip()
    return ""


MACHINE = Machine()


@dataclass(frozen=True, slots=True)
class Pace:
    """How a thread of the background works.

    Args:
        is_gentle: whether the machine is to be spared (`worker.gentle`).
        rest: waits for so many seconds, or until the worker is to stop.
        is_late: whether it should have stopped by now; then no step begins.
    """

    is_gentle: Callable[[], bool]
    rest: Callable[[float], object]
    machine: Machine = MACHINE
    is_late: Callable[[], bool] = lambda: False

    def step(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do something short once nobody waits; where the machine is to be spared, rest as long as it took."""
        FOREGROUND.give_way()
        if self.is_late():
            raise SystemExit
        begun = time.monotonic()
        done = work(*args, **kwargs)
        if self.is_gentle() and self.machine.is_strained():
            self.rest(min(time.monotonic() - begun, _LONGEST_REST_SECONDS))
        return done


_here = threading.local()


def begin_background(pace: Pace) -> None:
    """Let this thread work in the background from now on."""
    _here.pace = pace


def pace_here() -> Pace | None:
    """How this thread works in the background; None where somebody waits for what it does."""
    return getattr(_here, "pace", None)


def in_turn(items: Iterable[_T]) -> Iterator[_T]:
    """The items; in the background, each of them when nobody waits."""
    for item in items:
        give_way()
        yield item


def give_way() -> None:
    """In the background, wait until nobody waits for anything, but not for ever."""
    if pace_here() is not None:
        FOREGROUND.give_way()


def small_step(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Do something short: at once where somebody waits for it, in the background at its pace; steps do not nest."""
    pace = pace_here()
    return work(*args, **kwargs) if pace is None else pace.step(work, *args, **kwargs)


def side_by_side(work: Callable[[_T], _R], items: Sequence[_T], threads: int) -> Iterator[_R]:
    """What a model makes of each item, in order, on threads of its own.

    In the background each item begins when nobody waits, so that a query meets at most one for each thread; a single
    one that somebody waits for stays in this thread.
    """
    pace = pace_here()
    if len(items) == 1 and pace is None:
        yield work(items[0])
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads, "harken-model", lower_priority if pace else None) as pool:
        yield from pool.map(work if pace is None else lambda item: pace.step(work, item), items)


def lower_priority() -> None:
    """Let every other thread of the machine go before this one, and those that it starts; Linux alone can.

    It cannot be taken back, so it is for threads of their own, which run a model and little else: one that had to wait
    for a processor while it held the interpreter's lock, or the store's, would keep everybody waiting.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
