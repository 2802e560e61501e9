from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from harken.model.conversations import Role
from harken.storage import migrations
from harken.storage.conversations import messages_of
from harken.storage.migrations import schema
from harken.storage.migrations.schema import ALL_TABLES
from harken.storage.ports import RowScope
from harken.storage.positions import STEP
from harken.storage.sqlite.indexed import MARK, VIEW
from harken.storage.sqlite.store import SqliteStore
from harken.testing.store_conformance.asking import differing_traits, found, keep, text_problems
from harken.testing.talk import START, Talk


def mixed_talk() -> Talk:
    """What a person, an agent and a tool say."""
    talk = Talk("town")
    talk.say("zebra one")
    talk.say("zebra code", Role.ASSISTANT)
    talk.say("zebra page", Role.TOOL)
    return talk


def without_positions(connection: Connection) -> None:
    """Make a database what it was before messages had positions, when neighbours were found by time."""
    by_time = VIEW.replace("n.position", "n.created_at").replace("e.position", "e.created_at")
    for statement in (
        "DROP VIEW entry_words",
        "DROP INDEX ix_messages_conversation",
        "DROP INDEX ix_entries_turns",
        "ALTER TABLE messages DROP COLUMN position",
        "ALTER TABLE entries DROP COLUMN position",
        "ALTER TABLE entries DROP COLUMN traits",
        "ALTER TABLE segment_summaries RENAME COLUMN left_position TO left_at",
        "CREATE INDEX ix_messages_conversation ON messages (conversation_id, created_at, id)",
        "CREATE INDEX ix_entries_turns ON entries (conversation_id, is_turn, created_at, id)",
        by_time,
        "INSERT INTO entry_index(entry_index) VALUES ('rebuild')",
        "UPDATE alembic_version SET version_num = '0010'",
    ):
        connection.exec_driver_sql(statement)


def test_the_newest_version_is_the_last_of_the_chain() -> None:
    config = Config()
    config.set_main_option("script_location", "harken.storage:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [migrations.HEAD]


def test_the_stores_of_tests_have_the_tables_that_a_first_day_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here later ones are made by the statements of the first (`shared_statements.py`), and not by `create`."""

    def made(name: str) -> list[tuple[object, ...]]:
        store = SqliteStore(tmp_path / name, tmp_path)
        with store.reading() as tx:
            rows = tx.connection.exec_driver_sql("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master")
            stamped = tx.connection.exec_driver_sql("SELECT version_num, '', '', '', 0 FROM alembic_version")
            found = [tuple(row) for row in (*rows, *stamped)]
        store.close()
        return found

    made("first")
    again = made("again")
    monkeypatch.setattr(schema, "create", schema.create._create)  # type: ignore[attr-defined]
    assert again == made("compiled")
    assert len(again) > 100


def test_since_the_oldest_harken_that_may_go_on_nothing_was_taken_away_and_nothing_has_to_be_given() -> None:
    """A server's old processes write to the new tables until they are replaced."""
    told = (Path(__file__).parent / f"columns_{migrations.SERVES_FROM}.txt").read_text(encoding="utf-8").splitlines()
    old = {name: set(columns.split()) for name, columns in (line.split(":") for line in told)}
    for name, columns in old.items():
        present = {column.name: column for column in ALL_TABLES[name].columns}
        assert columns <= present.keys(), name
        asked = {each for each, column in present.items() if not (column.nullable or column.server_default)}
        assert asked <= columns, name


def test_what_an_older_full_text_has_indexed_learns_what_is_not_to_be_trusted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    keep(store, mixed_talk())
    with store.writing() as tx:
        without_positions(tx.connection)
        before = VIEW.replace("n.position", "n.created_at").replace("e.position", "e.created_at")
        older = before.replace(f"|| CASE WHEN e.trust IN ('tool', 'untrusted') THEN ' {MARK}' ELSE '' END", "")
        assert older != before
        run = tx.connection.exec_driver_sql
        run("UPDATE entries SET trust = 'untrusted', source = 'code' WHERE text = 'zebra code'")
        run("DROP VIEW entry_words")
        run(older)
        tx.text.rebuild(tx.connection)
        run("UPDATE alembic_version SET version_num = '0009'")
    store.close()
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    assert text_problems(store) == []
    assert len(found(store, "zebra")) == 3
    assert len(found(store, "zebra", scope=RowScope(without_untrusted=True))) == 2
    store.close()


def test_an_older_database_gets_its_order_from_its_exchanges_and_the_words_of_true_neighbours(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    talk = Talk("resumed")
    later = START + timedelta(days=1)
    for number in range(4):
        talk.begin_exchange()
        talk.say(f"question {number} apple{number}")
        # As an agent writes it that resumes a session.
        talk.say(f"answer {number} berry{number}", Role.ASSISTANT, at=later)
    other = Talk("ordinary")
    other.say("cherry")
    keep(store, talk, other)
    with store.writing() as tx:
        without_positions(tx.connection)
    assert text_problems(store) == []
    store.close()
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    with store.reading() as tx:
        assert [one.text for one in messages_of(tx, talk.uid)] == [one.text for one in talk.messages]
        assert [one.position for one in messages_of(tx, other.uid)] == [STEP]
    assert text_problems(store) == []
    # By time, all questions stood before all answers.
    assert set(found(store, "apple0")) == {one.uid for one in talk.messages[:3]}
    store.close()


def test_russian_words_that_were_indexed_with_their_endings_lose_them(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    talk = Talk("harbour")
    for text in ("Мы были в гавани", "nothing of it here", "Корабли ушли"):
        talk.say(text)
    keep(store, talk)
    with store.writing() as tx:
        driver: Any = tx.connection.connection.dbapi_connection
        driver.create_function("harken_words", 1, lambda text: text, deterministic=True)
        tx.text.rebuild(tx.connection)
        tx.connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0015'")
    store.close()
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    assert text_problems(store) == []
    assert found(store, "гаванью", with_context=False) == [talk.messages[0].uid]
    store.close()


def test_entries_of_the_version_before_are_told_what_their_texts_are_like(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    keep(store, mixed_talk())
    with store.writing() as tx:
        tx.connection.exec_driver_sql("ALTER TABLE entries DROP COLUMN traits")
        tx.connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0011'")
    store.close()
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    assert differing_traits(store) == []
    store.close()
