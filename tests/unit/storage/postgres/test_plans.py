"""The statements of a search, as the code writes them, are answered by the indexes that were made for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, text

from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.storage.conversations import resolve_uid
from harken.storage.ports import Store
from harken.storage.postgres import vectors as nearest
from harken.storage.tables import metadata
from harken.testing import HashingEmbedder
from harken.testing.store_conformance.asking import LONG
from postgres_server import PostgresServer

MESSAGES, TENANTS, NEW = 60, 80, 250
QUERY = "what did people say to heron agents"
# Tables that grow with what is said; the others a server may well read whole.
GROWING = ("entries", "vectors", "entry_words", "entry_facets")


@pytest.fixture
def harken(server_url: URL, tmp_path: Path) -> Iterator[Harken]:
    settings = {"store": server_url.render_as_string(hide_password=False), "embedding.min_message_tokens": 1}
    with Harken(tmp_path, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        for number in range(MESSAGES):
            harken.record_message("talk", "user", f"Always greet heron {number}. {LONG}")
        harken.embed()
        yield harken


@pytest.fixture
def crowded(harken: Harken, postgres: PostgresServer, server_url: URL) -> Harken:
    """The same with so many other tenants that reading all of their rows would be slower."""
    for name, columns in [(table.name, list(table.columns.keys())) for table in metadata.tables.values()] + [
        ("entry_words", ["tenant", "entry_id", "words", "length"])
    ]:
        kept = ", ".join(f'"{column}"' for column in columns if column != "tenant")
        postgres.execute(
            f"INSERT INTO {name} (tenant, {kept}) SELECT 'other-' || n, {kept} FROM {name},"
            f" generate_series(1, {TENANTS}) n WHERE tenant = 'local'",
            server_url.database,
        )
    postgres.execute("VACUUM ANALYZE", server_url.database)
    return harken


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """What is sent to any server while inside, by way of SQLAlchemy or without it."""
    seen: list[tuple[str, Any]] = []
    execute = psycopg.Cursor.execute

    def note(cursor: psycopg.Cursor[Any], statement: Any, values: Any = None, **options: Any) -> Any:
        if not statement.startswith(("BEGIN", "COMMIT")):
            seen.append((statement, values))
        return execute(cursor, statement, values, **options)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", note)
        yield seen


def plans(
    harken: Harken, monkeypatch: pytest.MonkeyPatch, scope: SearchScope | None = None
) -> tuple[str, dict[str, int]]:
    """How the server answers a search's statements; and how often each table was read whole, or index looked into."""
    harken.search(QUERY, scope=scope)
    with statements(monkeypatch) as sent:
        assert harken.search(QUERY, scope=scope).hits
    scanned = text("SELECT relname, pg_stat_get_xact_numscans(oid) FROM pg_class WHERE relkind IN ('r', 'i')")
    with harken.store.reading() as tx:
        # What this connection did within the last second is counted as well.
        before = {row[0]: row[1] for row in tx.connection.execute(scanned)}
        lines: list[str] = []
        for statement, values in list(sent):
            # Some of them are settings for those that follow.
            tx.connection.exec_driver_sql(statement, values)
            if not statement.startswith("SET "):
                lines += tx.connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars()
        counted = {row[0]: row[1] - before[row[0]] for row in tx.connection.execute(scanned)}
    return "\n".join(lines), counted


@pytest.mark.parametrize("scope", [None, SearchScope(conversation="talk"), SearchScope(roles=("user",))])
def test_a_search_reads_the_rows_of_its_tenant_alone(
    crowded: Harken, monkeypatch: pytest.MonkeyPatch, scope: SearchScope | None
) -> None:
    planned, scans = plans(crowded, monkeypatch, scope)
    assert {table: scans[table] for table in GROWING} == dict.fromkeys(GROWING, 0)
    for table in GROWING:
        assert f"Seq Scan on {table} " not in f"{planned} "
    led = [line for line in planned.splitlines() if "Index Cond" in line]
    assert len(led) > 3
    assert [line for line in led if "(tenant = " not in line and "(tenant)::text = " not in line] == []
    assert scans["ix_entry_words"] + scans["entry_words_pkey"] > 0


@pytest.mark.parametrize("scope", [None, SearchScope(conversation="talk"), SearchScope(roles=("user",))])
@pytest.mark.parametrize("copies", [20, 1])
def test_beside_one_other_tenant_nobody_s_words_are_compared_but_one_s_own(
    harken: Harken,
    postgres: PostgresServer,
    server_url: URL,
    monkeypatch: pytest.MonkeyPatch,
    copies: int,
    scope: SearchScope | None,
) -> None:
    """A server reads such a table whole, and compares the words of a row before it looks whose they are."""
    postgres.execute(
        "INSERT INTO entry_words (tenant, entry_id, words, length)"
        " SELECT 'other', 1000 * n + entry_id, ts_delete(words, 't:local') || array_to_tsvector(ARRAY['t:other']),"
        f" length FROM entry_words, generate_series(1, {copies}) n"
        " WHERE tenant = 'local' AND (n > 1 OR entry_id % 6 = 0)",
        server_url.database,
    )
    postgres.execute("VACUUM ANALYZE entry_words", server_url.database)
    _, scans = plans(harken, monkeypatch, scope)
    assert scans["entry_words"] == 0
    assert scans["ix_entry_words"] + scans["entry_words_pkey"] > 0


def test_the_nearest_of_a_large_space_come_from_its_index(crowded: Harken, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = plans(crowded, monkeypatch)
    assert "hnsw" not in before
    monkeypatch.setattr(nearest, "EXACT_UP_TO", MESSAGES // 2)
    crowded.store.nearest.build_index()
    # What was counted before the space had outgrown comparing all is not counted again for half a minute.
    monkeypatch.setattr(nearest, "_RECOUNT_SECONDS", 0.0)
    planned, scans = plans(crowded, monkeypatch)
    index = next(name for name in scans if name.startswith("ix_vectors_hnsw"))
    assert f"Index Scan using {index} on vectors" in planned
    assert scans[index] > 0


def rows_foreseen(store: Store, table: str) -> int:
    """How many rows the server plans for where a statement names the tenant."""
    with store.reading() as tx:
        explain = text(f"EXPLAIN (FORMAT JSON) SELECT id FROM {table} WHERE tenant = :of_tenant")
        planned = tx.connection.execute(explain, {"of_tenant": store.tenant}).scalar_one()
    return int(planned[0]["Plan"]["Plan Rows"])


def rows_read(harken: Harken, monkeypatch: pytest.MonkeyPatch, scope: SearchScope) -> int:
    """How many rows the indexes give to the statements of a search, and throw away again for the most part or not."""
    with statements(monkeypatch) as sent:
        assert harken.search(QUERY, scope=scope).hits
    returned = text(
        "SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class WHERE relkind = 'i' AND oid > 16384"
    )
    with harken.store.reading() as tx:
        # What this connection did within the last second is counted as well.
        before = int(tx.connection.execute(returned).scalar_one())
        for statement, values in list(sent):
            tx.connection.exec_driver_sql(statement, values)
        return int(tx.connection.execute(returned).scalar_one()) - before


@pytest.fixture(params=["owner", "role"])
def newcomer(
    harken: Harken, postgres: PostgresServer, server_url: URL, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Harken]:
    """A tenant that the server's statistics do not know, by the tables' owner and by a role that may use them."""
    with ExitStack() as stack:
        is_owner = request.param == "owner"
        url = server_url if is_owner else stack.enter_context(postgres.role(f"app_{server_url.database}", server_url))
        postgres.execute("VACUUM ANALYZE", server_url.database)
        settings = {"store": url.render_as_string(hide_password=False), "tenant": "newcomer"}
        newcomer = Harken(tmp_path / "new", settings=settings, embedder=HashingEmbedder(), env={})
        stack.enter_context(newcomer)
        for number in range(NEW):
            newcomer.record_message("talk", "user", f"heron {number}: {LONG}")
        yield newcomer


def test_a_new_tenant_is_planned_for_as_soon_as_it_is_embedded(newcomer: Harken) -> None:
    assert newcomer.embed() == NEW
    assert rows_foreseen(newcomer.store, "vectors") > NEW / 2


def test_before_the_next_migrate_its_owner_has_tables_counted(
    newcomer: Harken, postgres: PostgresServer, server_url: URL, request: pytest.FixtureRequest
) -> None:
    postgres.execute("DROP FUNCTION harken_count_again(text)", server_url.database)
    assert newcomer.embed() == NEW
    if request.node.callspec.params["newcomer"] == "owner":
        assert rows_foreseen(newcomer.store, "vectors") > NEW / 2


def test_a_new_tenant_is_planned_for_as_soon_as_it_is_imported(newcomer: Harken, tmp_path: Path) -> None:
    lines = [{"conversation": "old", "role": "user", "content": f"heron {n}: {LONG}"} for n in range(NEW)]
    (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert newcomer.import_transcripts("jsonl", [tmp_path / "old.jsonl"]).added == NEW
    for table in ("messages", "entries"):
        assert rows_foreseen(newcomer.store, table) > NEW / 2


def test_a_new_tenant_s_rows_are_not_read_again_for_each_of_them(
    newcomer: Harken, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another worker is not done yet.
    monkeypatch.setattr(newcomer.store.nearest, "build_index", lambda: None)
    newcomer.embed()
    for scope in (SearchScope(conversation="talk"), SearchScope(roles=("user",))):
        assert rows_read(newcomer, monkeypatch, scope) < 30 * NEW < NEW * NEW


def test_the_beginning_of_an_id_is_found_in_any_order_of_letters(
    crowded: Harken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most databases have a language's order, where U+10FFFF, the last by bytes, counts for nothing."""
    said = crowded.record_message("birds", "user", "the heron nests behind the mill").uid
    with crowded.store.reading() as tx, statements(monkeypatch) as sent:
        assert all(("message", said) in resolve_uid(tx, said[:length]) for length in range(13, 37))
        planned = [
            line for asked in list(sent) for line in tx.connection.exec_driver_sql("EXPLAIN " + asked[0], asked[1])
        ]
    given = [value for _, values in sent for value in (values or {}).values() if isinstance(value, str)]
    assert given
    assert all(map(str.isascii, given))
    assert not [line for line in planned if "Seq Scan on messages" in str(line)]
