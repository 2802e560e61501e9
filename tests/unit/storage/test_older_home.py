"""A home that the tree before made, at schema 0010, goes on with this one.

`home_0010.tar.xz` was made by commit c6fa7f6: conversations in segments, tools, an import, a chat with a script,
a task run, memories, experiences and their clusters, core memory, indexed code, summaries that were paid for, vectors,
failed work, settings made at run time; and forgotten messages, a forgotten conversation, a forgotten memory.
"""

from __future__ import annotations

import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import StoreError
from harken.storage.conversations import messages_of
from harken.storage.migrations import HEAD
from harken.testing.store_conformance.asking import differing_traits

OLD = Path(__file__).with_name("home_0010.tar.xz")
# What the new schema says otherwise: the version, a place by its position, and where the journal ends.
CHANGED = {"alembic_version", "segment_summaries", "sqlite_sequence"}
# What the first schema, 0001, had not yet.
NEW_TABLES = [
    "core_memory",
    "segment_summaries",
    "summarized_messages",
    "spend",
    "summaries",
    "retrievals",
    "entry_facets",
    "memories",
    "indexed_files",
    "code_units",
    "passages",
    "commits",
    "commit_files",
    "histories",
    "experiences",
    "learned_values",
    "clusters",
    "cluster_members",
    "checks",
    "injections",
]
NEW_INDEXES = ("ix_exchanges_started", "ix_entries_source", "ix_messages_results")
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "home"


@pytest.fixture
def harken(home: Path) -> Iterator[Harken]:
    with Harken(home, env={"HARKEN_EMBEDDER": "none"}) as harken:
        yield harken


def rows_of(home: Path) -> Rows:
    """Every row of every table."""
    with closing(sqlite3.connect(home / "harken.db")) as database:
        database.row_factory = sqlite3.Row
        listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'entry_index%'"
        return {
            name: [dict(row) for row in database.execute(f"SELECT * FROM {name} ORDER BY 1")]
            for (name,) in database.execute(listed).fetchall()
        }


def test_every_row_is_there_and_as_it_was(home: Path) -> None:
    before = rows_of(home)
    assert len(before["messages"]) > 1_000
    assert all(before[name] for name in ("memories", "experiences", "summaries", "spend", "tombstones", "failed_work"))
    Harken(home, env={"HARKEN_EMBEDDER": "none"}).close()
    after = rows_of(home)
    assert after["alembic_version"] == [{"version_num": HEAD}]
    for name in before.keys() - CHANGED:
        kept = [{column: row[column] for column in before[name][0]} for row in after[name]] if before[name] else []
        assert kept == before[name], name
    texts = [(row["segment_id"], row["left_id"], row["text"]) for row in before["segment_summaries"]]
    assert [(row["segment_id"], row["left_id"], row["text"]) for row in after["segment_summaries"]] == texts
    places = {row["id"]: row["position"] for row in after["messages"]}
    assert all(row["left_position"] == places[row["left_id"]] for row in after["segment_summaries"])


def test_the_doctor_is_content_and_the_order_is_that_of_recording(home: Path, harken: Harken) -> None:
    assert harken.maintenance.doctor() == []
    assert differing_traits(harken.store) == []
    rows = rows_of(home)
    with harken.store.reading() as tx:
        for conversation in rows["conversations"]:
            recorded = [row["uid"] for row in rows["messages"] if row["conversation_id"] == conversation["id"]]
            assert [message.uid for message in messages_of(tx, conversation["uid"])] == recorded


def test_its_full_text_is_merged_in_steps_from_now_on(home: Path, harken: Harken) -> None:
    harken.record_message("c", "user", "hello")
    with closing(sqlite3.connect(home / "harken.db")) as database:
        merging = dict(database.execute("SELECT k, v FROM entry_index_config"))
    assert (merging["automerge"], merging["crisismerge"]) == (8, 64)


def test_it_is_counted_once_and_shown_by_what_is_kept(home: Path, harken: Harken) -> None:
    counts = harken.maintenance.status().counts
    rows = rows_of(home)
    assert counts.messages == len(rows["messages"]) > 1_000
    assert counts.entries == len(rows["entries"])
    assert {row["last_id"] for row in rows["counted_rows"] if row["name"] == "messages"} == {
        max(row["id"] for row in rows["messages"])
    }


def test_its_journal_alone_brings_back_what_it_has_said(home: Path, harken: Harken) -> None:
    before = rows_of(home)
    for _ in harken.maintenance.reindex_from_journal():
        pass
    assert harken.maintenance.doctor() == []
    assert differing_traits(harken.store) == []
    after = rows_of(home)
    for name in ("messages", "memories", "experiences", "core_memory", "tombstones"):
        assert {row.get("uid", row.get("key")) for row in after[name]} == {
            row.get("uid", row.get("key")) for row in before[name]
        }
    for name in ("spend", "summaries", "vectors"):
        assert len(after[name]) == len(before[name])


def test_one_of_the_first_schema_gets_the_tables_that_it_lacks(home: Path, empty_database: Path) -> None:
    with closing(sqlite3.connect(home / "harken.db")) as database, database:
        for table in NEW_TABLES:
            database.execute(f"DROP TABLE {table}")
        for index in NEW_INDEXES:
            database.execute(f"DROP INDEX {index}")
        database.execute("UPDATE alembic_version SET version_num = '0001'")
    before = rows_of(home)["messages"]
    with Harken(home, env={"HARKEN_EMBEDDER": "none"}) as harken:
        harken.core.update("user", "name", "Maya")
        assert harken.core.get("user", "name") == "Maya"
    assert [row["uid"] for row in rows_of(home)["messages"]] == [row["uid"] for row in before]
    assert _shape(home / "harken.db") == _shape(empty_database)


def test_a_step_that_fails_leaves_it_as_it_was(home: Path) -> None:
    with closing(sqlite3.connect(home / "harken.db")) as database, database:
        database.execute("DROP INDEX ix_entries_turns")
    before = rows_of(home)
    with pytest.raises(StoreError, match="ix_entries_turns"):
        Harken(home, env={"HARKEN_EMBEDDER": "none"})
    assert rows_of(home) == before
    with closing(sqlite3.connect(home / "harken.db")) as database, database:
        database.execute("CREATE INDEX ix_entries_turns ON entries (conversation_id, is_turn, created_at, id)")
    with Harken(home, env={"HARKEN_EMBEDDER": "none"}) as harken:
        assert harken.maintenance.doctor() == []


def test_it_has_the_tables_keys_and_indexes_of_a_new_one(home: Path, harken: Harken, empty_database: Path) -> None:
    assert _shape(home / "harken.db") == _shape(empty_database)


def _shape(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        shape: dict[str, Any] = {}
        for name in names:
            columns = database.execute(f"PRAGMA table_xinfo({name})").fetchall()
            shape[name] = {tuple(column[1:]) for column in columns}
            for index in database.execute(f"PRAGMA index_list({name})").fetchall():
                parts = database.execute(f"PRAGMA index_xinfo('{index[1]}')").fetchall()
                shape[f"{name} {index[1]}"] = (index[2:], [part[2:] for part in parts])
        return shape
