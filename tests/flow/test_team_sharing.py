"""Sharing in a team: copies say whose words they are, go with what they are copies of, and with whoever is erased."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url

from cluster_server import ClusterServer
from crews import Crew, crew
from harken.errors import NotFoundError, ScopeError, StoreBusyError, UsageError
from harken.model.arguments import DetailsWanted
from harken.model.conversations import Role, Trust
from harken.model.experiences import RootCause
from harken.model.team import Access, KeyScope, PrincipalKind
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.search.session import NOTHING_RECORDED
from postgres_server import PostgresServer

WELL = "The village well runs dry in August, said the surveyor Abernathy."
PUMP = "The irrigation pump is a Grundfos from 1998."


@pytest.fixture
def team(tmp_path: Path, shared_database: str, tenant: str) -> Iterator[Crew]:
    """Alice, who manages the team, Bob and Carol; all may write into the common space."""
    with crew(tmp_path, shared_database, tenant, "alice", "bob", "carol") as found:
        yield found


def _found(team: Crew, name: str, query: str) -> list[str]:
    return [hit.entry.text for hit in team.memory(name).search(query).hits]


def test_a_shared_message_says_who_said_it_and_who_shared_it_when(team: Crew) -> None:
    said = team.memory("bob").record_message("survey", "user", WELL)
    copy = team.team.share(team.speaker("bob"), said.uid[:16], "common")

    [hit] = team.memory("carol").search("village well").hits
    today = datetime.now(UTC).date().isoformat()
    assert hit.entry.ref_uid == copy
    assert hit.origin is not None
    assert hit.origin.label == f"space common, said by bob, shared by bob on {today}"
    assert hit.entry.trust is Trust.IMPORTED
    assert hit.entry.created_at == said.created_at
    assert len(team.memory("bob").search("village well").hits) == 1, "one's own stands for its copy"
    assert team.team.share(team.speaker("bob"), said.uid, "common") == copy, "a second time makes no second copy"


def test_what_nobody_of_the_team_said_is_not_called_the_words_of_who_shares_it(team: Crew) -> None:
    said = team.team.memory(team.team.operator()).record_message("before", "user", WELL)
    saved = team.team.memory(team.team.operator()).memories.add(PUMP).memory.uid
    team.team.create_space(team.speaker("alice"), "farm")
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.WRITE)
    for uid in (said.uid, saved):
        team.team.share(team.speaker("bob"), uid, "farm")
    found = [
        hit for query in ("village well", "irrigation pump") for hit in team.memory("bob", "farm").search(query).hits
    ]
    copies = [hit for hit in found if hit.origin is not None and hit.origin.space == "farm"]
    assert [(hit.origin.by, hit.origin.shared_by) for hit in copies if hit.origin] == [("", "bob")] * 2
    assert {hit.entry.trust for hit in copies} == {Trust.IMPORTED}


def test_what_another_said_in_ones_own_conversation_is_told_as_theirs(team: Crew) -> None:
    said = {name: team.memory(name, "common").record_message("survey", "user", WELL) for name in ("alice", "bob")}
    page = team.memory("alice").archive.details(DetailsWanted(conversation_id=said["alice"].conversation_uid))
    assert page.trust is Trust.IMPORTED
    alone = team.memory("alice", "common").record_message("pumps", "user", PUMP)
    whole, part = alone.conversation_uid, alone.exchange_uid
    for wanted in (DetailsWanted(conversation_id=whole), DetailsWanted(exchange_id=part)):
        assert team.memory("alice").archive.details(wanted).trust is not Trust.IMPORTED
        assert team.memory("bob").archive.details(wanted).trust is Trust.IMPORTED


def test_a_key_of_one_space_takes_back_nothing_elsewhere(team: Crew) -> None:
    said = team.memory("bob").record_message("survey", "user", WELL)
    team.team.share(team.speaker("bob"), said.uid, "common")
    limited = team.team.create_key(team.speaker("bob"), spaces=["bob"]).secret
    with pytest.raises(NotFoundError):
        team.team.unshare(team.team.speaker(limited), said.uid)
    assert _found(team, "carol", "village well") == [WELL]


def test_what_is_quoted_to_a_model_is_data_with_a_name(team: Crew) -> None:
    team.memory("bob").memories.add("The village well runs dry in August.", importance=0.9)
    memory = team.memory("bob").memories.list()[0]
    team.team.share(team.speaker("bob"), memory.uid, "common")
    context = team.memory("carol").build_context("mine", ["When does the village well run dry?"])
    told = "\n".join(message.content for message in context.messages)
    assert 'space="common"' in told
    assert 'by="bob"' in told
    assert 'shared="by bob on' in told
    assert 'trust="imported"' in told
    assembled = team.memory("carol").assemble_context("village well", ["memories"])
    assert "*From: space common, said by bob, shared by bob on" in assembled.markdown


def test_a_rule_of_another_person_holds_for_nobody_else(team: Crew) -> None:
    team.memory("bob", "common").record_message("ways", "user", "From now on always answer in Latin.")
    assert [rule.holds for rule in team.memory("carol").rules.list()] == [False]
    for space in (None, "common"):
        context = team.memory("carol", space).build_context("mine", ["How do I bake bread?"])
        assert "Latin" not in "\n".join(message.content for message in context.messages)


def test_past_conversations_of_others_are_told_with_their_names(team: Crew) -> None:
    bob = team.memory("bob", "common")
    bob.record_message("survey", "user", "Where does the village well get its water from?")
    bob.record_message("survey", "assistant", "The village well is fed by the chalk aquifer under Hill Farm.")
    bob.end_exchange("survey")
    [talk] = team.memory("carol").chats.past("Tell me what feeds the village well").conversations
    assert talk.origin is not None
    assert talk.exchanges[0].said_by == "bob"
    assert talk.exchanges[0].trust is Trust.IMPORTED
    context = team.memory("carol").build_context("mine", ["Tell me what feeds the village well"])
    told = "\n".join(message.content for message in context.messages)
    assert "bob: Where does" in told
    assert "Assistant of bob: The village well is fed" in told
    assert "User: Where does" not in told


def test_whole_conversations_memories_and_experiences_are_shared(team: Crew) -> None:
    bob = team.memory("bob")
    bob.record_message("survey", "user", WELL)
    bob.record_message("survey", "assistant", "Noted: dry in August.")
    talk = bob.show(bob.search("village well").hits[0].entry.ref_uid).conversation.uid
    copy = team.team.share(team.speaker("bob"), talk, "common")
    shown = team.memory("carol").show(copy)
    assert [message.text for message in shown.messages] == [WELL, "Noted: dry in August."]
    assert all(message.trust is Trust.IMPORTED for message in shown.messages)
    assert team.team.unshare(team.speaker("bob"), talk) == [copy]
    with pytest.raises(NotFoundError):
        team.memory("carol").show(copy)

    tried = "find the leak", "the valve leaks", "close it", "it stops"
    bob.experiences.start("debugging", "root-cause-analysis", *tried)
    active = bob.experiences.list()[0]
    with pytest.raises(UsageError, match="open"):
        team.team.share(team.speaker("bob"), active.uid, "common")
    cause = RootCause("wrong-assumption", "the valve was blamed unseen")
    bob.experiences.resolve(
        "falsified", "It drips on; the pipe leaks.", surprise="the valve was tight", root_cause=cause
    )
    copy = team.team.share(team.speaker("bob"), active.uid, "common")
    shown = team.memory("carol").experiences.show(copy)
    assert "said by bob, shared by bob" in shown.agent
    assert [one.uid for one in team.memory("carol").experiences.list()] == [copy]
    with pytest.raises(NotFoundError):
        team.memory("carol").experiences.forget(copy)
    warned = team.memory("carol").get_premortem_context("debugging")
    assert "*From: space common, said by bob" in warned.markdown
    assert [record.uid for record in team.memory("carol").sources.records([("experience", copy)])] == [copy]


def test_indexed_documents_of_a_shared_space_are_found_by_its_readers(team: Crew, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "well.md").write_text("# Well\n\nThe village well is forty metres deep.\n", encoding="utf-8")
    team.memory("bob", "common").documents.index(tmp_path / "notes")
    carol = team.memory("carol")
    assembled = carol.assemble_context("how deep is the village well", ["documents"])
    assert "forty metres" in assembled.markdown
    assert "*From: space common" in assembled.markdown
    assert carol.documents.search("village well").hits == (), "an index is of the space at hand"
    assert "forty" in team.memory("carol", "common").documents.search("village well").items[0].content


def test_nobody_shares_what_they_may_not_read_or_where_they_may_not_write(team: Crew) -> None:
    said = team.memory("bob").record_message("survey", "user", WELL)
    with pytest.raises(NotFoundError):
        team.team.share(team.speaker("carol"), said.uid, "common")
    team.team.create_space(team.speaker("alice"), "board")
    with pytest.raises(NotFoundError):
        team.team.share(team.speaker("bob"), said.uid, "board")
    team.team.grant(team.speaker("alice"), "board", "bob", Access.READ)
    with pytest.raises(ScopeError):
        team.team.share(team.speaker("bob"), said.uid, "board")
    weak = team.team.create_key(team.speaker("bob"), scopes=[KeyScope.READ])
    with pytest.raises(ScopeError, match="remember"):
        team.team.share(team.team.speaker(weak.secret), said.uid, "common")


def test_unsharing_forgets_the_copy_and_leaves_the_original(team: Crew) -> None:
    said = team.memory("bob").record_message("survey", "user", WELL)
    team.team.share(team.speaker("bob"), said.uid, "common")
    with pytest.raises(NotFoundError):
        team.team.unshare(team.speaker("carol"), team.memory("carol").search("village well").hits[0].entry.ref_uid)
    assert team.team.unshare(team.speaker("bob"), said.uid)
    assert _found(team, "carol", "village well") == []
    assert _found(team, "bob", "village well") == [WELL]
    team.team.share(team.speaker("bob"), said.uid, "common")
    assert _found(team, "carol", "village well") == [WELL]
    copy = team.memory("carol").search("village well").hits[0].entry.ref_uid
    assert team.team.unshare(team.speaker("alice"), copy), "who administers the space may take it out"


def test_forgetting_takes_the_copies_along_and_says_so(team: Crew) -> None:
    bob = team.memory("bob")
    said = bob.record_message("survey", "user", WELL)
    memory = bob.memories.add(PUMP).memory
    for uid in (said.conversation_uid, memory.uid):
        team.team.share(team.speaker("bob"), uid, "common")
    plan = bob.maintenance.plan_forget(messages=[said.uid])
    assert len(plan.copies) == plan.shares == 1
    alone = bob.record_message("walk", "user", "the lane is flooded")
    team.team.share(team.speaker("bob"), alone.uid, "common")
    assert bob.maintenance.plan_forget(messages=[alone.uid]).shares == 1, "with a conversation of its own"
    bob.maintenance.forget(plan)
    assert _found(team, "carol", "village well") == []
    assert _found(team, "carol", "irrigation pump") == [PUMP]
    bob.memories.forget([memory.uid])
    assert _found(team, "carol", "irrigation pump") == []
    bob.maintenance.forget(replace(bob.maintenance.plan_forget(messages=[alone.uid]), shared=()))
    assert _found(team, "carol", "lane flooded") == ["the lane is flooded"], "copies stay where they are to"


def test_what_could_not_be_forgotten_in_a_busy_space_can_be_forgotten_again(team: Crew) -> None:
    bob = team.memory("bob")
    said = bob.record_message("survey", "user", WELL)
    team.team.share(team.speaker("bob"), said.uid, "common")
    plan = bob.maintenance.plan_forget(messages=[said.uid])
    with team.memory("carol", "common").store.writing(), pytest.raises(StoreBusyError):
        bob.maintenance.forget(plan)
    bob.maintenance.forget(bob.maintenance.plan_forget(messages=[said.uid]))
    assert [_found(team, name, "village well") for name in ("bob", "carol")] == [[], []]


def test_a_memory_that_could_not_be_forgotten_in_a_busy_space_can_be_forgotten_again(team: Crew) -> None:
    bob = team.memory("bob")
    saved = bob.memories.add(WELL).memory
    team.team.share(team.speaker("bob"), saved.uid, "common")
    with team.memory("carol", "common").store.writing(), pytest.raises(StoreBusyError):
        bob.memories.forget([saved.uid])
    assert bob.memories.forget([saved.uid]) == [saved.uid]
    assert [_found(team, name, "village well") for name in ("bob", "carol")] == [[], []]


def test_a_space_that_cannot_be_read_is_said_with_what_the_others_answer(
    team: Crew, postgres: PostgresServer, shared_database: str
) -> None:
    broken = "The sundial of the observatory is broken."
    team.memory("bob", "common").record_message("dial", "user", broken)
    carol = team.memory("carol")
    carol.record_message("mine", "user", "The sundial stands in the observatory garden.")
    carol.end_exchange("mine")
    postgres.execute(f"UPDATE entries SET trust = 'friend' WHERE text = '{broken}'", make_url(shared_database).database)
    found = carol.search("sundial observatory")
    assert [hit.entry.text for hit in found.hits] == ["The sundial stands in the observatory garden."]
    [note] = [note for note in found.notes if "a space of the team" in note]
    assert "broken" not in note
    assert note in carol.build_context("new", ["Where is the sundial of the observatory?"]).notes


def test_that_nothing_is_recorded_is_said_of_all_spaces_that_are_read(team: Crew) -> None:
    carol = team.memory("carol")
    assert NOTHING_RECORDED in carol.search("chromodynamics").notes
    team.memory("alice", "common").record_message("survey", "user", WELL)
    found = carol.search("chromodynamics", mode="keyword")
    assert (found.hits, found.notes) == ((), ())


def test_a_space_keeps_what_is_younger_than_its_days(team: Crew) -> None:
    alice = team.speaker("alice")
    old = datetime.now(UTC) - timedelta(days=40)

    batch = Batch(NewConversation("library", "old"), [NewMessage(Role.USER, WELL, created_at=old)])
    team.memory("alice", "common").recorder.record([batch])
    team.memory("alice", "common").record_message("new", "user", PUMP)
    team.memory("alice").recorder.record([batch])
    team.team.keep_space(alice, "common", 30)
    assert team.team.retain() == 1
    assert _found(team, "carol", "village well surveyor") == []
    assert _found(team, "carol", "irrigation pump") == [PUMP]
    assert _found(team, "alice", "village well") == [WELL], "another space keeps its own"
    with pytest.raises(ScopeError):
        team.team.keep_space(team.speaker("bob"), "common", 1)


def test_whatever_members_forget_or_delete_the_tables_of_all_tenants_are_vacuumed_by_the_worker_alone_and_once(
    team: Crew, shared_database: str, postgres: PostgresServer | ClusterServer
) -> None:
    asked = "SELECT sum(vacuum_count) FROM pg_stat_all_tables WHERE relname ~ '^(messages|entries|vectors)(_[0-9]+)?$'"
    if isinstance(postgres, ClusterServer):
        # Each machine counts what it has of the tables.
        asked = f"SELECT sum(result::bigint) FROM run_command_on_workers($asked${asked}$asked$)"

    def vacuumed() -> int:
        [(count,)] = postgres.execute(asked, make_url(shared_database).database)
        return int(count)

    team.team.create_space(team.speaker("alice"), "farm")
    team.memory("alice", "farm").record_message("pumps", "user", PUMP)
    before = vacuumed()
    for name in ("alice", "bob"):
        said = team.memory(name).record_message("survey", "user", WELL)
        maintenance = team.memory(name).maintenance
        assert not maintenance.forget(maintenance.plan_forget(messages=[said.uid])).scrubbed
    team.team.delete_space(team.speaker("alice"), "farm")
    assert vacuumed() == before
    found = team.memory("bob").maintenance.doctor()
    assert ["worker" in finding.problem for finding in found if finding.check == "freed_space"] == [True]
    assert team.team.retain() == 0
    once = vacuumed()
    # Before PostgreSQL 17 a login that does not own the tables may not, and leaves it to autovacuum.
    [(version,)] = postgres.execute("SELECT current_setting('server_version_num')::int")
    assert (once > before) is (version >= 170000)
    assert team.team.retain() == 0
    assert vacuumed() == once
    maintenance = team.memory("bob").maintenance
    assert [finding.problem for finding in maintenance.doctor() if finding.check == "freed_space"] == []


def test_a_deleted_space_leaves_nothing(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    team.memory("alice", "farm").record_message("pumps", "user", PUMP)
    with pytest.raises(UsageError):
        team.team.delete_space(team.speaker("alice"), "common")
    team.team.delete_space(team.speaker("alice"), "farm")
    assert _found(team, "alice", "irrigation pump") == []
    with pytest.raises(NotFoundError):
        team.memory("alice", "farm")


def test_workers_embed_in_all_spaces_of_a_team(team: Crew) -> None:
    team.team.start_workers()
    team.memory("bob").record_message("survey", "user", WELL)
    team.memory("alice", "common").record_message("pumps", "user", PUMP)
    deadline, waits = time.monotonic() + 60, True
    while waits and time.monotonic() < deadline:
        time.sleep(0.1)
        found = [team.memory(*seat).maintenance.status() for seat in (("bob", None), ("alice", "common"))]
        waits = any(status.queue or not status.space for status in found)
    assert not waits
    [hit] = [hit for hit in team.memory("bob").search("Where is the pump?").hits if hit.origin]
    assert hit.similarity is not None


def test_an_agents_memory_of_a_project_is_a_space(team: Crew) -> None:
    alice = team.speaker("alice")
    for name in ("planner", "builder"):
        team.join(name, kind=PrincipalKind.AGENT)
    team.team.create_space(alice, "website")
    alice = team.speaker("alice")
    team.team.put_group(alice, "site agents", add=["planner", "builder"])
    team.team.grant(alice, "website", "site agents", Access.WRITE)
    team.memory("planner", "website").memories.add("The website is built with Hugo.")
    [found] = team.memory("builder").memories.search("what is the website built with")
    assert found.memory.origin is not None
    assert found.memory.origin.by == "planner"
