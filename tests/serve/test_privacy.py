"""What stays with its owner: logs hold nobody's words, and nobody else may read a home, however it is reached."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from coding_agent import CodingAgent, answering, ask, daemons_of, end, eventually
from command_line import PYTHON, TIMEOUT_SECONDS, CommandLine
from harken.serve.daemon.paths import DaemonPaths

SAID = "The numbat of Zanzibar signs every invoice of the marmalade works in person"
MARK = "numbat"
# Nobody answers there, so that every way has something to log.
NOBODY = "http://127.0.0.1:9/v1"
BROKEN = {
    "HARKEN_EMBEDDER": "openai-compatible",
    "HARKEN_EMBEDDING__URL": NOBODY,
    "HARKEN_EMBEDDING__MODEL": "words",
    "HARKEN_EMBEDDING__DIMS": "64",
    "HARKEN_EMBEDDING__TIMEOUT_SECONDS": "1",
    "HARKEN_LLM__MODEL": "openai:gpt-5-mini",
    "HARKEN_LLM__URL": NOBODY,
    "HARKEN_LLM__API_KEY": "none",
}


@pytest.fixture
def broken(cli: CommandLine) -> Iterator[CommandLine]:
    """A home whose models answer nobody."""
    yield replace(cli, settings=BROKEN)
    end(DaemonPaths(str(cli.home)))


def words_of(process: subprocess.Popen[str], stdin: str | None = None) -> str:
    """Everything that a process has logged, once it has ended."""
    return process.communicate(stdin, timeout=TIMEOUT_SECONDS)[1]


def asked_over_mcp() -> str:
    """What a client says that begins, searches, saves, and asks for what is not there."""
    calls = [
        ("search", {"query": SAID}),
        ("remember", {"content": SAID}),
        ("show", {"id": SAID}),
        ("search", {"query": [SAID]}),
        (SAID, {}),
    ]
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"id": 0, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        *(
            {"id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls, start=1)
        ),
    ]
    return "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)


def test_no_log_holds_a_word_of_what_was_said(broken: CommandLine, tmp_path: Path) -> None:
    place = DaemonPaths(str(broken.home))
    logs = {}
    with broken.running("--verbose", "serve", stderr=subprocess.PIPE) as daemon:
        answering(broken, place)
        agent = CodingAgent(broken, tmp_path, "session")
        agent.say("user", SAID)
        agent.say("assistant", f"{SAID}, indeed.")
        agent.hook("UserPromptSubmit", prompt=SAID)
        agent.transcript.write_text(agent.transcript.read_text() + f"{SAID} is no JSON\n")
        agent.hook("Stop")
        eventually(lambda: broken.status()["messages"] == 2)
        agent.hook("UserPromptSubmit", prompt=f"Who signs the invoices of the marmalade works? {SAID}")
        for body in ({"query": SAID}, {"query": {"not": SAID}}, {SAID: SAID}):
            ask(place, "/v1/search", body, broken.environment(), 30.0)
        with broken.running(
            "--verbose", "mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as mcp:
            logs["mcp"] = words_of(mcp, asked_over_mcp())
        eventually(lambda: broken("worker", "status").out)
        daemon.terminate()
        logs["daemon"] = words_of(daemon)
    chat = broken("--verbose", "chat", stdin=f"{SAID}?\n", code=1)
    # The terminal of the one who asked may show the question; the log's lines may not.
    logs["chat"] = "\n".join(line for line in chat.err.splitlines() if "event=" in line)
    assert "event=" in logs["daemon"]
    assert {name for name, text in logs.items() if MARK in text} == set()
    holding = {
        path.relative_to(broken.home).parts[0]
        for path in broken.home.rglob("*")
        if path.is_file() and MARK.encode() in path.read_bytes()
    }
    assert "conversations" in holding
    assert {name.partition("-")[0] for name in holding} <= {"conversations", "memories", "harken.db", "typed"}


@pytest.mark.no_home
def test_nobody_else_may_read_a_home_whatever_the_umask(cli: CommandLine, tmp_path: Path) -> None:
    cold = replace(cli, cold=True, settings={"HARKEN_EMBEDDER": "none"})
    place = DaemonPaths(str(cli.home))
    before = os.umask(0)
    try:
        with cold.running("serve"):
            answering(cold, place)
            agent = CodingAgent(cold, tmp_path, "session")
            agent.say("user", SAID)
            agent.hook("Stop")
            eventually(lambda: cold.status()["messages"] == 1)
            cold("memory", "add", SAID, "--category", "fact")
            # A socket stands elsewhere where the path of the home is too long for one.
            found = modes(cli.home) | modes(Path(place.socket).parent)
            folders = {path for path in found if path.is_dir()}
        cold("reindex", "--from-journal")
        found |= modes(cli.home)
    finally:
        os.umask(before)
        end(place)
    assert {path.name for path in found} >= {"harken.db", "daemon.lock", "conversations"}
    assert Path(place.socket) in found
    assert {path: oct(mode) for path, mode in found.items() if mode != (0o700 if path in folders else 0o600)} == {}


def modes(home: Path) -> dict[Path, int]:
    """Who may do what with a home, and with all that is in it; what its daemon takes away meanwhile is nobody's."""
    found = {}
    for path in [home, *home.rglob("*")]:
        with suppress(FileNotFoundError):
            found[path] = stat.S_IMODE(path.lstat().st_mode)
    return found


@pytest.mark.no_home
def test_a_home_behind_a_link_is_the_same_home_with_one_daemon(cli: CommandLine, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(cli.home)
    linked, real = (
        replace(cli, home=link, settings={"HARKEN_EMBEDDER": "none"}),
        replace(cli, settings={"HARKEN_EMBEDDER": "none"}),
    )
    cli.home.mkdir(mode=0o700)
    try:
        with linked.running("serve"):
            pid = answering(linked, DaemonPaths(str(link)))
            agent = CodingAgent(linked, tmp_path, "session")
            agent.say("user", SAID)
            agent.hook("Stop")
            eventually(lambda: real.status()["messages"] == 1)
            assert real("serve", "--status", "--json").json()["pid"] == pid
            assert "harken serve --stop" in real.fails("serve")
            assert (daemons_of(cli.home), DaemonPaths(str(cli.home)).home) == ([], str(cli.home))
            assert [hit["text"] for hit in real.search("numbat")] == [SAID]
    finally:
        end(DaemonPaths(str(link)))
    assert link.is_symlink()
    assert stat.S_IMODE(cli.home.stat().st_mode) == 0o700


@pytest.mark.no_home
def test_what_others_put_in_the_place_of_its_folder_gets_no_socket(cli: CommandLine, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    cli.home.mkdir(mode=0o700)
    (cli.home / "run").symlink_to(theirs)
    assert "run is a link, so no socket is put there. Remove it" in cli.fails("serve")
    assert list(theirs.iterdir()) == []


def test_the_library_that_runs_models_tells_nobody_of_it(tmp_path: Path) -> None:
    loaded = "from harken.providers.onnx_session import vendor_errors; vendor_errors()"
    env = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    env = {**env, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([PYTHON[0], "-c", loaded], env=env, check=True, timeout=TIMEOUT_SECONDS)
    assert list(tmp_path.rglob("*")) == []
