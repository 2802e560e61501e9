"""A machine of the cluster that stops, shards that move while tenants work, and schemas of before."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL
from talks import write_talk

from cluster_server import WORKERS, ClusterServer, Open
from harken.engine import Harken
from harken.errors import StoreError
from harken.storage.migrations import HEAD
from harken.storage.postgres.store import migrate
from harken.storage.tables import messages
from verbs import make_project

# What schema 0013 did not have: columns by table, and tables.
AFTER_0013 = {
    "conversations": ("label",),
    "entries": ("rated",),
    "injections": ("event", "why"),
    "memories": ("confirmed_at", "review_by"),
}
NEW_TABLES = ("ratings", "topics")
FUNCTIONS = """
    SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
    WHERE c.oid = 'entry_words'::regclass AND p.proname LIKE 'harken%'"""


@pytest.fixture
def spread(cluster: ClusterServer) -> Iterator[URL]:
    """A spread database of a test's own."""
    with cluster.database() as url:
        yield url


def homes(cluster: ClusterServer, database: str, tenants: list[str]) -> dict[str, list[str]]:
    """The tenants that each worker has."""
    asked = "SELECT nodeport FROM pg_dist_shard_placement WHERE shardid = get_shard_id_for_distribution_column"
    found: dict[str, list[str]] = {worker: [] for worker in WORKERS}
    for tenant in tenants:
        ((port,),) = cluster.execute(f"{asked}('entries', '{tenant}')", database)
        found[next(worker for worker in WORKERS if cluster.nodes.ports[worker] == port)].append(tenant)
    return found


def test_while_a_worker_stands_still_its_tenants_are_told_and_all_others_go_on(
    cluster: ClusterServer, team: URL, open_as: Open, tmp_path: Path
) -> None:
    assert team.database is not None
    project = make_project(tmp_path / "project")
    names = homes(cluster, team.database, [f"still-{number}" for number in range(12)])
    stopped, running = WORKERS
    lost, others = (names[worker][0] for worker in (stopped, running))
    theirs, ours = open_as(team, lost), open_as(team, others)
    for harken in (theirs, ours):
        harken.record_message("birds", "user", "the heron nests behind the old mill")
        harken.embed()
    cluster.nodes.stop(stopped)
    try:
        for work in (
            lambda: theirs.search("heron"),
            lambda: theirs.record_message("birds", "user", "the kite is back"),
            lambda: open_as(team, names[stopped][1]).maintenance.status(),
        ):
            with pytest.raises(StoreError, match=r"connection to the remote node .* failed") as told:
                work()
            assert "\n" not in str(told.value)
            assert "cannot be reached" in str(told.value)
        for harken in (ours, open_as(team, names[running][1])):
            goes_on(harken, project, tmp_path)
    finally:
        cluster.nodes.start(stopped)
    assert len(theirs.search("heron").hits) == 1
    theirs.record_message("birds", "user", "the kite is back")
    assert theirs.maintenance.doctor() == ours.maintenance.doctor() == []
    assert theirs.maintenance.status().counts.messages == 2


def goes_on(harken: Harken, project: Path, folder: Path) -> None:
    """All that a tenant does, a moment before it was known that a worker would stop."""
    subprocess.run(["git", "-C", str(project), "status"], check=True, capture_output=True)
    said = harken.record_message("birds", "user", "a kingfisher sits on the weir")
    harken.import_transcripts("jsonl", [write_talk(folder / "talk.jsonl", 30)])
    assert harken.embed() > 100
    assert harken.code.index(project).changes.added > 0
    assert harken.documents.index(project).changes.added > 0
    assert harken.commits.index(project).added == 1
    assert harken.embed() > 0
    assert said.uid in [hit.entry.ref_uid for hit in harken.search("kingfisher").hits]
    assert harken.maintenance.embed_again() > 0
    assert harken.embed() > 0
    with harken.store.writing() as tx:
        tx.text.rebuild(tx.connection)
    harken.store.nearest.build_index()
    assert harken.maintenance.doctor() == []
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said.uid]))
    assert said.uid not in [hit.entry.ref_uid for hit in harken.search("kingfisher").hits]
    assert harken.maintenance.status().counts.forgotten == 1


def test_shards_move_while_their_tenants_search_and_write(
    cluster: ClusterServer, spread: URL, open_as: Open, tmp_path: Path
) -> None:
    assert spread.database is not None
    talk = write_talk(tmp_path / "talk.jsonl", 30)
    with cluster.role("mover", spread) as mover:
        opened = [open_as(mover, f"moving-{number}") for number in range(6)]
        for harken in opened:
            harken.import_transcripts("jsonl", [talk])
            harken.embed()
        ended, failed = threading.Event(), list[BaseException]()
        written: dict[str, list[str]] = {harken.store.tenant: [] for harken in opened}

        def works(harken: Harken) -> None:
            try:
                while not ended.is_set():
                    text = f"note {len(written[harken.store.tenant])} of the move"
                    written[harken.store.tenant].append(harken.record_message("moves", "user", text).uid)
                    assert harken.search("repaired the door in the garden").hits
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells it
                failed.append(error)

        threads = [threading.Thread(target=works, args=(harken,)) for harken in opened]
        for thread in threads:
            thread.start()
        try:
            moved = move_to_the_coordinator(cluster, spread.database)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert moved > 0
        assert failed == []
        for harken in opened:
            with harken.store.reading() as tx:
                kept = set(tx.connection.execute(tx.select(messages.c.uid)).scalars())
            assert kept >= set(written[harken.store.tenant])
            assert len(kept) == 120 + len(written[harken.store.tenant])
            harken.embed()
            assert harken.maintenance.doctor() == []
        for harken in opened:
            harken.close()


def move_to_the_coordinator(cluster: ClusterServer, database: str) -> int:
    """Let the coordinator have a third of the shards; how many groups of them it has got."""
    port = cluster.nodes.ports["coordinator"]
    cluster.execute(f"SELECT citus_set_node_property('127.0.0.1', {port}, 'shouldhaveshards', true)", database)
    cluster.execute("SELECT rebalance_table_shards(shard_transfer_mode => 'force_logical')", database)
    counted = "SELECT count(*) FROM pg_dist_shard_placement p JOIN pg_dist_shard s USING (shardid)"
    ((moved,),) = cluster.execute(
        f"{counted} WHERE s.logicalrelid = 'entries'::regclass AND nodeport = {port}", database
    )
    return int(moved)


def test_a_spread_schema_of_before_is_upgraded_with_all_its_rows(
    cluster: ClusterServer, spread: URL, open_as: Open, tmp_path: Path
) -> None:
    talk = write_talk(tmp_path / "talk.jsonl", 30)
    names = [f"before-{number}" for number in range(4)]
    for name in names:
        harken = open_as(spread, name)
        harken.import_transcripts("jsonl", [talk])
        harken.embed()
    for statement in (
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, gone in AFTER_0013.items() for column in gone),
        *(f"DROP TABLE {table}" for table in NEW_TABLES),
        *(f"DROP FUNCTION {row[0]} CASCADE" for row in cluster.execute(FUNCTIONS, spread.database)),
        "UPDATE alembic_version SET version_num = '0013'",
    ):
        cluster.execute(statement, spread.database)
    done = migrate(spread)
    assert (done.before, done.schema, set(done.distributed)) == ("0013", HEAD, set(NEW_TABLES))
    assert migrate(spread, distribute=True).distributed == ()
    with cluster.role("upgraded", spread) as role:
        for name in names:
            harken = open_as(role, name)
            assert harken.maintenance.doctor() == []
            assert len(harken.search("repaired the door in the garden").hits) == 10
            harken.record_message("after", "user", "the upgrade is done")
            assert harken.maintenance.status().counts.messages == 121
            harken.close()


def test_a_filled_database_is_spread_later(cluster: ClusterServer, open_as: Open, tmp_path: Path) -> None:
    talk = write_talk(tmp_path / "talk.jsonl", 30)
    with cluster.database(distributed=False) as url, cluster.role("early", url) as early:
        # Opened before and used ever since, as a service is.
        opened = [open_as(early, f"early-{number}") for number in range(4)]
        before = []
        for harken in opened:
            harken.import_transcripts("jsonl", [talk])
            harken.embed()
            before.append([hit.entry.ref_uid for hit in harken.search("who repaired the door").hits])
        assert len(migrate(url, distribute=True).distributed) > 30
        for harken, found in zip(opened, before, strict=True):
            assert [hit.entry.ref_uid for hit in harken.search("who repaired the door").hits] == found
            harken.record_message("after", "user", "the tables are spread")
            assert harken.maintenance.doctor() == []
            harken.close()
