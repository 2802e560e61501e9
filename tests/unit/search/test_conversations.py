"""Past conversations: what comes back, what does not, and what is kept about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from chatting import break_vectors
from command_line import CommandLine
from harken.engine import Harken
from harken.errors import ConfigError, ProviderError
from harken.storage.tables import retrievals
from harken.testing import HashingEmbedder
from recorded import Clock

TAP = ("Why does the kitchen tap drip all night?", "The rubber seal of the kitchen tap is worn out.")
CAKE = ("How long does a plum cake bake in the oven?", "A plum cake bakes forty minutes in a warm oven.")
TRAIN = ("Which train goes to the mountains on Sunday?", "The seven o'clock train goes to the mountains.")
ASKED = "what was wrong with the kitchen tap?"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder(1024, threshold=0.3)


@pytest.fixture
def harken(ready_home: Path, clock: Clock, embedder: HashingEmbedder) -> Iterator[Harken]:
    settings = {"embedding.min_message_tokens": 3}
    with Harken(ready_home, env={}, settings=settings, embedder=embedder, now=clock) as harken:
        yield harken


def talk(harken: Harken, clock: Clock, name: str, *texts: str) -> str:
    for place, text in enumerate(texts):
        clock.go_on(seconds=1)
        uid = harken.record_message(name, ("user", "assistant")[place % 2], text).conversation_uid
    return uid


def three_talks(harken: Harken, clock: Clock, settle: bool = True) -> dict[str, str]:
    uids = {name: talk(harken, clock, name, *texts) for name, texts in (("tap", TAP), ("cake", CAKE), ("train", TRAIN))}
    clock.go_on(hours=1)
    if settle:
        harken.background.summarize()
        harken.embed()
    return uids


def test_the_conversation_that_a_question_is_about_comes_back_with_its_exchange(harken: Harken, clock: Clock) -> None:
    uids = three_talks(harken, clock)
    (found,) = harken.chats.past(ASKED).conversations
    assert (found.uid, found.exchange_count) == (uids["tap"], 1)
    assert "tap" in found.title
    assert "seal" in found.summary
    assert found.similarity is not None
    assert found.similarity >= 0.3
    (exchange,) = found.exchanges
    assert (exchange.user, exchange.assistant) == TAP


def test_the_one_that_goes_on_does_not_come_back(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    session = harken.chats.session("tap", "library")
    assert harken.chats.past(ASKED, session).conversations == ()


def test_what_another_process_forgets_is_gone_from_the_next_answer(
    harken: Harken, clock: Clock, tmp_path: Path
) -> None:
    uids = three_talks(harken, clock)
    for _ in range(2):
        assert [each.uid for each in harken.chats.past(ASKED).conversations] == [uids["tap"]]
    run = CommandLine(tmp_path / "home", tmp_path)
    run("forget", "--conversation", uids["tap"], "--yes")
    assert harken.chats.past(ASKED).conversations == ()


def test_what_nobody_has_summarized_or_embedded_comes_back_by_its_words(harken: Harken, clock: Clock) -> None:
    uids = three_talks(harken, clock, settle=False)
    found = harken.chats.past("kitchen tap seal")
    assert [each.uid for each in found.conversations] == [uids["tap"]]
    assert found.conversations[0].summary == ""
    assert found.conversations[0].exchanges[0].assistant == TAP[1]
    assert found.notes == ("Searched by words alone: nothing is embedded yet. Go on: harken worker run --until-idle",)


def test_what_was_never_discussed_brings_nothing_back(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    assert harken.chats.past("quantum chromodynamics lattice").conversations == ()


@pytest.mark.parametrize("words", ["ok, thanks!", "", "   "])
def test_small_talk_is_not_searched_for(harken: Harken, clock: Clock, words: str) -> None:
    three_talks(harken, clock)
    assert harken.chats.past(words).conversations == ()
    assert harken.chats.past_log() == []


def test_as_many_come_back_as_the_limits_say(harken: Harken, clock: Clock) -> None:
    for name in ("one", "two", "three", "four", "five"):
        for number in range(4):
            talk(harken, clock, name, f"The kitchen tap drips, {name} {number}", f"Its seal is worn, {name} {number}")
    harken.embed()
    harken.run_time.set("rag.share_places", False)
    found = harken.chats.past(ASKED).conversations
    assert [len(each.exchanges) for each in found] == [2, 2, 2]
    harken.run_time.set("rag.conversation_limit", 2)
    harken.run_time.set("rag.exchange_limit_per_conversation", 3)
    found = harken.chats.past(ASKED).conversations
    assert [len(each.exchanges) for each in found] == [3, 3]


def test_a_conversation_that_answers_better_takes_places_of_one_that_answers_worse(
    harken: Harken, clock: Clock
) -> None:
    for number in range(5):
        talk(
            harken,
            clock,
            "good",
            f"What was wrong with the kitchen tap {number}?",
            f"The kitchen tap has a seal {number}",
        )
        talk(
            harken, clock, "worse", f"A tap is a dance with shoes, number {number}", f"One kitchen has shoes, {number}"
        )
    harken.embed()
    harken.run_time.set("rag.conversation_limit", 2)
    harken.run_time.set("rag.min_similarity", 0.05)
    good, worse = harken.chats.past(ASKED).conversations
    assert (len(good.exchanges), len(worse.exchanges)) == (3, 1)
    harken.run_time.set("rag.share_places", False)
    good, worse = harken.chats.past(ASKED).conversations
    assert (len(good.exchanges), len(worse.exchanges)) == (2, 2)


def test_a_similarity_that_is_set_is_kept_to_the_letter(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    harken.run_time.set("rag.min_similarity", "0.99")
    assert harken.chats.past(ASKED).conversations == ()
    harken.run_time.set("rag.min_similarity", "0.1")
    assert harken.chats.past(ASKED).conversations


@pytest.mark.parametrize(
    ("key", "value"),
    [("conversation_limit", 0), ("exchange_limit_per_conversation", 0), ("min_similarity", 1.5), ("enabled", "maybe")],
)
def test_a_limit_that_makes_no_sense_is_refused(harken: Harken, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        harken.run_time.set(f"rag.{key}", value)


def test_switched_off_nothing_is_searched(harken: Harken, clock: Clock, embedder: HashingEmbedder) -> None:
    three_talks(harken, clock)
    harken.run_time.set("rag.enabled", "false")
    calls = embedder.calls
    assert harken.chats.past(ASKED).notes == ("Past conversations are off.",)
    assert embedder.calls == calls


def test_a_model_that_fails_leaves_the_words(harken: Harken, clock: Clock, embedder: HashingEmbedder) -> None:
    uids = three_talks(harken, clock)
    embedder.fail(ProviderError("down"))
    found = harken.chats.past("kitchen tap seal")
    assert [each.uid for each in found.conversations] == [uids["tap"]]
    assert found.notes == ("Searched by words alone: ProviderError.",)


def test_vectors_that_cannot_be_compared_leave_the_words_and_are_told_of(harken: Harken, clock: Clock) -> None:
    uids = three_talks(harken, clock)
    with harken.store.writing() as tx:
        break_vectors(tx)
    found = harken.chats.past("kitchen tap seal")
    assert [each.uid for each in found.conversations] == [uids["tap"]]
    assert found.notes == ("Searched by words alone: ValueError.",)
    assert harken.chats.past_log()[0].error_class is None
    context = harken.build_context("new", ["kitchen tap seal"])
    assert context.layer("past") is not None
    assert context.notes == context.failures == ("Past conversations were searched by words alone: ValueError.",)


def test_the_store_is_asked_as_often_for_many_conversations_as_for_few(harken: Harken, clock: Clock) -> None:
    asked: list[str] = []

    def count(*arguments: object) -> None:
        asked.append(str(arguments[2]))

    def statements() -> int:
        asked.clear()
        assert harken.chats.past(ASKED).conversations
        return len(asked)

    with harken.store.reading() as tx:
        engine = tx.connection.engine
    event.listen(engine, "before_cursor_execute", count)
    three_talks(harken, clock)
    statements()
    few = statements()
    harken.run_time.set("rag.conversation_limit", 10)
    for number in range(20):
        talk(harken, clock, f"more {number}", *TAP)
    harken.embed()
    statements()
    assert statements() <= few + 1


def test_every_retrieval_leaves_a_line_without_its_words(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    harken.chats.past(ASKED)
    harken.chats.past("quantum chromodynamics lattice")
    harken.chats.past(ASKED)
    again, nothing, first = harken.chats.past_log()
    assert (first.conversations, first.exchanges, nothing.conversations) == (1, 1, 0)
    assert first.query_hash == again.query_hash != nothing.query_hash
    assert first.best_conversation is not None
    assert nothing.best_conversation is None
    assert first.duration_microseconds > 0
    with harken.store.reading() as tx:
        assert "tap" not in repr(tx.connection.execute(retrievals.select()).all())


def test_what_a_person_proposes_is_quoted_where_they_said_more(harken: Harken, clock: Clock) -> None:
    for role, text in (("user", "Let's use a copper kitchen tap."), ("user", "Anything else?"), ("assistant", "Fine.")):
        clock.go_on(seconds=1)
        harken.record_message("tap", role, text)
    harken.embed()
    said = [quote.text for quote in harken.chats.quotes_about("Which kitchen tap do we use?", "another conversation")]
    assert any("User: Let's use a copper kitchen tap." in text for text in said)


def test_a_prompts_search_writes_its_line_once_nobody_waits(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    with harken.store.writing():
        # Whoever wrote here would wait until this ends.
        assert harken.chats.quotes_about(ASKED, "another conversation")
        assert harken.chats.quotes_about("quantum chromodynamics lattice", "another conversation") == []
    with harken.store.reading() as tx:
        assert tx.count(retrievals) == 0
    nothing, first = harken.chats.past_log()
    assert (first.conversations, nothing.conversations) == (1, 0)


def test_a_line_that_waits_is_written_as_the_store_closes(tmp_path: Path, clock: Clock) -> None:
    def opened() -> Harken:
        return Harken(tmp_path / "home", env={}, embedder=HashingEmbedder(1024, threshold=0.3), now=clock)

    with opened() as harken:
        three_talks(harken, clock)
        harken.chats.quotes_about(ASKED, "another conversation")
    with opened() as harken:
        assert len(harken.chats.past_log()) == 1


def test_a_forgotten_conversation_does_not_come_back(harken: Harken, clock: Clock) -> None:
    uids = three_talks(harken, clock)
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[uids["tap"]]))
    assert harken.chats.past(ASKED).conversations == ()


def test_a_store_that_cannot_be_asked_leaves_the_chat_going(harken: Harken, clock: Clock) -> None:
    three_talks(harken, clock)
    with harken.store.writing() as tx:
        tx.connection.exec_driver_sql("DROP TABLE summaries")
    found = harken.chats.past(ASKED)
    assert found.conversations == ()
    assert found.notes[0].startswith("Past conversations were not searched:")
    context = harken.build_context("new", [ASKED])
    assert context.failures == found.notes
    assert set(context.failures) <= set(context.notes)
    assert harken.chats.past_log()[0].error_class is not None
    assert clock() - harken.chats.past_log()[0].at < timedelta(seconds=5)
