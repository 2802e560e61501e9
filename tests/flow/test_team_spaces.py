"""A team's spaces: what one writes is private, what is granted is read by others, and it says whose it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crews import Crew, crew
from harken.engine.team import Team
from harken.errors import (
    AccessError,
    KeyRefusedError,
    NotFoundError,
    ScopeError,
    SpaceReadOnlyError,
    SpendLimitError,
    UsageError,
)
from harken.model.conversations import Role, Trust
from harken.model.lookups import ConversationFilter
from harken.model.team import Access, KeyScope, PrincipalKind
from harken.providers.chat_model import ChatMessage
from harken.providers.embedder import Vectors
from harken.serve.hooks.answers import Hooks
from harken.sources.memories.memories import Memories
from harken.testing import ChatServer, HashingEmbedder, Says

SECRET = "The staging database password rotates on the second Tuesday of each month."
ORCHARD = "The orchard's irrigation pump is serviced by Kowalski every April."


@pytest.fixture
def team(tmp_path: Path, shared_database: str, tenant: str) -> Iterator[Crew]:
    """Alice, who manages the team, and Bob."""
    with crew(tmp_path, shared_database, tenant, "alice", "bob") as found:
        yield found


def test_what_one_records_nobody_else_finds_reads_or_counts(team: Crew) -> None:
    alice, bob = team.memory("alice"), team.memory("bob")
    said = alice.record_message("ops", "user", SECRET)
    memory = alice.memories.add("Alice prefers rotating passwords by hand.").memory

    assert alice.search("staging password").hits[0].entry.text == SECRET
    assert not bob.search("staging password").hits
    assert bob.maintenance.status().counts.messages == 0
    for uid in (said.uid, said.uid[:12], said.conversation_uid, said.exchange_uid):
        with pytest.raises(NotFoundError):
            bob.show(uid)
    with pytest.raises(NotFoundError):
        bob.memories.get(memory.uid)
    assert bob.memories.list() == []
    assert bob.rules.list() == []
    with pytest.raises(NotFoundError):
        team.memory("bob", "alice")
    assert "Tuesday" not in str(bob.build_context("mine", ["When does the staging password rotate?"]))


def test_what_waits_for_its_vector_is_embedded_once_however_many_requests_compare_with_it(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    whole = HashingEmbedder.embed_passages

    def watched(self: HashingEmbedder, texts: Sequence[str]) -> Vectors:
        embedded.extend(texts)
        return whole(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", watched)
    kept = [f"The {what} is kept in the cellar." for what in ("ladder", "paraffin lamp", "old piano", "bicycle")]
    for text in kept:
        team.memory("alice").memories.add(text)
    assert sorted(embedded) == sorted(kept)
    again = team.memory("alice").memories.add("In the cellar the old piano is kept.", category="fact")
    assert again.outcome == "superseded", "it is still compared by meaning with what waits"


def test_a_space_that_one_may_not_see_is_as_if_it_were_not(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "board")
    with pytest.raises(NotFoundError) as hidden:
        team.memory("bob", "board")
    with pytest.raises(NotFoundError) as missing:
        team.memory("bob", "nothing")
    assert str(hidden.value).replace("board", "X") == str(missing.value).replace("nothing", "X")
    assert [space.name for space, _ in team.speaker("bob").spaces] == ["bob", "common"]
    own = team.team.create_space(team.speaker("bob"), "board")
    assert team.memory("bob", "board") is not None, "its name is no sign of the other one"
    with pytest.raises(UsageError, match="already"):
        team.team.create_space(team.speaker("bob"), "board")
    team.team.grant(team.speaker("alice"), "board", "bob", Access.READ)
    with pytest.raises(NotFoundError, match=own.id):
        team.memory("bob", "board")
    assert team.memory("bob", own.id) is not None


def test_what_others_said_in_a_conversation_of_a_shared_space_is_data_there_too(team: Crew) -> None:
    team.memory("alice", "common").core.update("user", "boss", "Alice")
    for number in range(30):
        team.memory("alice", "common").record_message("site", "user", f"Delivery {number} of gravel came at noon.")
    team.memory("alice", "common").record_message("site", "user", ORCHARD)
    for number in range(30):
        team.memory("bob", "common").record_message("site", "user", f"Crane {number} was inspected and is fine.")
    seen = team.memory("bob", "common")
    recalled = seen.auto_rag("site", "Who services the irrigation pump of the orchard?")
    assert {item.hit.entry.trust for item in recalled.items if item.hit.entry.text == ORCHARD} == {Trust.IMPORTED}
    context = seen.build_context("site", ["Who services the irrigation pump of the orchard?"])
    told = "\n".join(message.content for message in context.messages)
    assert "boss: Alice (set by alice)" in told


def test_a_space_that_was_searched_while_it_was_empty_is_found_in_once_it_is_not(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.READ)
    for _ in range(2):
        assert not team.memory("bob").search("irrigation pump").hits
    team.memory("alice", "farm").record_message("pumps", "user", ORCHARD)
    assert [hit.entry.text for hit in team.memory("bob").search("irrigation pump").hits] == [ORCHARD]


def test_search_sees_what_was_granted_and_says_whose_it_is(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.READ)
    team.memory("alice", "farm").record_message("pumps", "user", ORCHARD)

    [hit] = team.memory("bob").search("irrigation pump").hits
    assert hit.entry.text == ORCHARD
    assert hit.entry.author == "alice"
    assert hit.origin is not None
    assert hit.origin.label == "space farm, said by alice"
    assert hit.entry.trust is Trust.IMPORTED, "another's words are data"
    [own] = team.memory("alice").search("irrigation pump").hits
    assert own.entry.trust is Trust.OWNER
    assert own.origin is not None
    assert own.origin.is_mine
    assert team.memory("bob").show(hit.entry.ref_uid).conversation.origin is not None
    listed, total = team.memory("bob").maintenance.conversations(ConversationFilter())
    assert total == 1
    assert listed[0].conversation.origin is not None


def test_memories_and_experiences_are_listed_beyond_what_one_question_may_ask_for(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harken.engine.team_lookups._AT_ONCE", 3)
    for tree, animal in (("oak", "cow"), ("elm", "hen"), ("ash", "pig"), ("fir", "ewe")):
        team.memory("alice").memories.add(f"{tree} stands in the field")
        team.memory("bob", "common").memories.add(f"{animal} lives by the barn")
    listed = team.memory("alice").memories
    every = [one.content for one in listed.list(limit=1000)]
    assert len(every) == 8
    assert [one.content for start in range(0, 10, 2) for one in listed.list(limit=2, offset=start)] == every
    with pytest.raises(UsageError, match="limit"):
        listed.list(limit=0)
    asked, real = list[int](), Memories.list
    monkeypatch.setattr(Memories, "list", lambda *given, **named: (asked.append(1), real(*given, **named))[1])
    assert listed.list(limit=10, offset=10_000) == []
    assert len(asked) < 10
    for agent in ("a", "b", "c", "d"):
        story = f"{agent} finds the leak", "the valve leaks", "close it", "it stops"
        for memory in (team.memory("alice"), team.memory("bob", "common")):
            memory.experiences.start("debugging", "read-the-error", *story, agent=agent)
    tried = team.memory("alice").experiences
    uids = [one.uid for one in tried.list(500)]
    assert len(uids) == 8
    assert [one.uid for start in range(0, 10, 2) for one in tried.list(2, offset=start)] == uids


def test_what_was_judged_is_found_beside_the_summary_that_says_it_again(team: Crew) -> None:
    memory = team.memory("alice")
    told = memory.record_message("pumps", "user", ORCHARD)
    memory.record_message("pumps", "assistant", "Noted: the irrigation pump of the orchard.")
    memory.end_exchange("pumps")
    memory.background.summarize()
    memory.background.embed()
    memory.feedback.rate(told.exchange_uid, "useful")
    hits = memory.search("irrigation pump").hits
    assert told.uid in {hit.entry.ref_uid for hit in hits}
    assert any("rated useful" in reason.note for reason in hits[0].reasons)


def test_what_is_due_in_a_shared_space_says_whose_it_is(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.WRITE)
    farm = team.memory("alice", "farm").memories
    farm.review(farm.add("The pump is serviced in April.").memory.uid, datetime(2026, 1, 1, tzinfo=UTC))

    [due] = team.memory("bob", "farm").memories.due()
    assert due.origin is not None
    assert due.origin.label == "space farm, said by alice"
    assert due.trust is Trust.IMPORTED
    assert not team.memory("bob").memories.due(), "it is confirmed where it stands"


def test_a_space_that_may_only_be_read_refuses_every_write(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.READ)
    reading = team.memory("bob", "farm")
    for write in (
        lambda: reading.record_message("pumps", "user", ORCHARD),
        lambda: reading.memories.add("Kowalski is called in March."),
        lambda: reading.core.update("user", "name", "Bob"),
    ):
        with pytest.raises(SpaceReadOnlyError, match="farm"):
            write()
    assert not reading.search("Kowalski").hits
    for number in range(60):
        team.memory("alice", "farm").record_message("long", "user", f"Field {number} was watered {'and checked ' * 30}")
    assert reading.build_context("long", ["Which fields were watered?"], budget_tokens=1500).messages
    team.team.grant(team.speaker("alice"), "farm", "bob", Access.WRITE)
    team.memory("bob", "farm").record_message("pumps", "user", ORCHARD)
    assert len(team.memory("alice").search("irrigation pump").hits) == 1


def test_groups_bring_their_members_in_and_taking_back_puts_them_out(team: Crew) -> None:
    team.team.create_space(team.speaker("alice"), "farm")
    alice = team.speaker("alice")
    assert team.team.put_group(alice, "growers", add=["bob"]) == {"growers": ["bob"]}
    team.team.grant(alice, "farm", "growers", Access.WRITE)
    team.memory("bob", "farm").record_message("pumps", "user", ORCHARD)
    assert ("farm", Access.WRITE) in [(space.name, access) for space, access in team.speaker("bob").spaces]
    assert [(grant.name, grant.is_group) for grant in team.team.grants(alice, "farm")] == [
        ("alice", False),
        ("growers", True),
    ]
    team.team.put_group(alice, "growers", remove=["bob"])
    with pytest.raises(NotFoundError):
        team.memory("bob", "farm")
    team.team.put_group(alice, "growers", add=["bob"])
    team.team.revoke(alice, "farm", "growers")
    assert not team.memory("bob").search("irrigation").hits


def test_a_private_space_is_granted_to_nobody(team: Crew) -> None:
    with pytest.raises(UsageError, match="private"):
        team.team.grant(team.speaker("alice"), "alice", "bob", Access.READ)
    with pytest.raises(NotFoundError):
        team.team.grant(team.team.operator(), "alice", "bob", Access.READ)


def test_keys_expire_are_revoked_and_replaced(team: Crew, tmp_path: Path, shared_database: str, tenant: str) -> None:
    bob = team.speaker("bob")
    soon = datetime.now(UTC) + timedelta(hours=1)
    short = team.team.create_key(bob, expires=soon)
    assert team.team.speaker(short.secret).principal.name == "bob"
    later = Team(
        tmp_path, settings={"store": shared_database, "tenant": tenant, "embedder": "none"}, env={}, now=lambda: soon
    )
    with later, pytest.raises(KeyRefusedError):
        later.speaker(short.secret)

    new = team.team.rotate_key(bob, short.key.id)
    assert team.team.speaker(new.secret).scopes == short.key.scopes
    with pytest.raises(KeyRefusedError):
        team.team.speaker(short.secret)
    assert team.team.revoke_key(bob, new.key.prefix).revoked is not None
    for secret in (new.secret, "", "hk_", new.secret[:-1], f"{new.secret} "):
        with pytest.raises(KeyRefusedError):
            team.team.speaker(secret)
    with pytest.raises(UsageError):
        team.team.rotate_key(bob, new.key.id)


def test_who_manages_a_team_replaces_the_keys_of_agents_and_of_no_person(team: Crew) -> None:
    alice = team.speaker("alice")
    team.team.create_principal(alice, "robot", PrincipalKind.AGENT)
    old = team.team.create_key(alice, "robot", [KeyScope.READ])
    new = team.team.rotate_key(alice, old.key.prefix, 60)
    assert {team.team.speaker(each.secret).principal.name for each in (old, new)} == {"robot"}
    assert team.team.speaker(new.secret).scopes == {KeyScope.READ}
    with pytest.raises(AccessError, match="bob has a key"):
        team.team.rotate_key(alice, team.keys["bob"][:11])
    for by in (team.speaker("bob"), team.team.speaker(team.team.create_key(alice, "alice", [KeyScope.KEYS]).secret)):
        with pytest.raises(NotFoundError):
            team.team.rotate_key(by, new.key.prefix)


def test_no_key_makes_one_that_may_do_more(team: Crew) -> None:
    bob = team.speaker("bob")
    weak = team.team.create_key(bob, scopes=[KeyScope.KEYS, KeyScope.READ], spaces=["common"])
    speaker = team.team.speaker(weak.secret)
    assert [space.name for space, _ in speaker.spaces] == ["common"]
    with pytest.raises(ScopeError, match="record"):
        team.team.create_key(speaker, scopes=[KeyScope.RECORD])
    with pytest.raises(ScopeError):
        team.team.create_key(speaker, scopes=[KeyScope.READ], spaces=["bob"])
    with pytest.raises(UsageError):
        team.team.create_key(speaker, scopes=[KeyScope.READ], spaces=[])
    with pytest.raises(ScopeError):
        team.team.rotate_key(speaker, team.keys["bob"][:11])
    made = team.team.create_key(speaker, scopes=[KeyScope.READ])
    assert [space.name for space, _ in team.team.speaker(made.secret).spaces] == ["common"]
    with pytest.raises(NotFoundError):
        team.team.memory(team.team.speaker(made.secret), "bob")


def test_who_manages_a_team_makes_no_key_for_a_person_who_has_one(team: Crew) -> None:
    alice = team.speaker("alice")
    with pytest.raises(AccessError, match="bob"):
        team.team.create_key(alice, "bob")
    robot = team.team.create_principal(alice, "robot", PrincipalKind.AGENT)
    key = team.team.create_key(alice, robot.id)
    assert KeyScope.ADMIN not in key.key.scopes
    for forbidden in (
        lambda: team.team.create_principal(team.speaker("bob"), "eve"),
        lambda: team.team.create_key(team.speaker("bob"), "robot"),
        lambda: team.team.list_keys(team.speaker("bob"), "alice"),
        lambda: team.team.put_group(team.speaker("bob"), "gang"),
        lambda: team.team.grant(team.speaker("bob"), "common", "robot", Access.ADMIN),
    ):
        with pytest.raises(ScopeError):
            forbidden()
    with pytest.raises(NotFoundError):
        team.team.revoke_key(team.speaker("bob"), team.keys["alice"][:11])


def test_a_key_of_one_team_opens_nothing_of_another(
    team: Crew, tmp_path: Path, shared_database: str, tenant: str
) -> None:
    team.memory("alice", "common").record_message("ops", "user", SECRET)
    with crew(tmp_path / "other", shared_database, f"{tenant}x", "alice", "carol") as others:
        # Any process of the server knows whose key it is.
        assert others.team.speaker(team.keys["bob"]).principal.team == tenant
        assert not others.memory("carol").search("staging password").hits
        carol = others.speaker("carol")
        for name in (team.speaker("bob").own.id, team.speaker("bob").own.name):
            with pytest.raises(NotFoundError):
                others.team.memory(carol, name)
        assert {one.name for one in others.team.principals(others.speaker("alice"))} == {"alice", "carol"}
        with pytest.raises(KeyRefusedError):
            others.team.speaker_of("bob@example.org")


def test_a_login_speaks_by_its_address(team: Crew) -> None:
    team.join("dora", email="Dora@Example.org")
    assert team.team.speaker_of("dora@example.ORG ").principal.name == "dora"
    with pytest.raises(KeyRefusedError):
        team.team.speaker_of("nobody@example.org")
    with pytest.raises(UsageError, match="address"):
        team.join("dora2", email="dora@example.org")


def test_what_was_there_before_the_team_is_shown_to_nobody_unasked(
    tmp_path: Path, shared_database: str, tenant: str
) -> None:
    from harken.engine import Harken

    settings = {"store": shared_database, "tenant": tenant, "embedder": "none"}
    with Harken(tmp_path, settings=settings, env={}) as alone:
        alone.record_message("ops", "user", SECRET)
    with crew(tmp_path, shared_database, tenant, "alice", "bob") as found:
        assert not found.memory("bob").search("staging password").hits
        assert [hit.entry.text for hit in found.memory("alice").search("staging password").hits] == [SECRET]
        found.team.grant(found.speaker("alice"), "common", "everyone", Access.READ)
        [hit] = found.memory("bob").search("staging password").hits
        assert hit.entry.trust is Trust.IMPORTED
        assert hit.origin is not None
        assert hit.origin.space == "common"


def test_two_people_write_into_one_space_at_once_and_nothing_is_lost(team: Crew) -> None:
    def write(name: str) -> None:
        for number in range(15):
            team.memory(name, "common").record_message(f"of {name}", "user", f"Reading {number} of the {name} meter.")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("alice", "bob")))
    seen = team.memory("bob", "common")
    assert seen.maintenance.status().counts.messages == 30
    hits = seen.search("Reading of the alice meter", limit=40).hits
    assert {hit.entry.author for hit in hits} == {"alice", "bob"}
    assert all(hit.origin is not None and hit.origin.by == hit.entry.author for hit in hits)


def test_the_use_of_a_key_is_noted_once_a_minute(tmp_path: Path, shared_database: str, tenant: str) -> None:
    clock = [datetime(2026, 5, 1, 12, tzinfo=UTC)]
    settings = {"store": shared_database, "tenant": tenant, "embedder": "none"}
    secret = ""
    moments = []
    for later in (0, 30, 90):
        moment = clock[0] + timedelta(seconds=later)
        with Team(tmp_path, settings=settings, env={}, now=lambda at=moment: at) as team:
            operator = team.operator()
            if not secret:
                team.create_principal(operator, "alice")
                secret = team.create_key(operator, "alice").secret
            team.speaker(secret)
        with Team(tmp_path, settings=settings, env={}) as team:
            moments.append(team.list_keys(team.operator(), "alice")[0].last_used)
    assert moments == [clock[0], clock[0], clock[0] + timedelta(seconds=90)]


def test_spaces_that_nobody_asks_for_are_let_go_and_opened_again(team: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    held = team.memory("bob")
    held.record_message("ops", "user", SECRET)
    monkeypatch.setattr("harken.engine.team._IDLE_SECONDS", -1.0)
    monkeypatch.setattr("harken.engine.team._LOOKED_EVERY_SECONDS", -1.0)
    team.memory("alice")
    assert list(team.team._spaces) == [f"{team.speaker('alice').own.tenant}"]
    assert [hit.entry.text for hit in held.search("staging password").hits] == [SECRET], "whoever has one goes on"
    assert [hit.entry.text for hit in team.memory("bob").search("staging password").hits] == [SECRET]


def test_hooks_name_who_has_set_a_core_memory(team: Crew, tmp_path: Path) -> None:
    team.memory("alice", "common").core.update("user", "boss", "Alice")
    team.memory("bob", "common").core.update("user", "editor", "vim")
    payload = {"session_id": "new", "cwd": str(tmp_path), "hook_event_name": "SessionStart", "source": "startup"}
    hooks = Hooks(team.memory("bob", "common"), str(tmp_path / "reports"))
    told = hooks.answer("SessionStart", "claude-code", json.dumps(payload).encode()).decode()
    assert "boss: Alice (set by alice)" in told
    assert "editor: vim" in told
    assert "set by bob" not in told


def test_that_the_same_was_asked_before_is_told_of_all_spaces(team: Crew) -> None:
    team.join("carol")
    question = "Which port does the staging importer listen on?"
    for name, space, answer in (
        ("bob", None, "It listens on 8090."),
        ("alice", "common", "We decided to use port 8091."),
    ):
        memory = team.memory(name, space)
        memory.record_message("ops", "user", question)
        memory.record_message("ops", "assistant", answer)
        memory.end_exchange("ops")
    before = team.memory("bob").chats.past(question).asked
    assert before is not None
    assert len(before.at) == 2
    assert (before.said_by, before.trust) == ("alice", Trust.IMPORTED)
    assert before.sentence(datetime.now(UTC)).endswith(
        "(3rd time). Then decided with alice: We decided to use port 8091."
    )
    alone = team.memory("carol").chats.past(question).asked
    assert alone is not None
    assert len(alone.at) == 1, "what is private to another is told to nobody"
    mine = team.memory("alice").chats.past(question).asked
    assert mine is not None
    assert (len(mine.at), mine.said_by) == (1, "")


def test_ones_own_open_experience_is_found_from_any_space(team: Crew) -> None:
    team.join("carol")
    story = ("Find the leak", "The valve leaks", "Close it", "It stops dripping")
    begun = team.memory("bob", "common").experiences.start("debugging", "read-the-error", *story)
    found = team.memory("bob").experiences.active()
    assert found is not None
    assert found.experience.uid == begun.uid
    assert "space common" in found.experience.agent
    assert team.memory("carol").experiences.active() is None


def test_what_may_be_spent_on_a_day_is_the_teams(tmp_path: Path, shared_database: str, tenant: str) -> None:
    settings = {"llm.model": "openai:own", "llm.api_key": "unused", "llm.output_usd_per_million": 0}
    settings |= {"llm.input_usd_per_million": 1000, "llm.max_usd_per_day": 1.5}
    with (
        ChatServer(otherwise=lambda _request: Says("Yes.", input_tokens=1000)) as server,
        crew(tmp_path, shared_database, tenant, "alice", "bob", "carol", **settings, **{"llm.url": server.url}) as team,
    ):

        def ask(name: str) -> None:
            model = team.memory(name)._language_model.metered("chat", f"of {name}")
            assert model is not None
            model.complete([ChatMessage(Role.USER, "Is it so?")])

        ask("alice")
        ask("bob")
        with pytest.raises(SpendLimitError, match=r"2 of 1\.5 USD are spent"):
            ask("carol")
        spent = {name: team.memory(name).maintenance.status().spent for name in ("alice", "bob", "carol")}
        assert {name: float(one.usd) for name, one in spent.items()} == {"alice": 1.0, "bob": 1.0, "carol": 0.0}
        common = team.memory("carol", "common").maintenance
        assert float(common.status().spent.usd) == 2.0
        assert [line for line in common.activity() if line.usd] == [], "nobody is told what others spend"


def test_a_server_that_says_it_is_warm_has_loaded_what_a_private_space_needs(
    team: Crew, tmp_path: Path, shared_database: str, tenant: str
) -> None:
    bob = team.memory("bob")
    bob.record_message("ops", "user", ORCHARD)
    bob.embed()
    embedder = HashingEmbedder()
    # Nothing is in the common space, by which nothing could be tried.
    with Team(
        tmp_path / "again", settings={"store": shared_database, "tenant": tenant}, env={}, embedder=embedder
    ) as again:
        again.warm_up()
        assert embedder.embedded > 0
