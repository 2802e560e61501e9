"""Claude Code's sessions: what was said is recorded once, what the machine wrote is not."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.importers.blocks import OWN_RESULT
from harken.importers.claude_code import ClaudeCode
from harken.importers.formats import formats
from harken.importers.parsed import Checkpoint, ParsedConversation, ParsedTitle, Unreadable
from harken.record.recorder import NewMessage

Write = Callable[..., Path]
Said = Callable[..., list[tuple[str, str, str]]]
CLAUDE = ClaudeCode(Path("/nowhere"))


def line(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "sessionId": "s1", "message": {"role": kind, "content": content}, "uuid": "u1", **more}


def block(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def messages(path: Path, offset: int = 0) -> list[NewMessage]:
    return [item for item in CLAUDE.parse(path, offset) if isinstance(item, NewMessage)]


def faults(path: Path) -> list[tuple[int, str]]:
    return [(item.line, item.reason) for item in CLAUDE.parse(path) if isinstance(item, Unreadable)]


def test_every_block_of_a_reply_is_one_message_and_thoughts_are_none(write: Write) -> None:
    call = block("tool_use", id="t1", name="Bash", input={"command": "ls"})
    blocks = [block("thinking", thinking="hm"), block("text", text="one"), call, block("text", text="two")]
    result = block("tool_result", tool_use_id="t1", content=[block("text", text="a.py")], is_error=True)
    path = write(line("assistant", blocks, timestamp="2026-01-15T12:00:00Z"), line("user", [result], uuid="u2"))
    text, called, answered = messages(path)
    assert (text.role, text.type, text.text, text.external_id) == ("assistant", "text", "one\n\ntwo", "u1")
    assert (called.role, called.type, called.external_id) == ("assistant", "tool_call", "u1#2")
    assert (called.text, called.call_id, called.tool_name) == ('Bash {"command": "ls"}', "t1", "Bash")
    assert (answered.role, answered.type, answered.text) == ("tool", "tool_result", "a.py")
    assert (answered.call_id, answered.tool_name, answered.metadata) == ("t1", "Bash", {"is_error": True})
    assert text.created_at is not None
    assert text.created_at == called.created_at


def test_two_lines_with_one_id_are_both_kept(write: Write, said: Said) -> None:
    path = write(line("user", "first"), line("user", "second"))
    assert said(CLAUDE.parse(path)) == [("user", "text", "first"), ("user", "text", "second")]


@pytest.mark.parametrize(
    "silent",
    [
        line("user", "words", isMeta=True),
        line("user", "words", isCompactSummary=True),
        line("user", "words", teamName="team", agentName="tester"),
        line("assistant", "API Error", isApiErrorMessage=True),
        line("user", "words", turnCompanion=True),
        line("user", "words", origin={"kind": "task-notification"}),
        line("user", "words", origin={"kind": "observer"}),
        {**line("assistant", ""), "message": {"role": "assistant", "model": "<synthetic>", "content": "none"}},
        line("assistant", "(no content)"),
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["recalled"]}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "commandMode": "bash"}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "isMeta": True}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "origin": {"kind": "peer"}}},
        {"type": "system", "subtype": "api_error", "content": "words"},
        {"type": "file-history-snapshot", "snapshot": {}},
        {"type": "queue-operation", "content": "words"},
        {"type": "api-request", "message": {"role": "user", "content": "whole prompts again"}},
        {"type": "api-request-blob", "sessionId": "s1", "message": {"role": "user", "content": "whole prompts again"}},
        {"type": "progress", "message": {"role": "user", "content": "words"}},
        {"silly": "this"},
    ],
)
def test_what_nobody_said_is_passed_over_in_silence(write: Write, silent: dict[str, Any]) -> None:
    path = write(silent)
    assert list(CLAUDE.parse(path)) == [Checkpoint(path.stat().st_size)]


@pytest.mark.parametrize("named", [{}, {"agentName": "team-lead"}])
def test_what_is_said_with_whoever_leads_a_team_is_kept(write: Write, said: Said, named: dict[str, str]) -> None:
    told = "<teammate-message teammate_id='tester'>All green.</teammate-message>"
    path = write(
        line("user", "make a team", teamName="team", **named),
        line("user", told, uuid="u2", teamName="team", **named),
        line("assistant", [block("text", text="made")], uuid="u3", teamName="team", **named),
    )
    assert said(CLAUDE.parse(path)) == [("user", "text", "make a team"), ("assistant", "text", "made")]


def test_injected_text_leaves_prompts_and_results(write: Write, said: Said) -> None:
    reminder = "<system-reminder>be quick</system-reminder>"
    result = block("tool_result", tool_use_id="t", content=f"a.py\n\n{reminder}")
    path = write(
        line("user", [block("text", text=reminder), block("text", text=f"{reminder}do it")]),
        line("user", [result]),
        line("assistant", "as <harken-recall id='1'>old</harken-recall>said"),
    )
    assert [text for _, _, text in said(CLAUDE.parse(path))] == ["do it", "a.py", "as said"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mcp__harken__search", {"query": "zebras"}),
        ("mcp__plugin_harken_harken__search", {"query": "zebras"}),
        ("Bash", {"command": "harken search zebras"}),
    ],
)
def test_what_harkens_own_tools_recalled_is_not_recorded_again(write: Write, name: str, given: dict[str, Any]) -> None:
    called = line("assistant", [block("tool_use", id="t1", name=name, input=given)])
    recalled = json.dumps({"hits": [{"text": "The zebras eat marmalade."}]})
    answered = line("user", [block("tool_result", tool_use_id="t1", content=recalled)], uuid="u2")
    other = line("user", [block("tool_result", tool_use_id="t2", content="a.py")], uuid="u3")
    path = write(called, answered, other)
    behind_the_call = path.read_bytes().index(b"\n") + 1
    for read in (messages(path)[1:], messages(path, behind_the_call)):
        assert [(one.type, one.text) for one in read] == [("tool_result", OWN_RESULT), ("tool_result", "a.py")]


def test_what_went_wrong_with_a_call_of_harken_is_told(write: Write) -> None:
    called = line("assistant", [block("tool_use", id="t1", name="mcp__harken__search", input={})])
    failed = block("tool_result", tool_use_id="t1", content="query: Field required", is_error=True)
    assert messages(write(called, line("user", [failed], uuid="u2")))[1].text == "query: Field required"


@pytest.mark.parametrize("hint", ["", "\n\nNote: The user's next message may contain a correction or preference."])
@pytest.mark.parametrize(
    "asks",
    ["To tell you how to proceed, the user said:\n", "The user provided the following reason for the rejection:  "],
)
def test_what_is_said_in_refusing_a_call_is_the_persons(write: Write, said: Said, hint: str, asks: str) -> None:
    refused = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
        "the new_string was NOT written to the file). "
    )
    told = f"{refused}{asks}Use pnpm, never npm.\n\nAlways.{hint}"
    silent = f"{refused}STOP what you are doing and wait for the user to tell you how to proceed."
    results = [block("tool_result", tool_use_id="t", content=text, is_error=True) for text in (told, silent)]
    path = write(line("user", results[:1]), line("user", results[1:], uuid="u2"))
    assert said(CLAUDE.parse(path)) == [
        ("tool", "tool_result", told),
        ("user", "text", "Use pnpm, never npm.\n\nAlways."),
        ("tool", "tool_result", silent),
    ]


def test_what_the_agent_asks_by_its_tool_and_what_is_chosen_are_their_words(write: Write, said: Said) -> None:
    store, extras = "Which database?", "Which extras?"
    options = [{"label": "PostgreSQL"}, {"label": "SQLite"}]
    questions = [{"question": each, "header": "h", "options": options} for each in (store, extras)]
    call = block("tool_use", id="t", name="AskUserQuestion", input={"questions": questions})
    told = f'User has answered your questions: "{store}"="SQLite", "{extras}"="none". You can now continue.'
    answered = block("tool_result", tool_use_id="t", content=told)
    answers = {"answers": {store: "SQLite", extras: "none"}, "annotations": {store: {"notes": "One file is enough."}}}
    path = write(
        line("assistant", [call]),
        line("user", [answered], uuid="u2", toolUseResult={"questions": questions, **answers}),
        line("user", [block("tool_result", tool_use_id="x", content="y")], uuid="u3", toolUseResult={"answers": "all"}),
    )
    called, question, result, answer, other = said(CLAUDE.parse(path))
    assert (called[:2], question) == (("assistant", "tool_call"), ("assistant", "text", f"{store}\n\n{extras}"))
    assert (result[:2], answer) == (("tool", "tool_result"), ("user", "text", "SQLite\n\nOne file is enough.\n\nnone"))
    assert other == ("tool", "tool_result", "y")


def test_an_interruption_and_a_compaction_leave_markers(write: Write) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": "s1", "uuid": "c1"}
    path = write(
        line("user", [block("text", text="[Request interrupted by user]"), block("text", text="no, wait")]),
        {**boundary, "content": "Conversation compacted", "compactMetadata": {"trigger": "auto"}},
    )
    stop, words, compacted = messages(path)
    assert (stop.role, stop.type, stop.text, stop.metadata) == ("system", "marker", "", {"event": "interrupted"})
    assert (words.role, words.text, words.external_id) == ("user", "no, wait", "u1#2")
    assert compacted.metadata == {"event": "compact_boundary", "trigger": "auto"}


def test_a_prompt_typed_while_the_agent_worked_is_kept(write: Write, said: Said) -> None:
    queued = {"type": "queued_command", "commandMode": "prompt", "origin": {"kind": "human"}}
    path = write(
        {"type": "attachment", "sessionId": "s1", "attachment": {**queued, "prompt": "also the tests"}},
        {"type": "attachment", "sessionId": "s1", "attachment": {**queued, "prompt": [block("text", text="and docs")]}},
    )
    assert said(CLAUDE.parse(path)) == [("user", "text", "also the tests"), ("user", "text", "and docs")]


def test_the_head_comes_first_and_tells_what_is_known(write: Write) -> None:
    facts = {"cwd": "/work", "gitBranch": "main", "version": "2.1", "timestamp": "2026-01-15T12:00:00Z"}
    path = write({"type": "custom-title", "customTitle": "Parsers", "sessionId": "s1"}, line("user", "hi", **facts))
    head = next(CLAUDE.parse(path))
    assert isinstance(head, ParsedConversation)
    assert (head.external_id, head.title, head.cwd, head.parent_external_id) == ("s1", "Parsers", "/work", None)
    assert head.metadata == {"git_branch": "main", "version": "2.1"}
    assert head.created_at is not None


def test_a_chosen_title_stands_against_later_found_ones(write: Write) -> None:
    path = write(
        {"type": "summary", "summary": "of another session", "leafUuid": "x"},
        line("user", "hi"),
        {"type": "ai-title", "aiTitle": "found", "sessionId": "s1"},
        {"type": "custom-title", "customTitle": "chosen", "sessionId": "s1"},
        {"type": "ai-title", "aiTitle": "found again", "sessionId": "s1"},
        {"type": "summary", "summary": "of this one", "leafUuid": "u1"},
        {"type": "summary", "summary": "of another one", "leafUuid": "x"},
    )
    titles = [item.title for item in CLAUDE.parse(path) if isinstance(item, ParsedTitle)]
    assert titles == ["found", "chosen"]


def test_a_summary_names_the_session_that_holds_its_last_line(write: Write) -> None:
    lines = [
        line("user", "hi"),
        {"type": "summary", "summary": "of this one", "leafUuid": "u1"},
        {"type": "summary", "summary": "of another one", "leafUuid": "x"},
        line("user", "again", uuid="u2"),
    ]
    path = write(*lines)
    for begin in (0, len(json.dumps(lines[0])) + 1):
        assert [one.title for one in CLAUDE.parse(path, begin) if isinstance(one, ParsedTitle)] == ["of this one"]


def test_a_subagents_file_is_a_conversation_of_its_own(write: Write, tmp_path: Path) -> None:
    path = write(
        line("user", "look around", isSidechain=True, agentId="a1"), name="p/s1/subagents/workflows/agent-a1.jsonl"
    )
    path.with_suffix(".meta.json").write_text('{"agentType": "Explore", "description": "survey", "toolUseId": "t9"}')
    head = next(CLAUDE.parse(path))
    assert isinstance(head, ParsedConversation)
    assert (head.external_id, head.parent_external_id, head.title) == ("s1/agent-a1", "s1", "survey")
    assert head.metadata == {"agent_type": "Explore", "parent_call_id": "t9"}


def test_old_sidechains_within_a_session_are_told_apart(write: Write) -> None:
    path = write(
        line("user", "main"),
        line("user", "task A", isSidechain=True, uuid="a1", parentUuid=None),
        line("user", "task B", isSidechain=True, uuid="b1", parentUuid=None),
        line("assistant", "A done", isSidechain=True, uuid="a2", parentUuid="a1"),
        line("assistant", "B done", isSidechain=True, uuid="b2", parentUuid="b1"),
        line("user", "C", isSidechain=True, uuid="c1", agentId="c"),
    )
    found = [(message.conversation, message.text) for message in messages(path)]
    a, b = "s1/sidechain-a1", "s1/sidechain-b1"
    assert found == [
        *[("s1", "main"), (a, "task A"), (b, "task B"), (a, "A done"), (b, "B done")],
        ("s1/agent-c", "C"),
    ]


def test_broken_lines_are_counted_and_the_others_read(write: Write, said: Said) -> None:
    path = write(
        line("user", "fine"),
        "{broken",
        '"massive error"',
        line("user", None),
        line("assistant", 42),
        {"type": "user", "sessionId": "s1"},
        line("user", ["text", block("text", text="half of it"), block("text", text=7)]),
        line("user", [block("tool_result", content=9)]),
        {"sessionId": 5, "message": {"role": "assistant", "content": "no type"}},
        {"sessionId": "s1", "type": "user", "message": {"content": "no role"}},
    )
    assert [text for _, _, text in said(CLAUDE.parse(path))] == ["fine", "half of it", "no type", "no role"]
    assert [number for number, _ in faults(path)] == [2, 3, 4, 5, 6, 7, 7, 8]
    assert {item.conversation for item in messages(path)} == {"s1", "session"}


def test_a_torn_last_line_is_read_again_once_it_is_whole(write: Write, said: Said) -> None:
    path = write(line("user", "one"), json.dumps(line("user", "two"))[:-9], end=b"")
    items = list(CLAUDE.parse(path))
    reached = [item.offset for item in items if isinstance(item, Checkpoint)]
    assert reached == [len(json.dumps(line("user", "one"))) + 1]
    assert [item.line for item in items if isinstance(item, Unreadable)] == [2]
    write(line("user", "one"), line("user", "two"), line("user", "three"), end=b"")
    later = list(CLAUDE.parse(path, reached[0]))
    assert said(later) == [("user", "text", "two"), ("user", "text", "three")]
    assert later[-1] == Checkpoint(path.stat().st_size)


def test_reading_on_gives_the_head_and_the_right_line_numbers(write: Write) -> None:
    path = write(line("user", "one", timestamp=1), line("user", "two", timestamp=2), "{broken")
    offset = path.read_bytes().index(b"\n") + 1
    head, message, broken, _ = CLAUDE.parse(path, offset)
    assert isinstance(head, ParsedConversation)
    assert head.created_at is None
    assert isinstance(message, NewMessage)
    assert broken == Unreadable(path, 3, "is not JSON")


def test_files_are_the_sessions_oldest_first_each_before_its_subagents(write: Write, tmp_path: Path) -> None:
    names = ["p/new.jsonl", "p/old/subagents/agent-1.jsonl", "p/old.jsonl", "p/agent-2.jsonl", "p/mid.jsonl"]
    ages = {"p/new.jsonl": 300, "p/old.jsonl": 100, "p/mid.jsonl": 200}
    for name in names:
        path = write(line("user", "hi", sessionId="new"), name=name)
        os.utime(path, (ages.get(name, 1), ages.get(name, 1)))
    write({"display": "x", "timestamp": 1}, name="p/prompts.jsonl")
    write(line("user", "hi"), name="p/history.jsonl")
    found = [str(path.relative_to(tmp_path)) for path in CLAUDE.files(tmp_path)]
    assert found == [names[2], names[1], names[4], names[0], names[3]]
    assert CLAUDE.files(tmp_path / "p/new.jsonl") == [tmp_path / "p/new.jsonl"]


def test_the_histories_are_found_where_the_environment_says(tmp_path: Path) -> None:
    assert formats({}, tmp_path)["claude-code"].discover() == []
    (tmp_path / "c" / "projects").mkdir(parents=True)
    assert formats({"CLAUDE_CONFIG_DIR": str(tmp_path / "c")}, tmp_path)["claude-code"].discover() == [
        tmp_path / "c" / "projects"
    ]


SKIPPED = ("<command-", "<local-command", "Caveat:")


def counted(path: Path) -> Counter[str]:
    """Count a real file's messages anew, without any of the parser's code."""
    found: Counter[str] = Counter()
    for raw in path.read_text("utf-8").splitlines():
        entry = json.loads(raw)
        if not isinstance(entry, dict) or entry.get("isMeta") or entry.get("isCompactSummary"):
            continue
        content = entry["message"].get("content") if isinstance(entry.get("message"), dict) else None
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        blocks = [part for part in blocks if isinstance(part, dict)]
        found["tool_call"] += sum(part["type"] == "tool_use" for part in blocks)
        found["tool_result"] += sum(part["type"] == "tool_result" for part in blocks)
        texts = [part["text"] for part in blocks if part["type"] == "text"]
        found[entry.get("type")] += any(not text.startswith(SKIPPED) for text in texts)
    return +found


def test_real_sessions_give_every_text_call_and_result_once(shared_data: Path) -> None:
    files = CLAUDE.files(shared_data / "transcripts" / "claude-code")
    assert len(files) == 11
    for path in files:
        kinds = Counter(m.role if m.type == "text" else m.type for m in messages(path) if m.type != "marker")
        assert kinds == counted(path), path.name


def test_real_hooks_and_summaries_leave_nothing_behind(shared_data: Path) -> None:
    folder = shared_data / "transcripts" / "claude-code" / "recorded"
    texts = [message.text for path in CLAUDE.files(folder) for message in messages(path)]
    assert len(texts) == 21
    assert not [text for text in texts if "CTX" in text or "system-reminder" in text or "being continued" in text]


@pytest.mark.parametrize(
    ("name", "read", "broken"),
    [("invalid_json", 3, [2, 4]), ("missing_fields", 5, [5, 7]), ("truncated", 2, [3]), ("wrong_types", 4, [4, 5, 7])],
)
def test_real_malformed_files_lose_only_their_broken_lines(
    shared_data: Path, name: str, read: int, broken: list[int]
) -> None:
    path = shared_data / "transcripts" / "malformed" / f"{name}.jsonl"
    assert len(messages(path)) == read
    assert [number for number, _ in faults(path)] == broken


def test_a_line_that_stands_before_its_parent_is_read_behind_it(write: Write) -> None:
    chain = [line("user", f"{number}", uuid=f"u{number}", parentUuid=f"u{number - 1}") for number in range(6)]
    path = write(chain[0], chain[3], chain[1], chain[4], chain[2], chain[5])
    assert [message.text for message in messages(path)] == list("012345")
    marks = [item.offset for item in CLAUDE.parse(path) if isinstance(item, Checkpoint)]
    assert marks == [path.stat().st_size]


def test_lines_whose_parents_are_nowhere_or_each_other_are_read_all_the_same(write: Write) -> None:
    path = write(
        line("user", "lost", uuid="u1", parentUuid="elsewhere"),
        line("user", "own", uuid="u2", parentUuid="u2"),
        line("user", "one", uuid="u3", parentUuid="u4"),
        line("user", "other", uuid="u4", parentUuid="u3"),
        line("user", "last", uuid="u5", parentUuid="u2"),
    )
    assert [message.text for message in messages(path)] == ["lost", "own", "last", "one", "other"]
