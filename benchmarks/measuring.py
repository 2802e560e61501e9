"""Taking times on a machine that may be busy: wall and CPU side by side, percentiles, a gauge of the load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        size: messages in the store; None where it does not matter.
        unit: `ms`, `s` and `MB` are better low, `/s` and `ratio` high.
        cpu: the median's CPU time in the same unit; about what an idle machine would take in wall time.
        target: of design.md, for p95 where there is one, else for p50.
    """

    what: str
    size: int | None
    unit: str
    p50: float
    p95: float | None = None
    cpu: float | None = None
    target: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target is met, and if not, by what factor it is missed."""
        if self.target is None:
            return ""
        reached = self.p50 if self.p95 is None else self.p95
        share = reached / self.target if self.unit in ("/s", "ratio") else self.target / reached
        return "met" if share >= 1 else f"missed: {1 / share:.1f} x"

    def row(self) -> dict[str, Any]:
        """The line as it is printed and kept."""
        shown = {"what": self.what, "size": "" if self.size is None else f"{self.size:,}"}
        numbers = {"p50": self.p50, "p95": self.p95, "cpu": self.cpu, "target": self.target}
        return {**shown, **{name: _number(value) for name, value in numbers.items()}, "unit": self.unit} | {
            "verdict": self.verdict,
            "note": self.note,
        }


@dataclass(slots=True)
class Times:
    """Milliseconds of repeated work, wall and CPU; that by `clock`."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    clock: Callable[[], float] = time.process_time

    def take(self, work: Callable[[], Any]) -> Any:
        """Run it once and note how long it took; what it returns."""
        wall, cpu = time.perf_counter(), self.clock()
        result = work()
        self.cpu.append((self.clock() - cpu) * 1000)
        self.wall.append((time.perf_counter() - wall) * 1000)
        return result

    def figure(self, what: str, size: int | None, target: float | None = None, note: str = "") -> Figure:
        """Median and 95th percentile."""
        p50, p95 = np.percentile(self.wall, (50, 95))
        return Figure(what, size, "ms", float(p50), float(p95), float(np.median(self.cpu)), target, note)


def times_of(works: Iterable[Callable[[], Any]]) -> Times:
    """Each piece of work once."""
    times = Times()
    for work in works:
        times.take(work)
    return times


@contextmanager
def watched(
    parts: Mapping[str, tuple[Any, str]], clock: Callable[[], float] = time.process_time
) -> Iterator[dict[str, Times]]:
    """While inside, every call of the named functions is timed.

    Args:
        parts: for each label, the module, class or object and the name of its function.
        clock: seconds of CPU.
    """
    found = {label: Times(clock=clock) for label in parts}
    with ExitStack() as stack:
        for label, (owner, name) in parts.items():
            original = getattr(owner, name)
            setattr(owner, name, _timed(original, found[label]))
            stack.callback(setattr, owner, name, original)
        yield found


def _timed(function: Callable[..., Any], times: Times) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return times.take(lambda: function(*args, **kwargs))

    return run


@dataclass(frozen=True, slots=True)
class Ran:
    """A process that has ended: its seconds, its peak memory, what it said."""

    wall: float
    cpu: float
    peak_mb: float
    out: str


# A process's peak is never below what the one that started it held, so a small one stands between.
_LAUNCH = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
code = process.returncode = os.waitstatus_to_exitcode(status)
facts = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, code
os.write(int(sys.argv[1]), json.dumps(facts).encode())
"""


def run_process(command: Sequence[str], env: Mapping[str, str] | None = None) -> Ran:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed.
    """
    told, tells = os.pipe()
    with os.fdopen(told, encoding="ascii") as facts:
        words = [sys.executable, "-I", "-c", _LAUNCH, str(tells), *command]
        try:
            launched = subprocess.run(words, capture_output=True, text=True, env=env, pass_fds=(tells,), check=False)
        finally:
            os.close(tells)
        if launched.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {launched.stderr}")
        wall, cpu, peak, code = json.load(facts)
    if code:
        raise RuntimeError(f"{' '.join(command)} failed: {launched.stderr}")
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return Ran(wall, cpu, peak / unit, launched.stdout)


def harken_command(home: Path, *arguments: str) -> list[str]:
    """A `harken` command line on a home."""
    return [sys.executable, "-m", "harken", "--home", str(home), *arguments]


def wait_share(seconds: float = 0.5) -> float:
    """How much longer than its CPU time a bare loop takes: 1 on an idle machine, 2 where it gets half a core."""
    begin, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        sum(range(1000))
    return (time.perf_counter() - begin) / (time.process_time() - cpu)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
