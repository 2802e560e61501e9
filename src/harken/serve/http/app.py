"""The daemon's routes: JSON over HTTP, the same on its socket and, where that was asked for, over TCP."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from harken import __version__
from harken.config.settings import environment
from harken.engine import Harken
from harken.errors import HarkenError, sentence_of
from harken.serve.daemon.spool import Transcript
from harken.serve.daemon.wire import OTHER_SETTINGS, OTHER_VERSION, SETTINGS_HEADER, VERSION_HEADER
from harken.serve.hooks.agents import CLAUDE_CODE
from harken.serve.hooks.answers import Hooks
from harken.serve.http.guard import REMOTE, BodyError, content_of
from harken.serve.http.routes import problem_of, verb_routes
from harken.serve.operations.remote import COMMAND_ROUTE, answer_command

_LONGEST_REPORT = 32 * 1024 * 1024


class DaemonControl(Protocol):
    """What the routes need of the process that they are served by."""

    settings_mark: str
    unwritten: set[Transcript]

    @property
    def reports(self) -> str:
        """Where hooks report."""
        ...

    def touch(self) -> None:
        """Somebody asks: it is not idle."""
        ...

    def leave(self) -> None:
        """End, once everything that was asked has been answered."""
        ...

    def wake_intake(self) -> None:
        """A transcript was reported."""
        ...

    def is_lost(self) -> bool:
        """Whether what it serves is no longer what others open."""
        ...


def make_app(harken: Harken, life: DaemonControl, mcp: ASGIApp) -> Starlette:
    """The routes over an open store, and MCP at `/mcp`."""
    hooks = Hooks(harken, life.reports, life.unwritten)

    async def ping(_request: Request) -> Response:
        return JSONResponse({"version": __version__, "pid": os.getpid(), "home": str(harken.home)})

    async def stop(request: Request) -> Response:
        _socket_alone(request)
        life.leave()
        return JSONResponse({"stopping": True})

    async def hook(request: Request) -> Response:
        _socket_alone(request)
        event, agent = request.path_params["event"], request.query_params.get("agent", CLAUDE_CODE)
        content = await content_of(request, _LONGEST_REPORT)
        gone = threading.Event()
        watching = asyncio.create_task(_watch(request, gone))
        try:
            said = await run_sync(hooks.answer, event, agent, content, gone.is_set)
        finally:
            watching.cancel()
        life.wake_intake()
        return Response(said, media_type="application/json")

    async def command(request: Request) -> Response:
        _socket_alone(request)
        asked = json.loads(await content_of(request, _LONGEST_REPORT))
        if life.is_lost():
            raise BodyError(409, "This daemon serves a store that was replaced.")
        answer = await run_sync(answer_command, harken, asked, environment())
        return Response(json.dumps(answer, default=str), media_type="application/json")

    routes = [
        Route("/v1/ping", ping, methods=["GET"]),
        Route("/v1/stop", stop, methods=["POST"]),
        Route("/v1/hook/{event}", hook, methods=["POST"]),
        Route(COMMAND_ROUTE, command, methods=["POST"]),
        Route("/mcp", mcp),
        *verb_routes(harken),
    ]
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        HTTPException: _no_such_route,
        BodyError: _problem,
        HarkenError: _problem,
        Exception: _problem,
    }
    middleware = [Middleware(_SameHarken, life=life)]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)


class _SameHarken:
    """Refuses clients of another version or with other settings: they do better on their own."""

    def __init__(self, app: ASGIApp, life: DaemonControl) -> None:
        self._app = app
        self._life = life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._life.touch()
        refused = self._refusal(Headers(scope=scope)) if scope["type"] == "http" and REMOTE not in scope else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        version = headers.get(VERSION_HEADER, __version__)
        if version != __version__:
            # The one who asks has been upgraded, or this daemon has: make way for a new one.
            self._life.leave()
            return _error(OTHER_VERSION, f"This daemon is Harken {__version__}, the client {version}.")
        if headers.get(SETTINGS_HEADER, self._life.settings_mark) != self._life.settings_mark:
            return _error(OTHER_SETTINGS, "This daemon was started with other settings (HARKEN_*).")
        return None


async def _watch(request: Request, gone: threading.Event) -> None:
    """Notice that nobody waits for the answer any more."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    gone.set()


def _socket_alone(request: Request) -> None:
    if REMOTE in request.scope:
        raise BodyError(403, "This is for the local socket alone.")


async def _problem(_request: Request, error: Exception) -> Response:
    return _error(*problem_of(error))


async def _no_such_route(request: Request, error: HTTPException) -> Response:
    places = "POST /v1/{verb}, GET /openapi.json, /mcp"
    message = f"{error.detail}: {request.method} {request.url.path}. There are: {places}."
    return JSONResponse({"error": sentence_of(message)}, status_code=error.status_code, headers=error.headers)


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
