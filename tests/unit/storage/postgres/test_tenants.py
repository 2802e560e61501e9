"""Tenants share tables and never see each other, by their queries and by the server's own wall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from harken.engine import Harken
from harken.errors import ConfigError
from harken.storage.tables import metadata
from harken.testing import HashingEmbedder
from postgres_server import PostgresServer

SECRET = "the heron nests behind the mill"


def open_as(url: URL, tenant: str, folder: Path) -> Harken:
    settings = {"store": url.render_as_string(hide_password=False), "tenant": tenant, "embedding.min_message_tokens": 1}
    return Harken(folder / tenant, settings=settings, embedder=HashingEmbedder(), env={})


@pytest.fixture
def guest(postgres: PostgresServer, server_url: URL) -> Iterator[URL]:
    """A login with rights on the tables, which owns none of them."""
    with postgres.role("guest", server_url) as guest:
        yield guest


def test_one_tenant_finds_nothing_of_another(server_url: URL, tmp_path: Path) -> None:
    with open_as(server_url, "ann", tmp_path) as ann, open_as(server_url, "bob", tmp_path) as bob:
        said = ann.record_message("birds", "user", SECRET)
        ann.embed()
        bob.record_message("birds", "user", "quite another thing about a bridge")
        bob.embed()
        assert [hit.entry.text for hit in ann.search("heron").hits] == [SECRET]
        for mode in ("hybrid", "keyword", "semantic"):
            assert SECRET not in [hit.entry.text for hit in bob.search("heron mill nests", mode=mode).hits]
        assert bob.maintenance.status().counts.messages == 1
        bob.maintenance.forget(bob.maintenance.plan_forget(query="bridge"))
        assert ann.show(said.uid).message is not None
        assert ann.maintenance.doctor() == bob.maintenance.doctor() == []


def test_the_server_shows_a_role_the_rows_of_its_tenant_alone(server_url: URL, guest: URL, tmp_path: Path) -> None:
    with open_as(guest, "ann", tmp_path) as ann:
        ann.record_message("birds", "user", SECRET)
        ann.embed()
    with psycopg.connect(guest.render_as_string(hide_password=False)) as connection:
        for tenant in ("bob", ""):
            connection.execute("SELECT set_config('harken.tenant', %s, true)", (tenant,))
            for table in metadata.tables:
                assert connection.execute(f"SELECT * FROM {table}").fetchall() == [], table
            found = connection.execute(
                "SELECT * FROM harken_find(%s, NULL, false, '', null, null, 9, 1, 1, 9, 9)", (["heron"],)
            )
            assert found.fetchall() == []


def test_a_role_cannot_write_into_another_tenant(guest: URL, tmp_path: Path) -> None:
    with psycopg.connect(guest.render_as_string(hide_password=False)) as connection:
        connection.execute("SELECT set_config('harken.tenant', 'bob', true)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO settings (tenant, name, value) VALUES ('ann', 'x', '1')")


def test_every_key_and_index_begins_with_the_tenant(server_url: URL, postgres: PostgresServer) -> None:
    rows = postgres.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename != 'alembic_version'",
        server_url.database,
    )
    assert len(rows) > 30
    others = [name for name, definition in rows if "(tenant" not in definition and "(team" not in definition]
    # An inverted index holds the tenant as a word of each entry; a key is found before its team is known.
    assert sorted(others) == ["ix_entry_words", "ix_team_keys_digest"]


def test_the_embedded_store_has_one_tenant(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one tenant"):
        Harken(tmp_path, settings={"tenant": "ann", "embedder": "none"}, env={})
