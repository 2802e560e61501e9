"""How long a coding agent waits for a hook: the whole process, with a daemon, without one, and with what may break.

    python benchmarks/hooks.py [--rounds 100] [--repeats 3] [--messages 2000]

The store holds made-up conversations and some memories, so that a prompt is looked for in both, as in one that is
used. No prompt is asked twice: what a process keeps of what it read must not flatter. What is measured is taken in
turn, prompt by prompt; the interpreter alone is what no hook can be faster than. When something breaks, a hook has to
end with 0 and in silence, within its deadline of 1.5 s and the start of a process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from harken import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.wire import OK, DaemonError, exchange
from report import DATE, keep, show
from synthetic import Talks, write_jsonl

WARM_P95_MS, DOWN_P95_MS, DEADLINE_MS = 60.0, 120.0, 1500.0
_MEMORIES = 12
_WARM_UP = 10
_BROKEN = 5
_GARBAGE = (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"prompt": 3, "session_id": []}')
_sessions = count()


@dataclass(frozen=True)
class Agent:
    """What starts hooks on one home.

    Attributes:
        env: all that a hook sees.
    """

    home: Path
    env: dict[str, str]

    @property
    def place(self) -> DaemonPaths:
        """Where the daemon is."""
        return DaemonPaths(str(self.home))

    def hook(self, event: str, prompt: str, stdin: bytes | None = None) -> tuple[float, bytes]:
        """Milliseconds of one hook, interpreter and all, and what it says."""
        fields = {"session_id": f"bench-{next(_sessions)}", "cwd": "/", "hook_event_name": event, "prompt": prompt}
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


def remember(home: Path, messages: int) -> list[str]:
    """Fill a store; texts that are in it."""
    with tempfile.TemporaryDirectory() as folder, Harken(home) as harken:
        talks = list(Talks(7).talks(messages))
        file = Path(folder) / "talks.jsonl"
        write_jsonl(file, iter(talks))
        harken.import_transcripts("jsonl", [file])
        texts = [text for talk in talks for text in talk.texts if len(text.split()) > 8]
        for text in texts[:_MEMORIES]:
            harken.memories.add(text, category="fact")
        harken.embed()
    return texts


def warm(agent: Agent, prompts: Iterator[str], rounds: int) -> dict[str, list[float]]:
    """Hooks that a daemon answers, and interpreters that do nothing, in turn."""
    for _ in range(_WARM_UP):
        agent.hook("UserPromptSubmit", next(prompts))
    taken: dict[str, list[float]] = {"interpreter alone": [], "warm, prompt": [], "warm, end of a turn": []}
    answered = 0
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True, capture_output=True)
        taken["interpreter alone"].append((time.perf_counter() - begun) * 1000)
        milliseconds, said = agent.hook("UserPromptSubmit", next(prompts))
        taken["warm, prompt"].append(milliseconds)
        answered += bool(said)
        taken["warm, end of a turn"].append(agent.hook("Stop", "")[0])
    assert answered, "a warm daemon has to answer some of so many prompts"
    return taken


def down(agent: Agent, prompts: Iterator[str], rounds: int) -> dict[str, list[float]]:
    """Hooks that find no daemon and start one: a prompt waits for its first answer, the end of a turn for nothing."""
    taken: dict[str, list[float]] = {"cold start, prompt": [], "no daemon, end of a turn": []}
    answered = 0
    for _ in range(rounds):
        for name, event in zip(taken, ("UserPromptSubmit", "Stop"), strict=True):
            milliseconds, said = agent.hook(event, next(prompts))
            taken[name].append(milliseconds)
            answered += bool(said)
            kill_when_it_serves(agent)
    print(f"Of {rounds} prompts after a cold start {answered} had an answer.")
    return taken


def kill_when_it_serves(agent: Agent) -> None:
    """End the daemon that a hook has started as soon as it can be told which one it is."""
    deadline = time.monotonic() + 20
    while (found := holder(agent.place)) is None:
        assert time.monotonic() < deadline, "the hook has started no daemon"
        time.sleep(0.02)
    os.kill(found.pid, signal.SIGKILL)
    while holder(agent.place) is not None:
        time.sleep(0.02)
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
    targets = {"warm": WARM_P95_MS, "no daemon": DOWN_P95_MS, "cold start": DEADLINE_MS}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        texts = remember(home, given.messages)
        wanted = given.repeats * (given.rounds + _WARM_UP) + 4 * given.rounds + 50
        prompts = iter(Talks(8).queries(texts, wanted))
        agent = Agent(home, {"PATH": os.environ["PATH"], "HOME": folder, "HARKEN_HOME": str(home)})
        pid = agent.start()
        try:
            for _ in range(given.repeats):
                rows += [row(name, times) for name, times in warm(agent, prompts, given.rounds).items()]
            trouble = broken(agent, pid, prompts)
            rows += [row(name, times) for name, times in trouble.items()]
        finally:
            agent.stop()
        rows += [row(name, times) for name, times in down(agent, prompts, min(given.rounds, 20)).items()]
    show(f"Hooks, whole process, {given.messages:,} messages and {_MEMORIES} memories", rows)
    late = [name for name, times in trouble.items() if max(times) > DEADLINE_MS + DOWN_P95_MS]
    print(f"\nLater than the deadline: {', '.join(late) or 'nothing'}")
    keep(f"hooks-{DATE}", {"messages": given.messages, "memories": _MEMORIES, "rows": rows}, given.out)


if __name__ == "__main__":
    main()
