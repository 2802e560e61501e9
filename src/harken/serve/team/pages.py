"""The pages of a team's server: each member sees what they may, once they have signed in by a key, or elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harken.errors import HarkenError, KeyRefusedError, sentence_of
from harken.model.team import Speaker
from harken.serve.http.problems import problem_of
from harken.serve.operations.operation import AnyOperation
from harken.serve.team.calls import TeamCalls, VerbCall
from harken.serve.viewer import conversations, recalls, saved, searching, topics
from harken.serve.viewer.access import FORM, Sessions, Threshold, cookie_of
from harken.serve.viewer.app import application, let_in, request_of
from harken.serve.viewer.pages import PageJobs, PageMaker, PageRequest
from harken.serve.viewer.rendering import make_environment

PREFIX, SIGN_IN, SIGN_OUT = "/view", "/signin", "/do/signout"
# What is of the machine, and not of anybody's memory, is left out.
_ROOMS = (conversations, searching, topics, recalls, saved)
PAGES: dict[str, PageMaker] = {path: make for room in _ROOMS for path, make in room.PAGES.items()}
MENU = tuple(entry for room in _ROOMS for entry in room.MENU)
_FIRST = "/conversations"


@dataclass(frozen=True, slots=True)
class _SignedInMember:
    """Somebody of a team at a browser: what their pages ask is answered as over HTTP, and audited."""

    calls: TeamCalls
    speaker: Speaker

    def answer(self, operation: AnyOperation, given: Mapping[str, Any]) -> dict[str, Any]:
        """See `PageMember.answer`."""
        return self.calls.answer(VerbCall(self.speaker, operation, given, via="view")).answer

    def require(self, operation: AnyOperation) -> None:
        """See `PageMember.require`."""
        self.speaker.require(*operation.scopes)


@dataclass(frozen=True, slots=True)
class Login:
    """A way to sign in that another provider has.

    Attributes:
        name: of the link on the page that signs in.
        routes: its addresses below the prefix; the first one is the link's. Browsers come to them from elsewhere.
    """

    name: str
    routes: Sequence[Route]


def make_team_pages(
    calls: TeamCalls, sessions: Sessions, may_try: Callable[[Request], bool], logins: Sequence[Login] = ()
) -> ASGIApp:
    """Make the pages, and the door before them; they stand at `PREFIX`.

    Args:
        calls: answers what pages ask.
        sessions: the browsers that have signed in; whoever adds a login admits them there, and answers `let_in`.
        may_try: whether whoever has shown a wrong key may try another one.
        logins: ways to sign in beside a key.
    """
    # Nobody learns what others have begun.
    jobs: defaultdict[str, PageJobs] = defaultdict(PageJobs)
    environment = make_environment(PREFIX, MENU)
    environment.globals["sign_out"] = SIGN_OUT

    def asked(request: Request) -> PageRequest:
        speaker = sessions.speaker(cookie_of(request.headers))
        member = _SignedInMember(calls, speaker)
        return request_of(calls.team.memory(speaker), request, jobs[speaker.principal.id], member)

    def page(message: str = "", status: int = 200) -> Response:
        links = [(login.name, login.routes[0].path) for login in logins]
        return HTMLResponse(environment.get_template("signin.html").render(logins=links, message=message), status)

    async def show(_request: Request) -> Response:
        return page()

    async def sign_in(request: Request) -> Response:
        key = request.scope[FORM].get("key", [""])[-1].strip()
        try:
            cookie = await run_sync(sessions.admit, partial(calls.team.speaker, key))
        except KeyRefusedError as error:
            return page(sentence_of(error), 401) if may_try(request) else page("Too many tries. Come back later.", 429)
        except HarkenError as error:
            problem = problem_of(error)
            return page(problem.detail, problem.status)
        return let_in(environment, PREFIX, cookie, request)

    async def sign_out(request: Request) -> Response:
        sessions.end(cookie_of(request.headers))
        return RedirectResponse(PREFIX + SIGN_IN, 303)

    async def first(_request: Request) -> Response:
        return RedirectResponse(PREFIX + _FIRST, 303)

    own = [
        Route("/", first, methods=["GET"]),
        Route(SIGN_IN, show, methods=["GET"]),
        Route(SIGN_IN, sign_in, methods=["POST"]),
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        *(route for login in logins for route in login.routes),
    ]
    doors = (SIGN_IN, "/static/harken.css", *(route.path for login in logins for route in login.routes))
    inside = application(environment, PREFIX, PAGES, asked, own, lambda error: problem_of(error).detail)
    closed = partial(RedirectResponse, PREFIX + SIGN_IN, 303)
    return Threshold(inside, sessions, PREFIX, None, doors=doors, closed=closed)
