"""Codex's rollouts: what the person typed is recorded once, and nothing that Codex says in their name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harken.errors import TranscriptError
from harken.importers.blocks import OWN_RESULT
from harken.importers.codex import Codex
from harken.importers.formats import formats
from harken.importers.importer import Importer
from harken.importers.parsed import Checkpoint, ParsedConversation, ParsedTitle, Unreadable
from harken.model.conversations import Trust
from harken.record.recorder import NewMessage
from recorded import RecordedHome

Write = Callable[..., Path]
Said = Callable[..., list[tuple[str, str, str]]]
CODEX = Codex(Path("/nowhere"))
THREAD = "019c8a4c-ed82-79a1-aa28-7738fc5ab61a"


def entry(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-15T12:00:00Z", "type": kind, "payload": payload}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return entry("response_item", type=kind, **payload)


def spoken(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


def typed(text: str) -> dict[str, Any]:
    return entry("event_msg", type="user_message", message=text, images=[])


def completed(text: str, **more: Any) -> dict[str, Any]:
    words = {"type": "UserMessage", "content": [{"type": "text", "text": text}], **more}
    return entry("event_msg", type="item_completed", item=words)


META = entry("session_meta", id=THREAD, timestamp="2026-01-15T11:59:00Z", cwd="/work", cli_version="0.104")
OLD_META = entry("session_meta", id=THREAD, timestamp="2025-08-15T11:59:00Z", cwd="/work", cli_version="0.20.0")
CONTEXT = spoken("user", "an unmarked instruction")


def test_what_codex_asks_by_its_tool_and_what_is_chosen_are_their_words(write: Write, said: Said) -> None:
    given = {"questions": [{"id": "a", "question": "Which store?", "options": []}, {"id": "b", "question": "When?"}]}
    answers = {"a": {"answers": ["SQLite", "user_note: one file"]}, "b": {"answers": ["now"]}}
    path = write(
        META,
        item("function_call", name="request_user_input", call_id="c1", arguments=json.dumps(given)),
        item("function_call_output", call_id="c1", output=json.dumps({"answers": answers})),
        item("function_call", name="request_user_input", call_id="c2", arguments="{"),
        item("function_call_output", call_id="c2", output="aborted"),
    )
    told = [one for one in said(CODEX.parse(path)) if one[1] == "text"]
    assert told == [("assistant", "text", "Which store?\n\nWhen?"), ("user", "text", "SQLite\n\none file\n\nnow")]
    ids = [each.external_id for each in CODEX.parse(path) if isinstance(each, NewMessage)]
    assert len(set(ids)) == len(ids) == 6


def test_what_codex_asks_for_as_a_secret_is_not_recorded(write: Write, said: Said) -> None:
    given = {"questions": [{"id": "a", "question": "The PIN?", "isSecret": True}, {"id": "b", "question": "When?"}]}
    answers = {"a": {"answers": ["user_note: blue horse 42"]}, "b": {"answers": ["now"]}}
    path = write(
        META,
        item("function_call", name="request_user_input", call_id="c1", arguments=json.dumps(given)),
        item("function_call_output", call_id="c1", output=json.dumps({"answers": answers})),
    )
    whole = said(CODEX.parse(path))
    assert whole[-1] == ("user", "text", "[redacted:secret]\n\nnow")
    assert "horse" not in str(whole)
    offset = sum(len(line) for line in path.read_bytes().splitlines(keepends=True)[:2])
    assert said(CODEX.parse(path, offset)) == whole[2:]


def test_events_tell_what_was_typed_and_everything_else_in_the_persons_name_is_dropped(
    write: Write, said: Said
) -> None:
    path = write(
        *[META, spoken("developer", "rules"), CONTEXT, spoken("user", "fix it"), typed("fix it"), CONTEXT],
        *[spoken("assistant", "done"), CONTEXT, spoken("user", "thanks"), typed("thanks")],
        entry("event_msg", type="agent_message", message="done"),
    )
    assert said(CODEX.parse(path)) == [
        ("user", "text", "fix it"),
        ("assistant", "text", "done"),
        ("user", "text", "thanks"),
    ]


def test_newer_rollouts_tell_it_by_completed_items(write: Write, said: Said) -> None:
    path = write(META, CONTEXT, completed("fix it", id="i1"), typed("fix it"), spoken("assistant", "done"))
    assert said(CODEX.parse(path)) == [("user", "text", "fix it"), ("assistant", "text", "done")]
    assert next(found.external_id for found in CODEX.parse(path) if isinstance(found, NewMessage)) == "i1"


@pytest.mark.parametrize(
    "text",
    [
        "<instructions>Rename the module.</instructions>\n<context>It is in src.</context>",
        "<additional_context>The port is 5433.</additional_context> Which one is ours?",
        "Warning: apply_patch was requested via exec_command. Why?",
    ],
)
def test_what_was_typed_in_tags_like_codexs_own_is_kept_whole(write: Write, said: Said, text: str) -> None:
    own = "<environment_context>b</environment_context>"
    path = write(META, spoken("user", own), typed(own), spoken("user", text), typed(text), spoken("assistant", "done"))
    assert said(CODEX.parse(path)) == [("user", "text", text), ("assistant", "text", "done")]


def test_rollouts_without_events_give_the_models_user_texts_without_codexs_own(write: Write, said: Said) -> None:
    context = [
        "# AGENTS.md instructions for /x\n<INSTRUCTIONS>a</INSTRUCTIONS>",
        "<environment_context>b</environment_context>",
    ]
    path = write(OLD_META, spoken("user", *context, "fix it"), item("reasoning"), spoken("user", "and this"))
    assert said(CODEX.parse(path)) == [("user", "text", "fix it"), ("user", "text", "and this")]


def test_the_first_rollouts_had_no_envelopes(write: Write, said: Said) -> None:
    path = write(
        {"id": THREAD, "timestamp": "2025-06-01T12:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
    )
    head = next(CODEX.parse(path))
    assert isinstance(head, ParsedConversation)
    assert head.external_id == THREAD
    assert said(CODEX.parse(path)) == [("user", "text", "hi"), ("assistant", "text", "hello")]


def test_json_that_a_tool_prints_is_kept_whole_also_where_it_has_an_output(write: Write) -> None:
    printed = json.dumps({"output": "dist/app.js", "warnings": 3})
    path = write(META, item("function_call_output", call_id="c1", output=printed))
    assert [m.text for m in CODEX.parse(path) if isinstance(m, NewMessage)] == [printed]


def test_calls_are_paired_with_their_results(write: Write) -> None:
    wrapped = json.dumps({"output": "no such file", "metadata": {"exit_code": 2}})
    path = write(
        META,
        item("function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="c1"),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item("local_shell_call", action={"command": ["ls"]}, call_id="c3"),
        item("web_search_call", action={"query": "tea"}),
        item("web_search_call", status="completed"),
        item("function_call_output", call_id="c1", output="a.py"),
        item("custom_tool_call_output", call_id="c2", output=wrapped),
        item(
            "function_call_output",
            call_id="c3",
            output={"content": [{"type": "input_text", "text": "b"}], "success": False},
        ),
    )
    found = [m for m in CODEX.parse(path) if isinstance(m, NewMessage)]
    assert [(m.type, m.text, m.call_id, m.tool_name, m.metadata) for m in found] == [
        ("tool_call", 'exec_command {"cmd": "ls"}', "c1", "exec_command", {}),
        ("tool_call", "apply_patch *** Begin", "c2", "apply_patch", {}),
        ("tool_call", 'local_shell {"command": ["ls"]}', "c3", "local_shell", {}),
        ("tool_call", 'web_search {"query": "tea"}', None, "web_search", {}),
        ("tool_result", "a.py", "c1", "exec_command", {}),
        ("tool_result", "no such file", "c2", "apply_patch", {"is_error": True}),
        ("tool_result", "b", "c3", "local_shell", {"is_error": True}),
    ]
    assert len({m.external_id for m in found}) == len(found)


def test_compaction_and_interruption_leave_markers_and_a_name_is_the_title(write: Write) -> None:
    path = write(
        META,
        typed("go"),
        entry("compacted", message="a summary", replacement_history=[{"role": "user"}]),
        entry("event_msg", type="turn_aborted", reason="interrupted"),
        entry("event_msg", type="thread_name_updated", thread_name="Ledger"),
    )
    found = list(CODEX.parse(path))
    assert [m.metadata for m in found if isinstance(m, NewMessage)][1:] == [
        {"event": "compact_boundary"},
        {"event": "interrupted"},
    ]
    assert ParsedTitle(THREAD, "Ledger") in found


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b.git"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("redacted://url/5d14a88c6f", None),
        ("nowhere", None),
        (7, None),
    ],
)
def test_the_head_tells_the_repository_only_if_it_is_one(write: Write, url: Any, remote: str | None) -> None:
    meta = entry("session_meta", id=THREAD, cwd="/work", git={"repository_url": url, "branch": "main"})
    head = next(CODEX.parse(write(meta, typed("hi"))))
    assert isinstance(head, ParsedConversation)
    assert (head.git_remote, head.cwd, head.metadata["git_branch"]) == (remote, "/work", "main")


def test_a_subagent_names_its_parent_and_its_copied_history_is_left_out(write: Write, said: Said) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "agent_role": "worker"}}}
    meta = entry("session_meta", id=THREAD, source=source, subagent_history_start_ordinal=3)
    parent = entry("session_meta", id="p")
    lines = [meta, parent, typed("the parent's words"), typed("the task"), spoken("assistant", "done")]
    path = write(*({**each, "ordinal": number} for number, each in enumerate(lines)))
    head = next(CODEX.parse(path))
    assert isinstance(head, ParsedConversation)
    assert (head.external_id, head.parent_external_id, head.metadata) == (THREAD, "p", {"agent_type": "worker"})
    assert said(CODEX.parse(path)) == [("user", "text", "the task"), ("assistant", "text", "done")]


@pytest.mark.parametrize(
    ("facts", "parent"),
    [
        ({"source": {"subagent": "review"}, "forked_from_id": "p"}, "p"),
        ({"source": {"subagent": "review"}}, None),
        ({"source": "mcp"}, None),
    ],
)
def test_what_an_agent_asks_is_not_believed_as_its_owners_word(
    place: RecordedHome, write: Write, facts: dict[str, Any], parent: str | None
) -> None:
    meta = entry("session_meta", id=THREAD, **facts)
    path = write(meta, typed("Always answer in metric units."), spoken("assistant", "fine"))
    head = next(CODEX.parse(path))
    assert isinstance(head, ParsedConversation)
    assert head.parent_external_id == parent
    Importer(place.recorder, as_mine=True).run(CODEX, [path])
    assert [row["trust"] for row in place.rows()["messages"]] == [Trust.AGENT.value] * 2


def test_a_forks_copies_are_what_the_first_rollout_said(tmp_path: Path, write: Write) -> None:
    folder = tmp_path / "sessions/2026/01/15"
    folder.mkdir(parents=True)
    said = [spoken("user", "the lamp?"), typed("the lamp?"), item("web_search_call", id="w", action={"query": "lamp"})]
    said += [spoken("assistant", "green"), typed("and now?")]

    def rollout(thread: str, *lines: dict[str, Any]) -> Path:
        return write(*lines, name=f"sessions/2026/01/15/rollout-{thread}.jsonl")

    def messages(path: Path) -> list[NewMessage]:
        return [found for found in CODEX.parse(path) if isinstance(found, NewMessage)]

    def later(day: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**line, "timestamp": f"2026-01-{day}T12:00:00Z"} for line in lines]

    first = rollout(THREAD, META, *said)
    second, third = THREAD.replace("019c", "019d"), THREAD.replace("019c", "019e")
    copies = later(16, [entry("session_meta", id=second), META, *said[:-1]])
    again = {**typed("and now?"), "timestamp": "2026-01-16T12:05:00Z"}
    fork = rollout(second, *copies, again)
    forked_again = rollout(third, *later(17, [entry("session_meta", id=third, forked_from_id=second), *copies, again]))
    assert messages(fork)[:-1] == messages(first)[:-1]
    assert [(one.conversation, one.text) for one in messages(fork)[-1:]] == [(second, "and now?")]
    assert messages(forked_again) == messages(fork)
    heads = [found.external_id for found in CODEX.parse(fork) if isinstance(found, ParsedConversation)]
    assert heads == [THREAD, second]
    first.unlink()
    assert {one.conversation for one in messages(fork)} == {second}


@pytest.mark.parametrize("thread", [THREAD, THREAD.replace("019c", "019d")])
def test_what_is_asked_again_at_once_behind_a_base_is_no_copy_of_it(write: Write, thread: str) -> None:
    folder = "sessions/2026/01/15"
    write(META, typed("the lamp?"), spoken("assistant", "green"), name=f"{folder}/rollout-{THREAD}.jsonl")
    meta = entry("session_meta", id=thread, history_base={"thread_id": THREAD, "end_ordinal_exclusive": 1})
    later = [{**line, "timestamp": "2026-01-16T12:00:00Z"} for line in (meta, typed("the lamp?"))]
    found = CODEX.parse(write(*later, name=f"{folder}/rollout-a.jsonl"))
    said = [(one.conversation, str(one.created_at)) for one in found if isinstance(one, NewMessage)]
    assert said == [(thread, "2026-01-16 12:00:00+00:00")]


@pytest.mark.parametrize("helper", [{"other": "guardian"}, "compact", "memory_consolidation"])
def test_what_codex_asks_itself_is_nobodys_word(write: Write, helper: Any) -> None:
    told = "The following is the Codex agent history.\n>>> TRANSCRIPT START\n[1] user: the lamp?\n>>> TRANSCRIPT END"
    meta = entry("session_meta", id=THREAD, source={"subagent": helper}, parent_thread_id="p")
    path = write(meta, typed(told), spoken("assistant", '{"risk_level": "low"}'))
    assert list(CODEX.parse(path)) == [Checkpoint(path.stat().st_size)]


@pytest.mark.parametrize("packs", [False, True])
def test_what_codex_took_over_from_another_agent_is_said_there_alone(write: Write, said: Said, packs: bool) -> None:
    end = "<EXTERNAL SESSION IMPORTED>"
    printed = "[external_agent_tool_result]\nfrom a page\n[/external_agent_tool_result]"
    taken = [typed("the lamp?"), spoken("assistant", printed), spoken("assistant", "green"), spoken("assistant", end)]
    path = write(META, *taken, typed("and now?"), spoken("assistant", "red"))
    offset = path.read_bytes().index(b'"and now?"')
    begun = path.read_bytes().rindex(b"\n", 0, offset) + 1
    assert said(CODEX.parse(path, begun)) == [("user", "text", "and now?"), ("assistant", "text", "red")]
    if packs:
        packed = path.with_name("rollout-b.jsonl.zst")
        packed.write_bytes(zstandard.compress(path.read_bytes()))
        path = packed
    assert said(CODEX.parse(path)) == [("user", "text", "and now?"), ("assistant", "text", "red")]


def test_a_subagent_is_given_a_part_of_what_was_said_and_does_not_say_it_again(write: Write) -> None:
    child = THREAD.replace("019c", "019d")
    asked = [typed("the lamp?"), spoken("assistant", "looking"), item("web_search_call", id="w", action={"query": "x"})]
    given = [spoken("assistant", "green"), typed("and the shade?"), spoken("assistant", "red")]
    write(META, *asked, *given, name=f"rollout-{THREAD}.jsonl")
    source = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD}}}
    own = [{**line, "timestamp": "2026-01-16T12:05:00Z"} for line in (typed("paint it"), spoken("assistant", "done"))]
    copies = [entry("session_meta", id=child, source=source), META, asked[0], *given]
    path = write(
        *({**line, "timestamp": "2026-01-16T12:00:00Z"} for line in copies), *own, name=f"rollout-{child}.jsonl"
    )
    found = [one for one in CODEX.parse(path) if isinstance(one, NewMessage)]
    assert [one.text for one in found if one.conversation == child] == ["paint it", "done"]
    assert [one.text for one in found if one.conversation == THREAD] == ["the lamp?", "green", "and the shade?", "red"]


def test_a_rollout_without_session_facts_is_known_by_its_name(write: Write) -> None:
    head = next(CODEX.parse(write(typed("hi"), name=f"rollout-2026-01-15T12-00-00-{THREAD}.jsonl")))
    assert isinstance(head, ParsedConversation)
    assert head.external_id == THREAD


def test_broken_lines_are_counted_and_the_others_read(write: Write, said: Said) -> None:
    path = write(
        META,
        {"type": "response_item", "payload": "text"},
        item("message", role="assistant", content=5),
        item("function_call_output", call_id="c", output=5),
        typed(""),
        entry("event_msg", type="user_message", message=None),
        {"type": "world_state", "payload": 3},
        spoken("assistant", "fine"),
    )
    assert said(CODEX.parse(path)) == [("assistant", "text", "fine")]
    assert [found.line for found in CODEX.parse(path) if isinstance(found, Unreadable)] == [2, 3, 4, 6]


def test_user_texts_are_held_back_until_it_is_known_who_wrote_them(write: Write, said: Said) -> None:
    path = write(OLD_META, spoken("user", "hi"))
    before = list(CODEX.parse(path))
    assert said(before) == [("user", "text", "hi")]
    reached = [found.offset for found in before if isinstance(found, Checkpoint)]
    assert reached == [len(json.dumps(OLD_META)) + 1]
    write(OLD_META, spoken("user", "hi"), typed("hi"), spoken("assistant", "hello"))
    after = list(CODEX.parse(path, reached[0]))
    assert said(after) == [("user", "text", "hi"), ("assistant", "text", "hello")]
    assert before[-1] == after[1]


def test_a_rollout_cut_before_its_first_event_gives_nothing_that_codex_says_in_the_persons_name(
    write: Write, said: Said
) -> None:
    before = list(CODEX.parse(write(META, CONTEXT, spoken("user", "hi"))))
    assert said(before) == []
    [reached] = [found.offset for found in before if isinstance(found, Checkpoint)]
    path = write(META, CONTEXT, spoken("user", "hi"), typed("hi"))
    assert said(CODEX.parse(path, reached)) == [("user", "text", "hi")]


def test_reading_on_knows_the_conversation_and_that_there_are_events(write: Write, said: Said) -> None:
    path = write(META, typed("one"), CONTEXT, spoken("assistant", "done"))
    offset = len(json.dumps(META)) + len(json.dumps(typed("one"))) + 2
    head, message, _ = CODEX.parse(path, offset)
    assert isinstance(head, ParsedConversation)
    assert isinstance(message, NewMessage)
    assert (head.external_id, message.text) == (THREAD, "done")


def test_a_compressed_rollout_reads_as_the_plain_one(write: Write) -> None:
    plain = write(META, typed("hi"), spoken("assistant", "hello"), name="rollout-a.jsonl")
    packed = plain.with_name("rollout-b.jsonl.zst")
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    whole = list(CODEX.parse(packed))
    assert whole == [found for found in CODEX.parse(plain) if not isinstance(found, Checkpoint)]
    packed.write_bytes(b"this is not compressed")
    with pytest.raises(TranscriptError, match="Zstandard"):
        list(CODEX.parse(packed))


@pytest.mark.parametrize("kept_bytes", [12, -1])
def test_a_compressed_rollout_that_was_cut_off_says_so(write: Write, kept_bytes: int) -> None:
    plain = write(META, typed("hi"), spoken("assistant", "hello"), name="rollout-a.jsonl")
    packed = plain.with_name("rollout-b.jsonl.zst")
    packed.write_bytes(zstandard.compress(plain.read_bytes())[:kept_bytes])
    faults = [found.reason for found in CODEX.parse(packed) if isinstance(found, Unreadable)]
    assert faults[-1:] == ["is cut off, as is all behind it: the compressed file has no end"]
    packed.write_bytes(zstandard.compress(plain.read_bytes()) * 2)
    assert not [found for found in CODEX.parse(packed) if isinstance(found, Unreadable)]


def test_files_are_the_rollouts_and_the_plain_one_of_a_pair(write: Write, tmp_path: Path) -> None:
    for name in (
        "d/rollout-2.jsonl",
        "d/rollout-1.jsonl",
        "d/rollout-1.jsonl.zst",
        "rollout-0.jsonl.zst",
        "history.jsonl",
    ):
        write(META, name=name)
    found = [str(path.relative_to(tmp_path)) for path in CODEX.files(tmp_path)]
    assert found == ["rollout-0.jsonl.zst", "d/rollout-1.jsonl", "d/rollout-2.jsonl"]


def test_live_and_archived_sessions_are_found(tmp_path: Path) -> None:
    for name in ("sessions", "archived_sessions"):
        (tmp_path / ".codex" / name).mkdir(parents=True)
    assert [path.name for path in formats({}, tmp_path)["codex"].discover()] == ["sessions", "archived_sessions"]
    assert formats({"CODEX_HOME": str(tmp_path)}, tmp_path)["codex"].discover() == []


def counted(path: Path) -> tuple[Counter[str], list[str]]:
    """Count a real rollout anew, and list the marks of what was typed, without any of the parser's code."""
    found: Counter[str] = Counter()
    marks = []
    for raw in path.read_text("utf-8").splitlines():
        kind, payload = (record := json.loads(raw))["type"], record["payload"]
        if kind == "event_msg" and payload["type"] == "user_message":
            marks.append(payload["message"].split("sha=")[1])
        if kind == "response_item" and (payload["type"] != "message" or payload["role"] == "assistant"):
            found[payload["type"].replace("custom_tool", "function")] += 1
    return found, marks


def test_real_rollouts_give_every_prompt_answer_call_and_result_once(shared_data: Path) -> None:
    files = CODEX.files(shared_data / "transcripts" / "codex")
    assert len(files) == 3
    for path in files:
        found = [m for m in CODEX.parse(path) if isinstance(m, NewMessage)]
        expected, marks = counted(path)
        assert [m.text.split("sha=")[1] for m in found if m.role == "user"] == marks
        kinds = Counter(m.type for m in found if m.role != "user")
        assert kinds["text"] == expected["message"]
        assert kinds["tool_call"] == expected["function_call"]
        assert kinds["tool_result"] == expected["function_call_output"]
        assert len({m.external_id for m in found}) == len(found)


@pytest.mark.parametrize(
    "call",
    [
        {"name": "search", "namespace": "mcp__harken__", "arguments": '{"query": "zebras"}'},
        {"name": "mcp__harken__search", "arguments": '{"query": "zebras"}'},
        {"name": "exec_command", "arguments": '{"cmd": "harken search zebras"}'},
    ],
)
def test_what_harkens_own_tools_recalled_is_not_recorded_again(write: Write, said: Said, call: dict[str, str]) -> None:
    path = write(
        META,
        item("function_call", call_id="c1", **call),
        item("function_call_output", call_id="c1", output="The zebras eat marmalade."),
        item("function_call_output", call_id="c2", output="a.py"),
    )
    told = [text for _, kind, text in said(CODEX.parse(path)) if kind == "tool_result"]
    assert told == [OWN_RESULT, "a.py"]
