"""The daemon's routes: JSON over HTTP, the same on its socket and, where that was asked for, over TCP."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import structlog
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harken import __version__
from harken.engine import Harken
from harken.errors import HarkenError, NotFoundError, UsageError
from harken.serve.daemon.wire import OTHER_SETTINGS, OTHER_VERSION, SETTINGS_HEADER, VERSION_HEADER
from harken.serve.hooks.agents import CLAUDE_CODE
from harken.serve.hooks.answers import Hooks

_log = structlog.get_logger(__name__)

_LONGEST_BODY = 32 * 1024 * 1024


class Life(Protocol):
    """What the routes need of the process that they are served by."""

    settings_mark: str

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


class BodyError(Exception):
    """A body is not what the route takes.

    Args:
        status: of HTTP.
        message: what is wrong, and what to send.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def make_app(harken: Harken, life: Life) -> Starlette:
    """The routes over an open store."""
    hooks = Hooks(harken, life.reports)

    async def ping(_request: Request) -> Response:
        return JSONResponse({"version": __version__, "pid": os.getpid(), "home": str(harken.home)})

    async def stop(_request: Request) -> Response:
        life.leave()
        return JSONResponse({"stopping": True})

    async def hook(request: Request) -> Response:
        event, agent = request.path_params["event"], request.query_params.get("agent", CLAUDE_CODE)
        content = await content_of(request)
        said = await run_sync(hooks.answer, event, agent, content)
        life.wake_intake()
        return Response(said, media_type="application/json")

    routes = [
        Route("/v1/ping", ping, methods=["GET"]),
        Route("/v1/stop", stop, methods=["POST"]),
        Route("/v1/hook/{event}", hook, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        BodyError: _body_error,
        HarkenError: _harken_error,
        Exception: _unexpected,
    }
    middleware = [Middleware(BaseHTTPMiddleware, dispatch=_same_harken(life))]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)


async def content_of(request: Request) -> bytes:
    """The body.

    Raises:
        BodyError: it is too long.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _LONGEST_BODY:
            raise BodyError(413, f"The body is longer than {_LONGEST_BODY} bytes.")
        parts.append(part)
    return b"".join(parts)


def _same_harken(life: Life) -> Callable[[Request, RequestResponseEndpoint], Awaitable[Response]]:
    """Refuse clients of another version or with other settings: they do better on their own."""

    async def check(request: Request, go_on: RequestResponseEndpoint) -> Response:
        life.touch()
        version = request.headers.get(VERSION_HEADER, __version__)
        if version != __version__:
            # The one who asks has been upgraded, or this daemon has: make way for a new one.
            life.leave()
            return _error(OTHER_VERSION, f"This daemon is Harken {__version__}, the client {version}.")
        if request.headers.get(SETTINGS_HEADER, life.settings_mark) != life.settings_mark:
            return _error(OTHER_SETTINGS, "This daemon was started with other settings (HARKEN_*).")
        return await go_on(request)

    return check


async def _body_error(_request: Request, error: BodyError) -> Response:
    return _error(error.status, str(error))


async def _harken_error(_request: Request, error: HarkenError) -> Response:
    status = 404 if isinstance(error, NotFoundError) else 422 if isinstance(error, UsageError) else 503
    return _error(status, str(error))


async def _unexpected(_request: Request, error: Exception) -> Response:
    _log.error("request_failed", error_class=type(error).__name__)
    return _error(500, f"unexpected {type(error).__name__}")


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
