"""The MCP server on stdin and stdout: it ends with its client, and answers messages that nobody can read."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from harken.errors import HarkenError
from harken.serve.mcp.daemon_client import DaemonClient
from harken.serve.mcp.server import make_server
from harken.serve.operations.operation import AnyOperation
from harken.serve.process import is_parent_gone

_ADVICE = {
    PARSE_ERROR: "This line is no JSON that can be read: it is cut off, too deep, or holds half of a character "
    "(\\ud83d) or a number beyond all bounds. Send it without.",
    INVALID_REQUEST: "This is no message of JSON-RPC 2.0. Send an object with jsonrpc, id, method and params.",
}
_LONGEST_ID_DIGITS = 20
_LOOK_SECONDS, _END_SECONDS = 1.0, 5.0


def serve_stdio(client: DaemonClient, tools: Sequence[AnyOperation]) -> None:
    """Serve these tools to the client that started this process; returns when it closes stdin.

    Where it goes without that, killed or with the pipe held open by another process, this process ends by itself.
    """
    threading.Thread(target=_leave_with_parent, name="harken-parent", daemon=True).start()
    # A reader that hangs in a thread hears no exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        anyio.run(_run, client, tools)
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        # What is still being done in a thread is a transaction, whole or not at all.
        ending = threading.Timer(_END_SECONDS, os._exit, [0])
        ending.daemon = True
        ending.start()
        client.close()


async def _run(client: DaemonClient, tools: Sequence[AnyOperation]) -> None:
    # Also starts the daemon where there is none, so that it is there when the first question comes.
    try:
        client.is_served()
    except HarkenError as error:
        # Each call answers so, too.
        sys.stderr.write(f"harken: {error}\n")
    server: Any = make_server(client.answer, lambda _context: tools)
    async with stdio_server() as (incoming, outgoing), answering_unreadable(incoming, outgoing) as messages:
        await server.run(messages, outgoing, server.create_initialization_options())


def _leave_with_parent() -> None:
    while not is_parent_gone():
        time.sleep(_LOOK_SECONDS)
    os._exit(0)


@asynccontextmanager
async def answering_unreadable(
    incoming: Any, outgoing: Any
) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Give what comes in without what could not be read, which stands there as exceptions: that is answered here.

    The SDK drops such messages in silence, and the client waits until its own patience ends.
    """
    readable, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        async with readable, incoming:
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    await readable.send(item)
                elif (answer := _answer(item)) is not None:
                    await outgoing.send(SessionMessage(answer))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield messages
        tasks.cancel_scope.cancel()


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
