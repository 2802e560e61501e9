"""A store that an older Harken has made goes on with this one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from harken.engine import Harken
from harken.storage.migrations import HEAD
from harken.storage.sqlite.fulltext import VIEW

NEW_SINCE_FIRST = (
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
)


def test_a_store_of_the_first_schema_is_upgraded_and_keeps_what_it_has(tmp_path: Path) -> None:
    env = {"HARKEN_EMBEDDER": "none"}
    with Harken(tmp_path, env=env) as harken:
        uid = harken.record_message("talk", "user", "a zebra").uid
    with sqlite3.connect(tmp_path / "harken.db") as database:
        for table in NEW_SINCE_FIRST:
            database.execute(f"DROP TABLE {table}")
        for index in ("ix_exchanges_started", "ix_entries_source", "ix_messages_results"):
            database.execute(f"DROP INDEX {index}")
        database.execute("DROP VIEW entry_words")
        for table, index in (("messages", "ix_messages_conversation"), ("entries", "ix_entries_turns")):
            database.execute(f"DROP INDEX {index}")
            database.execute(f"ALTER TABLE {table} DROP COLUMN position")
            database.execute(f"CREATE INDEX {index} ON {table} (conversation_id, created_at, id)")
        database.execute(VIEW.replace("n.position", "n.created_at").replace("e.position", "e.created_at"))
        database.execute("UPDATE alembic_version SET version_num = '0001'")
    database.close()
    with Harken(tmp_path, env=env) as harken:
        assert [hit.entry.ref_uid for hit in harken.search("zebra").hits] == [uid]
        harken.core.update("user", "name", "Maya")
        assert harken.core.get("user", "name") == "Maya"
        with harken.store.reading() as tx:
            assert tx.connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD
