"""Hostile reports and requests to the daemon: a sentence or nothing, never a trace, and others are still answered."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.types import Message
from test_http import Http

from coding_agent import PATIENCE_SECONDS, answering, ask
from command_line import CommandLine
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.hooks.events import ANSWERED
from harken.serve.http import bodies as body
from harken.serve.http.routes import make_app
from hostile import OTHER_KINDS, SECRET, files_below, plant_secret, texts
from verbs import check_sentence, fill, make_project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

LONGEST_HOOK_ANSWER = 9_500


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as opened:
        fill(opened)
        yield opened


@pytest.fixture
def http(harken: Harken, tmp_path: Path) -> Http:
    return Http(make_app(harken, Daemon(harken, DaemonPaths(str(tmp_path)))))


TOLD = {
    "SessionStart": ("session_id", "cwd", "source", "hook_event_name"),
    "UserPromptSubmit": ("session_id", "prompt"),
    "PostToolUse": ("session_id", "agent_id", "cwd", "tool_name", "tool_input", "tool_response"),
    "PostToolUseFailure": ("error", "is_interrupt"),
    "Stop": ("session_id", "transcript_path"),
    "SubagentStop": ("agent_transcript_path",),
}


def reports(project: Path, secrets: Path) -> Iterator[tuple[str, bytes]]:
    """Each event's name, with something hostile in each thing that is told of it."""
    right = {
        "session_id": "s",
        "cwd": str(project),
        "prompt": "Which quay is free for the ship Aurora?",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest"},
        "tool_response": {"stdout": "FAILED test_quay.py::test_ship - AssertionError: no quay", "stderr": ""},
        "error": "Exit code 1",
    }
    values = (*texts(secrets), *OTHER_KINDS, '"/\\ud83d"', '"/a\\u0000b"', json.dumps("/" + "x" * 5000))
    for event, names in TOLD.items():
        for name, value in product(names, values):
            fields = {key: json.dumps(kept) for key, kept in right.items()} | {name: value}
            yield event, ("{" + ",".join(f'"{key}":{kept}' for key, kept in fields.items()) + "}").encode()


class TestReports:
    """What a hook tells is whatever an agent, or somebody in its name, made of it."""

    def test_any_report_is_taken_or_left_without_a_word(self, http: Http, harken: Harken, tmp_path: Path) -> None:
        project = make_project(tmp_path / "project")
        (tmp_path / "secrets").mkdir()
        secrets = plant_secret(tmp_path / "secrets")
        before = files_below(project, secrets)

        async def report() -> None:
            transport = httpx.ASGITransport(http.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                for event, content in reports(project, secrets):
                    response = await client.post(f"/v1/hook/{event}", content=content)
                    assert response.status_code == 200, (event, content[:300], response.text)
                    assert len(response.text) <= LONGEST_HOOK_ANSWER
                    assert SECRET not in response.text

        anyio.run(report)
        assert files_below(project, secrets) == before
        assert harken.maintenance.status().counts.messages == 2

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 200_000])
    def test_what_is_no_report_is_left_without_a_word(self, http: Http, content: bytes) -> None:
        for event in ("Stop", "nothing", "x" * 5000, "%00", "%ff"):
            for agent in (*sorted(ANSWERED), "nobody", "%00", "..%2f.."):
                response = http("POST", f"/v1/hook/{event}?agent={agent}", content)
                assert (response.status_code, response.content) == (200, b"")

    def test_a_report_without_an_end_is_not_read_whole(self, http: Http) -> None:
        response = http("POST", "/v1/hook/Stop", b"x" * (33 * 1024 * 1024))
        assert response.status_code == 413
        check_sentence(response.json()["error"])


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("path", ["x" * 8000, "v1/" + "x" * 8000, "v1/%1b[31m", "v1/..%2f..%2fetc%2fpasswd", "v1/%ff"])
def test_a_place_that_is_none_is_not_repeated_at_length(http: Http, method: str, path: str) -> None:
    response = http(method, f"/{path}", b"{}")
    assert response.status_code in (404, 405)
    message = response.json()["error"]
    check_sentence(message)
    assert message.isprintable()
    assert len(message) <= 1000


@pytest.mark.parametrize(("seconds", "ends_early", "status"), [(0.05, False, 408), (30.0, True, 400)])
@pytest.mark.parametrize("path", ["/v1/search", "/v1/hook/Stop"])
def test_a_body_that_does_not_come_whole_is_not_waited_for(
    http: Http, monkeypatch: pytest.MonkeyPatch, path: str, seconds: float, ends_early: bool, status: int
) -> None:
    monkeypatch.setattr(body, "PATIENCE_SECONDS", seconds)
    said: list[Message] = []
    heard = iter(({"type": "http.request", "body": b"{", "more_body": True},))

    async def receive() -> Message:
        for message in heard:
            return message
        if not ends_early:
            await anyio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        said.append(message)

    async def ask() -> None:
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        with anyio.fail_after(PATIENCE_SECONDS):
            await http.app(scope, receive, send)

    anyio.run(ask)
    assert said[0]["status"] == status
    check_sentence(json.loads(said[1]["body"])["error"])


def request(head: str, content: bytes = b"{}") -> bytes:
    """A request as bytes, for one that no client library would send."""
    return f"POST /v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n".encode() + content


MALFORMED = (
    request("content-length: -5\r\n"),
    request("content-length: many\r\n"),
    request("content-length: 2\r\ncontent-length: 3\r\n"),
    request("content-length: 1\r\n"),
    request("transfer-encoding: chunked\r\n", b"zz\r\n{}"),
    request("content-length: 2\r\nx: a\0b\r\n"),
    b"\x00\xff garbage quay\r\n\r\n",
    bytes.fromhex("1603010200010001fc0303") + b"\r\n\r\n",
)
CUT_OFF = (
    request("content-length: 100\r\n", b'{"quay": '),
    request("content-length: 99999999999999999999\r\n", b'{"quay": '),
    request("transfer-encoding: chunked\r\n", b"5\r\n{}"),
    b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    b"POST /v1/hook/Stop HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{",
    b"GET",
    b"",
)


def connected(place: DaemonPaths, sent: bytes) -> socket.socket:
    """A connection to the daemon on which this was sent."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(PATIENCE_SECONDS)
    stream.connect(place.socket)
    stream.sendall(sent)
    return stream


def test_no_bytes_on_the_socket_end_the_daemon_or_keep_others_waiting(
    cli: CommandLine, place: DaemonPaths, tmp_path: Path
) -> None:
    with (tmp_path / "said").open("w") as said, cli.running("serve", stderr=said) as process:
        answering(cli, place)
        for sent in MALFORMED:
            with connected(place, sent) as stream:
                assert b" 400 " in stream.recv(65536).split(b"\r\n")[0], sent
        # They have begun, and say no more.
        hanging = [connected(place, sent) for sent in CUT_OFF * 8]
        with connected(place, request("content-length: 2\r\n")) as stream:
            assert stream.recv(65536).startswith(b"HTTP/1.1 200 ")
        for stream in hanging:
            stream.close()
        assert ask(place, "/v1/status", {}, cli.environment(), PATIENCE_SECONDS).status == 200
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    words = (tmp_path / "said").read_text()
    assert "Traceback" not in words
    assert "quay" not in words
