"""The first messages of an MCP client on stdin, answered before the SDK is there: it takes a second to import.

Agents do not wait long for a server's tools before they ask their model without them. What is answered here is the same
in each session; with the first message that is not, the SDK takes over, and is told what was said before.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any, BinaryIO, Generic, TypeVar

from harken import __version__
from harken.serve.daemon.wire import OK, DaemonError, exchange
from harken.serve.mcp.listed import INSTRUCTIONS, MOST_RESOURCES, PROMPTS, TEMPLATES, resources_of, tool
from harken.serve.operations.operation import AnyOperation
from harken.serve.process import is_parent_gone

Made = TypeVar("Made")
Lists = dict[object, Callable[[], dict[str, Any]]]
# Those with a handshake, and the one in which each request stands by itself.
_VERSIONS, _NEWEST = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"), "2026-07-28"
_CAPABILITIES = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_INITIALIZE, _INITIALIZED, _DISCOVER = "initialize", "notifications/initialized", "server/discover"
_META = "io.modelcontextprotocol/"
_MOST_BRACKETS, _MOST_DIGITS, _INTERNAL_ERROR = 100, 15, -32603
_SERVER = {"name": "harken", "title": "Harken", "version": __version__}
_OF_ITSELF = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": {f"{_META}serverInfo": _SERVER}}
_LOOK_SECONDS, _FIRST_SECONDS, _WAIT_SECONDS, _LIST_SECONDS = 1.0, 0.3, 0.05, 0.3


@dataclass
class Later(Generic[Made]):
    """Something that is made in the background, once it is begun."""

    make: Callable[[], Made]
    _made: list[Made] = field(default_factory=list)
    _failed: list[Exception] = field(default_factory=list)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to make it, unless that has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="harken-later", daemon=True)
            self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether it is made, or could not be."""
        return self._thread is not None and not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until it is made, or could not be; at once where it was never begun."""
        if self._thread is not None:
            self._thread.join()

    def get(self) -> Made:
        """What was made.

        Raises:
            Exception: why it could not be.
        """
        self.begin()
        self.wait()
        if self._failed:
            raise self._failed[0]
        return self._made[0]

    def _run(self) -> None:
        try:
            self._made.append(self.make())
        except Exception as error:  # noqa: BLE001 - raised to whoever asks for it
            self._failed.append(error)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the one who takes over has to know of the client.

    Attributes:
        handshake: its lines, which were answered; empty where there was none.
        waiting: lines that are not answered yet; empty where the client has gone.
    """

    handshake: list[bytes] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)


def greet(tools: Sequence[AnyOperation], listening: str | None, taking_over: Later[Any]) -> Greeting:
    """Answer the client that started this process what is the same in each session.

    That goes on while the one who takes over gets ready, for what waits for that may come first. Where the client goes
    without a word, killed or with the pipe held open by another process, this process ends by itself.

    Args:
        tools: those that are offered.
        listening: where the home's daemon does; None where none may be asked.
        taking_over: begun behind the first answer, or when no client has asked at once.
    """
    lists: Lists = {
        "tools/list": lambda: {"tools": [tool(each) for each in tools]},
        "prompts/list": lambda: {"prompts": PROMPTS},
        "resources/list": lambda: {"resources": _resources(listening)},
        "resources/templates/list": lambda: {"resourceTemplates": TEMPLATES},
        _DISCOVER: lambda: {
            "capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS, "supportedVersions": [_NEWEST]
        },
    }  # fmt: skip
    threading.Thread(target=_leave_with_parent, name="harken-parent", daemon=True).start()
    found = Greeting()
    # Without a buffer: what is not read yet is there for the one who takes over.
    with open(0, "rb", buffering=0, closefd=False) as incoming:
        if not _is_said(incoming, _FIRST_SECONDS):
            taking_over.begin()
        while not found.waiting or _has_line(incoming, taking_over):
            line = incoming.readline()
            if not line:
                break
            message = _message(line)
            result = _result(message, lists, is_greeted=bool(found.handshake))
            is_end = bool(found.handshake) and message.get("method") == _INITIALIZED and "id" not in message
            if is_end or (result is not None and message["method"] == _INITIALIZE):
                found.handshake.append(line)
            elif result is None:
                found.waiting.append(line)
            if result is not None:
                _send(sys.stdout.buffer, {"jsonrpc": "2.0", "id": message["id"], "result": result})
            taking_over.begin()
    return found


def refuse(greeting: Greeting, reason: str) -> None:
    """Tell a client that waits for answers why there are none: few show what stands on stderr."""
    for message in map(_message, greeting.waiting):
        if "id" in message:
            error = {"code": _INTERNAL_ERROR, "message": reason}
            _send(sys.stdout.buffer, {"jsonrpc": "2.0", "id": message["id"], "error": error})


def _has_line(incoming: FileIO, taking_over: Later[Any]) -> bool:
    """Wait for a line, or until the one who takes over is ready."""
    while not taking_over.is_ready:
        if _is_said(incoming, _WAIT_SECONDS):
            return True
    return False


def _is_said(incoming: FileIO, seconds: float) -> bool:
    """Whether something can be read within that time; on Windows, which waits for no pipe, it is not known."""
    return sys.platform != "win32" and bool(select.select([incoming], [], [], seconds)[0])


def _message(line: bytes) -> Mapping[str, Any]:
    """The message of a line, where it is as plain as first ones are; what the SDK might refuse is left to it."""
    if b"\\u" in line or line.count(b"{") + line.count(b"[") > _MOST_BRACKETS:
        return {}
    try:
        message = json.loads(line.decode(), parse_int=_short_number, parse_float=_no_number, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _short_number(digits: str) -> int:
    return int(digits) if len(digits) <= _MOST_DIGITS else _no_number(digits)


def _no_number(digits: str) -> int:
    raise ValueError(f"{len(digits)} characters")


def _resources(listening: str | None) -> list[dict[str, str]]:
    """The newest memories where a daemon runs; else none, for no store is opened before agents have their tools."""
    if listening is None:
        return []
    asked = json.dumps({"limit": MOST_RESOURCES}).encode()
    try:
        status, said = exchange(listening, "/v1/memories", asked, os.environ, _LIST_SECONDS)  # noqa: TID251
        return resources_of(json.loads(said)) if status == OK else []
    except (DaemonError, ValueError):
        return []


def _result(message: Mapping[str, Any], lists: Lists, is_greeted: bool) -> dict[str, Any] | None:
    """The answer; None where the SDK has to find it."""
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or type(message.get("id")) not in (int, str) or not isinstance(params, dict):
        return None
    if method == _INITIALIZE:
        return None if is_greeted else _hello(params)
    if is_greeted:
        return {} if method == "ping" else lists[method]() if method in lists and method != _DISCOVER else None
    given = params.get("_meta")
    if not isinstance(given, dict) or given.get(f"{_META}protocolVersion") != _NEWEST or method not in lists:
        return None
    is_whole = isinstance(given.get(f"{_META}clientCapabilities"), dict)
    return {**lists[method](), **_OF_ITSELF} if is_whole else None


def _hello(params: Mapping[str, Any]) -> dict[str, Any] | None:
    client, version = params.get("clientInfo"), params.get("protocolVersion")
    is_whole = isinstance(client, dict) and all(isinstance(client.get(each), str) for each in ("name", "version"))
    if not is_whole or version not in _VERSIONS or not isinstance(params.get("capabilities"), dict):
        return None
    return {
        "capabilities": _CAPABILITIES,
        "instructions": INSTRUCTIONS,
        "protocolVersion": version,
        "serverInfo": _SERVER,
    }


def _send(outgoing: BinaryIO, message: Mapping[str, Any]) -> None:
    outgoing.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    outgoing.flush()


def _leave_with_parent() -> None:
    while not is_parent_gone():
        time.sleep(_LOOK_SECONDS)
    os._exit(0)
