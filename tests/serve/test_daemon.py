"""The daemon and the hooks, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coding_agent import (
    HOOK_SECONDS,
    PATIENCE_SECONDS,
    CodingAgent,
    answering,
    ask,
    daemons_of,
    end,
    eventually,
    start_seconds,
)
from command_line import PYTHON, CommandLine
from harken.engine import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths, home_of
from harken.serve.daemon.wire import OK, DaemonError
from harken.serve.mcp.daemon_client import DaemonClient
from quotations import quotations

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

# Three tenths of it are for writing down what a daemon that hangs does not hear.
PATIENT_SECONDS = 6.0


def test_what_one_session_was_told_comes_back_in_another(
    cli: CommandLine, daemon: Callable[[], int], folder: Path
) -> None:
    daemon()
    first = CodingAgent(cli, folder, "first")
    first.say("user", "For the record: our staging cluster is called Zanzibar, and Priya owns it.")
    first.say("assistant", "Noted: staging is Zanzibar, owned by Priya.")
    assert first.hook("Stop") == ""
    eventually(lambda: cli.status()["messages"] == 2)
    second = CodingAgent(cli, folder, "second")
    told = second.context("Who owns the staging cluster Zanzibar these days?")
    assert "Priya" in told
    assert {each.facts["date"][:10] for each in quotations(told)} == {"2026-11-20"}
    # The same thing never twice in one conversation, and nothing where nothing matters.
    assert second.context("Again: who owns the staging cluster Zanzibar?") == ""
    assert second.context("thanks") == ""
    assert "Priya" in CodingAgent(cli, folder, "third").context("Who owns the staging cluster Zanzibar?")


def test_what_is_switched_off_elsewhere_is_off_in_a_daemon_that_runs(
    cli: CommandLine, daemon: Callable[[], int], folder: Path
) -> None:
    cli("core", "set", "user", "name", "Maya")
    daemon()
    assert "Maya" in CodingAgent(cli, folder, "before").hook("SessionStart", source="startup")
    cli("config", "set", "hooks.brief", "false")
    sessions = iter(range(1000))
    eventually(lambda: not CodingAgent(cli, folder, f"after {next(sessions)}").hook("SessionStart", source="startup"))


def test_a_rule_of_redaction_in_the_settings_file_holds_in_a_daemon_that_runs(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    def began() -> int:
        with suppress(FileNotFoundError):
            return Path(place.socket).stat().st_mtime_ns
        return 0

    pid, first = daemon(), began()
    (cli.home / "harken.toml").write_text('[redaction.patterns]\nstaff = "EMP-[0-9]+"\n', encoding="utf-8")
    eventually(lambda: began() not in (0, first))
    assert answering(cli, place) == pid
    agent = CodingAgent(cli, folder, "badge")
    agent.say("user", "The badge at the door says EMP-654321, by the way.")
    agent.hook("Stop")
    eventually(lambda: cli.status()["messages"] == 1)
    assert "[redacted:staff]" in cli("search", "badge").out
    assert not any(b"EMP-654321" in path.read_bytes() for path in cli.home.rglob("*") if path.is_file())


def test_live_intake_brings_in_what_an_import_brings_in(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, tmp_path: Path
) -> None:
    daemon()
    agent = CodingAgent(cli, folder, "live")
    for turn in range(3):
        agent.say("user", f"Question {turn} about the harbour plan, please answer in detail.")
        agent.hook("UserPromptSubmit", prompt="Question")
        agent.say("assistant", f"Answer {turn} about the harbour plan, with all the details.")
        agent.hook("Stop")
        agent.hook("Stop")
    agent.hook("SessionEnd")
    eventually(lambda: cli.status()["messages"] == 6)
    other = CommandLine(tmp_path / "imported", cli.person, cli.settings)
    other("import", "claude-code", agent.transcript)
    assert exported(cli, tmp_path / "live.jsonl") == exported(other, tmp_path / "imported.jsonl")


@pytest.mark.parametrize("event", ["Stop", "SubagentStop", "PreCompact", "SessionEnd", "StopFailure"])
def test_each_event_hands_over_what_its_transcripts_have_gained(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, event: str
) -> None:
    daemon()
    agent = CodingAgent(cli, folder, "session")
    side = CodingAgent(cli, folder / "session" / "subagents", "session")
    side.transcript = folder / "session" / "subagents" / "agent-a1.jsonl"
    side.transcript.parent.mkdir(parents=True)
    fields = {"agent_id": "a1", "agent_transcript_path": str(side.transcript)} if event == "SubagentStop" else {}
    for count in (1, 2):
        agent.say("user", f"Question {count} about the harbour plan, please.")
        if fields:
            side.say("assistant", f"Finding {count} on the harbour plan, by a subagent.")
        assert agent.hook(event, **fields) == ""
        expected = 2 * count if fields else count
        eventually(lambda expected=expected: cli.status()["messages"] == expected)
    assert cli.status()["conversations"] == (2 if fields else 1)


def exported(cli: CommandLine, file: Path) -> list[str]:
    """What there is, less what says when it was exported, and what workers have made of it by now."""
    cli("export", file)
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return [line for line in lines if "summary" not in json.loads(line).get("event", "summary")]


def test_a_session_begins_with_what_is_always_known(cli: CommandLine, daemon: Callable[[], int], folder: Path) -> None:
    cli("core", "set", "user", "name", "Maya")
    daemon()
    out = json.loads(CodingAgent(cli, folder, "begun").hook("SessionStart", source="startup"))
    assert out["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "name: Maya" in out["hookSpecificOutput"]["additionalContext"]


@pytest.mark.no_home
@pytest.mark.parametrize("stdin", [b"", b"{", b"[]", b"\xff\xfe", b'{"session_id": 5}', b"null"])
@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "NoSuchEvent"])
def test_garbage_is_answered_with_silence(
    cli: CommandLine, folder: Path, event: str, stdin: bytes, place: DaemonPaths
) -> None:
    cli.home.mkdir(parents=True)
    (cli.home / "run").touch()  # no daemon can be started here
    assert CodingAgent(cli, folder, "any").run(event, stdin).stdout == b""


def test_a_daemon_that_hangs_costs_no_more_than_the_deadline(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    pid = daemon()
    agent = CodingAgent(cli, folder, "patient")
    agent.say("user", "This was said while the daemon hung, and is not to be lost.")
    os.kill(pid, signal.SIGSTOP)
    try:
        for event, seconds in (("UserPromptSubmit", 0.5), ("Stop", PATIENT_SECONDS)):
            begun = time.monotonic()
            assert agent.hook(event, prompt="What was said about the harbour?", seconds=seconds) == ""
            assert time.monotonic() - begun < seconds + start_seconds()
        assert daemons_of(cli.home) == [], "a hook that is not answered must not add a process each time"
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: cli.status()["messages"] == 1)


def test_hooks_of_one_moment_start_one_daemon_and_lose_nothing(
    cli: CommandLine, folder: Path, place: DaemonPaths
) -> None:
    agents = [CodingAgent(cli, folder, f"session-{number}") for number in range(6)]
    for agent in agents:
        agent.say("user", f"Something worth keeping was said in {agent.session_id}.")
    patient = cli.environment({"HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)})
    seen: set[int] = set()

    def answered() -> bool:
        seen.update(daemons_of(cli.home))
        with suppress(DaemonError):
            return ask(place, "/v1/ping", None, cli.environment(), 5.0).status == OK
        return False

    try:
        for agent in agents:
            process = subprocess.Popen(
                [*PYTHON, "hook", "Stop"], env=patient, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            payload = {"session_id": agent.session_id, "transcript_path": str(agent.transcript)}
            process.communicate(json.dumps(payload).encode(), timeout=PATIENCE_SECONDS)
            assert process.returncode == 0
            answered()
        eventually(answered)
        eventually(lambda: cli.status()["messages"] == 6)
        assert seen == {answering(cli, place)} == set(daemons_of(cli.home)), "one more each time it does not answer yet"
    finally:
        end(place)


@pytest.mark.no_home
def test_one_that_cannot_live_is_not_started_at_every_event(cli: CommandLine, folder: Path, place: DaemonPaths) -> None:
    cli.home.mkdir(mode=0o700)
    broken = cli.home / "harken.db"
    broken.write_bytes(b"no database " * 1000)
    agent = CodingAgent(cli, folder, "session")
    agent.say("user", "This was said while no daemon could live.")
    try:
        agent.hook("Stop")
        eventually(lambda: daemons_of(cli.home) == [])
        # As if it had ended just now, and long ago, however slow this machine is.
        with kept_fresh(place.starting):
            agent.hook("Stop")
        assert daemons_of(cli.home) == []
        broken.unlink()
        os.utime(place.starting, (0, 0))
        agent.hook("Stop")
        eventually(lambda: cli.status()["messages"] == 1)
    finally:
        end(place)


@contextmanager
def kept_fresh(path: str) -> Iterator[None]:
    """Let a file be one that was written just now, however long the block takes."""
    ended = threading.Event()

    def touch() -> None:
        while not ended.wait(0.2):
            os.utime(path)

    os.utime(path)
    thread = threading.Thread(target=touch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_what_was_reported_outlives_a_killed_daemon(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    os.kill(daemon(), signal.SIGKILL)
    eventually(lambda: holder(place) is None)
    agent = CodingAgent(cli, folder, "reported")
    agent.say("user", "Said while nobody served this home, yet not lost.")
    agent.hook("Stop")
    eventually(lambda: cli.status()["messages"] == 1)
    assert answering(cli, place)


def test_only_its_own_user_reaches_it(daemon: Callable[[], int], place: DaemonPaths) -> None:
    daemon()
    assert mode(place.socket) == 0o600
    assert mode(place.folder) == 0o700
    assert mode(place.lock) == 0o600


def mode(path: str) -> int:
    """Who may do what with a file."""
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_status_and_stop(cli: CommandLine, daemon: Callable[[], int], place: DaemonPaths) -> None:
    assert cli("serve", "--status").out.startswith("No daemon runs")
    assert cli("serve", "--stop").out.startswith("No daemon runs")
    pid = daemon()
    facts = cli("serve", "--status", "--json").json()
    assert (facts["running"], facts["pid"]) == (True, pid)
    # How long it waits for that is a person's patience, not a loaded machine's.
    eventually(lambda: cli("serve", "--status", "--json").json()["answers"])
    assert "harken serve --stop" in cli.fails("serve")
    assert f"Stopped process {pid}" in cli("serve", "--stop").out
    assert not Path(place.socket).exists()
    assert cli("serve", "--status", "--json").json()["running"] is False


def test_what_is_reported_while_an_idle_one_leaves_is_read(cli: CommandLine, folder: Path, place: DaemonPaths) -> None:
    hurried = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SERVE__IDLE_SECONDS": "0.3"})
    agent = CodingAgent(hurried, folder, "late")
    try:
        for number, seconds in enumerate((0.0, 0.01, 0.03, 0.1), start=1):
            with hurried.running("serve", "--quiet") as daemon:
                answering(hurried, place)
                while Path(place.socket).exists():
                    time.sleep(0.0005)
                # Somewhere between its last look at the reports and the end of its process.
                time.sleep(seconds)
                daemon.send_signal(signal.SIGSTOP)
                agent.say("user", f"This was said while daemon {number} was leaving.")
                assert agent.hook("Stop") == ""
                daemon.send_signal(signal.SIGCONT)
                eventually(lambda expected=number: cli.status()["messages"] == expected)
                eventually(lambda: holder(place) is None)
    finally:
        end(place)


# Holds a home's lock; told to end, it leaves it to a child, as if a hook had started the next one in between.
HANDS_OVER = """
import fcntl, json, os, signal, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)

def held_by(pid):
    os.pwrite(lock, json.dumps({"pid": pid, "version": "1"}).encode().ljust(64), 0)

def end(*_):
    if child := os.fork():
        held_by(child)
        os._exit(0)

signal.signal(signal.SIGTERM, end)
held_by(os.getpid())
time.sleep(600)
"""


def test_stop_is_done_when_the_one_it_stopped_has_ended_whoever_serves_next(
    cli: CommandLine, place: DaemonPaths
) -> None:
    Path(place.folder).mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", HANDS_OVER, place.lock]) as first:
        try:
            eventually(lambda: (found := holder(place)) is not None and found.pid == first.pid)
            assert f"Stopped process {first.pid}" in cli("serve", "--stop").out
            found = holder(place)
            assert found is not None
            assert found.pid != first.pid
        finally:
            first.kill()
            end(place)


def test_it_leaves_when_nobody_asks(cli: CommandLine, place: DaemonPaths) -> None:
    with cli.running("serve", "--quiet") as process:
        answering(cli, place)
        assert process.poll() is None
    hurried = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SERVE__IDLE_SECONDS": "0.5"})
    with hurried.running("serve", "--quiet") as process:
        assert process.wait(PATIENCE_SECONDS) == 0
    assert holder(place) is None


def test_one_that_nobody_can_find_leaves(daemon: Callable[[], int], place: DaemonPaths) -> None:
    daemon()
    Path(place.socket).unlink()
    eventually(lambda: holder(place) is None)
    daemon()
    assert Path(place.socket).exists()


def test_one_whose_database_was_set_aside_leaves(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    old, database = daemon(), cli.home / "harken.db"
    # As a damaged one is, for a new one to be made from the journal.
    for file in cli.home.glob("harken.db*"):
        file.rename(file.with_name(f"{file.name}.damaged-20261122-120000"))
    cli("status")
    assert database.exists()
    eventually(lambda: (found := holder(place)) is None or found.pid != old)
    agent = CodingAgent(cli, folder, "after")
    agent.say("user", "Said to the database that was made anew.")
    agent.hook("Stop")
    eventually(lambda: cli.status()["messages"] == 1)


def test_one_of_another_version_makes_way(
    cli: CommandLine, daemon: Callable[[], int], place: DaemonPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = daemon()
    monkeypatch.setattr("harken.serve.daemon.wire.__version__", "99.0")
    assert ask(place, "/v1/ping", None, cli.environment(), PATIENCE_SECONDS).status == 426
    eventually(lambda: (found := holder(place)) is None or found.pid != old)


def test_an_mcp_server_from_before_an_upgrade_ends_no_third_one(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = DaemonClient(place, cli.environment(), folder, lambda: Harken(cli.home, env={}))
    pids = [0]
    for _ in range(3):
        eventually(lambda: (found := holder(place)) is None or found.pid != pids[-1])
        pids.append(daemon())
        with monkeypatch.context() as upgraded:
            upgraded.setattr("harken.serve.daemon.wire.__version__", "0.0.1")
            assert not client.is_served()
    time.sleep(1)
    assert answering(cli, place) == pids[-1]


def test_one_with_other_settings_is_left_alone(cli: CommandLine, daemon: Callable[[], int], place: DaemonPaths) -> None:
    daemon()
    other = cli.environment({"HARKEN_SEARCH__LIMIT": "3"})
    assert ask(place, "/v1/ping", None, other, PATIENCE_SECONDS).status == 409
    said = cli("serve", "--status", settings={"HARKEN_SEARCH__LIMIT": "3"}).out
    assert "was started with other settings (HARKEN_*)" in said


def test_one_leaves_when_only_those_ask_whom_it_refuses(cli: CommandLine, place: DaemonPaths) -> None:
    other, seen = cli.environment({"HARKEN_SEARCH__LIMIT": "3"}), set()
    hurried = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SERVE__IDLE_SECONDS": "1"})

    def has_left(process: subprocess.Popen[str]) -> bool:
        with suppress(DaemonError):
            seen.add(ask(place, "/v1/ping", None, other, PATIENCE_SECONDS).status)
        return process.poll() is not None

    with hurried.running("serve", "--quiet") as process:
        eventually(lambda: has_left(process))
    assert seen == {409}


def test_one_answers_however_its_home_is_named(cli: CommandLine, daemon: Callable[[], int], place: DaemonPaths) -> None:
    daemon()
    env = {name: value for name, value in cli.environment().items() if name != "HARKEN_HOME"}
    assert ask(place, "/v1/ping", None, env, PATIENCE_SECONDS).status == 200


def test_what_a_hook_with_other_settings_reports_is_not_lost(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    pid = daemon()
    elsewhere = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SEARCH__LIMIT": "3"})
    agent = CodingAgent(elsewhere, folder, "elsewhere")
    agent.say("user", "Said in a terminal that has a setting of its own.")
    assert agent.hook("Stop") == ""
    eventually(lambda: cli.status()["messages"] == 1)
    found = holder(place)
    assert found is not None
    assert (found.pid, daemons_of(cli.home)) == (pid, [])


def test_what_a_hook_of_another_store_reports_is_not_taken_for_this_ones(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, place: DaemonPaths
) -> None:
    daemon()
    other = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_STORE": f"sqlite:///{folder}/other.db"})
    agent = CodingAgent(other, folder, "elsewhere")
    agent.say("user", "What is said here belongs into another store.")
    assert agent.hook("Stop") == ""
    own = CodingAgent(cli, folder, "here")
    own.say("user", "And this into that of the home.")
    own.hook("Stop")
    eventually(lambda: cli.status()["messages"] == 1)
    end(place)
    # The next one of that store finds it waiting.
    agent.hook("SessionStart")
    eventually(lambda: other.status()["messages"] == 1)
    assert cli.status()["messages"] == 1


@pytest.mark.parametrize("env", [{}, {"XDG_DATA_HOME": "/somewhere"}, {"HARKEN_HOME": "~/memory"}])
def test_hooks_find_the_home_that_commands_use(
    env: dict[str, str], cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harken.config.settings import load_settings

    monkeypatch.setenv("HOME", str(cli.person))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert home_of(env) == str(load_settings(None, env).settings.home)
