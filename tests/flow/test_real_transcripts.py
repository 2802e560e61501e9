"""Real transcripts of four agents: all that was said is found, all is counted right, nothing else is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plain_transcripts import Plain, read_plain
from sqlalchemy import select

from command_line import CommandLine
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.storage.tables import conversations, messages
from harken.text.words import STOP_WORDS

AGENTS = ("claude-code", "codex", "chatgpt", "claude-ai")
# A run of plain characters reads the same in a journal's JSON and in a database page.
PLAIN_RUN = re.compile(r"[A-Za-z0-9 ,._:;()-]{12,60}")


@pytest.fixture(scope="module", params=AGENTS)
def imported(
    request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CommandLine, str, Plain]:
    """The agent's transcripts, imported by the command line; with its name, and what plain JSON says is in them."""
    agent = str(request.param)
    place = tmp_path_factory.mktemp(agent)
    (place / "person").mkdir()
    cli = CommandLine(place / "home", place / "person", {"HARKEN_EMBEDDER": "none"})
    cli("import", agent, shared_data / "transcripts" / agent)
    return cli, agent, read_plain(agent, shared_data / "transcripts" / agent)


@pytest.fixture
def opened(imported: tuple[CommandLine, str, Plain]) -> Iterator[Harken]:
    with Harken(imported[0].home, settings={"embedder": "none"}, env={}) as harken:
        yield harken


def rows(harken: Harken) -> list[Any]:
    with harken.store.reading() as tx:
        statement = select(messages, conversations.c.uid.label("conversation_uid")).join(
            conversations, conversations.c.id == messages.c.conversation_id
        )
        return list(tx.connection.execute(statement).all())


def test_every_text_and_every_tool_use_is_there_once_and_nothing_else(
    imported: tuple[CommandLine, str, Plain], opened: Harken
) -> None:
    plain, found = imported[2], rows(opened)
    assert Counter((row.role, row.text) for row in found if row.type == "text") == plain.said
    assert sum(row.type in ("tool_call", "tool_result") for row in found) == plain.tools
    assert {row.type for row in found} <= {"text", "tool_call", "tool_result", "marker"}


def test_every_text_is_found_by_a_search_for_its_words(
    imported: tuple[CommandLine, str, Plain], opened: Harken
) -> None:
    said = [row for row in rows(opened) if row.type == "text"]
    spread = Counter(word for row in said for word in set(words_of(row.text)))
    missed, wordless = [], 0
    for row in said:
        words = sorted(words_of(row.text), key=lambda word: (spread[word], -len(word), word))[:6]
        if not words:
            wordless += 1
            continue
        scope = SearchScope(conversation=row.conversation_uid)
        hits = opened.search(" ".join(words), scope=scope, limit=20, mode="keyword").hits
        if row.uid not in {hit.entry.ref_uid for hit in hits}:
            missed.append((words, row.text[:80]))
    assert missed == []
    assert wordless <= len(said) // 20


def test_a_second_run_adds_nothing_and_all_agrees(
    imported: tuple[CommandLine, str, Plain], shared_data: Path, tmp_path: Path
) -> None:
    cli, agent, plain = imported
    facts = cli("import", agent, shared_data / "transcripts" / agent, "--json").json()
    assert (facts["added"], facts["unchanged"]) == (0, facts["files"])
    # Nor does a machine that knows the words but not the files.
    copies = tmp_path / "copies"
    for file in sorted((shared_data / "transcripts" / agent).rglob("*.json*")):
        target = copies / file.relative_to(shared_data / "transcripts" / agent)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    facts = cli("import", agent, copies, "--json").json()
    assert (facts["added"], facts["unchanged"]) == (0, 0)
    assert facts["known"] >= sum(plain.said.values()) + plain.tools
    assert cli("doctor").out.startswith("All agrees")


def test_every_reply_is_in_an_exchange(opened: Harken) -> None:
    with opened.store.reading() as tx:
        statuses = set(tx.connection.exec_driver_sql("SELECT status FROM exchanges").scalars())
        adrift = tx.connection.exec_driver_sql(
            "SELECT count(*) FROM messages WHERE exchange_id NOT IN (SELECT id FROM exchanges)"
        ).scalar()
    assert adrift == 0
    assert statuses <= {"completed", "failed", "in_progress"}


def test_nothing_that_was_injected_is_in_any_file(
    imported: tuple[CommandLine, str, Plain], opened: Harken, shared_data: Path
) -> None:
    cli, agent, plain = imported
    files = [str(file) for file in (shared_data / "transcripts" / agent).rglob("*.json*")]
    found = rows(opened)
    # What a person or a tool said too, and the names of sessions, may be there; nothing else may.
    known = "\n".join([*files, *(f"{row.text} {row.metadata} {row.call_id} {row.tool_name}" for row in found)])
    telling = {run for text in plain.injected for run in PLAIN_RUN.findall(text) if run.strip() not in known}
    kept = b"\n".join(file.read_bytes() for file in sorted(cli.home.rglob("*")) if file.is_file())
    assert [run for run in sorted(telling) if run.encode() in kept] == []
    if agent == "claude-code":
        assert len(telling) > 300
        assert "MCPCTX hello there" in telling
        assert any("HTTPHOOKCTX" in run for run in telling)


def words_of(text: str) -> list[str]:
    """The words worth looking for."""
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]
