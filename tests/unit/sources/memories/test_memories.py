from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import NotFoundError, UsageError
from harken.model.conversations import NewEntry, SearchScope, Trust
from harken.sources.searches import MEMORIES
from harken.storage.entries import RecordHead, add_record_entries
from harken.testing.models import HashingEmbedder

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
Opened = Callable[[], Harken]


@pytest.fixture
def harken(tmp_path: Path, store_settings: dict[str, Any]) -> Iterator[Harken]:
    """Each call of the clock is a second later."""
    moments = iter(range(10**6))
    with Harken(
        tmp_path,
        settings=store_settings,
        embedder=HashingEmbedder(),
        env={},
        now=lambda: NOON + timedelta(seconds=next(moments)),
    ) as opened:
        yield opened


def contents(harken: Harken, **limits: Any) -> list[str]:
    return [one.content for one in harken.memories.list(**limits)]


@pytest.mark.usefixtures("engine_settings")
def test_a_memory_is_saved_found_and_shown_with_all_it_has(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    saved = harken.memories.add(
        "We store sessions in Redis", "decision", 0.9, ["cache", " cache ", "redis"], directory=tmp_path / "house"
    )
    assert (saved.outcome, saved.memory.tags) == ("added", ("cache", "redis"))
    harken.embed()
    [hit] = harken.search("where do sessions live? redis").hits
    assert (hit.entry.source, hit.entry.ref_uid, hit.entry.trust) == ("memory", saved.memory.uid, Trust.OWNER)
    assert {reason.name: reason.value for reason in hit.reasons}["importance"] == pytest.approx(1.16)
    with harken.store.reading() as tx:
        [item] = MEMORIES.items(tx, [hit])
    assert item.content == "**Memory**: We store sessions in Redis\n*Category: decision, Importance: 0.9*"
    assert item.source == "memory"
    assert 0 < item.relevance <= 1
    created = saved.memory.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert item.metadata == {"id": saved.memory.uid, "category": "decision", "importance": 0.9, "created_at": created}
    [found] = harken.memories.search("redis sessions", category="decision", tags=["redis"], project="house")
    assert found.memory == saved.memory


def test_the_items_of_a_context_leave_out_what_is_gone(harken: Harken) -> None:
    gone = harken.memories.add("a zebra").memory
    harken.record_message("talk", "user", "a zebra as well")
    hits = harken.search("zebra").hits
    harken.memories.forget([gone.uid])
    with harken.store.reading() as tx:
        assert MEMORIES.items(tx, hits) == []
    assert len(hits) == 2


def test_the_same_words_again_add_their_tags_and_a_higher_importance(harken: Harken) -> None:
    first = harken.memories.add("Use tabs.", "preference", 0.4, ["style"]).memory
    again = harken.memories.add("use  TABS", "preference", 0.7, ["editor"])
    assert (again.outcome, again.memory.uid, again.memory.importance) == ("merged", first.uid, 0.7)
    assert again.memory.tags == ("style", "editor")
    assert [one.why for one in again.alike] == ["the same words"]
    third = harken.memories.add("Use tabs", "preference")
    assert third.memory == again.memory
    assert contents(harken) == ["Use tabs."]


def test_a_decision_said_anew_stands_in_place_of_the_older_one(harken: Harken) -> None:
    old = harken.memories.add("We use PostgreSQL 15 on staging", "decision", 0.8, ["db"]).memory
    saved = harken.memories.add("We use PostgreSQL 16 on staging", "decision")
    assert (saved.outcome, saved.memory.supersedes, saved.memory.importance) == ("superseded", (old.uid,), 0.8)
    assert saved.memory.tags == ("db",)
    assert [(one.uid, one.why) for one in saved.alike] == [(old.uid, "alike in words")]
    assert contents(harken) == ["We use PostgreSQL 16 on staging"]
    assert [hit.entry.ref_uid for hit in harken.search("PostgreSQL staging").hits] == [saved.memory.uid]
    assert harken.memories.get(old.uid).superseded_by == saved.memory.uid
    assert contents(harken, superseded=True) == ["We use PostgreSQL 15 on staging"]


def test_a_rewording_is_known_by_its_meaning(harken: Harken) -> None:
    old = harken.memories.add("Tests run before pushes happen", "workflow").memory
    harken.embed()
    saved = harken.memories.add("pushes happen before tests Tests run", "workflow")
    assert [(one.uid, one.why) for one in saved.alike] == [(old.uid, "alike in meaning")]


def test_a_rewording_is_known_before_anything_was_embedded(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    for place in (None, tmp_path / "house"):
        old = harken.memories.add("Tests run before pushes happen", "workflow", directory=place).memory
        saved = harken.memories.add("pushes happen before tests Tests run", "workflow", directory=place)
        assert [(one.uid, one.why) for one in saved.alike] == [(old.uid, "alike in meaning")]
    assert len(contents(harken)) == 2


def test_what_a_model_of_the_latin_script_cannot_read_is_not_compared_by_its_meaning(tmp_path: Path) -> None:
    class Blind(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Any:
            return super().embed_passages(["unknown"] * len(texts))

    for latin_only, second in ((True, "added"), (False, "superseded")):
        embedder = Blind()
        embedder._space = replace(embedder.space, latin_only=latin_only)
        with Harken(tmp_path / second, embedder=embedder, env={}) as harken:
            saved = [harken.memories.add(text, "fact") for text in ("猫喜欢吃鱼", "他喜欢喝绿茶")]
        assert [one.outcome for one in saved] == ["added", second]


def test_saving_many_embeds_each_once(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with Harken(tmp_path, embedder=embedder, env={}) as harken:
        for number in range(80):
            harken.memories.add(f"word{number} other{number} thing{number}", "event")
        assert embedder.embedded <= 80


def test_what_was_compared_as_it_was_saved_is_found_by_its_meaning_and_not_embedded_again(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    embedder = HashingEmbedder()
    with Harken(tmp_path, embedder=embedder, settings=store_settings, env={}) as harken:
        harken.memories.add("The garden has an old well")
        harken.embed()
        saved = harken.memories.add("Lunch is at noon in the kitchen").memory
        hits = harken.search("in the kitchen Lunch is at noon", mode="semantic").hits
        assert [hit.entry.ref_uid for hit in hits][:1] == [saved.uid]
        count = embedder.embedded
        harken.embed()
        assert embedder.embedded == count


def test_without_a_model_what_is_said_anew_is_known_by_its_words(
    tmp_path: Path, store_settings: dict[str, Any]
) -> None:
    with Harken(tmp_path, settings={"embedder": "none", **store_settings}, env={}) as harken:
        harken.memories.add("Standup is on Tuesdays at 10")
        assert harken.memories.add("Standup has moved to Thursdays").alike[0].why == "says what has changed"
        assert harken.memories.add("Standup has not moved to Thursdays").outcome == "superseded"
        assert contents(harken) == ["Standup has not moved to Thursdays"]


@pytest.mark.usefixtures("engine_settings")
def test_other_categories_and_projects_are_left_alone(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    harken.memories.add("Use tabs", "preference")
    assert harken.memories.add("Use tabs", "decision").outcome == "added"
    assert harken.memories.add("Use tabs", "preference", directory=tmp_path / "house").outcome == "added"
    assert contents(harken, project="house") == ["Use tabs"]
    assert len(contents(harken)) == 3


@pytest.mark.usefixtures("engine_settings")
def test_forgetting_takes_along_what_was_superseded(harken: Harken) -> None:
    one = harken.memories.add("The port is 8080", "decision").memory
    two = harken.memories.add("The port is 8081", "decision").memory
    three = harken.memories.add("The port is 8082", "decision").memory
    other = harken.memories.add("Use tabs").memory
    with pytest.raises(NotFoundError):
        harken.memories.forget([three.uid, "nothing"])
    assert set(harken.memories.forget([three.uid])) == {one.uid, two.uid, three.uid}
    assert harken.memories.list(superseded=True) == []
    assert [found.uid for found in harken.memories.list()] == [other.uid]
    assert harken.search("port").hits == ()


def test_an_edit_to_the_words_of_another_memory_is_refused(harken: Harken) -> None:
    zebra, lion = (harken.memories.add(words).memory for words in ("The zebra is fed at noon", "Lions sleep all day"))
    with pytest.raises(UsageError, match=f"harken memory merge {zebra.uid} {lion.uid}"):
        harken.memories.edit(lion.uid, content="the zebra is fed at noon.")
    assert harken.memories.edit(zebra.uid, content="The zebra is fed at noon!").content.endswith("!")
    rule = harken.memories.add("The zebra is fed at noon", "decision").memory
    with pytest.raises(UsageError, match=f"harken memory merge {zebra.uid} {rule.uid}"):
        harken.memories.edit(rule.uid, category="fact")
    assert harken.memories.edit(lion.uid, content="The zebra is fed at noon", category="context").category == "context"


def test_an_edit_changes_what_is_given_and_what_is_found(harken: Harken) -> None:
    made = harken.memories.add("a zebra", "fact", 0.2, ["animals"]).memory
    changed = harken.memories.edit(made.uid[:20], content="a lion", importance=0.6)
    assert (changed.content, changed.category, changed.tags) == ("a lion", "fact", ("animals",))
    assert changed.created_at == made.created_at < changed.updated_at
    assert harken.search("zebra").hits == ()
    assert harken.memories.edit(made.uid, tags=[]).tags == ()
    with pytest.raises(UsageError, match="Nothing to change"):
        harken.memories.edit(made.uid)


@pytest.mark.usefixtures("engine_settings")
def test_only_words_and_a_confirmation_say_that_a_memory_holds(harken: Harken) -> None:
    uid = harken.memories.add("The staging server is staging-7").memory.uid
    told = harken.memories.get(uid).created_at
    harken.memories.edit(uid, tags=["ops"])
    harken.memories.review(uid, NOON)
    assert harken.memories.get(uid).held_at == told
    [due] = harken.memories.due(NOON + timedelta(days=1))
    assert due.suggested_review == told + timedelta(days=365)
    confirmed = harken.memories.confirm(uid).held_at
    assert confirmed > told
    assert harken.memories.edit(uid, content="The staging server is staging-8").held_at > confirmed


@pytest.mark.parametrize("by", ["2027-01-31", NOON.date()])
def test_a_day_of_review_that_is_no_moment_is_refused_with_what_to_give(harken: Harken, by: Any) -> None:
    uid = harken.memories.add("Ann drives a tram.", "fact").memory.uid
    with pytest.raises(UsageError, match=r"A moment is a datetime, as datetime\(2026, 5, 8\), not "):
        harken.memories.review(uid, by)


def test_memories_due_on_one_day_keep_their_order_when_all_is_made_anew(harken: Harken) -> None:
    first, second = (harken.memories.add(said).memory.uid for said in ("The quay is shut", "The ledger is on deck"))
    for uid in (first, second):
        harken.memories.review(uid, NOON)
    harken.memories.edit(first, content="The quay is open")
    list(harken.maintenance.reindex_from_journal())
    assert [memory.uid for memory in harken.memories.due(NOON)] == [first, second]


def test_merging_keeps_the_first_with_what_the_others_had(harken: Harken) -> None:
    first = harken.memories.add("Deploys happen on Tuesdays", "workflow", 0.3, ["ops"]).memory
    second = harken.memories.add("We ship every week", "workflow", 0.9, ["release"]).memory
    saved = harken.memories.merge([first.uid, second.uid, first.uid], "We ship on Tuesdays")
    merged = saved.memory
    assert (merged.uid, merged.content, merged.importance) == (first.uid, "We ship on Tuesdays", 0.9)
    assert (merged.tags, merged.supersedes) == (("ops", "release"), (second.uid,))
    assert contents(harken) == ["We ship on Tuesdays"]
    with pytest.raises(UsageError, match="two memories"):
        harken.memories.merge([first.uid, first.uid])
    # The other way round undoes it: nothing was lost.
    harken.memories.merge([second.uid, first.uid])
    assert contents(harken) == ["We ship every week"]
    assert len(harken.memories.forget([second.uid])) == 2


@pytest.mark.usefixtures("engine_settings")
def test_only_a_look_on_purpose_is_noted(harken: Harken) -> None:
    made = harken.memories.add("a zebra").memory
    harken.search("zebra")
    harken.memories.list()
    assert harken.memories.list()[0].accessed_at is None
    harken.memories.search("zebra")
    searched = harken.memories.list()[0].accessed_at
    assert searched is not None
    assert searched > made.created_at
    harken.memories.get(made.uid)
    shown = harken.memories.list()[0].accessed_at
    assert shown is not None
    assert shown > searched


@pytest.mark.usefixtures("engine_settings")
def test_importance_orders_what_is_equally_alike(harken: Harken) -> None:
    for importance in (0.1, 0.9, 0.5):
        harken.memories.add(f"zebra number{importance}", "event", importance)
    found = [one.memory.importance for one in harken.memories.search("zebra", mode="keyword")]
    assert found == [0.9, 0.5, 0.1]
    assert [one.memory.importance for one in harken.memories.search("zebra", min_importance=0.6)] == [0.9]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"content": "  "}, "needs words"),
        ({"content": "<private>all of it</private>"}, "needs words"),
        ({"content": "x" * 10_001}, "at most 10,000 characters, not 10,001"),
        ({"category": "gossip"}, "no category 'gossip'. Categories: preference, fact"),
        ({"importance": 1.1}, "from 0 to 1, not 1.1"),
        ({"importance": float("nan")}, "from 0 to 1, not nan"),
        ({"tags": [str(number) for number in range(21)]}, "at most 20 tags, not 21"),
        ({"tags": ["x" * 51]}, "at most 50 characters"),
    ],
)
def test_limits_are_named(harken: Harken, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        harken.memories.add(**{"content": "a zebra", **arguments})
    assert contents(harken) == []


def test_what_is_at_its_limit_is_saved(harken: Harken) -> None:
    tags = ["x" * 48 + f"{number:02}" for number in range(20)]
    saved = harken.memories.add("x " * 4_999 + "xx", "context", 1.0, tags)
    assert harken.memories.get(saved.memory.uid).tags == tuple(tags)


@pytest.mark.parametrize("limit", [0, 101])
def test_a_search_has_a_limit(harken: Harken, limit: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 100"):
        harken.memories.search("zebra", limit=limit)


def test_secrets_are_taken_out_before_anything_is_compared(harken: Harken) -> None:
    first = harken.memories.add("the key is AKIAIOSFODNN7EXAMPLE").memory
    assert "AKIAIOSFODNN7EXAMPLE" not in first.content
    assert harken.memories.add("the key is AKIAIOSFODNN7EXAMPLE").outcome == "merged"


def test_conversations_never_recall_what_was_saved_beside_them(harken: Harken) -> None:
    for number in range(4):
        harken.record_message("talk", "user", f"note {number}: the zebra of the zoo eats grass in the morning")
        harken.record_message("talk", "assistant", f"noted {number}: the zebra of the zoo eats grass")
    harken.memories.add("the zebra of the zoo eats hay")
    harken.embed()
    query = "what does the zebra of the zoo eat?"
    recalled = harken.auto_rag("talk", query)
    assert "hay" not in str(recalled)
    assert "hay" not in str(harken.chats.past(query))
    assert "hay" in str(harken.search(query, scope=SearchScope(sources=("memory",))).hits)


def test_what_is_read_from_the_disk_is_found_where_it_is_asked_for(harken: Harken) -> None:
    harken.memories.add("a zebra")
    with harken.store.writing() as tx:
        head = RecordHead("code", "unit-1", NOON)
        add_record_entries(tx, [(head, [NewEntry("", "def zebra(): ...", ("language:python",))])])
    assert [hit.entry.source for hit in harken.search("zebra").hits] == ["memory"]
    for scope in (SearchScope(sources=("code",)), SearchScope(facets=("language:python",))):
        assert [hit.entry.source for hit in harken.search("zebra", scope=scope).hits] == ["code"]


def test_memories_come_back_from_the_journal(harken: Harken, tmp_path: Path) -> None:
    harken.memories.add("The port is 8080", "decision")
    harken.memories.add("The port is 8081", "decision")
    before = harken.memories.list(superseded=True), harken.memories.list()
    for _ in harken.maintenance.reindex_from_journal():
        pass
    assert (harken.memories.list(superseded=True), harken.memories.list()) == before
    assert [len(each) for each in before] == [1, 1]
    assert harken.maintenance.doctor() == []
