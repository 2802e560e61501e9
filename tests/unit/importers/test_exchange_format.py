"""Harken's own exchange format: every key arrives, and a wrong one is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.importers.jsonl import Jsonl
from harken.importers.parsed import ParsedConversation, ParsedTitle, Unreadable
from harken.importers.reading import moment
from harken.model.conversations import Role
from harken.record.recorder import NewMessage

Write = Callable[..., Path]
Said = Callable[..., list[tuple[str, str, str]]]
JSONL = Jsonl()
LEAST = {"conversation": "c", "role": "user", "content": "hi"}


def test_every_key_arrives(write: Write) -> None:
    given = {"author": "Ada", "ts": "2026-01-15T12:00:00Z", "project": "harken", "title": "Talk", "id": "m1"}
    path = write({**LEAST, **given, "metadata": {"mood": "good"}})
    head, message, _ = JSONL.parse(path)
    assert head == ParsedConversation("c", title="Talk", created_at=moment(given["ts"]), project="harken")
    assert isinstance(message, NewMessage)
    assert (message.author, message.external_id, message.metadata) == ("Ada", "m1", {"mood": "good"})
    assert message.created_at == moment(given["ts"])


@pytest.mark.parametrize("name", ["timestamp", "created_at", "at", "time", "date"])
def test_a_time_may_bear_the_names_that_others_give_it(write: Write, name: str) -> None:
    _, message, _ = JSONL.parse(write({**LEAST, name: "2026-01-15T12:00:00Z"}))
    assert isinstance(message, NewMessage)
    assert message.created_at == moment("2026-01-15T12:00:00Z")
    _, message, _ = JSONL.parse(write({**LEAST, name: "soon"}))
    assert message == NewMessage(Role.USER, "hi", conversation="c")


def test_the_least_line_is_a_text_without_an_id(write: Write) -> None:
    _, message, _ = JSONL.parse(write(LEAST))
    assert message == NewMessage(Role.USER, "hi", conversation="c")


def test_tools_keep_their_names_and_links(write: Write) -> None:
    tool = {"call_id": "t1", "tool_name": "shell"}
    path = write(
        {**LEAST, **tool, "role": "assistant", "type": "tool_call", "content": "shell ls"},
        {**LEAST, **tool, "role": "tool", "content": ""},
        {**LEAST, "role": "system", "type": "marker", "content": "", "metadata": {"event": "segment"}},
    )
    found = [m for m in JSONL.parse(path) if isinstance(m, NewMessage)]
    assert [(m.role, m.type, m.call_id, m.tool_name) for m in found] == [
        ("assistant", "tool_call", "t1", "shell"),
        ("tool", "tool_result", "t1", "shell"),
        ("system", "marker", None, None),
    ]


def test_one_head_for_each_conversation_and_later_titles_as_they_come(write: Write) -> None:
    other = {**LEAST, "conversation": "d"}
    path = write(LEAST, other, {**LEAST, "title": "Talk"}, {**LEAST, "title": "Talk"})
    found = list(JSONL.parse(path))
    assert [each.external_id for each in found if isinstance(each, ParsedConversation)] == ["c", "d"]
    assert [each for each in found if isinstance(each, ParsedTitle)] == [ParsedTitle("c", "Talk")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("conversation", 5),
        ("conversation", ""),
        ("content", None),
        ("content", ["hi"]),
        ("role", "human"),
        ("role", None),
        ("role", []),
        ("type", "summary"),
        ("type", {}),
        ("ts", "yesterday"),
        ("ts", []),
        ("metadata", "x"),
        ("id", 7),
        ("author", 7),
        ("project", []),
        ("title", {}),
        ("call_id", 1),
        ("tool_name", False),
    ],
)
def test_a_wrong_value_names_its_key_and_stops_nothing(write: Write, said: Said, key: str, value: Any) -> None:
    path = write({**LEAST, key: value}, LEAST)
    found = list(JSONL.parse(path))
    faults = [each for each in found if isinstance(each, Unreadable)]
    assert [fault.line for fault in faults] == [1]
    assert faults[0].reason.startswith(f"'{key}'")
    assert said(found) == [("user", "text", "hi")]


def test_null_counts_as_missing_and_recalled_text_is_left_out(write: Write, said: Said) -> None:
    path = write(
        {**LEAST, "ts": None, "type": None, "id": None, "metadata": None},
        {**LEAST, "content": "<harken-recall id='1'>old</harken-recall>"},
    )
    assert said(JSONL.parse(path)) == [("user", "text", "hi")]


def test_files_are_all_jsonl_files_of_a_folder(write: Write, tmp_path: Path) -> None:
    inner = write(LEAST, name="a/b.jsonl")
    write(LEAST, name="a/c.json")
    assert JSONL.files(tmp_path) == [inner]
    assert JSONL.files(inner) == [inner]
    assert JSONL.discover() == []
