from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from command_line import CommandLine, as_variables
from harken.engine import Harken


@pytest.fixture
def tool(cli: CommandLine, store_settings: dict[str, Any]) -> CommandLine:
    return replace(cli, settings={**cli.settings, **as_variables(store_settings)})


@pytest.fixture
def talk(tool: CommandLine) -> str:
    """The id of a conversation."""
    lines = [
        {"conversation": "quay", "role": role, "content": text, "ts": f"2024-05-01T10:0{minute}:00Z"}
        for minute, (role, text) in enumerate(
            [("user", "Which quay is free for the Aurora?"), ("assistant", "Quay seven is free for the Aurora.")]
        )
    ]
    file = tool.home.parent / "talk.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tool("import", "jsonl", str(file), "--as-mine")
    [found] = tool("list", "--json").json()["conversations"]
    uid: str = found["id"]
    return uid


@pytest.mark.usefixtures("engine_settings")
def test_a_conversation_is_tagged_found_by_its_tags_and_called_otherwise(tool: CommandLine, talk: str) -> None:
    assert tool("tag", "add", "harbour", "old ships", "--on", talk[:12]).out.endswith("#harbour #old ships\n")
    assert {hit["conversation_id"] for hit in tool("search", "quay", "--tag", "harbour", "--json").json()["hits"]} == {
        talk
    }
    assert tool("search", "quay", "--tag", "nothing", "--json").json()["hits"] == []
    assert [each["id"] for each in tool("list", "--tag", "old ships", "--json").json()["conversations"]] == [talk]
    assert tool("tag", "remove", "harbour", "--on", "1", "--json").json()["tags"] == ["old ships"]
    assert tool("tag", "suggest", "--on", "1", "--json").json()["id"] == talk
    assert tool("tag", "--json").json() == {"tags": [{"tag": "old ships", "conversations": 1, "memories": 0}]}
    tool("conversations", "title", "The", "quay", "of", "the", "Aurora", "--on", talk)
    tool("conversations", "project", "/srv/port", "--on", talk)
    shown = tool("list").out
    assert "The quay of the Aurora" in shown
    assert "port" in shown
    assert tool("conversations", "title", "--on", talk, "--json").json()["titled"] is False
    assert tool("conversations", "project", "--on", talk, "--json").json()["moved"] is False
    assert "no matter" not in tool("doctor").out


@pytest.mark.usefixtures("engine_settings")
def test_what_was_recalled_is_judged_and_search_says_why(tool: CommandLine, talk: str) -> None:
    made = tool("memory", "add", "Quay seven belongs to the harbour master.", "--json").json()
    said = tool("rag", "wrong", made["id"][:12], "--question", "Who owns quay seven?").out
    assert "does not come back by itself to “Who owns quay seven?”" in said
    assert "feedback x0.93 (rated wrong once)" in tool("search", "harbour master", "--explain").out
    assert tool("rag", "upvote", made["id"], "--json").json()["factor"] == 1.07
    assert tool("rag", "reset", made["id"], "--json").json()["words"] == ""
    assert tool("rag", "recalls").out.startswith("Nothing has come back by itself yet")
    assert "names nothing" in tool.fails("rag", "useless", "ffffffffffff")
    assert talk


def test_so_many_moments_of_recall_are_listed_as_were_asked_for_each_with_a_number(cli: CommandLine) -> None:
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        said = [harken.record_message("quay", "user", f"Quay {number} is free.") for number in range(3)]
        for message in said:
            harken.chats.note_given(message.conversation_uid, {message.uid: "near"}, lambda: False)
    assert len(cli("rag", "recalls", "--limit", "2", "--json").json()) == 2
    shown = cli("rag", "recalls", "--limit", "2")
    assert "message: Quay 0" not in shown.out
    assert "more with a higher --limit" in shown.err
    assert said[1].uid in cli("rag", "wrong", "2").out


def test_a_memory_is_to_be_looked_at_again_and_holds_still(tool: CommandLine) -> None:
    made = tool("memory", "add", "The staging host is called Elbe.", "--category", "context", "--json").json()
    assert made["suggested_review"] > made["created_at"]
    assert "Nothing is due" in tool("memory", "due").out
    tool("memory", "review", made["id"], "--by", "2020-01-31")
    assert "2020-01-31" in tool("memory", "due").out
    held = tool("memory", "confirm", made["id"], "--json").json()
    assert held["confirmed_at"] is not None
    assert held["review_by"] > held["confirmed_at"]
    assert tool("memory", "due", "--json").json() == []
    assert len(tool("memory", "due", "--within", "91", "--json").json()) == 1
    assert tool("memory", "review", made["id"], "--never", "--json").json()["review_by"] is None
    for day in ("friday", "31 January", "March"):
        assert tool("memory", "review", made["id"], "--by", day, "--json").json()["review_by"] > made["created_at"]
