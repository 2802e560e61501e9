from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, inspect

from harken.storage import migrations
from harken.storage.spend import Spent, spent_in_all
from harken.storage.sqlite.store import SqliteStore
from harken.storage.tables import metadata


def _made_by(version: str, path: Path) -> None:
    """A database as the Harken of that schema version left it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", "harken.storage:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, version)
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
