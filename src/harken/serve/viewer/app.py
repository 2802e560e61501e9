"""The pages as one application: each address and what makes its page, the files beside them, and what changes live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from harken.engine import Harken
from harken.errors import HarkenError, NotFoundError, sentence_of
from harken.log import Log
from harken.serve.http.guard import status_of
from harken.serve.viewer import conversations, home, recalls, saved, searching, topics, upkeep
from harken.serve.viewer.access import COOKIE, CSRF, FORM, OPENING, Browsers
from harken.serve.viewer.pages import Drawn, Gone, PageJobs, PageMaker, PageMember, PageRequest, Rendered
from harken.serve.viewer.rendering import make_environment

if TYPE_CHECKING:
    from harken.serve.daemon.run import Daemon

_log = Log(__name__)

# In the order of the menu: a room of the pages is a module with its addresses, and its names in the menu.
_ROOMS = (home, conversations, searching, topics, recalls, saved, upkeep)
PAGES: dict[str, PageMaker] = {path: make for room in _ROOMS for path, make in room.PAGES.items()}
MENU = tuple(entry for room in _ROOMS for entry in room.MENU)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STATIC = {each.name: each.read_bytes() for each in files("harken.serve.viewer").joinpath("static").iterdir()}
SENT_TO = "/do/"
Asked = Callable[[Request], PageRequest]
Words = Callable[[HarkenError], str]
_LIVE_SECONDS = 3.0
_LIVE = ("messages", "conversations", "queue", "failed", "spend_today_usd", "redactions")


def make_pages(harken: Harken, browsers: Browsers, prefix: str, daemon: Daemon) -> ASGIApp:
    """Make the application; it takes who comes to it for the owner, so it stands behind a `Threshold`."""
    jobs = PageJobs()
    environment = make_environment(prefix, MENU)

    def asked(request: Request) -> PageRequest:
        daemon.touch()
        return request_of(harken, request, jobs)

    async def opening(request: Request) -> Response:
        cookie = browsers.admit(request.query_params.get("key", ""))
        if cookie is None:
            return HTMLResponse(_text(environment, request, _SPENT), 403)
        return let_in(environment, prefix, cookie, request)

    async def live(_request: Request) -> Response:
        return StreamingResponse(_changes(harken, daemon), media_type="text/event-stream")

    own = [Route(OPENING, opening, methods=["GET"]), Route("/live", live, methods=["GET"])]
    return application(environment, prefix, PAGES, asked, own)


def let_in(environment: Environment, prefix: str, cookie: str, request: Request) -> Response:
    """The answer that gives a browser its cookie, for these pages alone and never shown to scripts; it sends it on.

    Not a redirection: that would still be the other site's request, for which a strict cookie is not sent. Where the
    pages came over TLS, the cookie is sent over TLS alone.
    """
    answer = HTMLResponse(environment.get_template("opened.html").render())
    secure = "; Secure" if request.url.scheme == "https" else ""
    answer.headers["set-cookie"] = f"{COOKIE}={cookie}; Path={prefix}/; HttpOnly; SameSite=Strict{secure}"
    return answer


def request_of(harken: Harken, request: Request, jobs: PageJobs, member: PageMember | None = None) -> PageRequest:
    """What a page is made of, of a browser's request."""
    form: Mapping[str, list[str]] = request.scope[FORM]
    # A form sends its empty fields as well.
    query = {name: value for name, value in request.query_params.items() if value.strip()}
    return PageRequest(harken, request.path_params, query, form, jobs, member)


def application(
    environment: Environment,
    prefix: str,
    pages: Mapping[str, PageMaker],
    asked: Asked,
    own: Sequence[Route],
    words: Words = sentence_of,
) -> ASGIApp:
    """Make the application of some pages.

    Args:
        environment: has the templates.
        prefix: of all addresses.
        pages: by address.
        asked: what a page is made of; runs in a thread of its own.
        own: addresses beside those of the pages.
        words: what whoever asks is told of an error.
    """

    def page(path: str, make: PageMaker) -> Route:
        async def answer(request: Request) -> Response:
            return await run_sync(_answer, environment, asked, make, request, prefix, words)

        return Route(path, answer, methods=["POST"] if path.startswith(SENT_TO) else ["GET"])

    async def missing(request: Request, _error: Exception) -> Response:
        return HTMLResponse(_text(environment, request, _NO_PAGE), 404)

    return Starlette(
        routes=[
            *own,
            Route("/static/{name}", _static, methods=["GET"]),
            *(page(path, make) for path, make in pages.items()),
        ],
        exception_handlers={404: missing, 405: missing},
    )


_NO_PAGE = Rendered("error.html", {"title": "No such page", "message": "There is no page of that name."}, 404)
_SPENT = Rendered(
    "error.html",
    {"title": "This link was used", "message": "Each link opens the pages once. Make another with: harken view"},
    403,
)


def _answer(
    environment: Environment, asked: Asked, make: PageMaker, request: Request, prefix: str, words: Words
) -> Response:
    """Make a page, or the page that says why there is none."""
    try:
        of = asked(request)
        found = make(of)
    except HarkenError as error:
        status = status_of(error)
        title = "Not found" if isinstance(error, NotFoundError) else "That did not work"
        found = Rendered("error.html", {"title": title, "message": words(error)}, status)
    except Exception as error:  # noqa: BLE001 - the serve boundary; its words may hold a message's
        _log.error("page_failed", error_class=type(error).__name__)
        message = f"Unexpected {type(error).__name__}; please report it."
        found = Rendered("error.html", {"title": "A mistake of ours", "message": message}, 500)
    if isinstance(found, Gone):
        work = BackgroundTask(of.jobs.run, *found.job) if found.job else None
        return RedirectResponse(prefix + found.path, 303, background=work)
    if isinstance(found, Drawn):
        # Titles are anybody's words: none may close or open a tag, should a browser take this for a page.
        return Response(json.dumps(found.facts).replace("<", "\\u003c"), media_type="application/json")
    return HTMLResponse(_text(environment, request, found), found.status)


def _text(environment: Environment, request: Request, found: Rendered) -> str:
    path, query = request.url.path, request.url.query
    address = f"{path}?{query}" if query else path
    facts: dict[str, Any] = {"csrf": request.scope[CSRF] or "", "here": path, "address": address, **found.facts}
    return environment.get_template(found.template).render(facts)


async def _static(request: Request) -> Response:
    name: str = request.path_params["name"]
    kind = _TYPES.get(name[name.rfind(".") :])
    if kind is None or name not in STATIC:
        return Response(status_code=404)
    return Response(STATIC[name], media_type=kind, headers={"cache-control": "private, max-age=86400"})


async def _changes(harken: Harken, daemon: Daemon) -> AsyncIterator[str]:
    """Counts of the home as they change, as events; none is an idle daemon's reason to stay."""
    before: dict[str, Any] = {}
    asked = PageRequest(harken, {}, {})
    while not daemon.is_leaving:
        status = await run_sync(lambda: asked.call("status"))
        now = {name: status[name] for name in _LIVE}
        yield f"data: {json.dumps(now)}\n\n" if now != before else ": nothing new\n\n"
        before = now
        for _ in range(int(_LIVE_SECONDS / 0.5)):
            if not daemon.is_leaving:
                await asyncio.sleep(0.5)
