"""Opening the pages: a port of their own, opened when somebody first asks to see them, and one-time links to it.

On the way of a daemon's start: what makes pages is imported when they are opened.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from harken.errors import HarkenError, MissingExtraError
from harken.serve.http.guard import REMOTE, error_response
from harken.serve.http.tcp import HOST, Tcp
from harken.serve.viewer.access import OPENING, Browsers, Threshold

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.serve.daemon.run import Daemon

ROUTE = "/v1/view"


class Entrance:
    """Opens the pages of a daemon, and makes links to them for who asks on its socket."""

    def __init__(self, harken: Harken, daemon: Daemon) -> None:
        self._harken = harken
        self._daemon = daemon
        self._browsers = Browsers()
        self._address = ""
        self._opening = asyncio.Lock()

    async def answer(self, request: Request) -> Response:
        """GET with a link's `key` says whether a browser came by it; POST makes a new link."""
        if REMOTE in request.scope:
            return error_response(403, "This is for the local socket alone.")
        if request.method == "GET":
            return JSONResponse({"opened": self._browsers.has_come(request.query_params.get("key", ""))})
        try:
            async with self._opening:
                self._address = self._address or self._open()
        except HarkenError as error:
            return error_response(503, str(error))
        key = self._browsers.link()
        return JSONResponse({"url": f"{self._address}{OPENING}?key={key}", "key": key})

    def _open(self) -> str:
        """Listen on a port that is free, on loop-back; returns the address of the pages.

        Raises:
            MissingExtraError: what makes pages is not installed.
        """
        try:
            from harken.serve.viewer.app import make_pages
        except ModuleNotFoundError as error:
            raise MissingExtraError("The viewer", "server") from error
        listening = Tcp(port=0).listen()
        host, prefix = f"{HOST}:{listening.getsockname()[1]}", f"/{secrets.token_hex(16)}"
        pages = make_pages(self._harken, self._browsers, prefix, self._daemon)
        self._daemon.serve_beside(Threshold(pages, self._browsers, prefix, host, listening.admit), listening)
        return f"http://{host}{prefix}"


def parse_link(answer: bytes) -> tuple[str, str]:
    """The link and its key, of what the daemon answers."""
    found = json.loads(answer)
    return str(found["url"]), str(found["key"])
