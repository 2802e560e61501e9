"""Claude.ai's exports: every message once, flat or forked, with blocks or without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.errors import TranscriptError
from harken.importers.claude_ai import CLAUDE_AI
from harken.importers.parsed import ParsedConversation, ParsedItem, Unreadable
from harken.record.recorder import NewMessage

Said = Callable[..., list[tuple[str, str, str]]]
CLAUDE_AI = CLAUDE_AI


def message(sender: str, text: str = "", uuid: str = "", **more: Any) -> dict[str, Any]:
    return {"sender": sender, "text": text, "uuid": uuid, **more}


def talk(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": "c", "name": "Tea", "created_at": "2026-01-15T12:00:00Z", "chat_messages": list(messages), **more}


def read(tmp_path: Path, value: Any) -> list[ParsedItem]:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(value))
    return list(CLAUDE_AI.parse(path))


def test_a_flat_export_keeps_its_order(tmp_path: Path, said: Said) -> None:
    items = read(
        tmp_path,
        [talk(message("human", "tea?", "1", created_at=9), message("assistant", "yes", "2", created_at=8))],
    )
    head = items[0]
    assert isinstance(head, ParsedConversation)
    assert (head.external_id, head.title, head.created_at is None) == ("c", "Tea", False)
    assert said(items) == [("user", "text", "tea?"), ("assistant", "text", "yes")]


def test_a_forked_one_marks_the_branch_that_was_left(tmp_path: Path) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    items = read(
        tmp_path,
        talk(
            message("human", "tea?", "q", parent_message_uuid=root, created_at="2026-01-15T12:00:00Z"),
            message("assistant", "no", "a", parent_message_uuid="q", created_at="2026-01-15T12:00:01Z"),
            message("assistant", "yes", "b", parent_message_uuid="q", created_at="2026-01-15T12:00:02Z"),
            current_leaf_message_uuid="b",
        ),
    )
    found = [(m.text, m.metadata) for m in items if isinstance(m, NewMessage)]
    assert found == [("tea?", {}), ("no", {"branch": "a"}), ("yes", {})]


def test_blocks_become_texts_calls_and_results(tmp_path: Path) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "looking"},
        {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "tea"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "green"}], "is_error": False},
        {"type": "text", "text": "<antThinking>hm</antThinking>green tea"},
    ]
    items = read(tmp_path, talk(message("assistant", "ignored where blocks speak", "m", content=blocks)))
    found = [(m.role, m.type, m.text, m.external_id, m.tool_name) for m in items if isinstance(m, NewMessage)]
    assert found == [
        ("assistant", "text", "looking\n\ngreen tea", "m", None),
        ("assistant", "tool_call", 'web_search {"query": "tea"}', "m#2", "web_search"),
        ("tool", "tool_result", "green", "m#3", "web_search"),
    ]


@pytest.mark.parametrize("content", [None, [], "", [{"type": "synthetic", "text": "x"}], [{"type": "thinking"}]])
def test_where_no_block_speaks_the_plain_text_does(tmp_path: Path, said: Said, content: Any) -> None:
    items = read(tmp_path, talk(message("human", "tea?", content=content)))
    assert said(items) == [("user", "text", "tea?")]


def test_stand_ins_for_unknown_blocks_are_no_words(tmp_path: Path, said: Said) -> None:
    stand_in = "```\nThis block is not supported on your current device yet.\n```"
    items = read(tmp_path, talk(message("human", "x"), message("assistant", f"{stand_in}\n\n{stand_in}")))
    assert said(items) == [("user", "text", "x")]


def test_attachments_are_named_and_their_text_is_not_the_persons(tmp_path: Path) -> None:
    attached = {"file_name": "a.txt", "file_size": 9, "extracted_content": "secret"}
    items = read(tmp_path, talk(message("human", "see", attachments=[attached, 3], files=[{"file_name": "b.png"}])))
    found = next(m for m in items if isinstance(m, NewMessage))
    assert found.text == "see"
    assert found.metadata == {"attachments": [{"name": "a.txt", "size": 9}, {"name": "b.png"}]}


def test_broken_messages_are_counted_by_conversation(tmp_path: Path, said: Said) -> None:
    items = read(
        tmp_path,
        [
            talk(message("human", "one"), 5, message("robot", "x"), message("human", "two", content=7)),
            {"uuid": "no messages"},
            {"chat_messages": [message("human", "whose?")]},
        ],
    )
    assert said(items) == [("user", "text", "one"), ("user", "text", "two")]
    assert [item.line for item in items if isinstance(item, Unreadable)] == [1, 1, 1, 2, 3]


def test_messages_with_one_id_are_both_kept(tmp_path: Path, said: Said) -> None:
    items = read(tmp_path, talk(message("human", "one", "m"), message("human", "two", "m", parent_message_uuid="m")))
    assert [text for _, _, text in said(items)] == ["one", "two"]


def test_an_export_of_another_chat_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="claude-ai"):
        read(tmp_path, [{"mapping": {}}])


def test_the_real_sample_gives_every_message_once(shared_data: Path, said: Said) -> None:
    (path,) = CLAUDE_AI.files(shared_data / "transcripts" / "claude-ai")
    written = json.loads(path.read_text("utf-8"))["chat_messages"]
    roles = {"human": "user", "assistant": "assistant"}
    assert said(CLAUDE_AI.parse(path)) == [(roles[each["sender"]], "text", each["text"]) for each in written]
