"""How long a coding agent waits for a hook: the whole process, with a daemon, without one, and with what may break.

    python benchmarks/hooks.py [--rounds 100] [--repeats 3] [--messages 10000] [--backlog 1500] [--home FOLDER]
    python benchmarks/hooks.py --events 5000 [--messages 10000] [--backlog 1500] [--home FOLDER]

The store holds conversations (`real.py`) and some memories, so that a prompt is looked for in both, as in one that is
used; `--home` takes a copy of one that is there, since embedding takes minutes. No prompt is asked twice: what a
process keeps of what it read must not flatter. What is measured is taken in turn, prompt by prompt, with nothing left
for workers to do and then with a backlog that they embed and summarize; the interpreter alone is what no hook can be
faster than. When something breaks, a hook has to end with 0 and in silence, within its deadline of 1.5 s and the
start of a process. The daemon's memory is its peak, at the end of all of that.

With `--events` its memory alone is measured: so many events, prompts and ends of turns by turns, are sent to its socket
while it works off the backlog, and what it holds and held at most is told as it has started, ten times on the way, and
at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import real
from harken import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.wire import OK, DaemonError, exchange
from report import DATE, keep, show
from synthetic import write_jsonl

WARM_P95_MS, BUSY_P95_MS, DOWN_P95_MS, DEADLINE_MS = 45.0, 70.0, 120.0, 1500.0
_MEMORIES = 12
_WARM_UP = 10
_BROKEN = 5
_LOOK_EVERY = 10
_BUSY = ", workers busy"
_GARBAGE = (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"prompt": 3, "session_id": []}')
_sessions = count()


@dataclass(frozen=True)
class Agent:
    """What starts hooks on one home.

    Attributes:
        env: all that a hook sees.
        ended: process ids of daemons that were killed; what they wrote into their lock stays there.
        answered: the prompts that a warm daemon had an answer for.
    """

    home: Path
    env: dict[str, str]
    ended: set[int] = field(default_factory=set)
    answered: list[str] = field(default_factory=list)

    @property
    def place(self) -> DaemonPaths:
        """Where the daemon is."""
        return DaemonPaths(str(self.home))

    def hook(self, event: str, prompt: str, stdin: bytes | None = None, cwd: str = "/") -> tuple[float, bytes]:
        """Milliseconds of one hook, interpreter and all, and what it says."""
        fields = {"session_id": f"bench-{next(_sessions)}", "cwd": cwd, "hook_event_name": event, "prompt": prompt}
        payload = json.dumps({**fields, "transcript_path": str(self.home / "none.jsonl")}).encode()
        words = [str(Path(sys.executable).with_name("harken")), "hook", event]
        begun = time.perf_counter()
        done = subprocess.run(
            words, env=self.env, input=payload if stdin is None else stdin, capture_output=True, check=True
        )
        taken = (time.perf_counter() - begun) * 1000
        assert not done.stderr
        return taken, done.stdout

    def start(self) -> int:
        """The process id of the daemon, once it has loaded its model."""
        self.hook("UserPromptSubmit", "thanks")
        assert self.is_answered(60)
        time.sleep(3)
        found = holder(self.place)
        assert found is not None
        return found.pid

    def is_answered(self, seconds: float) -> bool:
        """Whether the daemon answers within so many seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(DaemonError):
                if exchange(self.place.socket, "/v1/ping", None, self.env, 1.0)[0] == OK:
                    return True
            time.sleep(0.05)
        return False

    def stop(self) -> None:
        """End the daemon, also one that has only just been started."""
        if self.is_answered(20):
            words = [sys.executable, "-m", "harken", "serve", "--stop"]
            subprocess.run(words, env=self.env, check=True, capture_output=True)


def remember(home: Path, messages: int) -> None:
    """Fill a store and do all that waits, so that the daemon has nothing to do."""
    bring_in(home, messages)
    with Harken(home) as harken:
        for text in [text for talk in real.talks(200) for text in talk.texts if 8 < len(text.split()) < 60][:_MEMORIES]:
            harken.memories.add(text, category="fact")
        harken.background.summarize()
        harken.embed()


def bring_in(home: Path, messages: int, first_round: int = 0) -> None:
    """Import so many messages, and leave them to be embedded and summarized."""
    with tempfile.TemporaryDirectory() as folder, Harken(home) as harken:
        file = Path(folder) / "talks.jsonl"
        write_jsonl(file, real.talks(messages, first_round))
        harken.import_transcripts("jsonl", [file])


def warm(
    agent: Agent, prompts: Iterator[str], rounds: int, name: str = "warm", look: Callable[[], None] = lambda: None
) -> dict[str, list[float]]:
    """Hooks that a daemon answers, and interpreters that do nothing, in turn; looked at every ten rounds."""
    for _ in range(_WARM_UP):
        agent.hook("UserPromptSubmit", next(prompts))
    prompt, end = f"{name}, prompt", f"{name}, end of a turn"
    taken: dict[str, list[float]] = {"interpreter alone": [], prompt: [], end: []}
    before = len(agent.answered)
    for number in range(rounds):
        if number % _LOOK_EVERY == 0:
            look()
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True, capture_output=True)
        taken["interpreter alone"].append((time.perf_counter() - begun) * 1000)
        asked = next(prompts)
        milliseconds, said = agent.hook("UserPromptSubmit", asked)
        taken[prompt].append(milliseconds)
        agent.answered.extend([asked] if said else [])
        taken[end].append(agent.hook("Stop", "")[0])
    assert len(agent.answered) > before, "a warm daemon has to answer some of so many prompts"
    print(f"Of {rounds} prompts to a {name} daemon {len(agent.answered) - before} had an answer.")
    return taken


def busy(agent: Agent, prompts: Iterator[str], rounds: int) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """The same while the daemon's workers are at work; and how much waits for each, every ten rounds."""
    waiting: dict[str, list[int]] = {}
    with Harken(agent.home) as harken:

        def look() -> None:
            for report in harken.background.status():
                waiting.setdefault(report.name, []).append(report.waiting)

        taken = warm(agent, prompts, rounds, f"warm{_BUSY}", look)
    return taken, waiting


def held_mb(pid: int, what: str = "VmHWM") -> int | None:
    """What a process held at most, or holds (`VmRSS`); None where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in status if line.startswith(what)), None)


def memory(agent: Agent, pid: int, prompts: Iterator[str], events: int) -> list[dict[str, Any]]:
    """The daemon's memory while it is sent so many events, straight to its socket."""
    looks: list[dict[str, Any]] = []

    def look(sent: int) -> None:
        looks.append({"events": sent, "MB": held_mb(pid, "VmRSS"), "peak MB": held_mb(pid)})

    look(0)
    for number in range(1, events + 1):
        event = ("UserPromptSubmit", "Stop")[number % 2]
        fields = {"session_id": f"bench-{next(_sessions)}", "cwd": "/", "hook_event_name": event}
        content = {**fields, "prompt": next(prompts) if number % 2 == 0 else ""}
        route = f"/v1/hook/{event}"
        status, _ = exchange(agent.place.socket, route, json.dumps(content).encode(), agent.env, 10.0)
        assert status == OK
        if number % max(1, events // 10) == 0:
            look(number)
    return looks


def down(agent: Agent, rounds: int) -> dict[str, list[float]]:
    """Hooks that find no daemon and start one: a prompt waits for its first answer, the end of a turn for nothing.

    The prompts are those that a warm daemon had an answer for: most of the others have none in the store. They are
    asked at home, where every project is one's own: by words alone next to nothing of another project comes back.
    """
    taken: dict[str, list[float]] = {"cold start, prompt": [], "no daemon, end of a turn": []}
    answered, prompts = 0, agent.answered[:rounds]
    for prompt in prompts:
        for name, event in zip(taken, ("UserPromptSubmit", "Stop"), strict=True):
            milliseconds, said = agent.hook(event, prompt, cwd=str(agent.home.parent))
            taken[name].append(milliseconds)
            answered += bool(said)
            kill_when_it_serves(agent)
    print(
        f"Of {len(prompts)} prompts that a warm daemon answers {answered} had an answer after a cold start, by words."
    )
    return taken


def kill_when_it_serves(agent: Agent) -> None:
    """End the daemon that a hook has started as soon as it can be told which one it is."""
    deadline, is_killed = time.monotonic() + 60, False
    while (found := holder(agent.place)) is not None or not is_killed:
        assert time.monotonic() < deadline, "the hook has started no daemon, or it does not end"
        # One that has just taken the lock has not written over what the one before it says there.
        if found is not None and found.pid not in agent.ended:
            agent.ended.add(found.pid)
            os.kill(found.pid, signal.SIGKILL)
            is_killed = True
        time.sleep(0.005)
    # Else the next hook takes it for one that cannot start, and starts none for ten seconds.
    os.truncate(agent.place.starting, 0)


def broken(agent: Agent, pid: int, prompts: Iterator[str]) -> dict[str, list[float]]:
    """Hooks where something is wrong: each ends with 0 and says nothing."""

    def asked(stdin: bytes | None = None) -> float:
        milliseconds, said = agent.hook("UserPromptSubmit", next(prompts), stdin)
        assert not said
        return milliseconds

    taken = {"garbage on stdin": [asked(stdin) for stdin in _GARBAGE]}
    with locked(agent.home):
        taken["store locked"] = [asked() for _ in range(_BROKEN)]
    os.kill(pid, signal.SIGSTOP)
    try:
        taken["daemon hangs"] = [asked() for _ in range(_BROKEN)]
    finally:
        os.kill(pid, signal.SIGCONT)
    return taken


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Nobody else can read or write the store."""
    with closing(sqlite3.connect(home / "harken.db", isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


def row(name: str, times: list[float]) -> dict[str, Any]:
    """A line of the table."""
    p95 = float(np.percentile(times, 95))
    busy_or_warm = BUSY_P95_MS if _BUSY in name else WARM_P95_MS
    targets = {"warm": busy_or_warm, "no daemon": DOWN_P95_MS, "cold start": DEADLINE_MS}
    target = next((most for kind, most in targets.items() if name.startswith(kind)), None)
    return {
        "what": name,
        "p50_ms": round(float(np.percentile(times, 50)), 1),
        "p95_ms": round(p95, 1),
        "max_ms": round(max(times), 1),
        "target_p95_ms": target,
        "met": None if target is None else p95 <= target,
        "rounds": len(times),
    }


def only_memory(home: Path, given: argparse.Namespace) -> None:
    """Measure and print the daemon's memory while events come."""
    if given.backlog:
        bring_in(home, given.backlog, 100)
    prompts = iter(real.questions(given.events // 2 + 1, real.texts(1_000)))
    agent = Agent(home, {"PATH": os.environ["PATH"], "HOME": str(home.parent), "HARKEN_HOME": str(home)})
    pid = agent.start()
    try:
        looks = memory(agent, pid, prompts, given.events)
    finally:
        agent.stop()
    show(f"The daemon's memory, {given.messages:,} messages of {real.name()}, {given.backlog:,} to embed", looks)
    keep(f"hooks-memory-{DATE}", {"messages": given.messages, "backlog": given.backlog, "looks": looks}, given.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--backlog", type=int, default=1_500)
    parser.add_argument("--events", type=int, default=0, help="measure the daemon's memory alone, after so many")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        if given.home:
            shutil.copytree(given.home, home)
        else:
            remember(home, given.messages)
        if given.events:
            only_memory(home, given)
            return
        wanted = 2 * given.repeats * (given.rounds + _WARM_UP) + 50
        prompts = iter(real.questions(wanted, real.texts(1_000)))
        agent = Agent(home, {"PATH": os.environ["PATH"], "HOME": folder, "HARKEN_HOME": str(home)})
        pid = agent.start()
        looks: list[dict[str, list[int]]] = []
        try:
            for _ in range(given.repeats):
                rows += [row(name, times) for name, times in warm(agent, prompts, given.rounds).items()]
            for number in range(given.repeats if given.backlog else 0):
                agent.stop()
                bring_in(home, given.backlog, 100 + number)
                pid = agent.start()
                taken, waiting = busy(agent, prompts, given.rounds)
                rows += [row(name, times) for name, times in taken.items()]
                looks.append(waiting)
            peak = held_mb(pid)
            trouble = broken(agent, pid, prompts)
            rows += [row(name, times) for name, times in trouble.items()]
        finally:
            agent.stop()
        rows += [row(name, times) for name, times in down(agent, min(given.rounds, 20)).items()]
    held = "those of a home" if given.home else f"{given.messages:,} messages of {real.name()} and {_MEMORIES} memories"
    show(f"Hooks, whole process, {held}", rows)
    for waiting in looks:
        told = (f"{name} {counts[0]:,} to {counts[-1]:,}" for name, counts in waiting.items())
        print(f"Waiting while workers were busy: {', '.join(told)}")
    print(f"Peak memory of the daemon: {peak} MB")
    late = [name for name, times in trouble.items() if max(times) > DEADLINE_MS + DOWN_P95_MS]
    print(f"\nLater than the deadline: {', '.join(late) or 'nothing'}")
    facts = {"messages": given.messages, "of": real.name(), "memories": _MEMORIES, "peak_mb": peak, "waiting": looks}
    keep(f"hooks-{DATE}", {**facts, "rows": rows}, given.out)


if __name__ == "__main__":
    main()
