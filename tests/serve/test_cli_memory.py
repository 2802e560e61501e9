from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from command_line import CommandLine, as_variables


@pytest.fixture
def tool(cli: CommandLine, store_settings: dict[str, Any]) -> CommandLine:
    return replace(cli, settings={**cli.settings, **as_variables(store_settings)})


def add(tool: CommandLine, *words: str) -> dict[str, Any]:
    facts: dict[str, Any] = tool("memory", "add", *words, "--json").json()
    return facts


@pytest.mark.usefixtures("engine_settings")
def test_a_memory_is_added_found_shown_changed_and_forgotten(tool: CommandLine) -> None:
    made = add(tool, "We store sessions", "in Redis", "--category", "decision", "--importance", "0.9", "--tag", "cache")
    assert made["content"] == "We store sessions in Redis"
    assert (made["outcome"], made["category"], made["importance"], made["tags"]) == (
        "added",
        "decision",
        0.9,
        ["cache"],
    )
    assert made["project"] is not None
    [hit] = tool.search("sessions redis")
    assert (hit["id"], hit["source"], hit["conversation_id"]) == (made["id"], "memory", None)
    [found] = tool("memory", "search", "redis", "--category", "decision", "--json").json()["memories"]
    assert found["id"] == made["id"]
    short = made["id"][:18]
    shown = tool("memory", "show", short, "--json").json()
    assert [key for key in shown if shown[key] is None] == ["confirmed_at", "review_by", "superseded_by", "origin"]
    edited = tool("memory", "edit", short, "Sessions live in Valkey", "--json").json()
    assert (edited["content"], edited["tags"]) == ("Sessions live in Valkey", ["cache"])
    assert "Valkey" in tool("memory", "list").out
    assert tool("memory", "forget", short).out == "Forgot 1 memory.\n"
    assert tool("memory", "list", "--json").json() == []
    assert tool.search("valkey") == []


def test_a_search_of_memories_says_what_it_could_not_search(cli: CommandLine) -> None:
    add(cli, "We deploy on Thursdays")
    onnx = {"HARKEN_EMBEDDER": "onnx"}
    found = cli("memory", "search", "release day", settings=onnx)
    assert found.out == "Nothing was found.\n"
    assert found.err.startswith("Searched by words alone: nothing is embedded yet.")
    view = cli("memory", "search", "release day", "--json", settings=onnx).json()
    assert view == {"memories": [], "notes": [found.err.strip()]}


def test_people_see_what_became_of_a_memory(tool: CommandLine) -> None:
    first = add(tool, "We use PostgreSQL 15 on staging", "--category", "decision", "--everywhere")
    assert first["project"] is None
    said = tool("memory", "add", "we use PostgreSQL 15 on staging.", "--category", "decision", "--everywhere").out
    assert said == f"Merged {first['id']}\n  is the same as {first['id']}: the same words (1.00)\n"
    said = tool("memory", "add", "We use PostgreSQL 16 on staging", "--category", "decision", "--everywhere").out
    assert said.startswith("Superseded ")
    assert f"stands in place of {first['id']}: alike in words" in said
    listed = tool("memory", "list").out
    assert "decision, importance 0.5, just now" in listed
    assert "PostgreSQL 15" not in listed
    older = tool("memory", "list", "--superseded").out
    assert "We use PostgreSQL 15 on staging\n  superseded by" in older
    assert "PostgreSQL 16" not in older
    assert tool("memory", "search", "nothing whatsoever").out == "Nothing was found.\n"


def test_a_full_page_says_how_to_see_more(tool: CommandLine) -> None:
    for words in ("We ship weekly", "Tomatoes need sun"):
        add(tool, words)
    assert tool("memory", "list").err == ""
    assert tool("memory", "list", "--limit", "1").err == "Listed are 1 at most; more with a higher --limit.\n"
    assert len(tool("memory", "list", "--limit", "1", "--json").json()) == 1
    assert tool("memory", "search", "tomatoes", "--limit", "1").err == ""


@pytest.mark.usefixtures("engine_settings")
def test_two_memories_become_one(tool: CommandLine) -> None:
    ids = [
        add(tool, words, "--importance", share)["id"]
        for words, share in (("We ship weekly", "0.2"), ("Tuesdays", "0.7"))
    ]
    merged = tool("memory", "merge", *ids, "--text", "We ship on Tuesdays", "--json").json()
    assert (merged["id"], merged["importance"], merged["supersedes"]) == (ids[0], 0.7, [ids[1]])
    assert tool("memory", "forget", ids[0]).out == "Forgot 2 memories.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "zebra", "--category", "gossip"), 2, "gossip"),
        (("add", "zebra", "--importance", "2"), 2, "'--importance': 2.0 is not in the range 0<=x<=1"),
        (("add", " "), 2, "A memory needs words."),
        (("add", "-"), 2, "A memory needs words."),
        (("show", "0190"), 1, "There is no memory 0190. Ids are printed by: harken memory list"),
        (("edit", "0190"), 2, "Nothing to change."),
        (("merge", "0190"), 1, "There is no memory 0190"),
        (("search", "zebra", "--limit", "101"), 2, "limit must be from 1 to 100, not 101."),
    ],
)
def test_what_cannot_be_meant_is_one_line(cli: CommandLine, arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in cli.fails("memory", *arguments, code=code)


def test_memories_move_between_stores(cli: CommandLine, tool: CommandLine, tmp_path: Any) -> None:
    made = add(cli, "a zebra", "--tag", "animals")
    cli("export", tmp_path / "all.jsonl")
    there = replace(tool, home=tmp_path / "other")
    assert there("import", "jsonl", tmp_path / "all.jsonl", "--as-mine", "--json").json()["kept"] == 1
    [found] = there("memory", "list", "--json").json()
    assert found == {key: made[key] for key in found}
    there("memory", "forget", made["id"])
    assert there("import", "jsonl", tmp_path / "all.jsonl", "--as-mine", "--json").json()["kept"] == 0
    assert there("memory", "list", "--json").json() == []
