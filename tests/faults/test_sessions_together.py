"""Eight sessions are written, reported by hooks and imported, all at once: the store has each line of them once."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from long_talk import texts_in_journal, texts_in_rows

from coding_agent import PATIENCE_SECONDS, CodingAgent, end, eventually
from command_line import CommandLine
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

SESSIONS = 8
BEGUN = datetime(2026, 11, 20, 8, tzinfo=UTC)
GOODS = ("amber", "birch", "cedar", "dates", "ebony", "figs", "grain", "hemp", "indigo", "jute", "kelp", "linen")


@dataclass
class Writer(CodingAgent):
    """An agent that writes its transcript as agents do: replies in pieces, tool calls, and half a line at times."""

    cli: CommandLine
    folder: Path
    session_id: str
    heard: threading.Event
    real: list[str] = field(default_factory=list)
    hooks: int = 0
    told: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.cli, self.folder, self.session_id)
        self.rng = random.Random(self.session_id)
        self.lines = self._lines()

    def write_until(self, deadline: float) -> None:
        """Write turns, and report each, until the time is up and one of the writers has been told something."""
        patience = deadline + PATIENCE_SECONDS
        while time.monotonic() < deadline or (not self.heard.is_set() and time.monotonic() < patience):
            with self.transcript.open("a", encoding="utf-8") as file:
                for _ in range(self.rng.randint(10, 60)):
                    self._append(file, next(self.lines))
            self._report("Stop")
            if self.rng.random() < 0.4:
                # It hits what another session says.
                goods = self.rng.choice(GOODS)
                if self._report("UserPromptSubmit", prompt=f"Which ship carries the {goods}?"):
                    self.told += 1
                    self.heard.set()
        self._report("SessionEnd")

    def _append(self, file: Any, line: str) -> None:
        at = self.rng.randrange(len(line)) if self.rng.random() < 0.2 else 0
        file.write(line[:at])
        file.flush()
        if at:
            time.sleep(self.rng.uniform(0, 0.05))
        file.write(f"{line[at:]}\n")
        file.flush()

    def _report(self, event: str, **fields: Any) -> str:
        self.hooks += 1
        return self.hook(event, **fields)

    def _lines(self) -> Iterator[str]:
        turns = self._turns()
        # What others ask for is said before the long real sessions, which a slow machine may not get through.
        yield from islice(turns, 40)
        yield from self.real
        yield from turns

    def _turns(self) -> Iterator[str]:
        for number in count():
            goods = self.rng.choice(GOODS)
            yield self._line("user", f"Turn {number} of {self.session_id}: which ship carries the {goods}?")
            call = {"type": "tool_use", "id": f"call-{number}", "name": "Bash", "input": {"command": f"grep {goods}"}}
            yield self._line("assistant", [{"type": "text", "text": f"I look up the {goods} of turn {number}."}])
            yield self._line("assistant", [call])
            result = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": f"{goods}: ship {number}"}
            yield self._line("user", [result])
            yield self._line("assistant", [{"type": "text", "text": f"Ship {number} carries {goods} for {goods} Ltd."}])

    def _line(self, role: str, content: Any) -> str:
        self.count += 1
        uuid, parent = f"{self.session_id}-{self.count}", self.parent
        self.parent = uuid
        moment = BEGUN + timedelta(seconds=self.count)
        line = {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": self.session_id,
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "cwd": str(self.cwd),
            "message": {"role": role, "content": content},
        }
        return json.dumps(line)


@pytest.fixture
def real_transcripts(request: pytest.FixtureRequest) -> list[list[str]]:
    """The lines of sessions that Claude Code wrote; none where there is no sample data."""
    try:
        folder: Path = request.getfixturevalue("shared_data") / "transcripts" / "claude-code"
    except pytest.skip.Exception:
        return []
    files = sorted(folder.rglob("*.jsonl"), key=lambda file: -file.stat().st_size)
    return [file.read_text(encoding="utf-8").splitlines() for file in files]


@pytest.fixture
def place(cli: CommandLine) -> Iterator[DaemonPaths]:
    found = DaemonPaths(str(cli.home))
    yield found
    end(found)


def test_eight_sessions_that_write_at_once_are_recorded_as_one_import_records_them(
    cli: CommandLine, place: DaemonPaths, tmp_path: Path, real_transcripts: list[list[str]], rounds: int, seconds: float
) -> None:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    heard = threading.Event()
    writers = [Writer(cli, folder, f"session-{number}", heard) for number in range(SESSIONS)]
    for writer, lines in zip(writers, real_transcripts, strict=False):
        writer.real = lines
    deadline = time.monotonic() + (120 if rounds >= 20 else seconds)
    done = threading.Event()
    with ThreadPoolExecutor(SESSIONS + 2) as pool:
        imports = [pool.submit(import_again_and_again, cli, folder, done) for _ in range(2)]
        for writing in [pool.submit(writer.write_until, deadline) for writer in writers]:
            writing.result()
        done.set()
        imported = sum(one.result() for one in imports)
    eventually(lambda: not any(Path(place.reports).iterdir()))
    other = CommandLine(tmp_path / "once", cli.person, cli.settings)
    other("import", "claude-code", folder, "--no-embed")
    once = rows(other)
    print(
        f"{len(once)} messages in {SESSIONS} sessions, {sum(one.hooks for one in writers)} hooks of which "
        f"{sum(one.told for one in writers)} told something, {imported} imports beside them"
    )
    assert imported > 0
    assert sum(one.told for one in writers) > 0
    assert rows(cli) == once
    assert sorted(texts_in_journal(cli.home)) == sorted(texts_in_journal(other.home)) == once
    assert exported(cli, tmp_path / "live.jsonl") == exported(other, tmp_path / "once.jsonl")
    assert cli("doctor").out.startswith("All agrees")
    assert cli("import", "claude-code", folder, "--no-embed", "--json").json()["added"] == 0


def import_again_and_again(cli: CommandLine, folder: Path, done: threading.Event) -> int:
    """Import the folder in a process of its own until it is done; how often."""
    times = 0
    while not done.is_set():
        words = ("import", "claude-code", folder, "--no-embed")
        with TemporaryFile("w+") as said, cli.running(*words, stderr=said) as process:
            assert process.wait(PATIENCE_SECONDS) == 0, (said.seek(0), said.read())
        times += 1
    return times


def rows(cli: CommandLine) -> list[tuple[str, str]]:
    """Every message's id in its transcript, and its text."""
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        return sorted(texts_in_rows(harken))


def exported(cli: CommandLine, file: Path) -> list[str]:
    """What there is, less what says when it was exported, and what workers have made of it by now."""
    cli("export", file)
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return [line for line in lines if "summary" not in json.loads(line).get("event", "summary")]
