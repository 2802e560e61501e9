"""`harken show`, `status` and `config`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from harken.engine import Harken
from harken.storage.enrichment.spend import CallState, ModelCall, Settlement, book_call, settle_call

STATUS_KEYS = {"messages", "conversations", "entries", "embedded", "queue", "failed", "redactions", "spend_usd"}


def test_a_message_is_shown_in_its_surroundings(stocked: CommandLine) -> None:
    hit = stocked.search("seven days", "--role", "tool")[0]
    facts = stocked("show", hit["id"], "--around", "1", "--json").json()
    assert [message["role"] for message in facts["messages"]] == ["assistant", "tool"]
    assert (facts["before"], facts["after"]) == (2, 0)
    assert facts["conversation"]["id"] == hit["conversation_id"]
    assert facts["conversation"]["project"] == "name:greenhouse"
    printed = stocked("show", hit["id"][:18], "--around", "1").out
    assert printed.startswith(f"Tomatoes · {hit['conversation_id']}\n… 2 earlier messages\n")
    assert "> tool tool_result, 2026-05-08 09:02" in printed
    assert "No frost over the tomato bed for seven days" in printed


def test_a_conversation_and_an_exchange_are_shown_whole_by_their_ids(stocked: CommandLine) -> None:
    hit = stocked.search("ten years")[0]
    conversation = stocked("show", hit["conversation_id"], "--json").json()
    exchange = stocked("show", hit["exchange_id"], "--json").json()
    assert conversation["messages"] == exchange["messages"]
    assert [message["role"] for message in exchange["messages"]] == ["user", "assistant"]
    assert (exchange["before"], exchange["after"]) == (0, 0)


@pytest.mark.parametrize("identifier", ["nothing-like-it", "000000", "ffffffff-ffff-8fff-bfff-ffffffffffff"])
def test_an_id_that_names_nothing_is_an_error_that_says_where_ids_are(stocked: CommandLine, identifier: str) -> None:
    assert "names nothing. Ids are printed by: harken search" in stocked.fails("show", identifier)


def test_the_status_has_every_promised_key_and_counts_right(stocked: CommandLine) -> None:
    outcome = stocked("status", "--projects", "--json")
    facts = outcome.json()
    assert set(facts) >= STATUS_KEYS
    assert outcome.err == ""
    assert (facts["messages"], facts["conversations"], facts["entries"]) == (8, 3, 8)
    assert (facts["embedded"], facts["failed"], facts["redactions"], facts["spend_usd"]) == (0, 0, 0, 0.0)
    assert facts["home"] == str(stocked.home)
    assert {project["name"]: project["conversations"] for project in facts["projects"]} == {
        "greenhouse": 1,
        "bookkeeping": 1,
    }
    printed = stocked("status", "--projects").out
    assert "8 in 3 conversations, 2 projects" in printed
    assert f"embedded       0 of {facts['queue']}" in printed
    assert "greenhouse  name:greenhouse  1 conversation" in printed


def test_the_status_says_whether_texts_wait_for_a_vector_or_have_no_model_to_make_one(stocked: CommandLine) -> None:
    queue = stocked.status()["queue"]
    none = stocked("status", settings={"HARKEN_EMBEDDER": "none"}).out
    assert f"queue          {queue} without a vector, for no embedding model is set, 0 given up" in none
    assert "embeddings" not in none
    onnx = stocked("status", settings={"HARKEN_EMBEDDER": "onnx"}).out
    assert f"queue          {queue} waiting, 0 given up" in onnx
    assert "embeddings WAITING" in onnx


def test_the_status_says_what_model_calls_have_cost(cli: CommandLine) -> None:
    assert "spend          nothing; no language model was called" in cli("status").out
    begun = datetime.now(UTC).date()
    facts, line = spend_told(cli)
    if datetime.now(UTC).date() != begun:
        # What was spent a moment ago was not spent today.
        facts, line = spend_told(replace(cli, home=cli.home.with_name("the next day")))
    assert (facts["spend_usd"], facts["spend_today_usd"], facts["spend_unsettled_usd"]) == (1.0125, 0.0125, 0.02)
    assert facts["spend_unpriced_calls"] == 1
    assert (
        "$1.0125 for 3 calls, $0.0125 today (UTC), at most $1.00 a day; 1 calls of models without a known price" in line
    )
    assert "at most $0.0200 more for 1 calls whose end was not seen" in line


def spend_told(cli: CommandLine) -> tuple[dict[str, Any], str]:
    """What the status tells of calls that were made now and three days ago: all its facts, and the line."""
    now = datetime.now(UTC)
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken, harken.store.writing() as tx:
        for uid, days, price in (("a", 0, "0.0125"), ("b", 3, "1"), ("c", 0, None)):
            call = ModelCall(uid, "exchange", "e1", "openai:any", now - timedelta(days=days), Decimal("0.02"))
            book_call(tx, call)
            settle_call(tx, uid, Settlement(CallState.DONE, now, 9, 9, 0, Decimal(price) if price else None))
        book_call(tx, ModelCall("d", "exchange", "e1", "openai:any", now, Decimal("0.02")))
    line = next(line for line in cli("status").out.splitlines() if line.startswith("spend "))
    return cli("status", "--json").json(), line


@pytest.mark.no_home
def test_every_setting_is_shown_with_its_origin_and_no_key_is_printed(cli: CommandLine) -> None:
    cli.home.mkdir()
    (cli.home / "harken.toml").write_text(
        'embedder = "openai-compatible"\n[embedding]\napiKey = "hush-hush"\n[search]\nlimit = 7\n', encoding="utf-8"
    )
    outcome = cli("--store", "sqlite://", "config", "--json", settings={"HARKEN_SEARCH__RRF_K": "61"})
    values = {value["key"]: (value["value"], value["origin"]) for value in outcome.json()}
    assert values["search.limit"] == (7, "harken.toml")
    assert values["search.rrf_k"] == (61, "HARKEN_SEARCH__RRF_K")
    assert values["search.fusion"] == ("learned", "default")
    assert values["embedder"] == ("none", "HARKEN_EMBEDDER")
    assert values["store"] == ("sqlite://", "argument")
    assert values["home"] == (str(cli.home), "HARKEN_HOME")
    assert values["embedding.api_key"][1] == "harken.toml"
    printed = cli("config")
    assert "hush-hush" not in outcome.out + printed.out + printed.err
    lines = [line.split() for line in printed.out.splitlines()]
    assert ["search.limit", "7", "harken.toml"] in lines
    assert {line[-1] for line in lines} == {"from", "harken.toml", "HARKEN_HOME", "HARKEN_EMBEDDER"}
    assert printed.err == f"{len(values) - len(lines) + 1} more have their defaults: harken config --all\n"
    assert ["search.fusion", "learned", "default"] in [line.split() for line in cli("config", "--all").out.splitlines()]


@pytest.mark.no_home
@pytest.mark.parametrize(
    ("file", "settings", "words"),
    [
        ("[search]\nlimit = 0\n", {}, "search.limit: limit must be >= 1, got 0 (from harken.toml)"),
        ("[search]\nlimits = 5\n", {}, "search.limits: there is no such setting (from harken.toml)"),
        ("[search\n", {}, "harken.toml cannot be read"),
        ("", {"HARKEN_SEARCH_LIMIT": "5"}, "HARKEN_SEARCH_LIMIT names no setting"),
        ("", {"HARKEN_EMBEDDING__THREADS": "many"}, "(from HARKEN_EMBEDDING__THREADS)"),
        ("", {"HARKEN_CONFIG": "/nowhere/at/all.toml"}, "HARKEN_CONFIG names /nowhere/at/all.toml"),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_its_place(
    cli: CommandLine, file: str, settings: dict[str, str], words: str
) -> None:
    cli.home.mkdir()
    (cli.home / "harken.toml").write_text(file, encoding="utf-8")
    assert words in cli.fails("status", settings=settings)


def test_an_old_settings_file_of_the_seeds_holds_in_what_it_says_of_memory(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    old = {
        "providers": {"zai": {"type": "openai-compatible", "endpoint": "https://api.example/v1"}},
        "routing": {"default": "zai/glm", "fallback": []},
        "context": {"defaultBudgetTokens": 5000, "slidingWindow": 12, "subagentWindow": 3},
        "autoRag": {"topK": 4, "relevanceThreshold": 1.2},
        "search": True,
    }
    file.write_text(json.dumps(old), encoding="utf-8")
    named = {"HARKEN_CONFIG": str(file)}
    shown = cli("config", "--json", settings=named)
    facts = {each["key"]: (each["value"], each["origin"]) for each in shown.json()}
    assert facts["context.sliding_window"] == (12, "engine.json")
    assert facts["auto_rag.top_k"] == (4, "engine.json")
    assert 0 < facts["auto_rag.relevance_threshold"][0] < 0.001
    assert "nothing reads it: context.subagent_window, providers.zai.endpoint, " in shown.err
    assert cli("status", settings=named).err == ""
    file.write_text(json.dumps({"context": {"slidingWindow": 0}}), encoding="utf-8")
    assert "context.sliding_window: " in cli.fails("status", settings=named)
    # In a file of our own an unknown name is a mistake.
    (cli.home / "harken.yaml").write_text("routing:\n  default: x\n", encoding="utf-8")
    assert "routing: there is no such setting" in cli.fails("status")
