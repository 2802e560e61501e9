"""A team's server over HTTP: who is let in, how often, what a repeat gets, how lists go on, what is written down."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from openapi_spec_validator import validate
from sqlalchemy import text

from harken.errors import StoreError
from harken.serve.http.openapi import team_openapi
from harken.serve.operations.registry import TEAM_OPERATIONS
from harken.storage import migrations
from harken.storage.postgres import connection
from team_server import Served, listening, serving_team


@pytest.fixture
def served(ready_home: Path, shared_database: str, tenant: str) -> Iterator[Served]:
    with serving_team(ready_home, shared_database, tenant) as served:
        yield served


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem that a response is, as RFC 9457 has it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert found.keys() == {"type", "title", "status", "detail"}
    assert found["status"] == status
    assert found["type"].startswith("urn:harken:problem:")
    return found


def rows(served: Served, table: str) -> str:
    """All that a table of teams holds, of any team, as text."""
    with served.team._control.reading(served.team.name) as tx:
        return str(tx.connection.execute(text(f"SELECT * FROM {table}")).all())


def test_the_document_is_valid_and_names_every_verb_with_its_scope() -> None:
    document = team_openapi()
    validate(document)
    assert {path.removeprefix("/v1/") for path in document["paths"] if path.startswith("/v1/")} == set(TEAM_OPERATIONS)
    for name, operation in TEAM_OPERATIONS.items():
        [needed] = document["paths"][f"/v1/{name}"]["post"]["security"]
        assert needed == {"key": list(operation.scopes)}


def test_nobody_is_let_in_without_a_key_that_is_good(served: Served) -> None:
    for key in ("", "hk_nonsense", "x" * 5000):
        found = served.verb(key, "whoami")
        problem(found, 401)
        assert found.headers["www-authenticate"].startswith("Bearer")
    mine = served.verb("ann", "whoami").json()
    assert mine["principal"]["name"] == "ann"
    assert [space["name"] for space in mine["spaces"]] == ["ann", "common", "hidden", "shared", "written"]
    served.verb("ann", "key_revoke", {"id": mine["key"]["id"]})
    problem(served.verb("ann", "whoami"), 401)


def test_a_key_that_makes_keys_alone_revokes_nobody_elses(served: Served) -> None:
    bob = served.verb("bob", "whoami").json()["key"]["id"]
    problem(served.verb(served.key("ann", ["keys"]), "key_revoke", {"id": bob}), 404)
    assert served.verb(served.key("ann", ["keys", "admin"]), "key_revoke", {"id": bob}).status_code == 200
    problem(served.verb("bob", "whoami"), 401)


def test_an_answer_does_not_wait_for_its_head_to_be_acknowledged(served: Served) -> None:
    with listening(served.app) as address, httpx.Client(base_url=address) as client:
        took = []
        for _ in range(30):
            begun = time.monotonic()
            assert client.get("/healthz").status_code == 200
            took.append(time.monotonic() - begun)
    # A client acknowledges after 40 ms what does not fill a packet; on a busy machine some are quicker all the same.
    assert min(took[1:]) < 0.03, took


def test_health_is_anybodys_and_metrics_are_the_hosts(served: Served) -> None:
    assert served.ask("", "GET", "/healthz").json()["status"] == "ok"
    assert served.ask("", "GET", "/readyz").json()["status"] == "ready"
    assert served.ask("", "GET", "/openapi.json").json() == json.loads(json.dumps(team_openapi()))
    served.verb("bob", "search", {"query": "quay"})
    problem(served.ask("", "GET", "/metrics"), 401)
    # Neither somebody of the team, nor who manages another one.
    for who in ("bob", "eve"):
        problem(served.ask(who, "GET", "/metrics"), 403)
        problem(served.verb(who, "status"), 403)
    told = served.ask("ann", "GET", "/metrics").text
    assert 'harken_requests_total{status="200",verb="search",via="http"} 1.0' in told
    assert "harken_request_seconds_bucket" in told
    assert not any(word in told for word in ("bob", "eve", "quay"))


@pytest.mark.parametrize(("mine", "status"), [("0015", 200), ("0013", 503), ("9999", 503)])
def test_a_server_stays_ready_while_the_tables_are_a_newer_ones_that_serve_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, mine: str, status: int
) -> None:
    monkeypatch.setattr(migrations, "HEAD", mine)
    assert served.ask("", "GET", "/readyz").status_code == status


def test_what_is_recorded_is_recalled_searched_and_forgotten(served: Served) -> None:
    said = {"conversation": "log", "role": "user", "text": "Staging is called Zanzibar."}
    recorded = served.verb("ann", "record", said)
    assert recorded.status_code == 200, recorded.text
    served.verb("ann", "record", {**said, "role": "assistant", "text": "Zanzibar, noted.", "ends": True})
    found = served.verb("ann", "recall", {"text": "What is staging called?", "conversation": "next"}).json()
    assert "Zanzibar" in found["text"]
    hits = served.verb("ann", "search", {"query": "Zanzibar"}).json()["hits"]
    assert recorded.json()["id"] in [hit["id"] for hit in hits]
    given = {"ids": [recorded.json()["id"]], "kind": "message", "confirm": True}
    assert served.verb("ann", "forget", given).json()["done"]
    problem(served.verb("ann", "show", {"id": recorded.json()["id"]}), 404)


def test_what_is_changed_and_stands_elsewhere_says_how_to_name_its_space(served: Served) -> None:
    saved = served.verb("ann", "remember", {"content": "The heron nests by the weir."}, **{"Harken-Space": "written"})
    given = {"id": saved.json()["id"]}
    assert "Harken-Space names another" in problem(served.verb("ann", "memory_confirm", given), 404)["detail"]
    assert served.verb("ann", "memory_confirm", given, **{"Harken-Space": "written"}).status_code == 200
    missing = problem(served.verb("ann", "memory_confirm", {"id": "abcd"}, **{"Harken-Space": "written"}), 404)
    assert "Harken-Space" not in missing["detail"]


def test_what_would_be_forgotten_is_looked_for_where_it_goes_and_told_with_its_copies(served: Served) -> None:
    told = {"content": "The sluice opens at low tide."}
    another = served.verb("ann", "remember", told, harken_space="written").json()["id"]
    asked = {"ids": [another]}
    assert "Harken-Space names another" in problem(served.verb("bob", "forget", asked), 404)["detail"]
    assert "ann" in problem(served.verb("bob", "forget", asked, harken_space="written"), 403)["detail"]
    mine = served.verb("bob", "remember", {"content": "The lock keeper is called Quill."}).json()["id"]
    served.verb("bob", "share", {"id": mine, "to": "written"})
    for confirm in (False, True):
        answer = served.verb("bob", "forget", {"ids": [mine], "confirm": confirm}).json()
        assert (answer["ids"], answer["done"]) == ([mine], confirm)
        assert "1 shared copy with it." in answer["note"]


def test_pages_of_a_search_name_every_hit_once(ready_home: Path, shared_database: str, tenant: str) -> None:
    words = [
        "lock",
        "sluice",
        "weir",
        "barge",
        "quay",
        "mooring",
        "heron",
        "towpath",
        "tide",
        "lantern",
        "rope",
        "anchor",
    ]
    with serving_team(ready_home, shared_database, tenant, **{"search.candidates": 10}) as served:
        for who, space in (("bob", None), ("ann", "written")):
            memory = served.team.memory(served.team.speaker(served.keys[who]), space)
            for number in range(30):
                said = " ".join(words[number * step % 12] for step in range(1, 4 + number % 9))
                memory.record_message(f"day {number % 5}", "user", f"Canal note {number} of {who}: {said}")
        ids: list[str] = []
        given = {"query": "canal note about the lock", "limit": 5}
        while given:
            page = served.verb("bob", "search", given).json()
            ids += [hit["id"] for hit in page["hits"]]
            given = {**given, "cursor": page["next_cursor"]} if page["next_cursor"] else {}
        assert len(ids) == len(set(ids)) == 60


def test_a_repeat_is_answered_as_the_first_and_done_once(served: Served) -> None:
    said = {"conversation": "log", "role": "user", "text": "Moor at quay seven."}
    first = served.verb("ann", "record", said, idempotency_key="a")
    again = served.verb("ann", "record", said, idempotency_key="a")
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    # Another's key of the same name is another key.
    assert served.verb("bob", "record", said, idempotency_key="a").json()["id"] != first.json()["id"]
    assert (
        "another request"
        in problem(served.verb("ann", "record", {**said, "text": "Moor elsewhere."}, idempotency_key="a"), 422)[
            "detail"
        ]
    )
    shown = served.verb("ann", "show", {"id": first.json()["conversation_id"]}).json()
    assert [message["text"] for message in shown["messages"]] == ["Moor at quay seven."]
    memory = served.verb("ann", "remember", {"content": "Quay seven is ours."}, idempotency_key="b").json()
    gone = {"ids": [memory["id"]], "confirm": True}
    first_gone = served.verb("ann", "forget", gone, idempotency_key="c").json()
    assert served.verb("ann", "forget", gone, idempotency_key="c").json() == first_gone
    problem(served.verb("ann", "remember", {"content": "Fine."}, idempotency_key="x" * 256), 422)


def test_of_many_at_once_by_one_name_one_is_done(served: Served) -> None:
    said = {"conversation": "log", "role": "user", "text": "Moor at quay seven."}
    together = threading.Barrier(6)

    def ask(_number: int) -> httpx.Response:
        together.wait()
        return served.verb("ann", "record", said, idempotency_key="same")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    done = [answer for answer in answers if answer.status_code == 200]
    assert len({answer.text for answer in done}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in done) == 1


def test_what_failed_may_be_tried_again_by_the_same_name(served: Served) -> None:
    problem(served.verb("ann", "forget", {"ids": ["ffffffffffff"], "confirm": True}, idempotency_key="a"), 404)
    assert served.verb("ann", "remember", {"content": "Now it is."}, idempotency_key="a").status_code == 200


def test_neither_repeats_nor_the_audit_hold_anybodys_words(served: Served) -> None:
    word = "Zanzibarian"
    made = served.verb("ann", "remember", {"content": f"{word} one.", "tags": [word]}, idempotency_key="1").json()
    said = {"conversation": word, "role": "user", "text": f"{word} two.", "author": word}
    message = served.verb("ann", "record", said, idempotency_key="2").json()
    story = dict.fromkeys(("goal", "hypothesis", "action", "prediction"), word)
    start = {"domain": "debugging", "strategy": "read-the-error", **story}
    started = served.verb("ann", "experience_start", start, idempotency_key="3")
    for number, (name, given) in enumerate(
        (
            ("memory_confirm", {"id": made["id"]}),
            ("memory_review", {"id": made["id"], "by": "90"}),
            ("rate", {"id": made["id"], "verdict": "useful", "question": word}),
            ("tag", {"id": message["conversation_id"], "add": [word]}),
            ("conversation_title", {"on": message["conversation_id"], "title": word}),
            ("experience_update", {"note": word}),
            ("search", {"query": word}),
            ("show", {"id": word}),
            ("forget", {"query": word}),
            ("forget", {"query": word, "confirm": True}),
            ("forget", {"ids": [made["id"]], "confirm": True}),
        )
    ):
        answer = served.verb("ann", name, given, idempotency_key=f"k{number}")
        assert answer.status_code in (200, 404), (name, answer.text)
    assert started.status_code == 200, started.text
    served.team.requests.flush()
    kept = rows(served, "team_requests") + rows(served, "team_audit")
    assert made["id"] in kept
    assert word.lower() not in kept.lower()
    secret = served.verb("ann", "key_create", {}, idempotency_key="4").json()["key"]
    assert secret not in rows(served, "team_requests") + rows(served, "team_audit")


def test_a_key_that_may_only_forget_forgets_over_mcp_where_its_user_is_asked(served: Served) -> None:
    made, key = (
        served.verb("bob", "remember", {"content": "The quay floods."}).json()["id"],
        served.key("bob", ["forget"]),
    )

    async def agrees(_context: Any, _params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"forget": True})

    async def forget(address: str) -> Any:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http), elicitation_callback=agrees) as client,
        ):
            return await client.call_tool("forget", {"ids": [made]})

    with listening(served.app) as address:
        done = asyncio.run(forget(address))
    assert done.structured_content["done"] is True, done
    problem(served.verb("bob", "show", {"id": made}), 404)


def test_what_the_store_says_of_itself_is_told_to_nobody_over_mcp(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory(*_asked: object) -> None:
        raise StoreError("postgresql://harken_app@db.internal/crew cannot be reached.")

    monkeypatch.setattr(served.team, "memory", memory)
    params = {"name": "search", "arguments": {"query": "x"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"authorization": f"Bearer {served.keys['bob']}", "accept": "application/json, text/event-stream"}
    with listening(served.app) as address:
        said = httpx.post(f"{address}/mcp", json=call, headers=headers).text
    assert ("The store cannot be reached." in said, "db.internal" in said) == (True, False)


def test_no_answer_that_is_kept_names_somebody_who_was_erased(served: Served) -> None:
    given = {"name": "Zebulon", "email": "zebulon@example.org"}
    served.verb("ann", "principal_create", given, idempotency_key="z")
    assert "Zebulon" in rows(served, "team_requests")
    served.team.erase_principal(served.team.operator(), "Zebulon")
    assert "Zebulon" not in rows(served, "team_requests")


def test_no_answer_is_kept_of_somebody_who_was_erased_while_they_asked(served: Served) -> None:
    operator = served.team.operator()
    served.team.create_principal(operator, "Ywain")
    ywain = served.team.speaker(served.team.create_key(operator, "Ywain").secret)
    with served.team.requests.once(ywain, "late", "digest") as claim:
        served.team.erase_principal(operator, "Ywain")
        claim.keep({"text": "a late answer"})
    assert ywain.principal.id not in rows(served, "team_requests")


def test_lists_go_on_by_a_cursor_that_is_of_use_for_the_same_question_of_the_same_principal(served: Served) -> None:
    for content in ("Quay seven floods.", "Ilse bakes bread.", "Tax is due in May.", "Red paint peels.", "Owls hoot."):
        served.verb("ann", "remember", {"content": content})
    seen, cursor, pages = [], None, 0
    while True:
        given = {"limit": 2, "cursor": cursor}
        page = served.verb("ann", "memories", given).json()
        seen += [each["id"] for each in page["memories"]]
        pages += 1
        if (cursor := page["next_cursor"]) is None:
            break
        kept = cursor
    assert (len(seen), len(set(seen)), pages) == (5, 5, 3)
    assert "next_offset" not in page
    problem(served.verb("bob", "memories", {"limit": 2, "cursor": kept}), 422)
    problem(served.verb("ann", "memories", {"limit": 2, "cursor": kept, "category": "fact"}), 422)
    problem(served.verb("ann", "search", {"query": "number", "cursor": kept}), 422)
    problem(served.verb("ann", "memories", {"limit": 2, "cursor": kept[:-2] + "aa"}), 422)
    problem(served.verb("ann", "memories", {"limit": 2, "offset": 2}), 422)
    # A page may be longer than the one before.
    assert served.verb("ann", "memories", {"limit": 4, "cursor": kept}).status_code == 200


def test_who_asks_too_often_is_told_when_to_come_back(ready_home: Path, shared_database: str, tenant: str) -> None:
    with serving_team(ready_home, shared_database, tenant, **{"serve.rate": 3}) as served:
        answers = [served.verb("ann", "whoami") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
        assert answers[0].headers["ratelimit-limit"] == "3"
        problem(answers[3], 429)
        assert 1 <= int(answers[3].headers["retry-after"]) <= 20
        # Each key has its own.
        assert served.verb("bob", "whoami").status_code == 200


def test_who_tries_keys_is_stopped(served: Served) -> None:
    answers = [served.verb(f"hk_{number:064x}", "whoami").status_code for number in range(62)]
    assert answers[:60] == [401] * 60
    assert answers[60:] == [429, 429]
    assert served.verb("ann", "whoami").status_code == 200


@pytest.mark.parametrize("verb", ["record", "recall"])
def test_whose_calls_wait_for_a_lock_keeps_nobody_else_waiting(
    served: Served, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_SECONDS", 30)
    own = served.team.opened(served.team.speaker(served.keys["bob"]).own)
    said = {"conversation": "log", "text": "Is the high water over?", **({"role": "user"} if verb == "record" else {})}
    served.verb("bob", "record", {"conversation": "before", "role": "user", "text": "The high water is over."})
    with ThreadPoolExecutor(60) as threads:
        with own.store.writing():
            waiting = [threads.submit(served.verb, "bob", verb, said) for _ in range(60)]
            time.sleep(1)
            assert served.verb("ann", "search", {"query": "water"}).status_code == 200
            assert not any(each.done() for each in waiting)
        assert {each.result().status_code for each in waiting} == {200}


def test_the_audit_says_who_did_what_to_which_ids_and_only_to_who_manages_the_team(served: Served) -> None:
    made = served.verb("bob", "remember", {"content": "The quay floods."}).json()
    served.verb("bob", "memories", {})
    said = served.verb("bob", "record", {"conversation": "log", "role": "user", "text": "High water."}).json()
    named = {"ids": ["log"], "kind": "conversation", "confirm": True}
    assert served.verb("bob", "forget", named).json()["ids"] == [said["conversation_id"]]
    problem(served.verb("bob", "forget", {"ids": ["ffffffffffff"], "confirm": True}), 404)
    problem(served.verb("bob", "audit"), 403)
    lines = served.ask("ann", "GET", "/v1/audit?limit=10").json()["audit"]
    mine = [(line["verb"], line["status"], line["ids"]) for line in lines if line["verb"] != "audit"]
    assert mine == [
        ("forget", 404, ["ffffffffffff"]),
        ("forget", 200, [said["conversation_id"]]),
        ("record", 200, [said["id"]]),
        ("memories", 200, [made["id"]]),
        ("remember", 200, [made["id"]]),
    ]
    bob = served.verb("bob", "whoami").json()
    assert {line["principal"] for line in lines if line["verb"] == "remember"} == {bob["principal"]["id"]}
    whose = [served.verb("ann", "audit", {"principal": bob["principal"][each]}).json() for each in ("id", "name")]
    assert whose[0]["audit"] == whose[1]["audit"] != []
    assert served.verb("eve", "audit").json()["audit"] == []
    assert served.verb("ann", "audit", {"verb": "value_add"}).json()["audit"] == []
    unknown = problem(served.verb("ann", "audit", {"verb": "serch"}), 422)
    assert "There is no verb 'serch'. There are: " in unknown["detail"]
    assert ", search," in unknown["detail"]


def test_the_audit_read_page_by_page_names_no_line_twice_though_each_page_adds_one(served: Served) -> None:
    for verb in ("whoami", "memories", "spaces", "keys", "tags"):
        served.verb("ann", verb)
    found, given = [], {"limit": 2}
    while given is not None:
        page = served.verb("ann", "audit", given).json()
        found += [(line["at"], line["verb"]) for line in page["audit"]]
        given = {"limit": 2, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    assert [verb for _, verb in found] == ["tags", "keys", "spaces", "memories", "whoami"]


def test_what_is_no_request_is_told_as_a_problem(served: Served) -> None:
    problem(served.ask("ann", "POST", "/v1/search", b"{no json"), 400)
    problem(served.ask("ann", "POST", "/v1/search", b"[1]"), 422)
    problem(served.verb("ann", "search", {"query": ""}), 422)
    problem(served.verb("ann", "no_such_verb"), 404)
    problem(served.ask("ann", "GET", "/v1/search"), 405)
    problem(served.ask("ann", "DELETE", "/v1/search"), 405)
    problem(served.ask("ann", "GET", "/mcp"), 405)
    problem(served.ask("ann", "GET", "/nowhere"), 404)
    problem(served.verb("ann", "search", {"query": "quay"}, harken_space="nowhere"), 404)
    # A store is not away because nothing in it can have such a name.
    problem(served.verb("ann", "show", {"id": "a\x00bcdef"}), 404)
    problem(served.verb("ann", "search", {"query": "quay", "project": "\x00"}), 404)
