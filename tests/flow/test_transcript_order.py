"""Conversations stand in the order of their transcripts, whatever times these state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plain_transcripts import (
    TOOL,
    Token,
    chatgpt_tokens,
    claude_ai_tokens,
    claude_code_tokens,
    codex_tokens,
    lines_of,
)

from command_line import CommandLine, as_variables
from harken.engine import Harken
from harken.model.conversations import Message, MessageType
from harken.storage.tables import conversations

AGENTS = ("claude-code", "codex", "chatgpt", "claude-ai")
# Two messages before and two behind are shown with one: each has been shown by then, with those beside it.
ONE_OF = 3
# Commands take longer than the library's calls: they are asked for one message in so many.
ONE_IN = 120


def true_sequences(agent: str, folder: Path) -> list[list[Token]]:
    """What each conversation says, read by plain JSON: along the chain of parents, then as the lines stand."""
    if agent == "claude-code":
        return sessions(folder)
    if agent == "codex":
        return [[token for line in lines_of(path) for token in codex_tokens(line)] for path in folder.rglob("*.jsonl")]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    talks = [talk for document in documents for talk in (document if isinstance(document, list) else [document])]
    if agent == "chatgpt":
        return [branch_in_use(talk) for talk in talks]
    return [[token for message in talk["chat_messages"] for token in claude_ai_tokens(message)] for talk in talks]


def sessions(folder: Path) -> list[list[Token]]:
    """What each session says; one that is in several files as these were written, a subagent's by itself."""
    said: dict[tuple[Any, bool], list[Token]] = {}
    for path in sorted(folder.rglob("*.jsonl"), key=lambda path: (path.stat().st_mtime, str(path))):
        for line in along_parents(list(lines_of(path))):
            key = line.get("sessionId"), path.parent.name == "subagents"
            said.setdefault(key, []).extend(claude_code_tokens(line))
    return list(said.values())


def along_parents(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Always the first line whose parent has been."""
    present = {line["uuid"] for line in lines if line.get("uuid")}
    done: set[Any] = set()
    while lines:
        ready = next(line for line in lines if line.get("parentUuid") not in present - done)
        lines.remove(ready)
        done.add(ready.get("uuid"))
        yield ready


def branch_in_use(talk: dict[str, Any]) -> list[Token]:
    """From the current node to the root, and turned round."""
    key, tokens = talk["current_node"], list[Token]()
    while key:
        node = talk["mapping"][key]
        tokens = chatgpt_tokens(node.get("message") or {}) + tokens
        key = node.get("parent")
    return tokens


def as_token(message: Message, agent: str) -> Token:
    """A message of Harken's; ChatGPT's tools have no ids."""
    if message.type is MessageType.TEXT:
        return message.role.value, message.text
    return TOOL, "" if agent == "chatgpt" else message.call_id or ""


@pytest.fixture
def stored(cli: CommandLine, engine_settings: dict[str, Any]) -> CommandLine:
    """The command line on a store of each engine."""
    return replace(cli, settings={**cli.settings, **as_variables(engine_settings)})


@contextmanager
def opened(cli: CommandLine) -> Iterator[Harken]:
    """The same store from Python."""
    with Harken(cli.home, env=cli.settings) as harken:
        yield harken


def talks_of(harken: Harken) -> list[tuple[Message, ...]]:
    """What was said in each conversation, as it is shown; nobody said markers."""
    with harken.store.reading() as tx:
        uids = list(tx.connection.scalars(tx.select(conversations.c.uid)))
    talks = [harken.show(uid).messages for uid in uids]
    return [tuple(one for one in talk if one.type is not MessageType.MARKER) for talk in talks]


def matching(truth: list[Token], talks: list[tuple[Message, ...]], agent: str) -> tuple[Message, ...]:
    """The recorded talk of a transcript; of a tree, what is on the branch."""
    wanted = Counter(truth)
    holding = (talk for talk in talks if wanted <= Counter(as_token(one, agent) for one in talk))
    talk = min(holding, key=len)
    return tuple(one for one in talk if as_token(one, agent) in wanted)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_transcript_is_kept_and_shown_in_its_own_order(
    agent: str, stored: CommandLine, shared_data: Path
) -> None:
    stored("import", agent, shared_data / "transcripts" / agent)
    truths = [truth for truth in true_sequences(agent, shared_data / "transcripts" / agent) if truth]
    assert truths
    with opened(stored) as harken:
        talks = talks_of(harken)
        for truth in truths:
            talk = matching(truth, talks, agent)
            assert [as_token(one, agent) for one in talk] == truth
            if talk not in talks:
                # Beside the branch in use stand others.
                continue
            for number, message in list(enumerate(talk))[1::ONE_OF]:
                around = harken.show(message.uid, 2).messages
                said = [as_token(one, agent) for one in around if one.type is not MessageType.MARKER]
                window = truth[max(0, number - 2) : number + 3]
                assert said == window or (len(said) < len(around) and said[0] in window and said[-1] in window)
                if number % ONE_IN == 1:
                    shown = stored("show", message.uid, "--around", "1", "--json").json()["messages"]
                    own = [one["id"] for one in shown].index(message.uid)
                    near = [one["text"] for one in shown if one["type"] != "marker"]
                    assert set(near) <= {one.text for one in talk[max(0, number - 1) : number + 2]}
                    assert shown[own]["text"] == message.text


def test_a_resumed_session_that_was_stamped_anew_is_shown_in_its_order_as_it_grows(
    stored: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "resumed.jsonl"
    with file.open("w") as session:
        for number in range(6):
            session.write(stamped_anew(number))
    stored("import", "claude-code", file)
    with file.open("a") as session:
        for number in range(6, 16):
            session.write(stamped_anew(number))
    stored("import", "claude-code", file)
    with opened(stored) as harken:
        (talk,) = talks_of(harken)
        assert [one.text for one in talk] == [f"word{number}" for number in range(16)]
        # Two neighbours on each side are searched with a turn's own words.
        hits = harken.search("word5", mode="keyword").hits
        assert {hit.entry.ref_uid for hit in hits} == {one.uid for one in talk[3:8]}
    for number in (1, 4, 5, 6, 9):
        shown = stored("show", talk[number].uid, "--around", "1", "--json").json()
        assert [one["text"] for one in shown["messages"]] == [f"word{near}" for near in range(number - 1, number + 2)]
        assert (shown["before"], shown["after"]) == (number - 1, 14 - number)


def stamped_anew(number: int) -> str:
    """A line of a session whose answers all have the time at which it was resumed."""
    asks = number % 2 == 0
    role, text = ("user", f"word{number}") if asks else ("assistant", [{"type": "text", "text": f"word{number}"}])
    line = {
        "type": role,
        "uuid": f"line-{number}",
        "parentUuid": f"line-{number - 1}" if number else None,
        "sessionId": "resumed",
        "timestamp": f"2025-09-19T23:{number + 20}:00.000Z" if asks else "2025-09-20T04:34:59.561Z",
        "message": {"role": role, "content": text},
    }
    return json.dumps(line) + "\n"
