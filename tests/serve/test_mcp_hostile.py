"""Hostile arguments for every tool, resource and prompt: an answer or a short sentence, and nothing outside touched."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from command_line import CommandLine, files_holding
from harken.engine import Harken
from hostile import HALF_CHARACTER, OTHER_KINDS, SECRET, TOO_DEEP, UNREADABLE, files_below, plant_secret, texts
from mcp_clients import PATIENCE_SECONDS, serving
from verbs import check_answer, check_sentence, fill, make_project

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets"),
    # What is proved runs in processes of its own.
    pytest.mark.no_cover,
]

LONGEST_ERROR, LONGEST_ANSWER = 1000, 300_000
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hostile", "version": "1"}}
# Read by one function, which looks through two hundred languages for each.
DATES = {"since", "until"}
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602


@dataclass
class Session:
    """A session over stdio, spoken line by line: a client library would refuse to send most of this."""

    process: subprocess.Popen[bytes]
    lines: queue.Queue[bytes] = field(default_factory=queue.Queue)
    asked: int = 0
    recorded: set[str] = field(default_factory=set)

    def listen(self) -> None:
        """Read whatever comes."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def send(self, line: str) -> None:
        """Write a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, uid: int | str | None) -> dict[str, Any]:
        """The answer of that id."""
        while True:
            line = self.lines.get(timeout=PATIENCE_SECONDS)
            found: dict[str, Any] = json.loads(line)
            if "method" not in found and found["id"] == uid:
                assert len(line) < LONGEST_ANSWER, line[:200]
                return found

    def ask(self, method: str, params: str) -> dict[str, Any]:
        """The answer to a request whose parameters are this text."""
        self.asked += 1
        self.send(f'{{"jsonrpc":"2.0","id":{self.asked},"method":"{method}","params":{params}}}')
        return self.hear(self.asked)

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request that must succeed."""
        found: dict[str, Any] = self.ask(method, json.dumps(params))["result"]
        return found

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers."""
        found: dict[str, Any] = self.result("tools/call", name=name, arguments=arguments)["structuredContent"]
        return found


@contextmanager
def talking(cli: CommandLine, project: Path, said: Path) -> Iterator[Session]:
    """A session of `harken mcp` in a project; it ends well, and without a word about what it was sent."""
    with (
        said.open("wb") as stderr,
        cli.running(
            *("mcp", "--tools", "all"),
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding=None,
        ) as process,
    ):
        session = Session(process)
        listening = threading.Thread(target=session.listen)
        listening.start()
        try:
            session.result("initialize", **HELLO)
            session.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
            yield session
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            listening.join()
    assert b"Traceback" not in said.read_bytes()
    assert b"quay" not in said.read_bytes()


@dataclass(frozen=True)
class World:
    """A store without a daemon, a project, and a secret that lies outside of it."""

    cli: CommandLine
    folder: Path
    ids: dict[str, str]

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One session; afterwards all is as before but the home, and nobody has read the secret."""
        outside = (self.project, self.secrets, self.cli.person)
        before = files_below(*outside)
        with talking(self.cli, self.project, self.folder / "said") as session:
            yield session
            assert session.tool("show", id=self.ids["message"])["messages"]
            assert session.tool("status")["messages"] == 2 + len(session.recorded)
        assert files_below(*outside) == before
        assert {path.name for path in self.folder.iterdir()} == {"home", "project", "secrets", "person", "said"}
        assert files_holding(self.cli.home, SECRET.encode()) == []
        assert files_holding(self.cli.home, b"root:x:0:0") == []

    def check_error(self, message: str, given: str) -> None:
        """It is short, one line, and tells nothing of this machine that was not given."""
        check_sentence(message)
        assert len(message) <= LONGEST_ERROR, (given[:200], message)
        assert message.isprintable(), (given[:200], message)
        for place in (str(self.folder), sys.prefix, str(Path(__file__).parents[2])):
            assert place not in message or place in given, (given[:200], message)

    def check(self, answer: Mapping[str, Any], given: str) -> Mapping[str, Any] | None:
        """The result, or a clean error."""
        assert SECRET not in json.dumps(answer)
        if "error" not in answer:
            result: Mapping[str, Any] = answer["result"]
            return result
        assert answer["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), (given[:200], answer)
        self.check_error(answer["error"]["message"], given)
        return None

    def check_tool(self, name: str, answer: Mapping[str, Any], given: str) -> Mapping[str, Any] | None:
        """The answer, which is in its schema, or None for a clean error."""
        result = self.check(answer, given)
        if result is None:
            return None
        if result["isError"]:
            self.check_error(result["content"][0]["text"], given)
            return None
        found: Mapping[str, Any] = result["structuredContent"]
        check_answer(name, found, is_brief=True)
        return found


@pytest.fixture
def world(cli: CommandLine, tmp_path: Path) -> World:
    project = make_project(tmp_path / "project")
    (tmp_path / "secrets").mkdir()
    (project / "link").symlink_to(plant_secret(tmp_path / "secrets"))
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        ids = fill(harken)
    # Without a daemon, the server itself has to keep to it.
    (cli.home / "run").touch()
    return World(cli, tmp_path, ids)


def written(arguments: Mapping[str, str]) -> str:
    """An object whose values are JSON already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in arguments.items()) + "}"


def meant(name: str, schema: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    """What would be right for an argument, where it has to be given at all."""
    known = {"id": ids["message"], "conversation_id": ids["conversation"], "ids": [ids["memory"]]}
    if name in known:
        return json.dumps(known[name])
    if "enum" in schema:
        return json.dumps(schema["enum"][0])
    return json.dumps({"integer": 1, "number": 1, "boolean": True, "array": ["quay"]}.get(schema["type"], "quay"))


def calls_of(schema: Mapping[str, Any], ids: Mapping[str, str], said: list[str], tried: set[str]) -> Iterator[str]:
    """Arguments with something hostile in each place; of dates that were tried before, less."""
    properties = schema["properties"]
    right = {name: meant(name, properties[name], ids) for name in schema.get("required", ())}
    for name, facts in properties.items():
        takes_any_words = facts["type"] == "string" and "enum" not in facts and name not in tried
        for value in (*(said if takes_any_words else said[:3]), *OTHER_KINDS):
            yield written({**right, name: value})
        tried |= DATES & {name}
    yield written({**right, "__class__": '"x"', "self": "1"})
    yield written({**right, "y" * 100_000: "1", "\x1b[31m\n": "1"})
    yield written({**right, **{f"k{number}": "1" for number in range(2000)}})


def test_every_tool_answers_any_arguments_or_says_why_not(world: World) -> None:
    said, tried = texts(world.secrets), set[str]()
    with world.session() as session:
        tools = session.result("tools/list")["tools"]
        assert len(tools) > 20
        for tool in tools:
            for arguments in calls_of(tool["inputSchema"], world.ids, said, tried):
                params = f'{{"name":"{tool["name"]}","arguments":{arguments}}}'
                done = world.check_tool(tool["name"], session.ask("tools/call", params), arguments)
                if done is not None and tool["name"] == "record":
                    session.recorded.add(done["id"])
        for name in (*said, *OTHER_KINDS):
            assert world.check(session.ask("tools/call", f'{{"name":{name},"arguments":{{}}}}'), name) is None
        for arguments in OTHER_KINDS[1:]:
            world.check_tool(
                "status", session.ask("tools/call", f'{{"name":"status","arguments":{arguments}}}'), arguments
            )
        found = session.tool("search", query=f"{SECRET} root:x:0:0", sources=["code", "document"])
        assert found["hits"] == []


def test_every_resource_and_prompt_answers_any_name_or_says_why_not(world: World) -> None:
    said = [*texts(world.secrets), HALF_CHARACTER]
    with world.session() as session:
        templates = session.result("resources/templates/list")["resourceTemplates"]
        assert templates
        beginnings = {"", "harken://", *(one["uriTemplate"].rpartition("{")[0] for one in templates)}
        for beginning in (text.replace("{id}", world.ids["conversation"]) for text in beginnings):
            for text in said:
                uri = f'"{beginning}{text[1:]}'
                world.check(session.ask("resources/read", f'{{"uri":{uri}}}'), uri)
        for value in OTHER_KINDS:
            assert world.check(session.ask("resources/read", f'{{"uri":{value}}}'), value) is None
        prompts = session.result("prompts/list")["prompts"]
        assert prompts
        for prompt in prompts:
            right = {one["name"]: '"debugging"' for one in prompt["arguments"] if one["required"]}
            for name in (one["name"] for one in prompt["arguments"]):
                for value in (*said, *OTHER_KINDS):
                    params = f'{{"name":"{prompt["name"]}","arguments":{written({**right, name: value})}}}'
                    world.check(session.ask("prompts/get", params), params)
        for value in (*said, *OTHER_KINDS):
            assert world.check(session.ask("prompts/get", f'{{"name":{value}}}'), value) is None


UNREADABLE_LINES = (
    (f'{{"jsonrpc":"2.0","id":"one","method":"ping","params":{{"x":{HALF_CHARACTER}}}}}', "one", PARSE_ERROR),
    (f'{{"jsonrpc":"2.0","id":"two","method":"ping","params":{{"x":{TOO_DEEP}}}}}', "two", PARSE_ERROR),
    ('{"jsonrpc":"2.0","id":77,"method":', None, PARSE_ERROR),
    ("[" * 100_000, None, PARSE_ERROR),
    ('{"jsonrpc":"2.0","id":71}', 71, INVALID_REQUEST),
    ('{"jsonrpc":"1.0","id":72,"method":"ping"}', 72, INVALID_REQUEST),
    ('{"jsonrpc":"2.0","id":73,"method":"ping","params":5}', 73, INVALID_REQUEST),
    ("[]", None, INVALID_REQUEST),
)


def test_a_client_whose_message_cannot_be_read_does_not_wait(world: World) -> None:
    with world.session() as session:
        for line, uid, code in UNREADABLE_LINES:
            # Neither a blank line nor an answer is answered.
            session.send('\n \n{"jsonrpc":"1.0","id":5,"result":{}}')
            session.send(line)
            answer = session.hear(uid)
            assert answer["error"]["code"] == code, line[:100]
            world.check_error(answer["error"]["message"], line)
        assert session.result("ping") == {}


def test_what_json_cannot_carry_is_a_wrong_argument_and_no_daemon_that_ended(
    cli: CommandLine, daemon: Callable[[], int], folder: Path, tmp_path: Path
) -> None:
    daemon()
    with talking(cli, folder, tmp_path / "said") as session:
        story = ("domain", "strategy", "hypothesis", "action", "prediction")
        for value in ("NaN", "1e999"):
            arguments = written({**dict.fromkeys(story, '"debugging"'), "goal": value})
            answer = session.ask("tools/call", f'{{"name":"experience_start","arguments":{arguments}}}')
            assert "goal: " in answer["result"]["content"][0]["text"]
        assert session.tool("experience_active")["experience"] is None


def test_over_http_every_tool_refuses_what_no_parser_of_ours_would_take(tmp_path: Path) -> None:
    with serving(tmp_path) as remote:
        ids = remote.fill()
        headers = {
            "authorization": f"Bearer {remote.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        with httpx2.Client(headers=headers, timeout=PATIENCE_SECONDS) as http:

            def ask(method: str, params: str) -> dict[str, Any]:
                content = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'
                answer = http.post(f"{remote.url}/mcp?tools=all", content=content.encode())
                assert answer.status_code < 500, (params[:200], answer.text)
                found: dict[str, Any] = json.loads(re.sub(r"(?s)^.*?data: ", "", answer.text, count=1))
                return found

            for tool in ask("tools/list", "{}")["result"]["tools"]:
                properties = tool["inputSchema"]["properties"]
                right = {name: meant(name, properties[name], ids) for name in tool["inputSchema"].get("required", ())}
                name = next(iter(properties), "nothing")
                for value in (*UNREADABLE, "NaN"):
                    params = f'{{"name":"{tool["name"]}","arguments":{written({**right, name: value})}}}'
                    answer = ask("tools/call", params)
                    assert "error" in answer or answer["result"]["isError"], params[:200]
                    assert "please report" not in json.dumps(answer), (params[:200], answer)
            assert ask("tools/call", '{"name":"status"}')["result"]["structuredContent"]["messages"] == 2
