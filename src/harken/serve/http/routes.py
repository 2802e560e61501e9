"""The daemon's routes, and OpenAPI of them: JSON over HTTP, on its socket and, where that was asked for, over TCP."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from harken import __version__
from harken.config.settings import environment
from harken.engine import Harken
from harken.errors import HarkenError, sentence_of
from harken.log import Log
from harken.providers.priority import FOREGROUND
from harken.serve.daemon.remote import COMMAND_ROUTE, answer_command
from harken.serve.daemon.run import Daemon
from harken.serve.daemon.wire import LINES, OTHER_SETTINGS, OTHER_VERSION, SETTINGS_HEADER, VERSION_HEADER
from harken.serve.hooks.answers import Hooks
from harken.serve.hooks.events import CLAUDE_CODE
from harken.serve.http.bodies import LONGEST_ARGUMENTS, BodyError, parse_body, read_body
from harken.serve.http.guard import REMOTE, caller_of, error_response, status_of
from harken.serve.http.openapi import openapi
from harken.serve.operations.operation import AnyOperation, Caller
from harken.serve.operations.registry import operation_of
from harken.serve.viewer import entrance

_log = Log(__name__)

_LONGEST_REPORT = 32 * 1024 * 1024


def make_app(harken: Harken, daemon: Daemon) -> Starlette:
    """Make the routes over an open store, and MCP at `/mcp`."""
    hooks = Hooks(harken, daemon.paths.reports, daemon.watcher.unwritten, lambda: daemon.is_loading)

    async def ping(_request: Request) -> Response:
        return JSONResponse({"version": __version__, "pid": os.getpid(), "home": str(harken.home)})

    async def stop(request: Request) -> Response:
        _check_local(request)
        daemon.leave()
        return JSONResponse({"stopping": True})

    async def hook(request: Request) -> Response:
        _check_local(request)
        event, agent = request.path_params["event"], request.query_params.get("agent", CLAUDE_CODE)
        content = await read_body(request, _LONGEST_REPORT)
        gone = threading.Event()
        watching = asyncio.create_task(_watch(request, gone))
        try:
            with FOREGROUND:
                answer = await run_sync(hooks.answer, event, agent, content, gone.is_set)
        finally:
            watching.cancel()
            daemon.has_answered.set()
        daemon.watcher.wake()
        behind = BackgroundTask(run_sync, harken.chats.retrievals.write)
        return Response(answer, media_type="application/json", background=behind)

    async def command(request: Request) -> Response:
        _check_local(request)
        asked = json.loads(await read_body(request, LONGEST_ARGUMENTS))
        if daemon.is_lost():
            raise BodyError(409, "This daemon serves a store that was replaced.")
        answer = await run_sync(answer_command, harken, asked, environment())
        return Response(json.dumps(answer, default=str), media_type="application/json")

    async def run(request: Request) -> Response:
        operation = operation_of(request.path_params["verb"])
        given = parse_body(await read_body(request, LONGEST_ARGUMENTS))
        caller = caller_of(request.scope)
        if operation.is_long and LINES in request.headers.get("accept", ""):
            return StreamingResponse(_lines(harken, operation, given, caller), media_type=LINES)
        try:
            return JSONResponse(await run_sync(operation.call, harken, given, caller))
        except Exception as error:  # noqa: BLE001 - the serve boundary; its words may hold a message's
            return await _problem(request, error)

    routes = [
        Route("/v1/ping", ping, methods=["GET"]),
        Route("/v1/stop", stop, methods=["POST"]),
        Route("/v1/hook/{event}", hook, methods=["POST"]),
        Route(COMMAND_ROUTE, command, methods=["POST"]),
        Route(entrance.ROUTE, entrance.Entrance(harken, daemon).answer, methods=["GET", "POST"]),
        Route("/mcp", daemon.mcp, methods=["POST"]),
        Route("/openapi.json", _describe, methods=["GET"]),
        Route("/v1/{verb}", run, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = dict.fromkeys((BodyError, HarkenError, Exception), _problem)
    handlers[HTTPException] = _no_such_route
    return Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(_SameHarken, daemon=daemon)])


async def _describe(_request: Request) -> Response:
    return JSONResponse(openapi())


class _SameHarken:
    """Refuses clients of another version or with other settings: they do better on their own."""

    def __init__(self, app: ASGIApp, daemon: Daemon) -> None:
        self._app = app
        self._daemon = daemon

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(Headers(scope=scope)) if scope["type"] == "http" and REMOTE not in scope else None
        if refused is None:
            # Whom it refuses would keep it for ever from making way for one that answers them.
            self._daemon.touch()
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        version = headers.get(VERSION_HEADER, __version__)
        if version != __version__:
            # The one who asks has been upgraded, or this daemon has: make way for a new one.
            self._daemon.leave()
            return error_response(OTHER_VERSION, f"This daemon is Harken {__version__}, the client {version}.")
        if headers.get(SETTINGS_HEADER, self._daemon.settings_mark) != self._daemon.settings_mark:
            return error_response(OTHER_SETTINGS, "This daemon was started with other settings (HARKEN_*).")
        return None


async def _watch(request: Request, gone: threading.Event) -> None:
    """Notice that nobody waits for the answer any more."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    gone.set()


def _check_local(request: Request) -> None:
    if REMOTE in request.scope:
        raise BodyError(403, "This is for the local socket alone.")


async def _lines(harken: Harken, operation: AnyOperation, given: object, caller: Caller) -> AsyncIterator[bytes]:
    """Yield progress, and at the end the answer or what went wrong, as one JSON object in each line."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    gone = threading.Event()

    def progress(done: int, total: int) -> None:
        if gone.is_set():
            raise HarkenError("Nobody waits for it any more.")
        loop.call_soon_threadsafe(queue.put_nowait, {"progress": [done, total]})

    async def work() -> None:
        try:
            answer = await run_sync(operation.call, harken, given, replace(caller, progress=progress))
            queue.put_nowait({"answer": answer})
        except Exception as error:  # noqa: BLE001 - the serve boundary
            status, message = _status_of(error)
            queue.put_nowait({"status": status, "error": message})
        queue.put_nowait(None)

    working = asyncio.create_task(work())
    try:
        while (line := await queue.get()) is not None:
            yield json.dumps(line).encode() + b"\n"
    finally:
        gone.set()
    await working


def _status_of(error: Exception) -> tuple[int, str]:
    """Return the status of HTTP and the sentence that goes with it; log by its name what nobody meant to raise."""
    if isinstance(error, BodyError):
        return error.status_code, error.detail
    if isinstance(error, HarkenError):
        return status_of(error), sentence_of(error)
    _log.error("request_failed", error_class=type(error).__name__)
    return 500, f"unexpected {type(error).__name__}; please report it."


async def _problem(_request: Request, error: Exception) -> Response:
    return error_response(*_status_of(error))


async def _no_such_route(request: Request, error: HTTPException) -> Response:
    places = "POST /v1/{verb}, GET /openapi.json, /mcp"
    message = f"{error.detail}: {request.method} {request.url.path}. There are: {places}."
    return JSONResponse({"error": sentence_of(message)}, status_code=error.status_code, headers=error.headers)
