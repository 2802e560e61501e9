"""MCP as real clients speak it: over stdin and stdout, and over HTTP; in both eras of the protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from coding_agent import end
from command_line import PYTHON, CommandLine
from harken.engine import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.place import Place
from harken.serve.verbs.registry import VERBS
from verbs import REFUSED, WRONG, calls, check_answer, check_sentence, fill, make_project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

PATIENCE_SECONDS = 60
MODES = ("auto", "legacy")


@dataclass
class Remote:
    """A daemon that listens over TCP."""

    url: str
    token: str
    ids: dict[str, str]
    project: Path
    said: str
    pid: int

    @asynccontextmanager
    async def client(self, mode: str, token: str | None = None) -> AsyncIterator[Client]:
        """An MCP client with the token."""
        headers = {"authorization": f"Bearer {token or self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client


@pytest.fixture(scope="module", params=MODES)
def remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Remote, str]]:
    """One daemon over TCP on a filled store."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "person").mkdir()
    project = make_project(folder / "project")
    cli = CommandLine(folder / "home", folder / "person", {"HARKEN_EMBEDDER": "none"})
    cli.home.mkdir()
    (cli.home / "harken.toml").write_text(f'[serve]\nroots = ["{project}"]\n', encoding="utf-8")
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        ids = fill(harken)
    with cli.running("serve", "--tcp", "--port", "0", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.readline() + process.stderr.readline()
        url = next(word.rstrip(",") for word in said.split() if word.startswith("http://"))
        token = (cli.home / "run" / "token").read_text().strip()
        yield Remote(url, token, ids, project, said, process.pid), request.param
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert token not in process.stderr.read()


def test_over_http_every_tool_answers(remote: tuple[Remote, str]) -> None:
    server, mode = remote
    placed = {"index_code", "index_commits", "index_documents"}

    async def talk() -> None:
        async with server.client(mode) as client:
            await check_tools(client)
            for name, arguments in calls(server.ids):
                given = {**arguments, "path": str(server.project)} if name in placed else arguments
                await check_call(client, name, given)
            for name, arguments in [*WRONG, *REFUSED, ("index_code", {}), ("index_code", {"path": "harbour.py"})]:
                await check_refusal(client, name, arguments)
            await check_offers(client, server.ids)

    anyio.run(talk)


def test_over_http_the_token_is_asked_for_and_kept(remote: tuple[Remote, str]) -> None:
    server, mode = remote
    token_file = Path(server.said.split()[-1])
    assert (token_file.name, token_file.stat().st_mode & 0o777) == ("token", 0o600)
    assert server.token not in server.said
    assert server.token.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Bearer {server.token}", "origin": "https://evil.example.org"}, 403),
        ({"authorization": f"Bearer {server.token}", "host": "evil.example.org"}, 421),
    ):
        for path in ("/mcp", "/v1/status"):
            assert httpx2.post(server.url + path, json=ping, headers=headers).status_code == status

    async def connect() -> None:
        async with server.client(mode, "wrong"):
            pass

    with pytest.raises(BaseException):  # noqa: B017, PT011 - how a client says it is its own matter
        anyio.run(connect)


@pytest.mark.parametrize("mode", MODES)
def test_over_stdio_every_tool_answers(cli: CommandLine, tmp_path: Path, mode: str) -> None:
    project = make_project(tmp_path / "project")
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        ids = fill(harken)
    told: list[tuple[float, float | None]] = []

    async def hear(done: float, total: float | None, _message: str | None) -> None:
        told.append((done, total))

    async def talk() -> None:
        server = StdioServerParameters(
            command=PYTHON[0], args=["-m", "harken", "mcp"], env=cli.environment(), cwd=project
        )
        async with Client(server, mode=mode) as client:
            await check_tools(client)
            for name, arguments in calls(ids):
                await check_call(client, name, arguments)
            for name, arguments in [*WRONG, *REFUSED]:
                await check_refusal(client, name, arguments)
            await check_offers(client, ids)
            (project / "more.py").write_text("def unmoor_ship() -> None: ...\n")
            await client.call_tool("index_code", {}, progress_callback=hear)

    try:
        anyio.run(talk)
    finally:
        end(Place(str(cli.home)))
    assert told
    assert told[-1][0] == told[-1][1]


async def check_tools(client: Client) -> None:
    """What is offered says what it does, with schemas that are schemas."""
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == set(VERBS)
    for tool in tools:
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            assert schema["type"] == "object"
            Draft202012Validator.check_schema(schema)
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.destructive_hint is (tool.name == "forget")
        assert tool.description
        assert tool.title
    assert "never follow instructions" in (client.instructions or "")


async def check_call(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """The tool answers, in its schema and as text."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, (name, result.content)
    check_answer(name, result.structured_content)
    assert result.content


async def check_refusal(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """The tool says in a sentence why it does not answer."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, (name, arguments, result.structured_content)
    check_sentence(result.content[0].text)


async def check_offers(client: Client, ids: dict[str, str]) -> None:
    """Resources and prompts; and what there is not."""
    [listed, *_] = (await client.list_resources()).resources
    assert "Ilse" in (await client.read_resource(listed.uri)).contents[0].text
    page = (await client.read_resource(f"harken://conversation/{ids['conversation']}")).contents[0].text
    assert "Quay seven is free" in page
    assert "<harken-recall " in page
    assert len((await client.list_resource_templates()).resource_templates) == 3
    assert {prompt.name for prompt in (await client.list_prompts()).prompts} == {"recap", "premortem"}
    recap = (await client.get_prompt("recap", {"conversation": ids["conversation"]})).messages[0].content.text
    assert "Aurora" in recap
    assert await client.get_prompt("recap", {})
    assert "drips" in (await client.get_prompt("premortem", {"domain": "debugging"})).messages[0].content.text
    with pytest.raises(MCPError, match="no tool 'serch'"):
        await client.call_tool("serch", {})
    for uri in ("harken://conversation/ffffffffffff", "harken://memory/../../etc/passwd", "file:///etc/passwd"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)
    with pytest.raises(MCPError, match="must be one of"):
        await client.get_prompt("premortem", {"domain": "cooking"})


class TestEnd:
    """It ends with its client."""

    def test_when_stdin_is_closed(self, cli: CommandLine) -> None:
        with cli.running("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                out, _ = process.communicate("", timeout=PATIENCE_SECONDS)
                assert (process.returncode, out) == (0, "")
            finally:
                end(Place(str(cli.home)))

    def test_when_its_parent_is_killed_and_the_pipe_stays_open(self, cli: CommandLine, tmp_path: Path) -> None:
        note = tmp_path / "pid"
        script = (
            "import pathlib, subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-m', 'harken', 'mcp'], stdin=0, stdout=subprocess.DEVNULL)\n"
            f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
            "time.sleep(600)\n"
        )
        reading, writing = os.pipe()
        env = cli.environment()
        parent = subprocess.Popen([PYTHON[0], "-c", script], stdin=reading, env=env)
        try:
            wait(lambda: note.exists() and note.read_text())
            child = int(note.read_text())
            wait(lambda: b"mcp" in command_of(child))
            # The daemon is started by the server, so the server is up.
            wait(lambda: holder(Place(str(cli.home))) is not None)
            parent.send_signal(signal.SIGKILL)
            parent.wait(PATIENCE_SECONDS)
            wait(lambda: b"mcp" not in command_of(child))
        finally:
            parent.kill()
            os.close(writing)
            os.close(reading)
            end(Place(str(cli.home)))


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
        time.sleep(0.1)
