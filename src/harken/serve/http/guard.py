"""Access: the guard of TCP (the token, this machine's own name, no foreign web page), and who asks."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from harken.errors import AccessError, HarkenError, NotFoundError, UsageError
from harken.serve.daemon.wire import DIRECTORY_HEADER
from harken.serve.operations.operation import Caller

REMOTE = "harken.remote"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Lets in what is meant for this machine or one of `hosts`, with the token; marks it as from afar.

    It decides by the headers: of a request that it refuses, the body is not read. `admit` is told who came in.
    """

    def __init__(
        self, app: ASGIApp, token: str, hosts: Sequence[str] = (), admit: Callable[[Any], None] = lambda _client: None
    ) -> None:
        self._app = app
        self._admit = admit
        self._token = token.encode()
        self._hosts = frozenset(name.lower() for name in (*hosts, socket.gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application, or hand the request on."""
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        if refused is None:
            self._admit(scope.get("client"))
        else:
            refused.headers["connection"] = "close"
        await (refused or self._app)({**scope, REMOTE: True}, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if (refused := misdirected(headers, lambda called: self._is_ours(called, scope))) is not None:
            return error_response(*refused)
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._token):
            what = "The token is wrong" if shown else "There is no token"
            refusal = error_response(401, f"{what}. Send: Authorization: Bearer TOKEN; it is in run/token of the home.")
            refusal.headers["www-authenticate"] = "Bearer"
            return refusal
        return None

    def _is_ours(self, called: str, scope: Scope) -> bool:
        try:
            name = (urlsplit(f"//{called}").hostname or "").lower()
        except ValueError:
            return False
        server = scope.get("server")
        # The address that this very connection came to; a name that was rebound to it is not among them.
        address = str(server[0]) if server else ""
        return name in self._hosts or name == address or (name in _LOCAL and address in _LOCAL)


def misdirected(headers: Headers, is_ours: Callable[[str], bool]) -> tuple[int, str] | None:
    """Return status and reason where a request names another host, or comes from a page of another origin.

    Whatever listens on loop-back asks this first: a name that was rebound to it, and every page of the web that a
    browser has open, reach it as well as its owner does.
    """
    called = headers.getlist("host")
    if len(called) != 1 or not is_ours(called[0]):
        return 421, "This is another host. Use its address, or add the name to serve.hosts (harken.toml)."
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != called[0].lower():
        return 403, "Web pages of other origins may not ask."
    return None


def caller_of(
    scope: Mapping[str, Any], is_agent: bool = False, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Caller:
    """Return who asks: from afar or for an agent's model it reaches little, on the socket what its user reaches."""
    named = next((value for name, value in scope["headers"] if name == DIRECTORY_HEADER.encode()), None)
    if REMOTE in scope or named is None:
        return Caller(is_limited=is_agent or REMOTE in scope, progress=progress)
    # A client that names its directory asks for an agent that works there.
    return Caller(Path(unquote(named.decode("ascii", "replace"))), is_limited=True, progress=progress)


def status_of(error: HarkenError) -> int:
    """Return the status of HTTP that goes with an error."""
    statuses = ((NotFoundError, 404), (UsageError, 422), (AccessError, 403))
    return next((status for kind, status in statuses if isinstance(error, kind)), 503)


def error_response(status: int, message: str) -> JSONResponse:
    """Return an error as every route answers it."""
    return JSONResponse({"error": message}, status_code=status)
