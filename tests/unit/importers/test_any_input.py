"""Whatever stands in a file: no parser fails, and reading on from any checkpoint loses and repeats nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import TranscriptError
from harken.importers import reading as lines
from harken.importers.formats import formats
from harken.importers.parsed import Checkpoint, ParsedConversation, ParsedItem, TranscriptFormat
from harken.record.recorder import NewMessage

FORMATS: Mapping[str, TranscriptFormat] = formats({}, Path("/nowhere"))
APPENDING = [name for name, each in FORMATS.items() if each.appends]

WORDS = st.sampled_from(
    [
        *["hi", "a", " ", "", "<system-reminder>x</system-reminder>", "<harken-recall>", "<bash-input>ls</bash-input>"],
        *["[Request interrupted by user]", "<environment_context>x", "\ud800", "user_message", "1705315200"],
    ]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    """Mostly one of these values, now and then anything."""
    return st.one_of(*[st.sampled_from(values)] * 4, ANY)


def record(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


BLOCK = record(
    type=one_of("text", "input_text", "output_text", "tool_use", "tool_result", "thinking"),
    text=WORDS | ANY,
    id=one_of("t1", "t2"),
    tool_use_id=one_of("t1", "t2"),
    name=one_of("Bash", "Read"),
    input=ANY,
    content=WORDS | ANY,
    is_error=ANY,
)
CONTENT = WORDS | st.lists(BLOCK | ANY, max_size=3) | ANY
IDS = one_of("u1", "u2", "u3", None)
TIMES = one_of("2026-01-15T12:00:00Z", 1768478400, None)

CLAUDE_LINE = record(
    type=one_of("user", "assistant", "system", "attachment", "summary", "custom-title", "ai-title", "progress"),
    message=record(role=one_of("user", "assistant"), content=CONTENT, model=one_of("m", "<synthetic>")) | ANY,
    attachment=record(
        type=one_of("queued_command", "hook_success"), prompt=CONTENT, commandMode=one_of("prompt", None)
    ),
    subtype=one_of("compact_boundary"),
    compactMetadata=ANY,
    sessionId=one_of("s1", "s2"),
    uuid=IDS,
    parentUuid=IDS,
    agentId=one_of("a", None),
    isSidechain=one_of(True, False),
    isMeta=one_of(False, True),
    timestamp=TIMES,
    cwd=one_of("/x"),
    customTitle=WORDS,
    aiTitle=WORDS,
    summary=WORDS,
    origin=record(kind=one_of("human", "task-notification")),
)
CODEX_PAYLOAD = record(
    type=one_of(
        *("message", "user_message", "item_completed", "function_call", "function_call_output", "reasoning"),
        *("web_search_call", "turn_aborted", "thread_name_updated"),
    ),
    role=one_of("user", "assistant", "developer"),
    content=CONTENT,
    message=WORDS | ANY,
    item=record(type=one_of("UserMessage", "AgentMessage"), content=CONTENT, id=IDS) | ANY,
    id=IDS,
    call_id=one_of("c1", "c2"),
    name=one_of("shell"),
    arguments=ANY,
    output=WORDS | ANY | st.just('{"output": "x", "metadata": {"exit_code": 1}}'),
    thread_name=WORDS,
    cwd=ANY,
    git=ANY,
    source=ANY,
    subagent_history_start_ordinal=one_of(2),
)
CODEX_LINE = record(
    type=one_of("session_meta", "response_item", "event_msg", "compacted", "turn_context", "message"),
    payload=CODEX_PAYLOAD | ANY,
    timestamp=TIMES,
    ordinal=st.integers(0, 4) | ANY,
)
EXCHANGE_LINE = record(
    conversation=one_of("c", "d"),
    role=one_of("user", "assistant", "tool", "system"),
    content=WORDS | ANY,
    type=one_of("text", "marker", None),
    ts=TIMES,
    metadata=ANY,
    title=WORDS | ANY,
    id=IDS,
)
NODE = record(
    parent=one_of("a", "b", "c", None),
    children=st.lists(one_of("a", "b", "c"), max_size=2) | ANY,
    message=record(
        id=IDS,
        author=record(role=one_of("user", "assistant", "tool", "system"), name=one_of("python")),
        content=record(
            content_type=one_of("text", "code", "thoughts"), parts=st.lists(WORDS | ANY, max_size=2), text=WORDS
        ),
        recipient=one_of("all", "python"),
        create_time=TIMES,
        metadata=ANY,
    )
    | ANY,
)
CHATGPT_TALK = record(
    id=IDS,
    title=WORDS,
    create_time=TIMES,
    current_node=one_of("a", "b"),
    mapping=st.dictionaries(st.sampled_from("abc"), NODE | ANY, max_size=3) | ANY,
)
CLAUDE_AI_TALK = record(
    uuid=IDS,
    name=WORDS,
    current_leaf_message_uuid=IDS,
    chat_messages=st.lists(
        record(
            uuid=IDS,
            sender=one_of("human", "assistant"),
            text=WORDS | ANY,
            content=CONTENT,
            parent_message_uuid=IDS,
            created_at=TIMES,
            attachments=ANY,
        )
        | ANY,
        max_size=4,
    )
    | ANY,
)
VALUES = {
    "claude-code": CLAUDE_LINE,
    "codex": CODEX_LINE,
    "jsonl": EXCHANGE_LINE,
    "chatgpt": CHATGPT_TALK,
    "claude-ai": CLAUDE_AI_TALK,
}
BROKEN = st.sampled_from([b"{", b"42", b'"x"', b"", b"[1]", b"\xff", b'{"a": "\\ud83c"}'])


def encoded(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: json.dumps(value).encode())


def parsed(name: str, path: Path, offset: int = 0) -> list[ParsedItem]:
    try:
        return list(FORMATS[name].parse(path, offset))
    except TranscriptError:
        return []


def check_order(items: list[ParsedItem]) -> None:
    """Every conversation has its head once, before its first message, and only text that a database takes."""
    heads: set[str] = set()
    for item in items:
        if isinstance(item, ParsedConversation):
            assert item.external_id not in heads
            heads.add(item.external_id)
        if isinstance(item, NewMessage):
            assert item.conversation in heads
            assert item.text.strip() or item.type != "text"
            item.text.encode()
            assert item.created_at is None or item.created_at.tzinfo is not None


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_no_file_makes_a_parser_fail(name: str, data: st.DataObject) -> None:
    values = encoded(VALUES[name]) | encoded(ANY) | BROKEN
    raw = data.draw(st.lists(values, max_size=8))
    whole = FORMATS[name].name in ("chatgpt", "claude-ai")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        path.write_bytes(b"[" + b",".join(raw) + b"]" if whole else b"\n".join(raw))
        items = parsed(name, path)
    if name not in ("chatgpt", "claude-ai"):
        check_order(items)


@pytest.mark.parametrize("name", APPENDING)
@given(data=st.data())
def test_reading_on_from_any_checkpoint_gives_exactly_the_rest(name: str, data: st.DataObject) -> None:
    raw = data.draw(st.lists(encoded(VALUES[name]) | BROKEN, max_size=10))
    end = data.draw(st.sampled_from([b"", b"\n"]))
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(lines, "CHECKPOINT_EVERY", 1):
        path = Path(folder, "session.jsonl")
        path.write_bytes(b"\n".join(raw) + end)
        items = parsed(name, path)
        for place, item in enumerate(items):
            if isinstance(item, Checkpoint):
                rest = parsed(name, path, item.offset)
                check_order(rest)
                assert said(rest) == said(items[place:])


def said(items: list[ParsedItem]) -> list[NewMessage]:
    """The messages; a result's tool has its name, also where its call lies before the place where reading went on."""
    return [item for item in items if isinstance(item, NewMessage)]


@pytest.mark.parametrize(("name", "folder"), [("claude-code", "claude-code"), ("codex", "codex")])
def test_reading_on_in_real_files_gives_exactly_the_rest(shared_data: Path, name: str, folder: str) -> None:
    reached = 0
    for path in FORMATS[name].files(shared_data / "transcripts" / folder):
        items = parsed(name, path)
        for place, item in enumerate(items):
            if isinstance(item, Checkpoint):
                reached += 1
                assert said(parsed(name, path, item.offset)) == said(items[place:])
    assert reached > len("files")
