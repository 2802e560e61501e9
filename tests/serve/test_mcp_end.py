"""The MCP server ends with its client, whatever becomes of that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coding_agent import PATIENCE_SECONDS, answering, end
from command_line import PYTHON, CommandLine
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

CALL = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "harbour"}}},
)


class TestEnd:
    """It ends with its client."""

    def test_when_stdin_is_closed(self, cli: CommandLine) -> None:
        with cli.running("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                out, _ = process.communicate("", timeout=PATIENCE_SECONDS)
                assert (process.returncode, out) == (0, "")
            finally:
                end(DaemonPaths(str(cli.home)))

    def test_when_its_client_is_killed(self, cli: CommandLine, tmp_path: Path) -> None:
        note = tmp_path / "pid"
        script = (
            "import pathlib, subprocess, sys, time\n"
            "pipe = subprocess.PIPE\n"
            "child = subprocess.Popen([sys.executable, '-m', 'harken', 'mcp'], stdin=pipe, stdout=pipe)\n"
            f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
            "time.sleep(600)\n"
        )
        client = subprocess.Popen([PYTHON[0], "-c", script], env=cli.environment())
        try:
            wait(lambda: note.exists() and note.read_text())
            child = int(note.read_text())
            wait(lambda: holder(DaemonPaths(str(cli.home))) is not None)
            client.kill()
            client.wait(PATIENCE_SECONDS)
            wait(lambda: b"mcp" not in command_of(child))
        finally:
            client.kill()
            end(DaemonPaths(str(cli.home)))

    def test_when_stdin_is_closed_while_the_daemon_does_not_answer(self, cli: CommandLine) -> None:
        place = DaemonPaths(str(cli.home))
        called = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in CALL)
        with cli.running("serve", "--quiet") as daemon:
            answering(cli, place)
            with cli.running("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                process.stdin.write(called)
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["id"] == 1
                assert json.loads(process.stdout.readline())["id"] == 2
                daemon.send_signal(signal.SIGSTOP)
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **CALL[-1], "id": 3}) + "\n")
                process.stdin.close()
                begun = time.monotonic()
                assert process.wait(PATIENCE_SECONDS) == 0
                assert time.monotonic() - begun < PATIENCE_SECONDS / 2

    @pytest.mark.parametrize("is_up", [True, False], ids=["while it serves", "while it starts"])
    def test_when_its_parent_is_killed_and_the_pipe_stays_open(
        self, cli: CommandLine, tmp_path: Path, is_up: bool
    ) -> None:
        note, imported = tmp_path / "pid", tmp_path / "imported"
        script = (
            "import pathlib, subprocess, sys, time\n"
            f"words, imported = ['-X', 'importtime', '-m', 'harken', 'mcp'], open({str(imported)!r}, 'wb')\n"
            "child = subprocess.Popen([sys.executable, *words], stdin=0, stdout=subprocess.DEVNULL, stderr=imported)\n"
            f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
            "time.sleep(600)\n"
        )
        reading, writing = os.pipe()
        env = cli.environment()
        parent = subprocess.Popen([PYTHON[0], "-c", script], stdin=reading, env=env)
        try:
            wait(lambda: note.exists() and note.read_text())
            child = int(note.read_text())
            # The first of its imports, or the daemon that it starts as the last thing.
            wait(
                lambda: (
                    holder(DaemonPaths(str(cli.home))) if is_up else b"harken.serve.process" in imported.read_bytes()
                )
            )
            assert b"mcp" in command_of(child)
            parent.send_signal(signal.SIGKILL)
            parent.wait(PATIENCE_SECONDS)
            wait(lambda: b"mcp" not in command_of(child))
        finally:
            parent.kill()
            os.close(writing)
            os.close(reading)
            end(DaemonPaths(str(cli.home)))


def command_of(pid: int) -> bytes:
    """The words that a process was started with; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait(look: Any) -> None:
    """Until it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
