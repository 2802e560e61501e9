"""Tenants of a cluster do all that there is, each by statements of one shard; and find what one plain server finds."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, text
from talks import questions, write_talk

from cluster_server import ClusterServer, Open
from harken.engine import Harken
from harken.errors import HarkenError, StoreReadOnlyError
from harken.record.ids import conversation_uid
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import OPERATIONS
from harken.storage.postgres import fulltext
from harken.storage.postgres import vectors as nearest
from harken.storage.tables import metadata, vectors
from harken.testing import HashingEmbedder
from verbs import REFUSED, calls, check_answer, fill, make_project

TENANTS, QUESTIONS = 20, 240


def test_what_asks_more_than_one_shard_is_refused_in_these_tests(cluster: ClusterServer, team: URL) -> None:
    with psycopg.connect(team.render_as_string(hide_password=False), autocommit=True) as connection:
        for statement in ("SELECT count(*) FROM messages", "DELETE FROM messages", "SELECT id FROM entries LIMIT 1"):
            with pytest.raises(psycopg.Error, match="multi-task query"):
                connection.execute(statement.encode())
        assert connection.execute("SELECT count(*) FROM messages WHERE tenant = 'nobody'").fetchone() == (0,)
    spread = cluster.execute("SELECT count(DISTINCT colocationid), count(*) FROM pg_dist_partition", team.database)
    assert spread == [(1, len(metadata.tables) + 1)]


def test_twenty_tenants_do_everything_that_there_is(
    cluster: ClusterServer, team: URL, open_as: Open, tmp_path: Path
) -> None:
    caller = Caller(make_project(tmp_path / "project"), is_owner=True)
    opened = [open_as(team, f"every-{number}") for number in range(TENANTS)]
    done = set()
    for number, harken in enumerate(opened):
        for name, given in calls(fill(harken, f"harbour {number}")):
            check_answer(name, OPERATIONS[name].call(harken, given, caller))
            done.add(name)
        for name, given in REFUSED:
            with pytest.raises(HarkenError):
                OPERATIONS[name].call(harken, given, caller)
            done.add(name)
        assert harken.embed() > 0
    assert done == set(OPERATIONS)
    for number, harken in enumerate(opened):
        found = harken.search("quay free for the Aurora").hits
        assert {hit.entry.conversation_uid for hit in found if hit.entry.source == "message"} == {
            conversation_uid("library", f"harbour {number}"),
            conversation_uid("api", "log"),
        }
        assert harken.maintenance.doctor() == []
    where = "SELECT count(DISTINCT nodeport) FROM pg_dist_shard_placement WHERE shardid IN (SELECT"
    shards = " get_shard_id_for_distribution_column('entries', 'every-' || n) FROM generate_series(0, 19) n)"
    assert cluster.execute(where + shards, team.database) == [(2,)]


def test_two_workers_of_a_tenant_embed_nothing_twice(team: URL, open_as: Open, tmp_path: Path) -> None:
    talk = write_talk(tmp_path / "talk.jsonl", 60)
    for tenant in ("workers-1", "workers-2", "workers-3"):
        embedder = HashingEmbedder()
        workers = [open_as(team, tenant, embedder) for _ in range(2)]
        workers[0].import_transcripts("jsonl", [talk])
        with ThreadPoolExecutor(2) as pool:
            stored = list(pool.map(Harken.embed, workers))
        assert sum(stored) == embedder.embedded == 240
        with workers[0].store.reading() as tx:
            found = tx.connection.execute(tx.select(vectors.c.entry_id)).scalars().all()
        assert len(found) == len(set(found)) == 240


@pytest.mark.parametrize("exchanges", [100, 560])
def test_the_same_is_found_in_the_same_order_as_on_one_plain_server(
    plain: URL, team: URL, open_as: Open, tmp_path: Path, exchanges: int
) -> None:
    talk = write_talk(tmp_path / "talk.jsonl", exchanges)
    opened = [open_as(url, f"same-{exchanges}") for url in (team, plain)]
    for harken in opened:
        harken.import_transcripts("jsonl", [talk])
        assert harken.embed() == 4 * exchanges
    for place, asked in enumerate(questions(QUESTIONS // 2)):
        mode = ("hybrid", "keyword", "hybrid", "semantic")[place % 4]
        here, there = ([hit.entry.ref_uid for hit in each.search(asked, mode=mode).hits] for each in opened)
        assert here == there, asked
        assert here or mode == "semantic"


def test_a_new_tenant_of_a_shard_is_planned_for_as_soon_as_it_is_imported(
    cluster: ClusterServer, team: URL, open_as: Open, tmp_path: Path
) -> None:
    beside = (
        "get_shard_id_for_distribution_column('entries', 'known') = get_shard_id_for_distribution_column('entries', n)"
    )
    named = f"SELECT n FROM (SELECT 'new-' || i AS n FROM generate_series(1, 1000) i) names WHERE {beside} LIMIT 1"
    [(new,)] = cluster.execute(named, team.database)
    talk = write_talk(tmp_path / "talk.jsonl", 100)
    open_as(team, "known").import_transcripts("jsonl", [talk])
    cluster.execute("ANALYZE messages, entries", team.database)
    harken = open_as(team, new)
    for is_imported in (False, True):
        if is_imported:
            harken.import_transcripts("jsonl", [talk])
        with harken.store.reading() as tx:
            explain = text("EXPLAIN SELECT id FROM entries WHERE tenant = :of_tenant")
            plan = "\n".join(tx.connection.execute(explain, {"of_tenant": new}).scalars())
        foreseen = max(int(rows) for rows in re.findall(r"rows=(\d+)", plan.partition("Task")[2]))
        assert (foreseen > 200) is is_imported


def test_a_tenant_that_outgrew_comparing_all_is_searched_by_the_statistics_and_indexes_of_its_shard(
    cluster: ClusterServer, team: URL, open_as: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert team.database is not None
    harken = open_as(team, "large")
    harken.import_transcripts("jsonl", [write_talk(tmp_path / "talk.jsonl", 120)])
    harken.embed()
    before = [[hit.entry.ref_uid for hit in harken.search(asked).hits] for asked in questions(9)]
    monkeypatch.setattr(fulltext, "_SMALL", 100)
    monkeypatch.setattr(fulltext, "ALL_RANKED_UP_TO", 200)
    monkeypatch.setattr(nearest, "EXACT_UP_TO", 200)
    cluster.execute("ANALYZE entry_words", team.database)
    owner = open_as(cluster.of(team.database), "large")
    owner.store.nearest.build_index()
    made = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'ix_vectors_hnsw%'"
    assert cluster.execute(made, team.database) == [(1,)]
    again = open_as(team, "large")
    for place, asked in enumerate(questions(9)):
        found = [hit.entry.ref_uid for hit in again.search(asked).hits]
        assert len(set(found) & set(before[place])) >= len(before[place]) - 3


def test_a_role_reads_and_writes_its_tenant_alone(cluster: ClusterServer, team: URL, open_as: Open) -> None:
    open_as(team, "ann").record_message("birds", "user", "the heron nests behind the mill")
    with open_as(team, "bob").store.reading() as tx:
        for table in metadata.tables:
            hers = text(f"SELECT count(*) FROM {table} WHERE tenant = 'ann'")
            assert tx.connection.execute(hers).scalar() == 0
    with pytest.raises(StoreReadOnlyError, match="row-level security"), open_as(team, "bob").store.writing() as tx:
        tx.connection.execute(text("INSERT INTO settings (tenant, name, value) VALUES ('ann', 'x', '1')"))
