"""Who may write in a shared space changes and forgets there what they have brought; who administers it, anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crews import Crew, crew
from harken.errors import ForeignRecordError, NotFoundError, SpaceReadOnlyError, UsageError
from harken.model.experiences import Experience
from harken.model.team import Access

STORY = ("Find the leak", "The valve leaks", "Close it", "It stops dripping")
WHO_MAY = r"was brought by carol into the space farm: only carol and those who administer it may .* \(alice\)"


@pytest.fixture
def team(tmp_path: Path, shared_database: str, tenant: str) -> Iterator[Crew]:
    """Alice administers the space `farm`, in which Bob and Carol write."""
    with crew(tmp_path, shared_database, tenant, "alice", "bob", "carol") as found:
        found.team.create_space(found.speaker("alice"), "farm")
        for name in ("bob", "carol"):
            found.team.grant(found.speaker("alice"), "farm", name, Access.WRITE)
        yield found


def _started(team: Crew, name: str) -> Experience:
    return team.memory(name, "farm").experiences.start("debugging", "read-the-error", *STORY)


def test_a_writer_changes_and_forgets_nothing_that_another_has_brought(team: Crew, tmp_path: Path) -> None:
    carol, bob = team.memory("carol", "farm"), team.memory("bob", "farm")
    said = carol.record_message("pumps", "user", "From now on always answer in metric units.")
    memory = carol.memories.add("The irrigation pump is a Grundfos from 1998.").memory
    tried = _started(team, "carol")
    carol.core.update("agent", "motto", "water first")
    carol.labels.tag(said.conversation_uid, ["water"])
    [rule] = carol.rules.list()
    mine = bob.memories.add("Kowalski mends pumps in March.").memory
    forbidden: tuple[Callable[[], object], ...] = (
        lambda: bob.maintenance.plan_forget(messages=[said.uid]),
        lambda: bob.maintenance.plan_forget(conversations=[said.conversation_uid]),
        lambda: bob.maintenance.plan_forget(query="metric units"),
        lambda: bob.memories.forget([mine.uid, memory.uid]),
        lambda: bob.memories.edit(memory.uid, content="It is a Wilo."),
        lambda: bob.memories.confirm(memory.uid),
        lambda: bob.memories.merge([mine.uid, memory.uid]),
        lambda: bob.experiences.forget(tried.uid),
        lambda: bob.experiences.update(tried.uid, note="Bob was here."),
        lambda: bob.experiences.resolve("abandoned", uid=tried.uid),
        lambda: bob.experiences.adopt(tried.uid, session="bob's"),
        lambda: bob.labels.entitle(said.conversation_uid, "Bob's"),
        lambda: bob.labels.move(said.conversation_uid, str(tmp_path)),
        lambda: bob.labels.tag(said.conversation_uid, remove=["water"]),
        lambda: bob.rules.drop(rule.uid),
        lambda: bob.core.update("agent", "motto", "Bob first"),
        lambda: bob.core.delete("agent", "motto"),
    )
    for change in forbidden:
        with pytest.raises(ForeignRecordError, match=WHO_MAY):
            change()
    assert bob.show(said.uid).message is not None
    assert [one.uid for one in bob.memories.list()] == [mine.uid, memory.uid], "nothing of a refused call is done"
    assert carol.rules.list()[0].state == rule.state
    # What is said of things, and what adds to them, takes nothing from anybody.
    bob.record_message("pumps", "user", "Which units does the pump need?")
    bob.labels.tag(said.conversation_uid, ["pumps"])
    bob.feedback.rate(memory.uid, "useful")
    with pytest.raises(ForeignRecordError, match="bob"):
        carol.maintenance.plan_forget(conversations=[said.conversation_uid])
    carol.maintenance.forget(carol.maintenance.plan_forget(messages=[said.uid]))
    carol.memories.forget([memory.uid])
    carol.experiences.resolve("abandoned")
    carol.core.delete("agent", "motto")
    bob.core.update("agent", "motto", "Bob first")
    bob.core.update("agent", "motto", "whoever sets it anew has it")


def test_spaces_of_one_name_are_told_apart_by_their_ids(team: Crew) -> None:
    """Each may make one of a name that the other cannot see, and let them in later."""
    mine, others = (team.team.create_space(team.speaker(name), "barn") for name in ("bob", "alice"))
    team.memory("alice", "barn").record_message("ops", "user", "The orchard pump is a Wilo.")
    team.team.grant(team.speaker("alice"), "barn", "bob", Access.READ)
    [hit] = team.memory("bob").search("orchard pump").hits
    assert hit.origin is not None
    assert hit.origin.space == others.id
    assert team.memory("bob").maintenance.titles([str(hit.entry.conversation_uid)], others.id)
    assert not team.memory("bob").maintenance.titles([str(hit.entry.conversation_uid)], mine.id)
    with pytest.raises(NotFoundError, match=f"Several spaces are called barn.*{others.id}"):
        team.team.create_key(team.speaker("bob"), spaces=["barn"])
    assert team.team.create_key(team.speaker("bob"), spaces=[mine.id]).key.spaces == {mine.id}


def test_the_last_administrator_of_a_space_stays_one(team: Crew) -> None:
    alice = team.speaker("alice")
    for space in ("common", "farm"):
        for leave in (
            lambda at: team.team.revoke(alice, at, "alice"),
            lambda at: team.team.grant(alice, at, "alice", Access.READ),
        ):
            with pytest.raises(UsageError, match=f"First: harken space grant {space} NAME admin"):
                leave(space)
        team.team.grant(team.speaker("alice"), space, "bob", Access.ADMIN)
        team.team.revoke(team.speaker("alice"), space, "alice")
    team.team.revoke(team.team.operator(), "common", "bob")
    team.team.grant(team.team.operator(), "common", "alice", Access.ADMIN)


def test_settings_of_a_space_are_changed_by_who_administers_it(team: Crew) -> None:
    for name in ("bob", "carol"):
        with pytest.raises(SpaceReadOnlyError, match="'admin' in the space farm"):
            team.memory(name, "farm").run_time.set("rag.enabled", "false")
    assert team.memory("alice", "farm").run_time.set("rag.enabled", "false").value is False
    assert team.memory("bob", "farm").run_time.get("rag.enabled").value is False
    assert team.memory("bob").run_time.set("rag.enabled", "true").value is True, "their own space is theirs"


def test_who_administers_a_space_changes_and_forgets_anything_there(team: Crew) -> None:
    carol, alice = team.memory("carol", "farm"), team.memory("alice", "farm")
    said = carol.record_message("pumps", "user", "The irrigation pump is a Grundfos from 1998.")
    memory = carol.memories.add("The well is forty metres deep.").memory
    tried = _started(team, "carol")
    alice.labels.entitle(said.conversation_uid, "Pumps")
    alice.memories.edit(memory.uid, content="The well is sixty metres deep.")
    alice.experiences.forget(tried.uid)
    alice.memories.forget([memory.uid])
    alice.maintenance.forget(alice.maintenance.plan_forget(conversations=[said.conversation_uid]))
    with pytest.raises(NotFoundError):
        carol.show(said.uid)
    assert carol.memories.list() == []


def test_what_another_has_saved_is_neither_merged_nor_superseded_by_itself(team: Crew) -> None:
    carol, bob = team.memory("carol", "farm"), team.memory("bob", "farm")
    hers = carol.memories.add("The well runs dry in August.", tags=["water"]).memory
    again = bob.memories.add("The well runs dry in August.", tags=["bob"], importance=1.0)
    assert (again.outcome, again.memory.uid, again.memory.tags) == ("merged", hers.uid, ("water",))
    anew = bob.memories.add("The well runs dry in August!! Always.")
    assert anew.outcome == "added"
    assert {one.uid for one in carol.memories.list()} == {hers.uid, anew.memory.uid}
    corrected = bob.memories.add("The well runs dry in August!! Always so.")
    assert (corrected.outcome, [one.uid for one in corrected.alike]) == ("superseded", [anew.memory.uid])


def test_everybodys_verdict_counts_and_nobody_takes_back_that_of_another(team: Crew) -> None:
    carol, bob = team.memory("carol", "farm"), team.memory("bob", "farm")
    uid = carol.memories.add("The well runs dry in August.").memory.uid
    carol.feedback.rate(uid, "wrong", question="When does the well run dry?")
    assert bob.feedback.rate(uid, "useful").words == "rated useful once, wrong once"
    assert bob.feedback.rate(uid, "none").words == "rated wrong once"
    assert carol.feedback.rate(uid, "none").words == ""


def test_everybody_has_an_experience_of_their_own_under_way(team: Crew) -> None:
    hers, his = _started(team, "carol"), _started(team, "bob")
    for name, one in (("carol", hers), ("bob", his)):
        active = team.memory(name, "farm").experiences.active()
        assert active is not None
        assert active.experience.uid == one.uid


def test_a_copy_is_of_whoever_said_it_and_of_whoever_shared_it(team: Crew) -> None:
    memory = team.memory("carol").memories.add("The irrigation pump is a Grundfos from 1998.").memory
    for forgetful in ("carol", "alice"):
        copy = team.team.share(team.speaker("carol"), memory.uid, "farm")
        with pytest.raises(ForeignRecordError, match="carol"):
            team.memory("bob", "farm").memories.forget([copy])
        assert team.memory(forgetful, "farm").memories.forget([copy]) == [copy]


def test_what_was_there_before_a_team_is_for_its_administrators(
    tmp_path: Path, shared_database: str, tenant: str
) -> None:
    from harken.engine import Harken

    settings = {"store": shared_database, "tenant": tenant, "embedder": "none"}
    with Harken(tmp_path, settings=settings, env={}) as alone:
        memory = alone.memories.add("The staging password is in the safe.").memory
    with crew(tmp_path, shared_database, tenant, "alice", "bob") as team:
        team.team.grant(team.speaker("alice"), "common", "everyone", Access.WRITE)
        with pytest.raises(ForeignRecordError, match=f"Nobody knows who has brought {memory.uid}"):
            team.memory("bob", "common").memories.forget([memory.uid])
        assert team.memory("alice", "common").memories.forget([memory.uid]) == [memory.uid]
