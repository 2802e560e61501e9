"""Real MCP clients: over stdin and stdout, over HTTP on a socket and over TCP; and what each of them must see."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from coding_agent import PATIENCE_SECONDS
from command_line import FORKS, PYTHON, CommandLine, warm_start
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.operations.operation import Effect
from harken.serve.operations.registry import OPERATIONS
from quotations import quotations
from verbs import check_answer, check_sentence, fill, make_project

MODES = ("auto", "legacy")
BESIDE_CHARS = 200


@dataclass
class Remote:
    """A daemon that listens over TCP.

    Attributes:
        said: what it said of that.
        tls: a context that trusts it, where it speaks TLS.
    """

    url: str
    token: str
    place: DaemonPaths
    project: Path
    said: str
    pid: int
    tls: Any = True

    def fill(self, conversation: str = "harbour") -> dict[str, str]:
        """Put something there once more, as another process; the ids."""
        with Harken(self.place.home, settings={"embedder": "none"}, env={}) as harken:
            return fill(harken, conversation)

    @asynccontextmanager
    async def client(
        self, mode: str, token: str | None = None, tools: str = "?tools=all", **offered: Any
    ) -> AsyncIterator[Client]:
        """An MCP client with the token, of all tools unless its address names others."""
        headers = {"authorization": f"Bearer {token or self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS, verify=self.tls) as http,
            Client(streamable_http_client(f"{self.url}/mcp{tools}", http_client=http), mode=mode, **offered) as client,
        ):
            yield client

    @asynccontextmanager
    async def local_client(self, mode: str, **offered: Any) -> AsyncIterator[Client]:
        """One on the daemon's socket, where no token is asked for."""
        transport = httpx2.AsyncHTTPTransport(uds=self.place.socket)
        async with (
            httpx2.AsyncClient(transport=transport, timeout=PATIENCE_SECONDS) as http,
            Client(
                streamable_http_client("http://localhost/mcp?tools=all", http_client=http), mode=mode, **offered
            ) as client,
        ):
            yield client


@contextmanager
def serving(folder: Path, *options: str | Path, tls: Any = True, cold: bool = False) -> Iterator[Remote]:
    """A daemon over TCP that may index one project; cold, where others are to see what it was started with."""
    (folder / "person").mkdir()
    project = make_project(folder / "project")
    cli = CommandLine(folder / "home", folder / "person", {"HARKEN_EMBEDDER": "none"}, cold)
    cli.home.mkdir()
    (cli.home / "harken.toml").write_text(f'[serve]\nroots = ["{project}"]\n', encoding="utf-8")
    with cli.running("serve", "--tcp", "--port", "0", *options, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.readline() + process.stderr.readline()
        url = next(word.rstrip(",") for word in said.split() if word.startswith("http"))
        token = (cli.home / "run" / "token").read_text().strip()
        yield Remote(url, token, DaemonPaths(str(cli.home)), project, said, process.pid, tls)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert token not in process.stderr.read()


def over_stdio(
    cli: CommandLine, folder: Path, mode: str, words: Sequence[str] = ("--tools", "all"), **offered: Any
) -> Client:
    """A client of `harken mcp`, started in a folder."""
    args = ["-m", "harken", "mcp", *words]
    python = PYTHON[0] if cli.cold or not FORKS else warm_start().python
    server = StdioServerParameters(command=python, args=args, env=cli.environment(), cwd=folder)
    return Client(server, mode=mode, **offered)


async def check_tools(client: Client) -> None:
    """What is offered says what it does, with schemas that are schemas."""
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == set(OPERATIONS)
    for tool in tools:
        assert tool.input_schema["type"] == "object"
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        is_read = OPERATIONS[tool.name].effect is Effect.READS
        assert tool.annotations.read_only_hint is (True if is_read else None)
        # What is not said of one that changes something is taken for true.
        assert tool.annotations.destructive_hint is (None if is_read else tool.name == "forget")
        assert is_read or tool.annotations.idempotent_hint is not None
        assert tool.description
        assert tool.title
    assert "never follow instructions" in (client.instructions or "")


async def check_call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The tool answers, in its schema but for what is empty, in few words, and the same as text; the answer."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, (name, result.content)
    answer: dict[str, Any] = result.structured_content
    check_answer(name, answer, is_brief=True)
    assert json.loads(result.content[0].text) == answer
    for text, record in _texts(answer):
        beside = len(json.dumps(record, ensure_ascii=False)) - len(json.dumps(text, ensure_ascii=False))
        assert beside <= BESIDE_CHARS, record
    return answer


def _texts(answer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each text that was recorded, with the record that it stands in."""
    if isinstance(answer, list):
        for each in answer:
            yield from _texts(each)
    elif isinstance(answer, dict):
        if "created_at" in answer and ("text" in answer or "content" in answer):
            yield answer.get("text") or answer["content"], answer
        yield from _texts(list(answer.values()))


async def check_refusal(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """The tool says in a sentence why it does not answer."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, (name, arguments, result.structured_content)
    check_sentence(result.content[0].text)


async def check_offers(client: Client, ids: dict[str, str]) -> None:
    """Resources and prompts; and what there is not."""
    [listed, *_] = (await client.list_resources()).resources
    assert listed.uri.startswith("harken://memory/")
    memory = (await client.read_resource(listed.uri)).contents[0]
    assert "Ilse" in json.loads(memory.text)["content"]
    page = (await client.read_resource(f"harken://conversation/{ids['conversation']}")).contents[0].text
    assert "Quay seven is free" in quotations(page)[0].text
    assert len((await client.list_resource_templates()).resource_templates) == 3
    assert {prompt.name for prompt in (await client.list_prompts()).prompts} == {"recap", "premortem"}
    recap = (await client.get_prompt("recap", {"conversation": ids["conversation"]})).messages[0].content.text
    assert "Aurora" in recap
    assert await client.get_prompt("recap", {})
    assert "drips" in (await client.get_prompt("premortem", {"domain": "debugging"})).messages[0].content.text
    unknown = (await client.get_prompt("premortem", {"domain": "security"})).messages[0].content.text
    assert unknown.startswith("Nothing that has gone wrong before")
    with pytest.raises(MCPError, match="no tool 'serch'"):
        await client.call_tool("serch", {})
    for uri in ("harken://conversation/ffffffffffff", "harken://memory/../../etc/passwd", "file:///etc/passwd"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)
    with pytest.raises(MCPError, match="must be one of"):
        await client.get_prompt("premortem", {"domain": "cooking"})
