"""The MCP server on stdin and stdout: it ends with its client, and answers messages that nobody can read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from harken.serve.mcp.daemon_client import DaemonClient
from harken.serve.mcp.greeting import Greeting
from harken.serve.mcp.server import make_server
from harken.serve.operations.operation import AnyOperation

_ADVICE = {
    PARSE_ERROR: "This line is no JSON that can be read: it is cut off, too deep, or holds half of a character "
    "(\\ud83d) or a number beyond all bounds. Send it without.",
    INVALID_REQUEST: "This is no message of JSON-RPC 2.0. Send an object with jsonrpc, id, method and params.",
}
_LONGEST_ID_DIGITS = 20
_END_SECONDS = 5.0


def serve_stdio(client: DaemonClient, tools: Sequence[AnyOperation], greeting: Greeting) -> None:
    """Serve these tools to the client that started this process; returns when it closes stdin.

    Args:
        client: answers the verbs.
        tools: those that are offered.
        greeting: what the client has said so far.
    """
    try:
        anyio.run(_run, client, tools, greeting)
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        # What is still being done in a thread is a transaction, whole or not at all.
        ending = threading.Timer(_END_SECONDS, os._exit, [0])
        ending.daemon = True
        ending.start()
        client.close()


async def _run(client: DaemonClient, tools: Sequence[AnyOperation], greeting: Greeting) -> None:
    server: Any = make_server(client.answer, lambda _context: tools)
    answers = _Answers(next(iter(greeting.handshake), None))
    said = [*greeting.handshake, *greeting.waiting]
    async with (
        stdio_server() as (incoming, outgoing),
        answering_unreadable(incoming, outgoing, said, answers) as messages,
    ):
        answers.outgoing = outgoing
        await server.run(messages, answers, server.create_initialization_options())


class _Answers:
    """What the client is told, without the answer to a handshake that it has."""

    def __init__(self, handshake: bytes | None) -> None:
        self.outgoing: Any = None
        self._had = None if handshake is None else json.loads(handshake)["id"]
        self.is_greeted = anyio.Event()
        if handshake is None:
            self.is_greeted.set()

    async def send(self, item: SessionMessage) -> None:
        """Send a message on, unless it is that answer."""
        if self.is_greeted.is_set() or getattr(item.message, "id", None) != self._had:
            await self.outgoing.send(item)
        else:
            self.is_greeted.set()

    async def aclose(self) -> None:
        """Close what it is sent to."""
        await self.outgoing.aclose()

    async def __aenter__(self) -> _Answers:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.aclose()


@asynccontextmanager
async def answering_unreadable(
    incoming: Any, outgoing: Any, said: Sequence[bytes], answers: _Answers
) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Give what was said and what comes in without what could not be read, which is answered here.

    The SDK drops such messages in silence, and the client waits until its own patience ends.
    """
    readable, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def give(item: SessionMessage | Exception) -> None:
        if isinstance(item, SessionMessage):
            await readable.send(item)
        elif (answer := _answer(item)) is not None:
            await outgoing.send(SessionMessage(answer))

    async def relay() -> None:
        async with readable, incoming:
            for line in said:
                await give(_read(line))
                await answers.is_greeted.wait()
            async for item in incoming:
                await give(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield messages
        tasks.cancel_scope.cancel()


def _read(line: bytes) -> SessionMessage | Exception:
    """Read a line as the SDK does."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False))
    except ValidationError as error:
        return error


def _answer(error: Exception) -> JSONRPCError | None:
    """Return the error that goes back; None where nobody waits for one: blank lines, answers."""
    if not isinstance(error, ValidationError):
        return None
    problems = error.errors(include_url=False, include_context=False)
    line = problems[0]["input"]
    if problems[0]["type"] == "json_invalid":
        if not line.strip():
            return None
        try:
            # As Python reads it, which takes halves of characters.
            message = json.loads(line, parse_int=lambda each: int(each) if len(each) <= _LONGEST_ID_DIGITS else each)
            return _refusal(PARSE_ERROR, message)
        except (ValueError, RecursionError):
            return _refusal(PARSE_ERROR, None)
    # One of them is told of the whole message: what an answer would have to hold.
    whole = next((each["input"] for each in problems if isinstance(each["input"], dict)), line)
    if isinstance(whole, dict) and ("result" in whole or "error" in whole):
        return None
    return _refusal(INVALID_REQUEST, whole)


def _refusal(code: int, message: object) -> JSONRPCError:
    uid = message.get("id") if isinstance(message, dict) else None
    if isinstance(uid, bool) or not isinstance(uid, int | str) or not str(uid).isprintable():
        uid = None
    return JSONRPCError(jsonrpc="2.0", id=uid, error=ErrorData(code=code, message=_ADVICE[code]))
