"""`harken mcp` answers what agents ask first before the SDK is there, as the SDK does, and hands over the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coding_agent import PATIENCE_SECONDS, end, eventually
from command_line import PYTHON, CommandLine
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

META = "io.modelcontextprotocol/"
ENVELOPE = {"_meta": {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}}
HELLO = {"capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
LISTS = ("tools/list", "prompts/list", "resources/templates/list")
CALL = ("tools/call", {"name": "search", "arguments": {"query": "harbour"}})
# What it greets with, and what stays to be answered, told once the one who takes over may be ready.
GREETS = """
import sys
from pathlib import Path
from harken.serve.mcp.greeting import Later, greet
from harken.serve.mcp.listed import tools_of
greeting = greet(tools_of("search"), None, Later(Path(sys.argv[1]).read_bytes))
heavy = {"mcp", "mcp_types", "anyio", "pydantic", "sqlalchemy", "harken.engine"} & set(sys.modules)
print(len(greeting.handshake), len(greeting.waiting), sorted(heavy), file=sys.stderr)
"""


class Pipes:
    """A client that writes lines and reads them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._last = 0

    def say(self, method: str, params: dict[str, Any] | None = None, is_request: bool = True) -> int:
        """Send a message; the id of a request."""
        self._last += is_request
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**message, "id": self._last} if is_request else message) + "\n")
        self.process.stdin.flush()
        return self._last

    def hear(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a request is answered, before any other."""
        uid, heard = self.say(method, params), self.hear()
        assert heard["id"] == uid
        result: dict[str, Any] = heard["result"]
        return result


@contextmanager
def serving(cli: CommandLine) -> Iterator[Pipes]:
    try:
        with cli.running("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield Pipes(process)
            process.stdin.close()
            assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        end(DaemonPaths(str(cli.home)))


def test_after_a_handshake_the_first_answers_are_those_of_the_sdk(cli: CommandLine) -> None:
    with serving(cli) as client:
        greeted = client.ask("initialize", {**HELLO, "protocolVersion": "2025-06-18"})
        client.say("notifications/initialized", is_request=False)
        assert client.ask("ping") == {}
        first = [client.ask(each) for each in LISTS]
        assert client.ask("resources/list")["resources"] == []
        assert not client.ask(*CALL)["isError"]
        assert [client.ask(each) for each in LISTS] == first
    with serving(cli) as client:
        # A version that nobody knows yet is answered by the SDK, with the newest that has a handshake.
        other = client.ask("initialize", {**HELLO, "protocolVersion": "2099-01-01"})
        assert greeted == {**other, "protocolVersion": "2025-06-18"}
        client.say("notifications/initialized", is_request=False)
        assert not client.ask(*CALL)["isError"]


def test_without_a_handshake_the_first_answers_are_those_of_the_sdk(cli: CommandLine) -> None:
    methods = ("server/discover", *LISTS)
    with serving(cli) as client:
        first = [client.ask(each, ENVELOPE) for each in methods]
        assert not client.ask(CALL[0], {**CALL[1], **ENVELOPE})["isError"]
        assert [client.ask(each, ENVELOPE) for each in methods] == first


def test_where_a_daemon_runs_memories_are_listed_at_once(cli: CommandLine, daemon: Callable[[], int]) -> None:
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        # Also what no person sees, and every model reads, is left out.
        uid = harken.memories.add("Ships are moored\U000e0041\u202e at quay seven.").memory.uid
    daemon()
    listed = [(uid, "Ships are moored at quay seven.")]
    with serving(cli) as client:
        # A daemon that is busy is not waited for.
        eventually(
            lambda: (
                [(each["name"], each["title"]) for each in client.ask("resources/list", ENVELOPE)["resources"]]
                == listed
            )
        )


def test_what_waits_for_the_sdk_keeps_no_list_waiting(tmp_path: Path) -> None:
    """Agents ask for resources and tools at once; nothing heavy is imported before their tools are told."""
    os.mkfifo(tmp_path / "ready")
    words = [PYTHON[0], "-c", GREETS, str(tmp_path / "ready")]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **streams) as process:
        client = Pipes(process)
        client.ask("initialize", {**HELLO, "protocolVersion": "2025-11-25"})
        client.say("notifications/initialized", is_request=False)
        client.say(*CALL)
        client.say("resources/read", {"uri": "harken://memory/x"})
        assert [each["name"] for each in client.ask("tools/list")["tools"]] == ["search"]
        (tmp_path / "ready").write_bytes(b"")
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "2 2 []\n"


def test_a_call_is_told_why_nothing_answers_it(cli: CommandLine) -> None:
    """What stands on stderr few clients show: it said "connection closed"."""
    cli.home.mkdir(exist_ok=True)
    (cli.home / "harken.toml").write_text("[serve\n", encoding="utf-8")
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with cli.running("mcp", **streams) as process:
        client = Pipes(process)
        client.ask("initialize", {**HELLO, "protocolVersion": "2025-06-18"})
        client.say("notifications/initialized", is_request=False)
        uid, heard = client.say(*CALL), client.hear()
        assert (heard["id"], "harken.toml cannot be read" in heard["error"]["message"]) == (uid, True)
        assert process.wait(PATIENCE_SECONDS) == 1


def test_a_client_that_only_greets_leaves_nothing_running(cli: CommandLine) -> None:
    with serving(cli) as client:
        client.ask("initialize", {**HELLO, "protocolVersion": "2025-06-18"})
