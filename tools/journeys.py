"""How many files of the house a request touches, and how deep its calls go.

    python tools/journeys.py [--json] [--check] [--show "remember"]

Five journeys are taken on a small store, each warmed up once, and counted by a profiler on every thread: files of
`src/harken` in which a function was called, and the longest chain of such calls. Few files and a shallow stack are what
a newcomer has to read to change something; nothing here is about time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import harken
from harken.engine import Harken
from harken.serve.hooks.answers import Hooks
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import operation_of
from harken.testing import ChatServer, HashingEmbedder, Says

HOUSE = str(Path(harken.__file__).parent)
# What each may touch at most: files, and the deepest call. One more than it does, so that none grows unseen (ADR 18).
LIMITS = {
    "search": (40, 17),
    "hook": (52, 22),
    "chat turn": (76, 19),
    "import to vectors": (60, 17),
    "remember": (45, 17),
}


@dataclass
class Trace:
    """What a journey touched: functions by file, and its deepest chain of calls."""

    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    chain: tuple[str, ...] = ()
    _stack: threading.local = field(default_factory=threading.local)

    @property
    def deepest(self) -> int:
        """How many calls its longest chain has."""
        return len(self.chain)

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        """See `sys.setprofile`."""
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(HOUSE):
            return
        calls: list[str] = vars(self._stack).setdefault("calls", [])
        if event == "call":
            file, function = name.removeprefix(f"{HOUSE}/"), frame.f_code.co_qualname
            self.functions[file].add(function)
            calls.append(f"{file} {function}")
            self.chain = tuple(calls) if len(calls) > self.deepest else self.chain
        elif calls:
            calls.pop()


@contextmanager
def traced() -> Iterator[Trace]:
    """Count what happens in the block, on this thread and on those that it starts."""
    trace = Trace()
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def talk(engine: Harken, name: str, count: int) -> None:
    """A conversation of so many messages."""
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        engine.record_message(name, role, f"Note {number}: the pump in hall {number % 7} loses water at the seal.")


def transcript(folder: Path, count: int) -> Path:
    """A session of Claude Code, another in each folder."""
    path, parent = folder / "session.jsonl", None
    session = uuid5(NAMESPACE_URL, folder.name)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            kind = "assistant" if number % 2 else "user"
            line = {
                "type": kind,
                "uuid": str(uuid5(session, str(number))),
                "parentUuid": parent,
                "sessionId": str(session),
                "timestamp": f"2026-05-01T10:{number // 60:02d}:{number % 60:02d}.000Z",
                "cwd": str(folder),
                "message": {"role": kind, "content": f"Step {number}: the valve of boiler {number} is checked."},
            }
            parent = line["uuid"]
            file.write(json.dumps(line) + "\n")
    return path


def journeys(folder: Path, server: ChatServer) -> Iterator[tuple[str, Trace]]:
    """Each journey's name and what it touched."""
    prices = {"input_usd_per_million": 1.0, "output_usd_per_million": 1.0}
    settings = {"llm": {"model": "openai:scripted", "url": server.url, "api_key": "none", **prices}}
    with Harken(folder / "home", embedder=HashingEmbedder(), settings=settings, env={}) as engine:
        for name in ("pumps", "boilers"):
            talk(engine, name, 60)
        engine.memories.add("The pump in hall 3 is replaced every spring.")
        engine.embed()
        caller = Caller(directory=folder)

        def operation(name: str, **given: Any) -> Callable[[], object]:
            return lambda: operation_of(name).call(engine, given, caller)

        hooks = Hooks(engine, str(folder / "reports"))
        prompt = {"prompt": "which pump loses water in hall 3?", "cwd": str(folder), "transcript_path": ""}

        def hook(session: str) -> Callable[[], object]:
            asked = json.dumps({**prompt, "session_id": session}).encode()
            return lambda: hooks.answer("UserPromptSubmit", "claude-code", asked)

        def turn(text: str) -> Callable[[], object]:
            return lambda: engine.chat.turn(engine.chat.begin(), text)

        def bring(name: str) -> Callable[[], object]:
            (folder / name).mkdir()
            path = transcript(folder / name, 80)

            def run() -> None:
                engine.import_transcripts("claude-code", [path])
                engine.embed()

            return run

        warm = {
            "search": (
                operation("search", query="pump in hall 3"),
                operation("search", query="which seal loses water"),
            ),
            "hook": (hook("one"), hook("two")),
            "chat turn": (turn("hello, which pump is broken?"), turn("and which seal of which hall?")),
            "import to vectors": (bring("first"), bring("second")),
            "remember": (
                operation("remember", content="The boss is Ada."),
                operation("remember", content="Lunch is at noon."),
            ),
        }
        for name, (first, second) in warm.items():
            first()
            with traced() as trace:
                second()
            yield name, trace


def show(trace: Trace) -> None:
    """Print the functions of each file, then each call of the deepest chain."""
    for file, names in sorted(trace.functions.items()):
        print(f"{file:<40} {len(names):>2}  {', '.join(sorted(names))}")
    print()
    for depth, call in enumerate(trace.chain, start=1):
        print(f"{depth:>2}  {call}")
    print()


def main() -> None:
    """Print each journey beside its limits; with `--check`, exit with 1 where one is over them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    parser.add_argument("--check", action="store_true", help="Exit with 1 where a journey is over its limits.")
    parser.add_argument("--show", metavar="JOURNEY", choices=LIMITS, help="Print its files and its deepest chain.")
    wanted = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder, ChatServer() as server:
        server.script(*[Says("It is the one in hall 3.")] * 20)
        for name, trace in journeys(Path(folder), server):
            functions = sum(len(names) for names in trace.functions.values())
            rows[name] = {"files": len(trace.functions), "functions": functions, "depth": trace.deepest}
            if name == wanted.show:
                show(trace)
    if wanted.json:
        print(json.dumps(rows, indent=2))
    else:
        for name, row in rows.items():
            files, depth = LIMITS[name]
            print(f"{name:<18} {row['files']:>3} files of {files}, depth {row['depth']:>2} of {depth}")
    over = [name for name, row in rows.items() if row["files"] > LIMITS[name][0] or row["depth"] > LIMITS[name][1]]
    sys.exit(1 if over and wanted.check else 0)


if __name__ == "__main__":
    main()
