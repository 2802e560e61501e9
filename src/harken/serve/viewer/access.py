"""Who may see the pages: the browser that came by a one-time link, and nobody else on this machine or in the web.

Everything that is refused is refused before a page is made or a change begun.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harken.errors import KeyRefusedError
from harken.model.team import KeyScope, Speaker
from harken.serve.http.bodies import BodyError, read_body
from harken.serve.http.guard import misdirected
from harken.text.characters import sha256_of

COOKIE, CSRF_FIELD, OPENING = "harken", "csrf", "/open"
FORM, CSRF = "harken.form", "harken.csrf"
LINK_SECONDS, SESSION_SECONDS = 60.0, 12 * 3600.0
_LONGEST_FORM = 256 * 1024
_CLOSED = "These pages are closed here. Open them anew with: harken view"
HEADERS = {
    # htmx asks, and forms are sent, nowhere but here.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(slots=True)
class Browsers:
    """One-time links, and the browsers that came by one. Nothing of it outlives the process.

    Keys are kept as hashes alone, so that finding one takes the same time whatever is shown.
    """

    clock: Callable[[], float] = time.monotonic
    _links: dict[str, float] = field(default_factory=dict)
    _came: set[str] = field(default_factory=set)
    _csrf: dict[str, str] = field(default_factory=dict)

    def link(self) -> str:
        """Make the key of a link, good for one browser and a minute."""
        now = self.clock()
        self._links = {key: until for key, until in self._links.items() if until > now}
        key = secrets.token_urlsafe(32)
        self._links[sha256_of(key)] = now + LINK_SECONDS
        return key

    def admit(self, key: str) -> str | None:
        """Return a browser's cookie for a link's key, which is worthless from now on; None where it already was."""
        until = self._links.pop(sha256_of(key), 0.0)
        if until <= self.clock():
            return None
        self._came.add(sha256_of(key))
        cookie = secrets.token_urlsafe(32)
        self._csrf[sha256_of(cookie)] = secrets.token_urlsafe(32)
        return cookie

    def has_come(self, key: str) -> bool:
        """Whether a browser has come by the link of this key."""
        return sha256_of(key) in self._came

    def csrf(self, cookie: str) -> str | None:
        """The token that a browser's forms carry; None where no browser has this cookie."""
        return self._csrf.get(sha256_of(cookie))


@dataclass(slots=True)
class _SignedIn:
    """A browser that has signed in: who it is, asked anew each time, and the token that its forms carry."""

    find: Callable[[], Speaker]
    csrf: str
    used_at: float


@dataclass(slots=True)
class Sessions:
    """Browsers that have signed in to a team's pages. Nothing of it outlives the process; cookies are kept as hashes.

    Whoever lets somebody in, by a key or by a login elsewhere, says how it is found out each time who that is: so a key
    that was revoked, or a person who has left, sees nothing from then on.
    """

    clock: Callable[[], float] = time.monotonic
    _open: dict[str, _SignedIn] = field(default_factory=dict)

    def admit(self, find: Callable[[], Speaker]) -> str:
        """Let a browser in; returns its cookie.

        Raises:
            AccessError: `find` refuses, or finds somebody who may not read.
        """
        find().require(KeyScope.READ)
        now = self.clock()
        self._open = {key: each for key, each in self._open.items() if now - each.used_at < SESSION_SECONDS}
        cookie = secrets.token_urlsafe(32)
        self._open[sha256_of(cookie)] = _SignedIn(find, secrets.token_urlsafe(32), now)
        return cookie

    def csrf(self, cookie: str) -> str | None:
        """The token that a browser's forms carry; None where none has this cookie, or has not used it for long."""
        found = self._open.get(sha256_of(cookie))
        if found is None or self.clock() - found.used_at >= SESSION_SECONDS:
            return None
        found.used_at = self.clock()
        return found.csrf

    def speaker(self, cookie: str) -> Speaker:
        """Who is at the browser now; blocks.

        Raises:
            KeyRefusedError: nobody any more.
        """
        found = self._open.get(sha256_of(cookie))
        if found is None:
            raise KeyRefusedError
        try:
            return found.find()
        except KeyRefusedError:
            self.end(cookie)
            raise

    def end(self, cookie: str) -> None:
        """Sign a browser out."""
        self._open.pop(sha256_of(cookie), None)


class Admitted(Protocol):
    """Knows the browsers that were let in."""

    def csrf(self, cookie: str) -> str | None:
        """The token that a browser's forms carry; None where it was not let in."""
        ...


class Threshold:
    """Lets a browser with the cookie pass, to pages below the prefix alone, and reads the forms that it sends.

    Args:
        prefix: a path that nobody can guess: cookies are shared by all ports of a host, and this one is sent to none
            but who listens under that path.
        host: what browsers call us, with the port; None of a server that has names of its own, and no pages but for
            who has signed in under one of them.
        admit: told the connection of whoever has shown a cookie.
        doors: paths that are open to browsers without a cookie, and may be come to from elsewhere.
        closed: the answer to those without, at any other path.
    """

    def __init__(
        self,
        app: ASGIApp,
        browsers: Admitted,
        prefix: str,
        host: str | None,
        admit: Callable[[Any], None] = lambda _c: None,
        doors: Collection[str] = (OPENING,),
        closed: Callable[[], Response] = lambda: _refusal(403, _CLOSED),
    ) -> None:
        self._app = app
        self._browsers = browsers
        self._prefix = prefix
        self._host = host
        self._admit = admit
        self._doors = frozenset(doors)
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application, or hand the request on."""
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._answer(scope, receive, sending)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, path = Headers(scope=scope), scope["path"].removeprefix(self._prefix)
        refused = misdirected(_told(headers), lambda called: self._host in (None, called))
        refused = refused or self._foreign(scope, headers, path)
        csrf, is_door = None, path in self._doors
        if refused is None and not is_door:
            csrf = self._browsers.csrf(cookie_of(headers))
            if csrf is None:
                await self._closed()(scope, receive, send)
                return
        if refused is not None:
            await _refusal(*refused)(scope, receive, send)
            return
        if csrf is not None:
            self._admit(scope.get("client"))
        form: Mapping[str, list[str]] = {}
        if scope["method"] == "POST":
            form = await _form(scope, receive)
            shown = form.get(CSRF_FIELD, [""])[0]
            # At a door nobody has one yet: that the form is ours was told by the browser.
            if not is_door and (csrf is None or not secrets.compare_digest(shown.encode(), csrf.encode())):
                await _refusal(403, "This form is not from these pages, or from before they were opened anew.")(
                    scope, receive, send
                )
                return
        at = path or "/"
        inside = {**scope, "path": at, "raw_path": at.encode(), "root_path": "", FORM: form, CSRF: csrf}
        await self._app(inside, receive, send)

    def _foreign(self, scope: Scope, headers: Headers, path: str) -> tuple[int, str] | None:
        if not scope["path"].startswith(f"{self._prefix}/"):
            return 404, "There is nothing here. The pages open with: harken view"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "Pages are read, and forms are sent; nothing else."
        # Browsers tell who asks; doors alone may be come to from anywhere.
        asked_by = headers.get("sec-fetch-site", "same-origin")
        is_link = (
            path in self._doors and scope["method"] == "GET" and headers.get("sec-fetch-mode", "navigate") == "navigate"
        )
        if asked_by not in ("same-origin", "none") and not is_link:
            return 403, "Web pages of other origins may not ask."
        return None


def _told(headers: Headers) -> Headers:
    """The headers, without an origin that browsers withhold from our own forms, as the referrer policy has it.

    It says by another header, which no page can set, that the form is the same origin's.
    """
    is_own = headers.get("origin") == "null" and headers.get("sec-fetch-site") == "same-origin"
    return Headers(raw=[each for each in headers.raw if each[0] != b"origin"]) if is_own else headers


def cookie_of(headers: Headers) -> str:
    """The cookie that a browser shows; empty where it shows none of ours."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


async def _form(scope: Scope, receive: Receive) -> Mapping[str, list[str]]:
    """The fields that a form sends; what is too long, too late or cut off is no form, and lacks its token."""
    try:
        content = await read_body(Request(scope, receive), _LONGEST_FORM)
    except BodyError:
        return {}
    return parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200)


def _refusal(status: int, reason: str) -> HTMLResponse:
    """A page without anything of anybody's: a reason, in words of ours."""
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Harken</title><p>{reason}</p></html>'
    return HTMLResponse(page, status, {"connection": "close"})
