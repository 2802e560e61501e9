from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, inspect

from harken.model.conversations import Role
from harken.storage import migrations
from harken.storage.enrichment.spend import Spent, spent_in_all
from harken.storage.ports import RowScope
from harken.storage.sqlite.fulltext import MARK, SCHEMA, VIEW
from harken.storage.sqlite.store import SqliteStore
from harken.storage.tables import metadata
from harken.testing.store_conformance.asking import found, keep, text_problems
from harken.testing.talk import Talk


def mixed_talk() -> Talk:
    """What a person, an agent and a tool say."""
    talk = Talk("town")
    talk.say("zebra one")
    talk.say("zebra code", Role.ASSISTANT)
    talk.say("zebra page", Role.TOOL)
    return talk


def _made_by(version: str, path: Path) -> None:
    """A database as the Harken of that schema version left it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", "harken.storage:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        for statement in SCHEMA:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_an_older_database_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    _made_by("0001", tmp_path / "harken.db")
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    with store.reading() as tx:
        assert migrations.current_version(tx.connection) == migrations.HEAD
        assert spent_in_all(tx) == Spent()
    store.close()


def test_the_migrations_make_the_tables_that_the_statements_use(tmp_path: Path) -> None:
    _made_by("head", tmp_path / "harken.db")
    engine = create_engine(f"sqlite:///{tmp_path / 'harken.db'}")
    made = inspect(engine)
    for table in metadata.tables.values():
        assert {column["name"] for column in made.get_columns(table.name)} == set(table.columns.keys())
    engine.dispose()


def test_what_an_older_full_text_has_indexed_learns_what_is_not_to_be_trusted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "harken.db", tmp_path / "cache")
    keep(store, mixed_talk())
    with store.writing() as tx:
        older = VIEW.replace(f"|| CASE WHEN e.trust IN ('tool', 'untrusted') THEN ' {MARK}' ELSE '' END", "")
        assert older != VIEW
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
