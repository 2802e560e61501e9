"""A team's server in this process, over a database of the tests' own, with somebody in each place of the table."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette

from harken.config.settings import load_settings
from harken.engine.team import Team
from harken.model.team import Access, KeyScope
from harken.serve.http.hosting import listen
from harken.serve.http.rates import Rates
from harken.serve.http.team import make_team_app


@dataclass
class Served:
    """A server of two teams: `ann`, who manages it, and `bob` are in the first, `eve` in another.

    Bob may read the space `shared`, write to `written`, and does not see `hidden`; `elsewhere` is eve's team's.

    Attributes:
        loop: where it answers; one for all questions, since a loop of each one's own takes as long as its answer.
        keys: by name of the principal, each with every scope that it may have.
    """

    team: Team
    app: Starlette
    loop: BlockingPortal
    keys: dict[str, str] = field(default_factory=dict)

    def ask(self, who: str, method: str, path: str, content: bytes | None = None, **headers: str) -> httpx.Response:
        """Ask as somebody, by their name or by a key itself; as nobody where the name is empty."""
        key = self.keys.get(who, who)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            named["authorization"] = f"Bearer {key}"

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://team.example.org") as client:
                return await client.request(method, path, content=content, headers=named)

        return self.loop.call(asked)

    def verb(self, who: str, name: str, given: Any = None, **headers: str) -> httpx.Response:
        """Call a verb as somebody."""
        return self.ask(who, "POST", f"/v1/{name}", json.dumps(given or {}).encode(), **headers)

    def key(self, who: str, scopes: Collection[str]) -> str:
        """A key of somebody with these scopes alone."""
        speaker = self.team.speaker(self.keys[who])
        return self.team.create_key(speaker, None, [KeyScope(scope) for scope in scopes]).secret


@contextmanager
def serving_team(home: Path, store: str, name: str, **settings: Any) -> Iterator[Served]:
    """Serve two teams; the settings' own is `name`."""
    options = {"store": store, "tenant": name, "embedder": "none", "serve.rate": 0, **settings}
    with Team(home, settings=options, env={}) as team, start_blocking_portal() as loop:
        served = Served(team, make_team_app(team, load_settings(home, {}, options).settings), loop)
        server = served.app.state.server
        # No bucket fills up while a test goes on, however slow the machine is.
        server._rates, server._wrong = (Rates(most, clock=lambda: 0.0) for most in (options["serve.rate"], 60))
        for who, of in (("ann", name), ("bob", name), ("eve", f"{name}-other")):
            operator = team.operator(of)
            team.create_principal(operator, who, is_admin=who != "bob")
            served.keys[who] = team.create_key(operator, who).secret
        team.create_space(team.speaker(served.keys["ann"]), "shared")
        team.grant(team.speaker(served.keys["ann"]), "shared", "bob", Access.READ)
        team.create_space(team.speaker(served.keys["ann"]), "written")
        team.grant(team.speaker(served.keys["ann"]), "written", "bob", Access.WRITE)
        team.create_space(team.speaker(served.keys["ann"]), "hidden")
        team.create_space(team.speaker(served.keys["eve"]), "elsewhere")
        yield served


@contextmanager
def listening(app: Starlette) -> Iterator[str]:
    """Have an application listen on a port of loop-back, its lifespan run; its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on", ws="none"))
    with listen("127.0.0.1", 0) as door:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([door])), name="team-server")
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
