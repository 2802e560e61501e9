"""Nothing is forgotten unless the user is asked, where the client can ask; elsewhere unless the call says so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult

from coding_agent import end
from command_line import CommandLine
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from mcp_clients import MODES, Remote, check_call, check_refusal, over_stdio, serving
from verbs import fill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

YES = ElicitResult(action="accept", content={"forget": True})
NOT_YES = [
    ElicitResult(action="accept", content={"forget": False}),
    ElicitResult(action="accept", content={}),
    ElicitResult(action="decline"),
    ElicitResult(action="cancel"),
]


class User:
    """Is asked, and says what was set."""

    def __init__(self) -> None:
        self.says = YES
        self.asked: list[str] = []

    async def __call__(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        assert params.requested_schema["required"] == ["forget"]
        return self.says


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with serving(tmp_path_factory.mktemp("remote")) as remote:
        yield remote


async def check_asking(connected: AbstractAsyncContextManager[Client], user: User, ids: dict[str, str]) -> None:
    """The user's word decides, and nothing else does."""
    memory = {"ids": [ids["memory"]]}
    async with connected as client:
        for no in NOT_YES:
            user.says = no
            for said in ({}, {"confirm": True}):
                left = await check_call(client, "forget", {**memory, **said})
                assert (left["done"], left["ids"]) == (False, memory["ids"])
                assert "did not agree" in left["note"]
        assert len(user.asked) == 2 * len(NOT_YES)
        assert "Ships are moored at quay seven first." in user.asked[0]
        await check_refusal(client, "forget", {"ids": ["ffffffffffff"], "confirm": True})
        await check_refusal(client, "forget", {"ids": []})
        for kind, uid in (
            ("memory", ids["memory"]),
            ("conversation", ids["conversation"]),
            ("message", ids["message"]),
        ):
            found = await check_call(client, "forget", {"kind": kind, "query": "quay seven Aurora", "confirm": True})
            assert (found["done"], found["ids"]) == (False, []), (
                "a query names what could be meant, and forgets nothing"
            )
            assert uid in {match["id"] for match in found["matches"]}
        await check_refusal(client, "forget", {**memory, "query": "quay seven"})
        assert len(user.asked) == 2 * len(NOT_YES), "nobody is asked about what is not there"
        user.says = YES
        assert (await check_call(client, "forget", memory))["done"]
        await check_refusal(client, "show", {"id": ids["memory"]})
        spoken = {"kind": "conversation", "ids": [ids["conversation"]]}
        assert (await check_call(client, "forget", spoken))["messages"] == 2
        assert "2 messages" in user.asked[-1]
        await check_refusal(client, "show", {"id": ids["conversation"]})


@pytest.mark.parametrize("mode", MODES)
def test_over_stdio_the_user_is_asked(cli: CommandLine, tmp_path: Path, mode: str) -> None:
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        ids = fill(harken)
    user = User()
    try:
        anyio.run(lambda: check_asking(over_stdio(cli, tmp_path, mode, elicitation_callback=user), user, ids))
    finally:
        end(DaemonPaths(str(cli.home)))


def test_over_http_the_user_is_asked(server: Remote) -> None:
    user, ids = User(), server.fill("to be forgotten")
    anyio.run(lambda: check_asking(server.client("auto", elicitation_callback=user), user, ids))


@pytest.mark.parametrize(("mode", "asks"), [("legacy", True), ("legacy", False), ("auto", False)])
def test_who_cannot_be_asked_confirms_with_the_call(server: Remote, mode: str, asks: bool) -> None:
    """Without a session, which HTTP does without here, the older protocol has no way back to the user."""
    user, ids = User(), server.fill()
    offered = {"elicitation_callback": user} if asks else {}

    async def talk() -> None:
        async with server.client(mode, **offered) as client:
            memory = {"ids": [ids["memory"]]}
            left = await check_call(client, "forget", memory)
            assert (left["done"], left["note"]) == (False, "Nothing was forgotten yet: call again, confirm=true.")
            assert (await check_call(client, "show", {"id": ids["memory"]}))["memory"]
            assert (await check_call(client, "forget", {**memory, "confirm": True}))["done"]
            await check_refusal(client, "show", {"id": ids["memory"]})

    anyio.run(talk)
    assert user.asked == []
