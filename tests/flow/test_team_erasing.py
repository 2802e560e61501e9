"""Erasing in a team: no word of whoever is erased stays, nor comes behind, and their export has all of them."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from crews import crew
from harken.errors import KeyRefusedError, NotFoundError, ScopeError, StoreBusyError
from harken.model.conversations import Role, SavedRecord
from harken.model.team import Access
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.storage.ports import Transaction
from postgres_server import PostgresServer

WELL = "The village well runs dry in August, said the surveyor Abernathy."


def test_no_word_of_an_erased_person_stays_in_any_table(
    tmp_path: Path, server_url: URL, postgres: PostgresServer
) -> None:
    store = server_url.render_as_string(hide_password=False)
    with crew(tmp_path / "home", store, "village", "alice", "bob", "carol") as team:
        bob, common = team.memory("bob"), team.memory("bob", "common")
        private = bob.record_message("survey", "user", f"{WELL} zanzibar")
        bob.core.update("user", "favourite", "zanzibar")
        memory = bob.memories.add("The zanzibar file is in the attic.").memory
        common.record_message("ours", "user", "I keep the zanzibar maps.")
        team.memory("carol", "common").record_message("ours", "user", "Carol keeps the ledger.")
        common.memories.add("zanzibar is spelled with a z.")
        common.core.update("agent", "motto", "zanzibar first")
        common.record_message("ours", "user", "From now on always answer in zanzibar units.")
        common.rules.drop(common.rules.list()[0].uid)
        fields = dict.fromkeys(("text", "axis", "cluster_id", "space"), "zanzibar bears it out")
        figures = dict.fromkeys(("cluster_size", "similarity_to_centroid", "distance", "distance_limit"), 1)
        lists: dict[str, list[str]] = {"members": [], "domains": [], "strategies": []}
        topic = {"name": "zanzibar", "named_by": "owner", "words": [], "members": []}
        for source, kept in (("value", {**fields, **figures, **lists}), ("topic", topic)):
            with common.recorder.saving(source) as records:
                now, kept = common.recorder.now(), {**kept, "trust": "agent"}
                kept["created_at"] = now.isoformat()
                records.save(SavedRecord(source, common.recorder.new_uid(), now, kept))
        uid = common.search("zanzibar maps").hits[0].entry.conversation_uid or ""
        common.labels.entitle(uid, "All about zanzibar")
        common.feedback.rate(uid, "useless", question="what of zanzibar?")
        saved = team.memory("carol", "common").memories.add("The ledger is green.").memory
        team.team.grant(team.speaker("alice"), "common", "bob", Access.ADMIN)
        team.memory("bob", "common").memories.edit(saved.uid, content="The ledger is zanzibar green.")
        for uid in (private.uid, memory.uid):
            team.team.share(team.speaker("bob"), uid, "common")
        carols = team.memory("carol").record_message("own", "user", "Carol's own word: ledger.")
        team.team.create_space(team.speaker("alice"), "farm")
        team.team.grant(team.speaker("alice"), "farm", "everyone", Access.WRITE)
        copy = team.memory("carol").search("zanzibar attic").hits[0].entry.ref_uid
        team.team.share(team.speaker("carol"), copy, "farm")
        for space in (None, "common", "farm"):
            team.memory("carol", space).embed()
            team.memory("carol", space).background.summarize()

        target = tmp_path / "bob.jsonl"
        done = team.team.export_principal(team.speaker("bob"), "bob", target)
        assert "zanzibar" in target.read_text()
        assert done.shared is not None
        lines = [json.loads(line) for line in done.shared.read_text().splitlines()]
        assert any(line.get("text") == "I keep the zanzibar maps." for line in lines)
        assert any((line["id"], line.get("value")) == ("agent/motto", "zanzibar first") for line in lines)

        with pytest.raises(ScopeError):
            team.team.erase_principal(team.speaker("carol"), "bob")
        erased = team.team.erase_principal(team.speaker("alice"), "bob")
        assert erased.spaces == 1
        assert erased.records >= 5
        with pytest.raises(KeyRefusedError):
            team.speaker("bob")
        for name in ("zanzibar", "Abernathy", "bob"):
            assert _rows_with(postgres, server_url, name) == []
        assert team.memory("carol").show(carols.uid).message is not None
        assert team.memory("alice").search("who keeps the ledger").hits[0].entry.text.startswith("Carol")


@pytest.mark.parametrize("space", [None, "farm"])
def test_who_was_let_in_before_writes_nothing_behind_what_erases_a_person_or_a_space(
    tmp_path: Path, server_url: URL, postgres: PostgresServer, space: str | None
) -> None:
    with crew(tmp_path / "home", server_url.render_as_string(hide_password=False), "village", "alice", "bob") as team:
        team.team.create_space(team.speaker("bob"), "farm")
        bob, harken = team.speaker("bob"), team.memory("bob", space)
        erase = team.team.delete_space if space else team.team.erase_principal
        with ThreadPoolExecutor(2) as at_once:
            with team.team.opened(bob.space(space) if space else bob.own).store.writing():
                erasing = at_once.submit(erase, bob, space or "bob")
                _wait_for_lock(postgres, server_url, 1)
                saying = at_once.submit(harken.record_message, "survey", "user", f"{WELL} zanzibar")
                _wait_for_lock(postgres, server_url, 2)
            with pytest.raises(NotFoundError, match="has been erased"):
                saying.result()
            erasing.result()
        for say in (harken.record_message, lambda *said: harken.memories.add(said[-1])):
            with pytest.raises(NotFoundError, match="has been erased"):
                say("survey", "user", f"{WELL} zanzibar")
        assert _rows_with(postgres, server_url, "zanzibar") == []


def test_what_was_begun_before_a_person_is_erased_ends_and_goes_with_their_other_words(
    tmp_path: Path, server_url: URL, postgres: PostgresServer
) -> None:
    with crew(tmp_path / "home", server_url.render_as_string(hide_password=False), "village", "alice", "bob") as team:
        common, begun, go_on = team.memory("bob", "common"), threading.Event(), threading.Event()
        batch = Batch(NewConversation("cli", "survey"), [NewMessage(Role.USER, f"{WELL} zanzibar")])

        def last(_tx: Transaction) -> None:
            begun.set()
            go_on.wait(60)

        with ThreadPoolExecutor(2) as at_once:
            saying = at_once.submit(common.recorder.record, [batch], last)
            assert begun.wait(60)
            erasing = at_once.submit(team.team.erase_principal, team.speaker("alice"), "bob")
            _wait_for_lock(postgres, server_url, 1)
            go_on.set()
            assert saying.result().messages
            erasing.result()
        assert _rows_with(postgres, server_url, "zanzibar") == []


def test_an_erasure_that_breaks_off_at_a_busy_space_is_completed_by_the_next(
    tmp_path: Path, server_url: URL, postgres: PostgresServer
) -> None:
    with crew(tmp_path / "home", server_url.render_as_string(hide_password=False), "village", "alice", "bob") as team:
        team.team.create_space(team.speaker("alice"), "farm")
        alice, bob = team.speaker("alice"), team.speaker("bob")
        for space in (None, "common"):
            team.memory("bob", space).record_message("ours", "user", f"{WELL} zanzibar")
            team.memory("bob", space).memories.add("The zanzibar file is in the attic.")
        team.team.share(alice, team.memory("bob", "common").memories.list()[0].uid, "farm")
        for busy in (alice.space("farm"), bob.space("common"), bob.own):
            with team.team.opened(busy).store.writing(), pytest.raises(StoreBusyError):
                team.team.erase_principal(alice, "bob")
            with pytest.raises(KeyRefusedError):
                team.speaker("bob")
        team.team.erase_principal(alice, "bob")
        for name in ("zanzibar", "Abernathy", "bob"):
            assert _rows_with(postgres, server_url, name) == []


def test_nobody_shares_words_of_somebody_who_is_being_erased(
    tmp_path: Path, server_url: URL, postgres: PostgresServer
) -> None:
    with crew(tmp_path / "home", server_url.render_as_string(hide_password=False), "village", "alice", "bob") as team:
        said = team.memory("bob", "common").record_message("ours", "user", f"{WELL} zanzibar")
        saved = team.memory("bob", "common").memories.add("The zanzibar file is in the attic.").memory
        team.team.create_space(team.speaker("alice"), "farm")
        alice = team.speaker("alice")
        with ThreadPoolExecutor(1) as at_once:
            with team.team.opened(alice.space("farm")).store.writing():
                erasing = at_once.submit(team.team.erase_principal, alice, "bob")
                _wait_for_lock(postgres, server_url, 1)
                for uid in (said.uid, saved.uid):
                    with pytest.raises(NotFoundError, match="has been erased"):
                        team.team.share(alice, uid, alice.own.id)
            erasing.result()
        assert _rows_with(postgres, server_url, "zanzibar") == []


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("first", ["share", "forget"])
def test_no_copy_stays_of_what_is_forgotten_while_it_is_shared(
    tmp_path: Path, server_url: URL, postgres: PostgresServer, first: str, is_saved: bool
) -> None:
    with crew(tmp_path / "home", server_url.render_as_string(hide_password=False), "village", "alice", "bob") as team:
        bob, mine = team.speaker("bob"), team.memory("bob")
        said = [mine.record_message("ours", "user", f"{WELL} zanzibar {number}") for number in range(2)]
        saved = mine.memories.add("The zanzibar file is in the attic.").memory
        uid = saved.uid if is_saved else said[0].conversation_uid
        plans = {"saved": ("memory", [saved.uid])}, {"messages": [each.uid for each in said]}
        wanted = [mine.maintenance.plan_forget(**plan) for plan in plans]

        def share() -> None:
            team.team.share(bob, uid, "common")

        def forget() -> None:
            for plan in wanted:
                mine.maintenance.forget(plan)

        waiting, other = (share, forget) if first == "share" else (forget, share)
        with ThreadPoolExecutor(1) as at_once:
            with team.team.opened(bob.space("common") if first == "share" else bob.own).store.writing():
                begun = at_once.submit(waiting)
                _wait_for_lock(postgres, server_url, 1)
                other()
            if first == "share":
                with pytest.raises(NotFoundError, match="Nothing is left of"):
                    begun.result()
            begun.exception()
        assert _rows_with(postgres, server_url, "zanzibar") == []


def _wait_for_lock(postgres: PostgresServer, url: URL, count: int) -> None:
    """Wait until so many wait for a lock."""
    asked = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        f" WHERE NOT granted AND datname = '{url.database}'"
    )
    deadline = time.monotonic() + 60
    while postgres.execute(asked) < [(count,)]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_persons_export_has_what_they_named_and_judged(tmp_path: Path, shared_database: str, tenant: str) -> None:
    with crew(tmp_path, shared_database, tenant, "alice", "bob") as team:
        common = team.memory("bob", "common")
        uid = common.record_message("ours", "user", WELL).conversation_uid
        common.labels.entitle(uid, "All about wells")
        common.labels.tag(uid, ["water"])
        common.feedback.rate(uid, "useless", question="what of pumps?")
        topic = {"name": "wells", "named_by": "owner", "words": [], "members": [], "trust": "agent"}
        topic["created_at"] = common.recorder.now().isoformat()
        with common.recorder.saving("topic") as records:
            records.save(SavedRecord("topic", common.recorder.new_uid(), common.recorder.now(), topic))
        shared = team.team.export_principal(team.speaker("bob"), "bob", tmp_path / "bob.jsonl").shared
        assert shared is not None
        lines = {line["kind"]: line for line in map(json.loads, shared.read_text().splitlines())}
        assert (lines["labelled"]["title"], lines["labelled"]["tags"]) == ("All about wells", ["water"])
        assert (lines["rated"]["verdict"], lines["rated"]["question"]) == ("useless", "what of pumps?")
        assert lines["topic"]["fields"]["name"] == "wells"


def _rows_with(postgres: PostgresServer, url: URL, word: str) -> list[str]:
    """Every row of every table that has a word anywhere."""
    found = []
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
        assert len(tables) > 40
        for (table,) in tables:
            rows = connection.execute(
                f"SELECT t::text FROM {table} t WHERE t::text ILIKE %s",
                (f"%{word}%",),  # type: ignore[arg-type]
            ).fetchall()
            found += [f"{table}: {row[0][:300]}" for row in rows]
    return found
