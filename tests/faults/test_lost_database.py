"""The database is deleted: the journal gives back the same store, and what was forgotten stays gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import CommandLine, files_holding
from harken.engine import Harken

TALK = [
    {"conversation": f"c{number % 3}", "role": role, "content": text, "title": f"Talk {number % 3}", "author": author}
    for number, (role, text, author) in enumerate(
        [
            ("user", "What did the falconer bring to the market?", "Ada"),
            ("user", "How deep is the harbour at low tide?", None),
            ("user", "Who mends the organ of the chapel?", None),
            ("assistant", "He brought a kestrel and two merlins.", None),
            ("assistant", "Some four metres, less in a dry summer.", None),
            ("tool", "organ builder: Vandenberghe", None),
            ("user", "The surprise for grandmother is a zeppelinflight", None),
        ]
    )
]
TABLES = ("conversations", "segments", "exchanges", "messages", "tombstones")


@pytest.fixture
def told(cli: CommandLine, tmp_path: Path) -> CommandLine:
    """A store with three conversations, two segments in one that was recorded, and a message that was forgotten."""
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in TALK), encoding="utf-8")
    cli("import", path)
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        harken.record_message("live", "user", "Is the lantern lit?")
        harken.record_message("live", "assistant", "It is lit.")
        harken.new_segment("live")
        harken.record_message("live", "user", "Is the gate closed?")
        doomed = harken.maintenance.plan_forget(query="zeppelinflight")
        assert harken.maintenance.forget(doomed).messages == 1
    return cli


def everything(home: Path) -> dict[str, set[tuple[object, ...]]]:
    """Every row's lasting facts, without the row numbers."""
    columns = {
        "conversations": "uid, channel, external_id, title, created_at",
        "segments": "uid, number, started_at",
        "exchanges": "uid, number, status, started_at",
        "messages": "uid, role, type, text, author, created_at, trust, call_id, metadata",
        "tombstones": "uid, conversation_uid, kind",
    }
    with Harken(home, settings={"embedder": "none"}, env={}) as harken, harken.store.reading() as tx:
        query = tx.connection.exec_driver_sql
        return {table: set(map(tuple, query(f"SELECT {columns[table]} FROM {table}"))) for table in TABLES}


@pytest.mark.parametrize("lost", [("", "-wal", "-shm"), ("",)], ids=["with its log", "alone"])
def test_a_deleted_database_comes_back_with_the_same_ids(
    told: CommandLine, tmp_path: Path, lost: tuple[str, ...]
) -> None:
    before, hits = everything(told.home), told.search("organ harbour kestrel lantern")
    assert len(before["messages"]) == len(TALK) - 1 + 3
    assert len(before["segments"]) == 5
    for suffix in lost:
        (told.home / f"harken.db{suffix}").unlink(missing_ok=True)
    restored = told("reindex", "--from-journal")
    assert restored.out == "The database holds 9 messages of the journal.\n"
    assert everything(told.home) == before
    # How rare a word is counts by how many entries there ever were, forgotten ones among them.
    again = told.search("organ harbour kestrel lantern")
    assert [{**hit, "score": 0, "fused": 0, "reasons": []} for hit in again] == [
        {**hit, "score": 0, "fused": 0, "reasons": []} for hit in hits
    ]
    assert told("doctor").out.startswith("All agrees")
    assert files_holding(told.home, b"zeppelinflight") == []
    again = told("import", "jsonl", tmp_path / "talk.jsonl", "--json").json()
    assert (again["added"], again["forgotten"], again["known"]) == (0, 1, len(TALK) - 1)
    assert files_holding(told.home, b"zeppelinflight") == []
    assert everything(told.home) == before


def test_without_reindexing_the_next_command_brings_everything_back_and_says_so(told: CommandLine) -> None:
    before = everything(told.home)
    for suffix in ("", "-wal", "-shm"):
        (told.home / f"harken.db{suffix}").unlink(missing_ok=True)
    outcome = told("search", "kestrel")
    assert "He brought a kestrel" in outcome.out
    assert outcome.err == "Brought 9 messages from the journal into the database.\n"
    assert everything(told.home) == before
