"""Whatever a client sends to a tool, it gets an answer or a sentence, and nothing that it may not see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from command_line import CommandLine
from harken.engine import Harken
from mcp_clients import MODES, PATIENCE_SECONDS, Remote, check_call, check_refusal, over_stdio, serving
from verbs import fill, make_project

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets"),
    # What is proved runs in processes of its own.
    pytest.mark.no_cover,
]

SECRET = "launch_codes_of_nobody"
PATHS = (
    "../secrets",
    "..",
    "secrets-link",
    "~",
    "/",
    "/etc/passwd",
    "file:///etc",
    "\\\\host\\share",
    "a\0b",
    "x" * 3999,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with serving(tmp_path_factory.mktemp("remote")) as remote:
        yield remote


@pytest.mark.parametrize("mode", MODES)
def test_no_path_leads_out_of_the_project(cli: CommandLine, tmp_path: Path, mode: str) -> None:
    project = make_project(tmp_path / "project")
    (make_project(tmp_path / "secrets") / "secret.py").write_text(f"def {SECRET}() -> None: ...\n")
    (project / "secrets-link").symlink_to(tmp_path / "secrets")
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        fill(harken)
    # Without a daemon, the server itself has to keep to it.
    (cli.home / "run").touch()

    async def talk() -> None:
        async with over_stdio(cli, project, mode) as client:
            for path in (*PATHS, str(tmp_path / "secrets"), str(tmp_path / "secrets" / "secret.py")):
                for name in ("index_code", "index_commits", "index_documents"):
                    await check_refusal(client, name, {"path": path})
                for name, given in (("remember", {"content": "Ships."}), ("experience_active", {})):
                    await check_refusal(client, name, {**given, "directory": path})
            for uid in ("../../../../../etc/passwd", "/etc/passwd", f"{tmp_path}/secrets/secret.py", "%2e%2e%2fetc"):
                await check_refusal(client, "show", {"id": uid})
                await check_refusal(client, "fetch_conversation_details", {"conversation_id": uid})
            await check_call(client, "index_code", {})
            for query in (SECRET, "root:x:0:0"):
                found = await check_call(client, "search", {"query": query, "sources": ["code", "document", "memory"]})
                assert found["hits"] == []

    anyio.run(talk)


MESSAGES = (
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 7}',
    b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": 5}',
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 5, "arguments": "x"}}',
    b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}',
    json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": "y" * 5_000_000}}).encode(),
)


@pytest.mark.no_home
def test_over_stdio_no_message_ends_the_server(cli: CommandLine, tmp_path: Path) -> None:
    (cli.home / "run").parent.mkdir(parents=True)
    (cli.home / "run").touch()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
    ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    last = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "status"}}).encode()
    with (
        (tmp_path / "said").open("wb") as said,
        cli.running(
            *("mcp", "--tools", "all"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, encoding=None
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join([first, ready, *MESSAGES, last, b""]))
        process.stdin.flush()
        status = next(one for one in map(json.loads, process.stdout) if one.get("id") == 99)
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert status["result"]["structuredContent"]["messages"] == 0
    assert b"Traceback" not in (tmp_path / "said").read_bytes()


def test_over_http_no_message_ends_the_daemon(server: Remote) -> None:
    headers = {
        "authorization": f"Bearer {server.token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    for content in MESSAGES:
        answer = httpx2.post(f"{server.url}/mcp", content=content, headers=headers, timeout=PATIENCE_SECONDS)
        assert answer.status_code < 500, content[:80]
        assert "Traceback" not in answer.text
    answer = httpx2.post(f"{server.url}/v1/status", json={}, headers=headers, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200
    os.kill(server.pid, 0)
