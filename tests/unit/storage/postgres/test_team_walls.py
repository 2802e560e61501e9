"""The server itself holds teams apart: an application role sees the rows of one team, and of a key that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from crews import crew
from harken.model.team import Access, AuditEntry
from harken.storage.migrations import HEAD
from harken.storage.postgres.store import migrate
from harken.storage.team.tables import TEAM_TABLES
from harken.text.characters import sha256_of
from postgres_server import PostgresServer

Rows = list[tuple[object, ...]]
# The URL of an application role, and keys by their team.
Walled = tuple[URL, dict[str, str]]


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    """Two teams of two in one database: the URL of an application role, and the keys of both Alices."""
    place = tmp_path_factory.mktemp("teams")
    with postgres.database() as url, postgres.role("walled", url) as login:
        store, keys = login.render_as_string(hide_password=False), {}
        for name in ("north", "south"):
            with crew(place / name, store, name, "alice", "bob") as team:
                team.team.create_space(team.speaker("alice"), "farm")
                team.team.put_group(team.speaker("alice"), "growers", add=["bob"])
                team.team.grant(team.speaker("alice"), "farm", "growers", Access.READ)
                team.memory("alice", "farm").record_message("pumps", "user", f"The {name} pump leaks.")
                alice = team.speaker("alice")
                with team.team.requests.once(alice, "first", "digest") as claim:
                    claim.keep({"done": True})
                asked = alice.principal.id, None, None, "search", "http", 200
                team.team.requests.note(AuditEntry(datetime.now(UTC), name, *asked), at_once=True)
                keys[name] = team.keys["alice"]
        yield login, keys


def _seen(login: URL, table: str, **settings: str) -> Rows:
    with psycopg.connect(login.render_as_string(hide_password=False)) as connection:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (f"harken.{name}", value))
        return connection.execute(f"SELECT team FROM {table}").fetchall()  # type: ignore[arg-type]


@pytest.mark.parametrize("table", TEAM_TABLES)
def test_a_role_sees_the_rows_of_the_team_that_its_transaction_is_bound_to(database: Walled, table: str) -> None:
    login, _ = database
    assert _seen(login, table) == []
    for tenant in ("north", "north/anything"):
        assert {row[0] for row in _seen(login, table, tenant=tenant)} == {"north"}
    assert _seen(login, table, tenant="nort") == []
    assert _seen(login, table, tenant="") == []


def test_a_key_shows_its_own_row_and_nothing_else(database: Walled) -> None:
    login, keys = database
    shown = sha256_of(keys["south"])
    assert _seen(login, "team_keys", key=shown) == [("south",)]
    assert _seen(login, "team_keys", key=shown[:-1]) == []
    for table in set(TEAM_TABLES) - {"team_keys"}:
        assert _seen(login, table, key=shown) == []


def test_a_role_writes_into_no_other_team(database: Walled) -> None:
    login, keys = database
    for setting, value in (("harken.tenant", "north"), ("harken.key", sha256_of(keys["south"]))):
        with psycopg.connect(login.render_as_string(hide_password=False)) as connection:
            connection.execute("SELECT set_config(%s, %s, true)", (setting, value))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO team_groups (team, id, name) VALUES ('south', 'x', 'x')")
    with psycopg.connect(login.render_as_string(hide_password=False)) as connection:
        connection.execute("SELECT set_config('harken.key', %s, true)", (sha256_of(keys["south"]),))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE team_keys SET scopes = '[]'")


def test_the_key_itself_is_in_no_table(database: Walled, postgres: PostgresServer) -> None:
    login, keys = database
    secret = keys["north"].removeprefix("hk_")
    tables = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", login.database)
    for (table,) in tables:
        rows = postgres.execute(f"SELECT t::text FROM {table} t WHERE t::text LIKE '%{secret[8:]}%'", login.database)
        assert rows == []


def test_a_database_of_the_version_before_gets_the_tables_and_their_walls(
    server_url: URL, postgres: PostgresServer, tmp_path: Path
) -> None:
    for table in TEAM_TABLES:
        postgres.execute(f"DROP TABLE {table}", server_url.database)
    postgres.execute("UPDATE alembic_version SET version_num = '0014'", server_url.database)
    done = migrate(server_url)
    assert (done.before, done.schema) == ("0014", HEAD)
    walled = postgres.execute("SELECT tablename FROM pg_policies WHERE policyname = 'of_team'", server_url.database)
    assert {row[0] for row in walled} == set(TEAM_TABLES)
    with crew(tmp_path, server_url.render_as_string(hide_password=False), "late", "alice") as team:
        assert team.speaker("alice").principal.name == "alice"
