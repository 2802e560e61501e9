"""The table of docs/http-api.md, tried: every operation, with a key of each scope, in each kind of space."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sqlalchemy import event

from harken.engine.team import Team
from harken.model.arguments import arguments_of
from harken.model.team import EVERY_SCOPE, KeyScope
from harken.serve.operations.operation import AnyOperation
from harken.serve.operations.registry import OPERATIONS, TEAM_OPERATIONS
from team_server import Served, listening, serving_team
from verbs import REFUSED, calls, fill

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).resolve().parents[2]


def tool(name: str) -> ModuleType:
    """A module of the folder `tools`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


access = tool("access_table")
# The header of each place: bob's own, those that he may write to and read, one of his team's and one of another's.
NAMED = dict(zip(access.PLACES, (None, "written", "shared", "hidden", "elsewhere"), strict=True))
# Whose keys are tried over MCP in each of them: what reads, and what writes.
IN_EVERY_PLACE = ("read", "remember")
# What is asked of a team; ids and names that there are none of.
OF_TEAM: Mapping[str, dict[str, Any]] = {
    "space_create": {"name": "x/y"},
    "grants": {"space": "shared"},
    "grant": {"space": "nowhere", "to": "nobody"},
    "revoke": {"space": "nowhere", "of": "nobody"},
    "share": {"id": "ffffffffffff", "to": "written"},
    "unshare": {"id": "ffffffffffff"},
    "key_create": {"scopes": ["keys"]},
    "key_revoke": {"id": "ffffffffffff"},
    "key_rotate": {"id": "ffffffffffff"},
    "principal_create": {"name": "x/y"},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, shared_database: str) -> Iterator[Served]:
    # The module may be set up again in one process, where its tests are shared out anew.
    folder = tmp_path_factory.mktemp("access")
    with serving_team(folder, shared_database, folder.name) as served:
        yield served


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with listening(served.app) as url:
        yield url


@pytest.fixture(scope="module")
def keys(served: Served) -> dict[str, str]:
    """A key of bob's for each scope alone, and for those that some operation needs together."""
    alone = {scope.value for scope in EVERY_SCOPE}
    together = {operation.scope for operation in TEAM_OPERATIONS.values() if len(operation.scopes) > 1}
    return {scope: served.key("bob", scope.split()) for scope in sorted(alone | together)}


@pytest.fixture(scope="module")
def given(served: Served) -> dict[str, dict[str, Any]]:
    """What each operation is asked; about things that bob has, where it is about any."""
    team = served.team
    ids = fill(team.memory(team.speaker(served.keys["bob"])))
    asked = dict(reversed(calls(ids)))
    # What would take away what others are asked about.
    asked |= {"forget": {"ids": ["ffffffffffff"], "confirm": True}, **dict(REFUSED)}
    return {name: OF_TEAM.get(name, asked.get(name, {})) for name in TEAM_OPERATIONS}


def test_the_page_has_the_table_as_it_is() -> None:
    text = access.PAGE.read_text(encoding="utf-8")
    assert access.page(text) == text
    scopes = {each.name: each.about.choices for each in arguments_of(TEAM_OPERATIONS["key_create"].arguments)}["scopes"]
    assert set(scopes) == {scope.value for scope in EVERY_SCOPE}
    assert {name for name, each in OPERATIONS.items() if each.scope == "admin"} == access.HOST


def test_no_operation_that_changes_anything_is_open_to_who_may_only_read() -> None:
    for operation in TEAM_OPERATIONS.values():
        assert {scope.value for scope in EVERY_SCOPE}.issuperset(operation.scopes)
        if operation.effect.value != "reads":
            assert operation.scope not in ("", "read"), operation.name
        if operation.effect.value == "destroys":
            assert operation.scope == "forget"


def check(operation: AnyOperation, scope: str, place: str, status: int, detail: str) -> None:
    """What came of a call is what the table says."""
    case = (operation.name, scope, place, status, detail)
    missing = [each for each in operation.scopes if each not in scope.split()]
    if missing:
        assert (status, f"scope '{missing[0]}'" in detail) == (403, True), case
        return
    expected = access.answered(operation, place)
    if operation.name in access.HOST:
        # Bob manages nothing.
        assert (status, "'admin' in the space common" in detail) == (403, True), case
    elif expected == 404:
        assert (status, detail) == (404, f"There is no space {NAMED[place]}. See: harken space list"), case
    elif expected == 403:
        assert (status, "'write' in the space shared" in detail) == (403, True), case
    else:
        # Whatever he asks for may not be there.
        assert "scope '" not in detail, case
        assert not detail.startswith(f"There is no space {NAMED[place]}."), case
        # Some of what is asked of a team is for who manages it.
        assert status in (200, 404, 422) or (status == 403 and operation.is_of_team and scope == "admin"), case


def test_every_cell_holds_over_http(address: str, keys: dict[str, str], given: dict[str, dict[str, Any]]) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            for name, operation in TEAM_OPERATIONS.items():
                lacking = [scope for scope in keys if not set(operation.scopes) <= set(scope.split())]
                for scope, key in keys.items():
                    for place, space in NAMED.items():
                        # What lacks the scope is refused before anybody looks at a space: by one key, in another's.
                        places = (access.OWN, access.ELSEWHERE) if [scope] == lacking[:1] else (access.OWN,)
                        if scope in lacking and place not in places:
                            continue
                        headers = {"authorization": f"Bearer {key}"} | ({"harken-space": space} if space else {})
                        answer = await client.post(f"/v1/{name}", json=given[name], headers=headers)
                        found = answer.json()
                        check(operation, scope, place, answer.status_code, found.get("detail", ""))

    asyncio.run(ask())


def test_every_cell_holds_over_mcp(address: str, keys: dict[str, str], given: dict[str, dict[str, Any]]) -> None:
    async def ask(scope: str, key: str, place: str, space: str | None) -> None:
        headers = {"authorization": f"Bearer {key}"} | ({"harken-space": space} if space else {})
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{address}/mcp?tools=all", http_client=http)) as client,
        ):
            offered = {each.name for each in (await client.list_tools()).tools}
            assert offered == {name for name, each in TEAM_OPERATIONS.items() if set(each.scopes) <= set(scope.split())}
            # What is not offered is not there, whatever it is.
            unoffered = [name for name in TEAM_OPERATIONS if name not in offered]
            for name in TEAM_OPERATIONS:
                operation = TEAM_OPERATIONS[name]
                if name in unoffered[1:-1]:
                    continue
                if name not in offered:
                    with pytest.raises(MCPError, match="There is no tool"):
                        await client.call_tool(name, given[name])
                    continue
                answer = await client.call_tool(name, given[name])
                said = answer.content[0].text  # type: ignore[union-attr]
                status = 200 if not answer.is_error else 403 if said.startswith("This needs") else 404
                check(operation, scope, place, status, said if answer.is_error else "")

    async def all_of_them() -> None:
        for scope, key in keys.items():
            for place, space in NAMED.items():
                # Over HTTP every key is tried in every place; what looks at the place is the same.
                places = (access.OWN,) if " " in scope else (access.OWN, access.READ, access.ELSEWHERE)
                if scope in IN_EVERY_PLACE or place in places:
                    await ask(scope, key, place, space)

    asyncio.run(all_of_them())


def test_a_key_that_may_read_is_offered_resources_and_one_that_may_not_is_told_so(
    address: str, served: Served, keys: dict[str, str]
) -> None:
    served.verb("bob", "remember", {"content": "Quay seven floods in November."})

    async def read(key: str) -> list[Any]:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
        ):
            return list((await client.list_resources()).resources)

    assert asyncio.run(read(keys["read"]))
    with pytest.raises(BaseExceptionGroup) as refused:
        asyncio.run(read(keys["record"]))
    assert "scope 'read'" in repr(refused.value)


MISSING = ("01a21373-6866-7f9f-b2bb-8b042a3551c2", "01a21373-6866", "0123456789abcdef", "hk_01234567")
# Of what names a thing: the operation, the argument, and the rest.
BY_ID: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("show", "id", {}),
    ("read_conversation", "id", {}),
    ("fetch_conversation_details", "conversation_id", {}),
    ("fetch_conversation_details", "exchange_id", {}),
    ("context", "conversation", {"text": "quay"}),
    ("recalls", "conversation", {}),
    ("search", "conversation", {"query": "quay"}),
    ("conversations", "parent", {}),
    ("memory_confirm", "id", {}),
    ("memory_review", "id", {"by": "90"}),
    ("rate", "id", {"verdict": "useful"}),
    ("tag", "id", {"add": ["x"]}),
    ("conversation_title", "on", {"title": "Mine"}),
    ("conversation_project", "on", {"project": ""}),
    ("experience_update", "id", {"note": "Mine"}),
    ("experience_adopt", "id", {"session": "mine"}),
    ("topic_rename", "id", {"name": "Mine"}),
    ("rule_drop", "id", {}),
    ("key_revoke", "id", {}),
    ("key_rotate", "id", {}),
    *(("forget", "ids", {"kind": kind, "confirm": True}) for kind in ("memory", "message", "conversation")),
    ("forget", "ids", {"kind": "experience", "confirm": True}),
)


@pytest.fixture(scope="module")
def foreign(served: Served) -> dict[str, set[str]]:
    """Ids of all that ann has in her own space and in one that bob does not see, and that eve has in her team."""
    found: dict[str, set[str]] = {"whole": set(), "begun": set()}
    for who, space in (("ann", None), ("ann", "hidden"), ("eve", None)):
        memory = served.team.memory(served.team.speaker(served.keys[who]), space)
        ids = fill(memory, f"harbour of {who}")
        story = {"goal": "Find it", "hypothesis": "There", "action": "Look", "prediction": "Found"}
        started = memory.experiences.start(domain="debugging", strategy="read-the-error", **story)
        exchange = memory.show(ids["message"]).messages[0].exchange_uid
        found["whole"] |= {*ids.values(), started.uid, exchange}
    for who in ("ann", "eve"):
        key = served.verb(who, "whoami").json()["key"]
        found["whole"] |= {key["id"], key["prefix"]}
    found["begun"] = {uid[:13] for uid in found["whole"]}
    return found


@pytest.mark.parametrize(("name", "argument", "rest"), BY_ID, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_anothers_is_answered_as_what_is_not_there(
    served: Served, foreign: dict[str, set[str]], name: str, argument: str, rest: dict[str, Any]
) -> None:
    kinds: dict[int, set[tuple[int, str, int]]] = {}
    count = Statements(served.team)
    for uid in [*MISSING, *sorted(foreign["whole"]), *sorted(foreign["begun"])[:4]]:
        seen = kinds.setdefault(len(uid), set())
        asked: list[tuple[int, str, int]] = []
        # Now and then whoever asks looks after what is open as well, or old requests: the fewest questions count.
        while len(asked) < 5 and not seen.intersection(asked):
            with count:
                answer = served.verb("bob", name, {argument: [uid] if argument == "ids" else uid, **rest})
            told = re.sub(re.escape(uid), "ID", json.dumps(answer.json()))
            asked.append((answer.status_code, told, count.statements))
        seen.add(min(asked, key=lambda each: each[2]))
        if answer.status_code == 200:
            # A list that nothing is in, or what goes by no id of another.
            assert not any(each in told for each in foreign["whole"] - {uid})
    # Ids of one length are refused in the same words, after the same questions to the database.
    assert all(len(told) == 1 for told in kinds.values()), kinds


class Statements:
    """Counts the statements of a team's server."""

    def __init__(self, team: Team) -> None:
        self._engine = team._server._engine
        self.statements = 0

    def __enter__(self) -> Statements:
        self.statements = 0
        event.listen(self._engine, "before_cursor_execute", self._note)
        return self

    def __exit__(self, *_error: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._note)

    def _note(self, _connection: object, _cursor: object, statement: str, *_facts: object) -> None:
        # What is written down behind the answer is in nobody's time; nor whether a connection is still there. Other
        # threads add nothing, not even zero: it would undo what is counted meanwhile.
        if threading.current_thread().name.startswith("AnyIO") and statement != "SELECT 1":
            self.statements += 1


def test_no_list_no_count_and_no_error_has_anything_of_others(
    served: Served, foreign: dict[str, set[str]], given: dict[str, dict[str, Any]]
) -> None:
    names = {"ann", "eve", "hidden", "elsewhere", "harbour of ann", "harbour of eve"}
    for name in TEAM_OPERATIONS:
        answers = [served.verb("bob", name, given[name])]
        if any(word in json.dumps(given[name]) for word in ("limit", "query")):
            answers.append(served.verb("bob", name, {**given[name], "limit": 50}))
        for answer in answers:
            told = answer.text
            assert not [uid for uid in foreign["whole"] if uid in told], (name, told)
            # Who is in his team, and what they may in a space that he sees, is his to know.
            assert name in ("grants", "principals") or not [word for word in names if f'"{word}"' in told], (name, told)


def test_a_key_limited_to_spaces_sees_no_others(served: Served) -> None:
    speaker = served.team.speaker(served.keys["bob"])
    served.verb("bob", "remember", {"content": "The private word is xylophone."})
    limited = served.team.create_key(speaker, None, [KeyScope.READ, KeyScope.REMEMBER], ["written"]).secret
    assert [space["name"] for space in served.verb(limited, "spaces").json()["spaces"]] == ["written"]
    assert "xylophone" not in served.verb(limited, "search", {"query": "xylophone"}).text
    assert served.verb(limited, "memories", harken_space="bob").status_code == 404
