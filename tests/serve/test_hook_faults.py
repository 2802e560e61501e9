"""Whatever breaks, a hook ends with 0, says nothing, and takes no longer than it may; what it reported comes later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from coding_agent import (
    HOOK_SECONDS,
    PATIENCE_SECONDS,
    CodingAgent,
    answering,
    daemons_of,
    end,
    eventually,
    start_seconds,
)
from command_line import PYTHON, CommandLine
from disks import Disk
from harken.serve.daemon.paths import DEADLINE, DaemonPaths
from harken.serve.hooks import client

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

DEADLINE_SECONDS = 1.5
# Of hooks that find nobody who could answer, so that each waits as long.
SILENT_SECONDS = 0.5
SAID = "The harbour plan was agreed on, and this is not to be lost."
LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""
FAILED = {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "error": "Exit code 1\n1 failed in 0.1s"}


@contextmanager
def in_time(seconds: float = DEADLINE_SECONDS) -> Iterator[None]:
    """What is done in it takes no longer than one hook with this deadline may."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds + start_seconds()


def check_silence(agent: CodingAgent) -> None:
    """Every kind of event is answered with silence, in time; what was said is reported whatever the load."""
    events = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt": "What was agreed on about the harbour plan?"},
        "PostToolUseFailure": FAILED,
        "Stop": {},
    }
    for event, fields in events.items():
        with in_time(SILENT_SECONDS):
            assert agent.hook(event, seconds=SILENT_SECONDS, **fields) == ""
    # That one may have come to its deadline before it had reported anything.
    with in_time(HOOK_SECONDS):
        assert agent.hook("Stop") == ""


@pytest.fixture
def agent(cli: CommandLine, folder: Path) -> Iterator[CodingAgent]:
    """A session in which something was said; whatever its hooks have started is ended."""
    made = CodingAgent(cli, folder, "session")
    made.say("user", SAID)
    yield made
    end(DaemonPaths(str(made.cli.home)))


def arrives(agent: CodingAgent) -> None:
    """What was said is stored, once."""
    eventually(lambda: agent.cli.status()["messages"] == 1)
    assert [hit["text"] for hit in agent.cli.search("harbour plan")] == [SAID]


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another process holds the store in an exclusive transaction."""
    words = [sys.executable, "-c", LOCK, str(home / "harken.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.communicate(timeout=PATIENCE_SECONDS)


def test_a_store_that_another_process_holds(agent: CodingAgent, daemon: Callable[[], int]) -> None:
    agent.cli("core", "set", "user", "name", "Maya")
    agent.cli("config", "set", "hooks.brief", "false")
    daemon()
    with locked(agent.cli.home):
        check_silence(agent)
    arrives(agent)


def test_what_came_too_late_is_told_the_next_time(
    agent: CodingAgent, daemon: Callable[[], int], place: DaemonPaths
) -> None:
    earlier = CodingAgent(agent.cli, agent.cwd, "earlier")
    earlier.say("user", "For the record: our staging cluster is called Zanzibar, and Priya owns it.")
    agent.cli("import", "claude-code", earlier.transcript)
    daemon()
    asked = "Who owns the staging cluster Zanzibar?"
    with locked(agent.cli.home):
        assert agent.hook("UserPromptSubmit", seconds=DEADLINE_SECONDS, prompt=asked) == ""
        # By the time it answers somebody else, the daemon has noticed that the hook is gone.
        answering(agent.cli, place)
    assert "Priya" in agent.context(asked)
    assert agent.context(asked) == ""


def test_a_store_that_another_process_holds_where_no_daemon_runs(agent: CodingAgent) -> None:
    agent.cli("config", "set", "hooks.brief", "false")
    with locked(agent.cli.home):
        check_silence(agent)
    # Whether the first daemon outlived the lock or not, somebody reads what was put down.
    eventually(lambda: agent.hook("UserPromptSubmit", prompt="ok") == "" and agent.cli.status()["messages"] == 1)
    arrives(agent)


def fill(disk: Disk) -> Path:
    """A file that takes all the room there is."""
    filler = disk.path / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    return filler


@pytest.fixture
def on_disk(agent: CodingAgent, disk: Callable[[str], Disk]) -> Iterator[tuple[CodingAgent, Disk]]:
    """The session with its home on a disk of its own."""
    small = disk("24m")
    agent.cli = replace(agent.cli, home=small.path / "home")
    yield agent, small
    end(DaemonPaths(str(agent.cli.home)))


def test_a_full_disk(on_disk: tuple[CodingAgent, Disk]) -> None:
    agent, small = on_disk
    filler = fill(small)
    check_silence(agent)
    eventually(lambda: daemons_of(agent.cli.home) == [])
    filler.unlink()
    agent.hook("SessionEnd")
    arrives(agent)


def test_a_disk_that_is_full_for_the_daemon_too(on_disk: tuple[CodingAgent, Disk]) -> None:
    agent, small = on_disk
    agent.cli("status")
    with agent.cli.running("serve", "--quiet"):
        answering(agent.cli, DaemonPaths(str(agent.cli.home)))
        filler = fill(small)
        check_silence(agent)
        assert list((agent.cli.home / "run").rglob("*.draft")) == []
        filler.unlink()
        # No other hook comes: the daemon remembers what the disk did not take.
        arrives(agent)


def test_a_home_that_may_not_be_written(on_disk: tuple[CodingAgent, Disk]) -> None:
    agent, small = on_disk
    agent.cli("status")
    small.remount("ro")
    check_silence(agent)
    eventually(lambda: daemons_of(agent.cli.home) == [])
    small.remount("rw")
    agent.hook("SessionEnd")
    arrives(agent)


def test_a_home_that_is_not_there_is_made(agent: CodingAgent, tmp_path: Path) -> None:
    agent.cli = replace(agent.cli, home=tmp_path / "not" / "yet" / "made")
    check_silence(agent)
    arrives(agent)


def test_a_home_that_cannot_be_made(agent: CodingAgent, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    agent.cli = replace(agent.cli, home=tmp_path / "file" / "home")
    check_silence(agent)
    eventually(lambda: daemons_of(agent.cli.home) == [])


@pytest.mark.parametrize("depth", [1, 12])
def test_a_person_s_folder_that_is_a_link(agent: CodingAgent, tmp_path: Path, depth: int) -> None:
    real = tmp_path.joinpath("real", *["folder"] * depth)
    real.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(real)
    # No home is named: it is where the platform has it, below the person's folder.
    settings = {**agent.cli.settings, "HARKEN_HOME": ""}
    below = Path(".local/share/harken")
    agent.cli = CommandLine(link / below, link, settings)
    try:
        assert agent.hook("Stop") == ""
        arrives(agent)
        assert (real / below / "harken.db").exists()
        agent.cli("core", "set", "user", "name", "Maya")
        # By its other name the home has the same daemon, which answers.
        by_other_name = CodingAgent(CommandLine(real / below, real, settings), agent.cwd, "other")
        assert "Maya" in by_other_name.hook("SessionStart", source="startup")
        assert len([*daemons_of(link / below), *daemons_of(real / below)]) == 1
    finally:
        end(DaemonPaths(str(real / below)))


@pytest.mark.parametrize("stdin", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"tool_name": {}, "tool_input": []}'])
def test_garbage_is_answered_with_silence_by_a_daemon_too(
    agent: CodingAgent, daemon: Callable[[], int], stdin: bytes
) -> None:
    daemon()
    for event in ("SessionStart", "PostToolUse", "PostToolUseFailure", "SubagentStop", "NoSuchEvent", "../ping"):
        with in_time():
            assert agent.run(event, stdin, DEADLINE_SECONDS).stdout == b""


def closed(agent: CodingAgent, which: str, event: str = "Stop") -> subprocess.CompletedProcess[bytes]:
    """A hook that is started without its stdin or stdout."""
    fields = {"session_id": "session", "transcript_path": str(agent.transcript), "cwd": str(agent.cwd)}
    words = ["sh", "-c", f'exec "$@" {which}', "sh", *PYTHON, "hook", event]
    env = {**agent.cli.environment(), "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)}
    given = json.dumps({**fields, "hook_event_name": event}).encode()
    return subprocess.run(words, env=env, input=given, capture_output=True, timeout=PATIENCE_SECONDS, check=False)


@pytest.mark.parametrize("which", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(agent: CodingAgent, which: str) -> None:
    agent.cli("core", "set", "user", "name", "Maya")
    for event in ("Stop", "SessionStart"):
        with in_time(HOOK_SECONDS):
            done = closed(agent, which, event)
        assert (done.returncode, done.stderr) == (0, b"")
        assert not done.stdout or "<" not in which
    if "<" in which:
        agent.hook("Stop")
    arrives(agent)


def test_an_agent_that_reads_no_answer(agent: CodingAgent, daemon: Callable[[], int]) -> None:
    agent.cli("core", "set", "user", "name", "Maya")
    daemon()
    reading, writing = os.pipe()
    os.close(reading)
    env = {**agent.cli.environment(), "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)}
    given = json.dumps({"session_id": "deaf", "cwd": str(agent.cwd), "hook_event_name": "SessionStart"}).encode()
    try:
        words = [*PYTHON, "hook", "SessionStart"]
        done = subprocess.run(words, env=env, input=given, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_agent_that_never_closes_stdin(agent: CodingAgent) -> None:
    env = {**agent.cli.environment(), "HARKEN_HOOKS__DEADLINE_SECONDS": str(DEADLINE_SECONDS)}
    words = [*PYTHON, "hook", "Stop"]
    with (
        in_time(),
        subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as hook,
    ):
        assert hook.wait(PATIENCE_SECONDS) == 0
        assert hook.stdout is not None
        assert hook.stdout.read() == b""


@pytest.mark.parametrize(
    ("wished", "started", "left"), [("1.5", 0.03, 1.47), ("nonsense", 0.5, 1.0), ("0.2", 3.0, 0.05)]
)
def test_the_deadline_counts_from_the_start_of_the_process(
    monkeypatch: pytest.MonkeyPatch, wished: str, started: float, left: float
) -> None:
    monkeypatch.setattr(time, "process_time", lambda: started)
    monkeypatch.setenv(DEADLINE, wished)
    assert client._deadline(os.environ) == pytest.approx(left)  # the agent waits for the interpreter too
