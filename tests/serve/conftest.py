"""A small store that the tests of reading commands share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coding_agent import PATIENCE_SECONDS, answering, end
from command_line import CommandLine
from disks import disk
from harken.serve.daemon.paths import DaemonPaths
from viewing import harken, viewer

__all__ = ["disk", "harken", "viewer"]

Line = Mapping[str, Any]
Write = Callable[[str, Iterable[Line]], Path]

TALK: tuple[Line, ...] = (
    {
        "conversation": "garden",
        "title": "Tomatoes",
        "project": "greenhouse",
        "role": "user",
        "author": "Ada",
        "content": "When should I plant the tomato seedlings outside?",
        "ts": "2026-05-08T09:00:00Z",
    },
    {
        "conversation": "garden",
        "role": "assistant",
        "content": "Plant the tomato seedlings after the last frost, around the middle of May.",
        "ts": "2026-05-08T09:01:00Z",
    },
    {
        "conversation": "garden",
        "role": "assistant",
        "type": "tool_call",
        "content": 'forecast {"place": "tomato bed"}',
        "call_id": "call-1",
        "tool_name": "forecast",
        "ts": "2026-05-08T09:02:00Z",
    },
    {
        "conversation": "garden",
        "role": "tool",
        "content": "No frost over the tomato bed for seven days",
        "call_id": "call-1",
        "tool_name": "forecast",
        "ts": "2026-05-08T09:02:10Z",
    },
    {
        "conversation": "taxes",
        "project": "bookkeeping",
        "role": "user",
        "content": "Does the tax office want the receipt of the tomato heater?",
        "ts": "2026-06-20T10:00:00Z",
    },
    {
        "conversation": "taxes",
        "role": "assistant",
        "content": "Yes, keep the heater receipt for ten years.",
        "ts": "2026-06-20T10:00:30Z",
    },
)


def recent(days: float, content: str) -> Line:
    """A line that was said so many days ago."""
    said = datetime.now(UTC) - timedelta(days=days)
    return {"conversation": "lately", "role": "user", "content": content, "ts": said.isoformat()}


def write_lines(path: Path, lines: Iterable[Line]) -> Path:
    """A file in Harken's exchange format."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file in Harken's exchange format."""

    def writing(name: str, lines: Iterable[Line]) -> Path:
        return write_lines(tmp_path / name, lines)

    return writing


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A store with two conversations and a recent message; nobody may change it."""
    place = tmp_path_factory.mktemp("stocked")
    (place / "person").mkdir()
    cli = CommandLine(place / "home", place / "person", {"HARKEN_EMBEDDER": "none"})
    # Half a day ago is since yesterday, also where midnight passes before somebody asks.
    lines = [*TALK, recent(0.5, "The tomato harvest was heavy"), recent(40.0, "The tomato nets were torn")]
    cli("import", "jsonl", write_lines(place / "talk.jsonl", lines))
    return cli


@pytest.fixture(scope="session")
def talk_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the two conversations alone, to copy."""
    place = tmp_path_factory.mktemp("talk")
    cli = CommandLine(place / "home", place, {"HARKEN_EMBEDDER": "none"})
    cli("import", "jsonl", write_lines(place / "talk.jsonl", TALK))
    return cli.home


@pytest.fixture
def filled(cli: CommandLine, talk_home: Path) -> CommandLine:
    """The same two conversations in a store of the test's own."""
    shutil.copytree(talk_home, cli.home, dirs_exist_ok=True)
    return cli


@pytest.fixture
def place(cli: CommandLine) -> DaemonPaths:
    return DaemonPaths(str(cli.home))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def daemon(cli: CommandLine, place: DaemonPaths) -> Iterator[Callable[[], int]]:
    """Starts a daemon and gives its process id; whatever runs at the end is ended."""

    started = []

    def start() -> int:
        started.append(cli.start("serve", "--quiet"))
        return answering(cli, place)

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE_SECONDS)
    end(place)
