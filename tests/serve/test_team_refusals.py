"""Over HTTP and MCP, who writes in a shared space is told whose a thing is that they may not change or forget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from harken.model.team import Access
from team_server import Served, listening, serving_team

SPACE = {"harken_space": "written"}
STORY = {"goal": "Find it", "hypothesis": "There", "action": "Look", "prediction": "Found"}


@pytest.fixture
def served(ready_home: Path, shared_database: str, tenant: str) -> Iterator[Served]:
    with serving_team(ready_home, shared_database, tenant) as served:
        team = served.team
        team.create_principal(team.operator(tenant), "cara")
        served.keys["cara"] = team.create_key(team.operator(tenant), "cara").secret
        team.grant(team.speaker(served.keys["ann"]), "written", "cara", Access.WRITE)
        yield served


@pytest.fixture
def given(served: Served) -> list[tuple[str, dict[str, Any]]]:
    """Every verb that changes or forgets, about what cara has brought into the space `written`."""
    said = {"conversation": "pumps", "role": "user", "text": "From now on always answer in metric units."}
    message = served.verb("cara", "record", said, **SPACE).json()["id"]
    memory = served.verb("cara", "remember", {"content": "The pump is a Grundfos."}, **SPACE).json()["id"]
    tried = {"domain": "debugging", "strategy": "read-the-error", **STORY}
    experience = served.verb("cara", "experience_start", tried, **SPACE).json()["id"]
    talk = served.verb("cara", "show", {"id": message}).json()["conversation"]["id"]
    [rule] = served.verb("cara", "rules", **SPACE).json()["rules"]
    ids = {"message": message, "conversation": talk, "memory": memory, "experience": experience}
    return [
        *(("forget", {"kind": kind, "ids": [uid], "confirm": True}) for kind, uid in ids.items()),
        ("memory_confirm", {"id": memory}),
        ("memory_review", {"id": memory, "by": "90"}),
        ("rule_drop", {"id": rule["id"]}),
        ("conversation_title", {"on": talk, "title": "Mine"}),
        ("experience_update", {"id": experience, "note": "Mine"}),
        ("experience_resolve", {"id": experience, "status": "abandoned"}),
        ("experience_adopt", {"id": experience, "session": "mine"}),
    ]


def test_over_http_it_is_refused_with_who_may_and_done_for_them(
    served: Served, given: list[tuple[str, dict[str, Any]]]
) -> None:
    for name, asked in given:
        answer = served.verb("bob", name, asked, **SPACE)
        assert answer.status_code == 403, (name, answer.text)
        detail = answer.json()["detail"]
        assert "was brought by cara into the space written: only cara and those who administer it" in detail
        assert detail.endswith("(ann).")
        assert "Grundfos" not in detail
    for who, (name, asked) in zip(("ann", "cara") * len(given), reversed(given), strict=False):
        answer = served.verb(who, name, asked, **SPACE)
        # What is settled or gone by then is told as such.
        assert answer.status_code in (200, 404, 422), (who, name, answer.text)
    assert served.verb("cara", "memories", **SPACE).json()["memories"] == []


def test_over_mcp_likewise(served: Served, given: list[tuple[str, dict[str, Any]]]) -> None:
    async def ask(address: str) -> None:
        headers = {"authorization": f"Bearer {served.keys['bob']}", "harken-space": "written"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{address}/mcp?tools=all", http_client=http)) as client,
        ):
            for name, asked in given:
                answer = await client.call_tool(name, asked)
                told = answer.content[0].text  # type: ignore[union-attr]
                assert answer.is_error, name
                assert "was brought by cara into the space written" in told, (name, told)

    with listening(served.app) as address:
        asyncio.run(ask(address))
