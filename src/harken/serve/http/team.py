"""The server of a team: verbs, MCP and pages, each with a key that says who asks; health, metrics, OpenAPI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from harken import __version__
from harken.config.settings import Settings
from harken.engine.team import Team
from harken.errors import ConfigError, HarkenError, KeyRefusedError, StoreError
from harken.log import Log
from harken.model.team import Speaker
from harken.serve.http.bodies import LONGEST_ARGUMENTS, parse_body, read_body
from harken.serve.http.metrics import Metrics
from harken.serve.http.openapi import team_openapi
from harken.serve.http.paging import closed, opened
from harken.serve.http.problems import Problem, problem_of, too_many
from harken.serve.http.rates import Rates
from harken.serve.http.turns import Turns
from harken.serve.mcp.listed import DEFAULT_TOOLS, tools_of
from harken.serve.mcp.mount import Mount as McpMount
from harken.serve.operations.operation import AnyOperation, Effect
from harken.serve.operations.registry import TEAM_OPERATIONS, operation_of
from harken.serve.team.calls import Answered, TeamCalls, VerbCall
from harken.serve.team.pages import PREFIX, Login, make_team_pages
from harken.serve.viewer.access import Sessions
from harken.text.characters import sha256_of

SPACE_HEADER, ONCE_HEADER, REPLAYED_HEADER = "harken-space", "idempotency-key", "idempotent-replayed"
TEAM_TOOLS = f"{DEFAULT_TOOLS},record,recall"
_SPEAKER, _RATE = "harken.speaker", "harken.rate"
# Of one address, how often in a minute a key may be shown that is none.
_WRONG_KEYS = 60
# Of one principal, how many reads and how many writes at once: where theirs wait for a lock, others have threads.
_OF_ONE = 8
_log = Log(__name__)


class TeamServer:
    """What the routes of a team's server share; see `make_team_app`."""

    def __init__(self, team: Team, settings: Settings) -> None:
        self.team = team
        self.settings = settings
        self.metrics = Metrics(team.queues)
        self.calls = TeamCalls(team, self.metrics)
        self._rates = Rates(settings.serve.rate)
        self._turns = Turns()
        self._of_each: dict[tuple[str, bool], asyncio.Semaphore] = {}
        self._wrong = Rates(_WRONG_KEYS)
        self.mcp = McpMount(self._mcp_answer, _offered)
        self.model = "loading"
        self.is_leaving = False
        self.sessions = Sessions()

    async def admitted(self, scope: Scope) -> tuple[Speaker, Mapping[str, str]] | Problem:
        """Who asks, and the headers that tell how often they still may; or why they may not."""
        token = _token_of(Headers(scope=scope))
        if token is None:
            return problem_of(KeyRefusedError())
        # Before the database is asked: whoever asks too often costs nothing but this.
        taken = self._rates.take(sha256_of(token))
        if taken.wait_seconds:
            return too_many(taken.wait_seconds, taken.headers)
        try:
            return await run_sync(self.team.speaker, token), taken.headers
        except KeyRefusedError as error:
            wrong = self._wrong_key(scope)
            return too_many(wrong, {}) if wrong else problem_of(error)
        except Exception as error:  # noqa: BLE001 - the serve boundary
            return problem_of(error)

    def may_try(self, request: Request) -> bool:
        """Whether whoever has shown a wrong key may try another one."""
        return not self._wrong_key(request.scope)

    def _wrong_key(self, scope: Scope) -> float:
        """Note that a wrong key was shown from an address; in how many seconds another one may be, 0 now."""
        client = scope.get("client")
        return self._wrong.take(str(client[0]) if client else "").wait_seconds

    async def answer(self, call: VerbCall) -> Answered:
        """Answer a call in a thread of its own, when it is its turn."""
        is_read = call.operation.effect is Effect.READS
        own = self._of_each.setdefault((call.speaker.principal.id, is_read), asyncio.Semaphore(_OF_ONE))
        async with own, self._turns.taken(is_read):
            return await run_sync(self.calls.answer, call)

    async def _mcp_answer(
        self, operation: AnyOperation, given: Mapping[str, Any], context: Any, progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        request: Request = context.request
        call = VerbCall(request.scope[_SPEAKER], operation, given, _space_of(request), "mcp", progress=progress)
        try:
            return (await self.answer(call)).answer
        except (StoreError, ConfigError) as error:
            raise HarkenError(problem_of(error).detail) from error

    def ready(self) -> None:
        """Ask the store whether it is there, and of this schema.

        Raises:
            HarkenError: it is not.
        """
        self.team.requests.check()

    async def warm_up(self) -> None:
        """Load the model, while what needs none is answered already."""
        try:
            await run_sync(self.team.warm_up)
        except HarkenError as error:
            # Words find things without it; whoever asks next tries again.
            _log.warning("not_warmed_up", error_class=type(error).__name__)
            self.model = "missing"
        else:
            self.model = "loaded"

    async def close(self) -> None:
        """End what is still being answered, and write down what was asked."""
        await self.mcp.close()
        await run_sync(self.team.requests.flush)


def make_team_app(
    team: Team, settings: Settings, logins: Callable[[TeamServer], Sequence[Login]] = lambda _server: ()
) -> Starlette:
    """Make the server's routes over an open team; its lifespan has to be run (`uvicorn … --lifespan on`).

    Args:
        team: whose memory is served.
        settings: those of the server.
        logins: ways to sign in to the pages beside a key, which admit browsers to `server.sessions`.
    """
    server = TeamServer(team, settings)
    pages = make_team_pages(server.calls, server.sessions, server.may_try, logins(server))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(server.warm_up())
        try:
            yield
        finally:
            await warming
            await server.close()

    asked = _Keyed(server, _run)
    app = Starlette(
        routes=[
            Route("/healthz", _healthz, methods=["GET"]),
            Route("/readyz", partial(_readyz, server), methods=["GET"]),
            Route("/openapi.json", _describe, methods=["GET"]),
            Route("/metrics", _Keyed(server, _metrics), methods=["GET"]),
            Route("/mcp", _Keyed(server, None), methods=["POST"]),
            Route("/", _to_pages, methods=["GET"]),
            Mount(PREFIX, pages),
            *(
                Route(f"/v1/{name}", asked, methods=["GET", "POST"] if operation.is_asked_by_get else ["POST"])
                for name, operation in TEAM_OPERATIONS.items()
            ),
            Route("/v1/{verb}", asked, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _problem, Exception: _problem},
        lifespan=lifespan,
    )
    app.state.server = server
    return app


class _Keyed:
    """A route that is answered to whoever shows a key, no more often than they may ask."""

    def __init__(self, server: TeamServer, answer: Callable[[TeamServer, Request], Any] | None) -> None:
        self._server = server
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        found = await self._server.admitted(scope)
        if isinstance(found, Problem):
            self._server.metrics.refused(found.status)
            await found.response()(scope, receive, send)
            return
        scope = {**scope, _SPEAKER: found[0]}
        if self._answer is None:
            await self._server.mcp(scope, receive, send)
            return
        try:
            response: Response = await self._answer(self._server, Request(scope, receive))
        except Exception as error:  # noqa: BLE001 - the serve boundary; its words may hold a message's
            response = problem_of(error).response()
        response.headers.update(found[1])
        await response(scope, receive, send)


async def _run(server: TeamServer, request: Request) -> Response:
    operation = operation_of(request.url.path.rpartition("/")[2], TEAM_OPERATIONS)
    speaker: Speaker = request.scope[_SPEAKER]
    space = _space_of(request)
    asker = json.dumps([speaker.principal.team, speaker.principal.id, space])
    is_sent = request.method != "GET"
    given: object = parse_body(await read_body(request, LONGEST_ARGUMENTS)) if is_sent else dict(request.query_params)
    once = request.headers.get(ONCE_HEADER, "")
    answered = await server.answer(VerbCall(speaker, operation, opened(operation, given, asker), space, once=once))
    response = JSONResponse(closed(operation, given, answered.answer, asker))
    if answered.is_repeat:
        response.headers[REPLAYED_HEADER] = "true"
    return response


async def _metrics(server: TeamServer, request: Request) -> Response:
    server.calls.require_host(request.scope[_SPEAKER])
    content, kind = await run_sync(server.metrics.text)
    return Response(content, headers={"content-type": kind})


def make_metrics_app(app: Starlette) -> ASGIApp:
    """Make what serves `/metrics` alone and asks for no key, for a port that Prometheus alone can reach."""

    async def metrics(_request: Request) -> Response:
        content, kind = await run_sync(app.state.server.metrics.text)
        return Response(content, headers={"content-type": kind})

    return Starlette(routes=[Route("/metrics", metrics, methods=["GET"])])


async def _to_pages(_request: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/", 303)


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "version": __version__})


async def _readyz(server: TeamServer, _request: Request) -> Response:
    if server.is_leaving:
        return Problem(503, "This server is being stopped.").response()
    try:
        await run_sync(server.ready)
    except HarkenError as error:
        return problem_of(error).response()
    return JSONResponse({"status": "ready", "model": server.model})


async def _describe(_request: Request) -> Response:
    return JSONResponse(team_openapi())


async def _problem(_request: Request, error: Exception) -> Response:
    return problem_of(error).response()


def _token_of(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _space_of(request: Request) -> str | None:
    named = request.headers.get(SPACE_HEADER)
    # Headers are read as Latin-1; most programs send UTF-8, some what Latin-1 has of a name.
    with suppress(UnicodeDecodeError):
        return named and named.encode("latin-1").decode()
    return named


def _offered(context: Any) -> Sequence[AnyOperation]:
    """Of the tools that the address names, those that the key may call."""
    speaker: Speaker = context.request.scope[_SPEAKER]
    named = tools_of(context.request.query_params.get("tools", TEAM_TOOLS), TEAM_OPERATIONS)
    return [each for each in named if speaker.scopes.issuperset(each.scopes)]
