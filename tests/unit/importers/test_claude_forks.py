"""Sessions that Claude Code forks from others: what was said before the fork was said once, in the other session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken

FIRST, FORK, SECOND_FORK = (f"{number}1111111-2222-4333-8444-555555555555" for number in (1, 2, 3))
SAID = ("How many zebras?", "Seven.", "And lions?", "Two.")


def said(session: str, start: int, *texts: str) -> list[dict[str, Any]]:
    """Lines of a session: a person and the agent in turn."""
    lines = []
    for number, text in enumerate(texts, start):
        role = ("assistant", "user")[number % 2]
        content = text if role == "user" else [{"type": "text", "text": text}]
        head = {"type": role, "uuid": f"uuid-{number}", "sessionId": session, "cwd": "/work"}
        lines.append({**head, "timestamp": at(number), "message": {"role": role, "content": content}})
    return lines


def at(number: int) -> str:
    return f"2026-11-20T10:00:{number:02}.000Z"


def forked(lines: list[dict[str, Any]], session: str) -> list[dict[str, Any]]:
    """What `claude --resume ID --fork-session` copies: all under the new id, with a mark in answers alone."""
    return [
        {**line, "sessionId": session}
        | ({"requestSessionId": line.get("requestSessionId", line["sessionId"])} if line["type"] == "assistant" else {})
        for line in lines
    ]


def forked_by_sdk(lines: list[dict[str, Any]], session: str) -> list[dict[str, Any]]:
    """What the SDK's `fork_session` copies: under new ids, with marks, and a new time for the last line."""
    copies = [
        {**line, "sessionId": session, "uuid": f"new-{line['uuid']}"}
        | {"forkedFrom": {"sessionId": line["sessionId"], "messageUuid": line["uuid"]}}
        for line in lines
    ]
    return [*copies[:-1], {**copies[-1], "timestamp": at(40)}]


def resumed(lines: list[dict[str, Any]], session: str) -> list[dict[str, Any]]:
    """What `claude --resume ID` copied before version 2.1: all under the new id, without any mark."""
    return [
        {"type": "summary", "summary": "Zebras", "leafUuid": "uuid-4"},
        *({**line, "sessionId": session} for line in lines),
    ]


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as opened:
        yield opened


def write(folder: Path, session: str, lines: list[dict[str, Any]]) -> Path:
    path = folder / f"{session}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def texts(harken: Harken) -> dict[str, list[str]]:
    """What is recorded, by the agent's name of the conversation."""
    found: dict[str, list[str]] = {}
    for session in (FIRST, FORK, SECOND_FORK):
        uid = harken.chats.session(session, "claude-code").conversation_uid
        with harken.store.reading() as tx:
            known = tx.connection.exec_driver_sql("select 1 from conversations where uid = ?", (uid,)).first()
        if known:
            found[session] = [message.text for message in harken.show(uid).messages]
    return found


@pytest.mark.parametrize("fork", [forked, forked_by_sdk])
@pytest.mark.parametrize("fork_first", [False, True])
def test_a_fork_adds_only_what_is_new(harken: Harken, tmp_path: Path, fork: Any, fork_first: bool) -> None:
    before = said(FIRST, 1, *SAID)
    own = write(tmp_path, FIRST, before)
    copy = write(tmp_path, FORK, [*fork(before, FORK), *said(FORK, 5, "And otters?", "None.")])
    harken.import_transcripts("claude-code", [copy, own] if fork_first else [own, copy])
    assert texts(harken) == {FIRST: list(SAID), FORK: ["And otters?", "None."]}


@pytest.mark.parametrize("caller", ["", "a0"])
def test_a_forked_subagent_does_not_say_again_what_it_goes_on_from(harken: Harken, tmp_path: Path, caller: str) -> None:
    own = write(tmp_path, FIRST, said(FIRST, 1, *SAID))
    folder = tmp_path / FIRST / "subagents"
    folder.mkdir(parents=True)
    told = "<fork-boilerplate>You are a worker.</fork-boilerplate>\n\nYour directive: Count the otters."
    before = said(FIRST, 1, *SAID) if not caller else said(FIRST, 11, "Look.", "Looked.")
    if caller:
        write(folder, "agent-a0", [{**line, "isSidechain": True, "agentId": "a0"} for line in before])
    lines = [{**line, "isSidechain": True, "agentId": "a1"} for line in (*before, *said(FIRST, 21, told, "None."))]
    side = write(folder, "agent-a1", lines)
    facts = {"agentType": "fork", "isFork": True, **({"parentAgentId": caller} if caller else {})}
    side.with_suffix(".meta.json").write_text(json.dumps(facts))
    harken.import_transcripts("claude-code", [own, side])
    assert texts(harken) == {FIRST: list(SAID)}
    uid = harken.chats.session(f"{FIRST}/agent-a1", "claude-code").conversation_uid
    assert [message.text for message in harken.show(uid).messages] == ["Your directive: Count the otters.", "None."]


@pytest.mark.parametrize("helper", ["acompact", "aprompt_suggestion"])
def test_what_claude_code_asks_itself_is_nobodys_word(harken: Harken, tmp_path: Path, helper: str) -> None:
    own = write(tmp_path, FIRST, said(FIRST, 1, *SAID))
    folder = tmp_path / FIRST / "subagents"
    folder.mkdir(parents=True)
    lines = said(FIRST, 1, *SAID, "Your task is to create a detailed summary.", "<summary>Zebras.</summary>")
    side = write(folder, f"agent-{helper}-f5b7ac", [{**line, "isSidechain": True} for line in lines])
    assert harken.import_transcripts("claude-code", [own, side]).added == len(SAID)
    assert harken.import_transcripts("claude-code", [side]).unchanged == 1


def test_warming_up_a_subagent_is_nobodys_word(harken: Harken, tmp_path: Path) -> None:
    lines = [{**line, "isSidechain": True} for line in said(FIRST, 1, "Warmup", "I am ready.")]
    assert harken.import_transcripts("claude-code", [write(tmp_path, "agent-a658308b", lines)]).added == 0


@pytest.mark.parametrize("described", [False, True])
def test_a_question_asked_aside_is_told_without_what_was_said_before(
    harken: Harken, tmp_path: Path, described: bool
) -> None:
    own = write(tmp_path, FIRST, said(FIRST, 1, *SAID))
    folder = tmp_path / FIRST / "subagents"
    folder.mkdir(parents=True)
    asked = "<system-reminder>This is a side question from the user.</system-reminder>\n\nWhat is an okapi?"
    lines = said(FIRST, 1, *SAID, asked, "A giraffe.")
    side = write(folder, "agent-aside_question-5ce17f65", [{**line, "isSidechain": True} for line in lines])
    if described:
        side.with_suffix(".meta.json").write_text('{"agentType": "general-purpose"}')
    harken.import_transcripts("claude-code", [own, side])
    uid = harken.chats.session(f"{FIRST}/agent-aside_question-5ce17f65", "claude-code").conversation_uid
    assert [message.text for message in harken.show(uid).messages] == ["What is an okapi?", "A giraffe."]


def test_a_fork_of_a_fork_tells_each_part_once(harken: Harken, tmp_path: Path) -> None:
    first = said(FIRST, 1, *SAID)
    second = [*forked(first, FORK), *said(FORK, 5, "And otters?", "None.")]
    third = [*forked(second, SECOND_FORK), *said(SECOND_FORK, 7, "And newts?", "Nine.")]
    for session, lines in ((FIRST, first), (FORK, second), (SECOND_FORK, third)):
        harken.import_transcripts("claude-code", [write(tmp_path, session, lines)])
    assert texts(harken) == {FIRST: list(SAID), FORK: ["And otters?", "None."], SECOND_FORK: ["And newts?", "Nine."]}


def test_a_fork_whose_other_session_is_gone_tells_it_under_the_others_name(harken: Harken, tmp_path: Path) -> None:
    lines = [*forked(said(FIRST, 1, *SAID), FORK), *said(FORK, 5, "And otters?")]
    harken.import_transcripts("claude-code", [write(tmp_path, FORK, lines)])
    assert texts(harken) == {FIRST: list(SAID), FORK: ["And otters?"]}


def test_a_prompt_that_nobody_answered_before_the_fork_is_told_once(harken: Harken, tmp_path: Path) -> None:
    before = said(FIRST, 1, *SAID, "Never mind")
    own = write(tmp_path, FIRST, before)
    again = said(FORK, 7, "And otters?", "None.")
    harken.import_transcripts("claude-code", [own, write(tmp_path, FORK, [*forked(before, FORK), *again])])
    assert texts(harken) == {FIRST: [*SAID, "Never mind"], FORK: ["And otters?", "None."]}


@pytest.mark.parametrize("fork", [forked, forked_by_sdk])
@pytest.mark.parametrize("whole", [False, True])
def test_what_was_forgotten_does_not_come_back_with_a_fork(
    harken: Harken, tmp_path: Path, fork: Any, whole: bool
) -> None:
    before = said(FIRST, 1, *SAID)
    harken.import_transcripts("claude-code", [write(tmp_path, FIRST, before)])
    uid = harken.chats.session(FIRST, "claude-code").conversation_uid
    doomed = [uid] if whole else [message.uid for message in harken.show(uid).messages[:2]]
    harken.maintenance.forget(harken.maintenance.plan_forget(**{"conversations" if whole else "messages": doomed}))
    lines = [*fork(before, FORK), *said(FORK, 5, "And otters?", "None.")]
    harken.import_transcripts("claude-code", [write(tmp_path, FORK, lines)])
    kept = {} if whole else {FIRST: list(SAID[2:])}
    assert texts(harken) == {**kept, FORK: ["And otters?", "None."]}
    assert not harken.search("zebras", mode="keyword").hits


def test_a_live_fork_is_read_on_where_it_was_left(harken: Harken, tmp_path: Path) -> None:
    before = said(FIRST, 1, *SAID)
    harken.import_transcripts("claude-code", [write(tmp_path, FIRST, before)])
    copied = forked(before, FORK)
    for more in (["And otters?"], ["And otters?", "None."]):
        harken.import_transcripts("claude-code", [write(tmp_path, FORK, [*copied, *said(FORK, 5, *more)])])
    assert texts(harken) == {FIRST: list(SAID), FORK: ["And otters?", "None."]}


def test_sessions_that_older_versions_resumed_in_new_files_tell_each_part_once(harken: Harken, tmp_path: Path) -> None:
    # Their ids tell nothing of the order, the files' times do.
    first = said(SECOND_FORK, 1, *SAID)
    second = [*resumed(first, FIRST), *said(FIRST, 5, "And otters?", "None.")]
    third = [*resumed(second[1:], FORK), *said(FORK, 7, "And newts?", "Nine.")]
    for age, (session, lines) in enumerate(((SECOND_FORK, first), (FIRST, second), (FORK, third))):
        os.utime(write(tmp_path, session, lines), (age, age))
    harken.import_transcripts("claude-code", [tmp_path])
    assert texts(harken) == {
        SECOND_FORK: list(SAID),
        FIRST: ["And otters?", "None."],
        FORK: ["And newts?", "Nine."],
    }


def test_what_was_forgotten_does_not_come_back_with_a_session_resumed_in_a_new_file(
    harken: Harken, tmp_path: Path
) -> None:
    before = said(FIRST, 1, *SAID)
    harken.import_transcripts("claude-code", [write(tmp_path, FIRST, before)])
    uid = harken.chats.session(FIRST, "claude-code").conversation_uid
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[uid]))
    lines = [*resumed(before, FORK), *said(FORK, 5, "And otters?", "None.")]
    harken.import_transcripts("claude-code", [write(tmp_path, FORK, lines)])
    assert texts(harken) == {FORK: ["And otters?", "None."]}


@pytest.mark.parametrize("fork", [forked, forked_by_sdk])
def test_a_session_that_goes_on_after_its_fork_has_ended_keeps_what_was_said_in_it(
    harken: Harken, tmp_path: Path, fork: Any
) -> None:
    before = said(FIRST, 1, *SAID)
    copy = write(tmp_path, FORK, [*fork(before, FORK), *said(FORK, 5, "And otters?", "None.")])
    os.utime(copy, (1, 1))
    write(tmp_path, FIRST, [*before, *said(FIRST, 7, "And newts?", "Nine.")])
    harken.import_transcripts("claude-code", [tmp_path])
    assert texts(harken) == {FIRST: [*SAID, "And newts?", "Nine."], FORK: ["And otters?", "None."]}


def test_sessions_whose_ids_count_from_one_are_no_copies(harken: Harken, tmp_path: Path) -> None:
    write(tmp_path, FIRST, said(FIRST, 1, *SAID))
    write(tmp_path, FORK, said(FORK, 1, "How many newts?", "Nine.", "And toads?", "Ten."))
    harken.import_transcripts("claude-code", [tmp_path])
    assert texts(harken) == {FIRST: list(SAID), FORK: ["How many newts?", "Nine.", "And toads?", "Ten."]}
