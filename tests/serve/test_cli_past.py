"""`harken rag`: every form, and its error cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
TALK = [
    {"conversation": name, "role": role, "content": text, "ts": f"2024-05-01T10:0{minute}:00Z"}
    for name, texts in {
        "tap": ("Why does the kitchen tap drip?", "The seal of the kitchen tap is worn out."),
        "cake": ("How long does a plum cake bake?", "A plum cake bakes for forty minutes."),
    }.items()
    for minute, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
]


@pytest.fixture
def harken(cli: CommandLine, write: Write) -> CommandLine:
    cli("import", "jsonl", write("talk.jsonl", TALK))
    cli("worker", "run", "--until-idle")
    return cli


def test_what_was_said_in_the_evening_is_not_dated_by_utc(harken: CommandLine) -> None:
    """As `harken show` and "Asked before" have it; where it is past midnight, or not yet, UTC has another day."""
    there = {"TZ": "Pacific/Kiritimati"}
    assert "Date: 2024-05-02" in harken("rag", "test", "kitchen tap seal", settings=there).out
    assert " on 2024-05-02\n" in harken("assemble", "kitchen tap seal", "--types", "conversations", settings=there).out
    told = harken("context", "--conversation", "cake", "the kitchen tap seal?", "--json", settings=there).json()
    assert 'date="2024-05-02 00:0' in told["messages"][0]["content"]
    assert "2024-05-01" not in told["messages"][0]["content"]


def test_a_query_is_tried_out(harken: CommandLine) -> None:
    shown = harken("rag", "test", "kitchen tap seal").out
    assert 'Conversation: "Why does the kitchen tap drip?" (ID: ' in shown
    assert "  Summary: " in shown
    assert "  Exchanges: 1\n" in shown
    assert "  - User: Why does the kitchen tap drip?\n" in shown
    facts = harken("rag", "test", "kitchen", "tap", "seal", "--json").json()
    assert [each["exchange_count"] for each in facts["conversations"]] == [1]
    nothing = harken("rag", "test", "submarines").out
    assert nothing.startswith("Nothing comes back.\n")
    assert "Asked from the project " in nothing
    assert "\n".join(harken("rag", "test", "submarines", "--json").json()["notes"]) in nothing
    assert "Asked from the project " in harken("rag", "test", "submarines", "--json").json()["notes"][-1]
    assert "what was said in another comes back only if it is nearer than it would have to be there" in nothing
    harken("config", "set", "rag.scope", "all")
    assert "Asked from" not in harken("rag", "test", "submarines").out


def test_where_no_embedding_model_is_set_the_setting_is_named(harken: CommandLine) -> None:
    told = harken("rag", "test", "kitchen tap seal", settings={"HARKEN_EMBEDDER": "none"}).out
    assert "The seal of the kitchen tap is worn out." in told
    assert "Set one: harken config set embedder onnx" in told
    assert "worker run" not in told


def test_it_is_switched_off_and_on(harken: CommandLine) -> None:
    assert harken("rag", "off").out == "Past conversations are off.\n"
    assert "Past conversations are off." in harken("rag", "test", "kitchen tap seal").out
    assert harken("rag", "on").out == "Past conversations are on.\n"
    assert "Conversation:" in harken("rag", "test", "kitchen tap seal").out


def test_limits_are_shown_and_set_in_the_seeds_spelling_as_well(harken: CommandLine) -> None:
    assert "the model's own" in harken("rag").out
    assert harken("rag", "set", "rag_conversation_limit", "5").out == (
        "Updated: rag_conversation_limit = 5\nRAG will now retrieve up to 5 related conversations per query.\n"
    )
    assert harken("rag", "set", "min_similarity", "0.7").out.startswith("Updated: rag_min_similarity = 0.70\n")
    assert harken("rag", "config").out == (
        "RAG Configuration:\n"
        "  rag_enabled: true\n"
        "  rag_conversation_limit: 5  (run time)\n"
        "  rag_exchange_limit_per_conversation: 2\n"
        "  rag_share_places: true\n"
        "  rag_min_similarity: 0.70  (run time)\n"
        "  rag_saved: true\n"
        "  rag_scope: prefer\n"
        "  rag_rules: true\n"
        "  rag_without_tags: none\n"
        "\n"
        "To update: harken rag set <key> <value>\n"
        "Example: harken rag set rag_conversation_limit 5\n"
    )
    found = {each["key"]: (each["value"], each["origin"]) for each in harken("rag", "config", "--json").json()}
    assert found == {
        "rag.enabled": (True, "default"),
        "rag.conversation_limit": (5, "run time"),
        "rag.exchange_limit_per_conversation": (2, "default"),
        "rag.share_places": (True, "default"),
        "rag.min_similarity": (0.7, "run time"),
        "rag.saved": (True, "default"),
        "rag.scope": ("prefer", "default"),
        "rag.rules": (True, "default"),
        "rag.without_tags": ([], "default"),
    }


def test_tags_that_keep_things_from_coming_back_are_typed_with_commas(harken: CommandLine) -> None:
    assert harken("rag", "set", "rag_without_tags", "private, old ships").out.startswith("Updated: rag_without_tags = ")
    [tags] = [each for each in harken("rag", "config", "--json").json() if each["key"] == "rag.without_tags"]
    assert tags["value"] == ["private", "old ships"]
    assert harken("config", "set", "rag.without_tags", "", "--json").json()[0]["value"] == []


def test_what_is_said_of_a_limit_is_what_comes_back(cli: CommandLine, write: Write) -> None:
    lines = [
        {"conversation": name, "role": role, "content": f"{text} {number}", "ts": f"2024-05-01T1{number}:0{at}:00Z"}
        for name, texts in {
            "tap": ("Why does the kitchen tap drip?", "The seal of the kitchen tap is worn out."),
            "dance": ("Which tap shoes fit?", "Those of a size more."),
        }.items()
        for number in range(4)
        for at, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
    ]
    cli("import", "jsonl", write("talk.jsonl", lines))
    cli("worker", "run", "--until-idle")

    def shown() -> list[int]:
        found = cli("rag", "test", "kitchen tap seal drip", "--json").json()["conversations"]
        return [len(each["exchanges"]) for each in found]

    said = cli("rag", "set", "rag_exchange_limit_per_conversation", "1").out
    assert "RAG will now show up to 1 exchanges per conversation on average: one that answers better takes" in said
    assert max(shown()) > 1
    held, meaning = said.splitlines()[-1].split("To hold each to its own: harken ")
    assert held
    cli(*meaning.split())
    said = cli("rag", "set", "rag_exchange_limit_per_conversation", "1").out
    assert said.endswith("RAG will now show up to 1 exchanges of each conversation.\n")
    assert max(shown()) == 1


def test_a_limit_that_is_none_or_makes_no_sense_is_refused(harken: CommandLine) -> None:
    refused = harken.fails("rag", "set", "colour", "red", code=2)
    assert refused.startswith(
        "There is no setting 'colour' here. Say: harken rag set KEY VALUE, KEY one of rag_enabled, "
    )
    for value in ("many", "0", "-1"):
        assert "conversation_limit" in harken.fails("rag", "set", "conversation_limit", value)
    assert "min_similarity" in harken.fails("rag", "set", "rag_min_similarity", "1.5")
    assert "Missing argument 'VALUE'" in harken.fails("rag", "set", "conversation_limit", code=2)
    named = set(re.findall(r"\w+", harken("rag", "set", "--help").out))
    assert named >= set(re.findall(r"rag_(\w+)", refused))


def test_its_state_counts_what_is_embedded_and_tells_of_the_last_retrieval(harken: CommandLine) -> None:
    harken("rag", "test", "kitchen tap seal")
    lines = harken("rag").out.splitlines()
    assert lines[:3] == ["RAG Status: ENABLED", "", "Embeddings:"]
    assert lines[3:5] == ["  - Conversation summaries: 0 embedded", "  - Exchange summaries: 0 embedded"]
    assert "  - Conversation retrieval limit: 3" in lines
    assert "  - Minimum similarity threshold: the model's own" in lines
    assert lines[-1].startswith("Last retrieval: ")
    assert lines[-1].endswith(" ago (1 conversation, 1 exchange)")
    harken("rag", "off")
    assert harken("rag").out.startswith("RAG Status: DISABLED\n")
    facts = harken("rag", "--json").json()
    assert (facts["enabled"], facts["last_retrieval"]["exchanges"]) == (False, 1)


def test_the_log_tells_how_long_it_took(harken: CommandLine) -> None:
    assert harken("rag", "log").out == "Nothing was looked for yet.\n"
    harken("rag", "test", "kitchen tap seal")
    harken("rag", "test", "submarines")
    facts = harken("rag", "log", "--json").json()
    assert [each["conversations"] for each in facts["retrievals"]] == [0, 1]
    assert 0 < facts["p50_ms"] <= facts["p95_ms"]
    narrow = harken("rag", "log", settings={"COLUMNS": "60"}).out
    assert narrow.startswith("2 retrievals: p50 ")
    assert len(re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", narrow, re.MULTILINE)) == 2
