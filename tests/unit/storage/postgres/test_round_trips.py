"""How often a client waits for the server, counted on the wire: BEGIN, settings, locks and COMMIT included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from harken.config.sections import AutoRagConfig, SearchConfig
from harken.engine import Harken
from harken.engine.team import Team
from harken.engine.team_workers import SpacesWork
from harken.errors import KeyRefusedError
from harken.jobs.workers import EMBEDDINGS
from harken.model.arguments import MODES
from harken.record.ids import conversation_uid
from harken.search.recall import AutoRag, Recall
from harken.search.session import SearchSessions
from harken.storage.tables import segments
from harken.testing import HashingEmbedder
from round_trips import RoundTrips, counting

SAID = (
    "the heron nests behind the old mill",
    "invoices are sent on the first Monday",
    "the boiler was repaired by Martha",
    "our train leaves from platform nine",
    "the vineyard belongs to an uncle of mine",
    "passports lie in the upper drawer",
    "the choir rehearses in the chapel",
    "a plumber promised to come tomorrow",
)


@pytest.fixture
def trips(server_url: URL) -> Iterator[RoundTrips]:
    with counting(server_url) as trips:
        yield trips


@pytest.fixture
def harken(trips: RoundTrips, tmp_path: Path) -> Iterator[Harken]:
    settings = {"store": trips.url.render_as_string(hide_password=False), "embedding.min_message_tokens": 1}
    with Harken(tmp_path, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        for place, text in enumerate(SAID):
            harken.record_message("birds", "assistant" if place % 2 else "user", text)
        harken.embed()
        yield harken


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
@pytest.mark.parametrize("conversation", ["birds", "a new one"])
def test_a_message_is_recorded_in_two(harken: Harken, trips: RoundTrips, conversation: str, role: str) -> None:
    with trips.counted() as told:
        said = harken.record_message(conversation, role, "the last egret has left the pond")
    assert told == [2]
    assert harken.show(said.uid).message is not None
    assert harken.search("egret").hits[0].entry.ref_uid == said.uid
    assert [finding.problem for finding in harken.maintenance.doctor()] == []


def recalled(harken: Harken, auto_rag: AutoRag, text: str) -> Recall:
    with harken.store.reading() as tx:
        uid = tx.connection.execute(tx.select(segments.c.uid)).scalar_one()
    return auto_rag.search(text, uid, (), AutoRagConfig())


def test_what_comes_back_by_itself_takes_one_before_the_vector_is_there_and_one_behind(
    harken: Harken, trips: RoundTrips
) -> None:
    auto_rag = AutoRag(SearchSessions(harken.store, SearchConfig, lambda _space: HashingEmbedder()))
    # Which rows a segment has, and how many entries there are, is known from before.
    first = recalled(harken, auto_rag, "where does the heron nest")
    recalled(harken, auto_rag, "who has repaired the boiler")
    with harken.store.reading() as tx:
        uid = tx.connection.execute(tx.select(segments.c.uid)).scalar_one()
    with trips.counted() as told:
        again = auto_rag.search("where does the heron nest", uid, (), AutoRagConfig())
    assert told == [2]
    assert again == first
    assert SAID[0] in [item.text for item in again.items]


def test_a_search_takes_one_beside_the_model_and_one_behind(harken: Harken, trips: RoundTrips) -> None:
    first = harken.search("where does the heron nest")
    with trips.counted() as told:
        again = harken.search("where does the heron nest")
    assert told == [2]
    assert [(hit.entry.id, hit.score) for hit in again.hits] == [(hit.entry.id, hit.score) for hit in first.hits]
    assert SAID[0] in [hit.entry.text for hit in again.hits[:2]]


def test_a_search_by_words_or_by_meaning_alone_asks_for_nothing_of_the_other(harken: Harken, trips: RoundTrips) -> None:
    asked, found = {}, {}
    for mode in MODES:
        first = harken.search("where does the heron nest", mode=mode)
        before = trips.statements
        with trips.counted() as told:
            found[mode] = harken.search("where does the heron nest", mode=mode).hits
        asked[mode] = trips.statements - before
        assert told[0] <= 2
        assert [hit.entry.id for hit in found[mode]] == [hit.entry.id for hit in first.hits]
    with harken.store.reading() as tx:
        is_asked_as_one = tx.dialect.asks_together
    assert asked["semantic"] == asked["hybrid"] - 1
    assert asked["keyword"] <= asked["hybrid"] - (0 if is_asked_as_one else 2)
    assert all(SAID[0] in [hit.entry.text for hit in hits] for hits in found.values())


def test_what_was_said_since_is_found_by_a_search_that_looks_ahead(harken: Harken, trips: RoundTrips) -> None:
    harken.search("where does the stork nest")
    harken.record_message("chimneys", "user", "the stork nests on the chimney of the bakery")
    harken.embed()
    with trips.counted() as told:
        found = harken.search("where does the stork nest")
    assert told == [2]
    assert found.hits[0].entry.text == "the stork nests on the chimney of the bakery"
    assert found.hits[0].similarity is not None


def test_other_conversations_are_asked_while_the_model_is_at_work(harken: Harken, trips: RoundTrips) -> None:
    uid = conversation_uid("library", "another")
    first = harken.chats.quotes_about("where does the heron nest", uid)
    harken.chats.quotes_about("who has repaired the boiler", uid)
    with trips.counted() as told:
        again = harken.chats.quotes_about("where does the heron nest", uid)
    # One for all that is asked before it is known what is near; facts of that; then those of the conversations shown.
    assert told[0] <= 7
    assert again == first
    assert SAID[0] in again[0].text


def test_a_memory_is_saved_and_compared_in_no_more_than_it_takes(harken: Harken, trips: RoundTrips) -> None:
    waits = []
    for text in ("The landlord is called Aalto.", "Bicycles are kept in the shed.", "The piano is tuned in May."):
        with trips.counted() as told:
            saved = harken.memories.add(text, "fact")
        waits += told
        assert saved.outcome == "added"
    # What stands, the space, and how near it is; under the lock what stands now; what is known of its id; the rows.
    assert waits[-1] <= 16
    assert harken.search(text, mode="semantic").hits[0].entry.text == text


def test_what_a_conversation_was_told_is_asked_with_what_comes_back(harken: Harken, trips: RoundTrips) -> None:
    uid = conversation_uid("library", "another")
    for _ in range(2):
        harken.chats.quotes_about("where does the heron nest", uid)
    with trips.counted() as told:
        quotes = harken.chats.quotes_about("where does the heron nest", uid)
    harken.chats.note_given(uid, {quotes[0].uid: ""}, lambda: False)
    with trips.counted() as again:
        assert harken.chats.quotes_about("where does the heron nest", uid) == quotes[1:]
    assert again == told
    assert harken.chats.given(uid) == {quotes[0].uid}


def test_a_message_that_a_team_says_is_embedded_and_then_not_looked_for_again(
    trips: RoundTrips, tmp_path: Path
) -> None:
    settings = {"store": trips.url.render_as_string(hide_password=False), "tenant": "crew"}
    with Team(tmp_path, settings=settings, env={}, embedder=HashingEmbedder()) as team:
        team.create_principal(team.operator(), "ann")
        speaker = team.speaker(team.create_key(team.operator(), "ann").secret)
        work = SpacesWork("embeddings", (EMBEDDINGS,), team.opened, list)
        for text in SAID:
            team.memory(speaker).record_message("birds", "user", f"{text}, they say, year after year")
            work.hear(speaker.own)
            with trips.counted() as told:
                embedded = [work.run_once(), work.run_once()]
        assert embedded == [1, 0]
        # Whether it is switched on; the claim, in three; and the vector, in three.
        assert told[0] <= 7
        assert team.opened(speaker.own).embed() == 0
        team.memory(speaker).record_message(
            "birds", "user", "the heron has come back to its old mill, earlier than ever"
        )
        work.hear(speaker.own)
        assert work.run_once() == 1
        assert team.memory(speaker).search("heron come back to its old mill", mode="semantic").hits


def test_what_a_member_says_is_recorded_in_two_and_that_they_are_not_erased_is_asked_beside(
    trips: RoundTrips, tmp_path: Path
) -> None:
    settings = {"store": trips.url.render_as_string(hide_password=False), "tenant": "crew", "embedder": "none"}
    with Team(tmp_path, settings=settings, env={}) as team:
        team.create_principal(team.operator(), "ann")
        mine = team.memory(team.speaker(team.create_key(team.operator(), "ann").secret))
        waits = []
        for text in SAID:
            with trips.counted() as told:
                mine.record_message("birds", "user", text)
            waits += told
        # That the key was used is noted beside the first.
        assert min(waits) == 2


def test_who_has_a_key_is_known_by_one_answer_and_a_revoked_one_is_refused_at_once(
    trips: RoundTrips, tmp_path: Path
) -> None:
    settings = {"store": trips.url.render_as_string(hide_password=False), "tenant": "crew", "embedder": "none"}
    with Team(tmp_path, settings=settings, env={}) as team:
        team.create_principal(team.operator(), "ann")
        key = team.create_key(team.operator(), "ann")
        first = team.speaker(key.secret)
        waits = []
        for _ in range(5):
            with trips.counted() as told:
                assert team.speaker(key.secret).spaces == first.spaces
            waits += told
        # That the key was used is noted behind the first answers.
        assert min(waits) == 1
        team.revoke_key(team.operator(), key.key.id)
        with pytest.raises(KeyRefusedError):
            team.speaker(key.secret)
