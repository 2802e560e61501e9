from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.config.sections import AutoRagConfig, SearchConfig
from harken.errors import ProviderError
from harken.jobs.embed import EmbedWork
from harken.jobs.job import run_until_idle
from harken.model.conversations import Entry, Hit, Message, MessageType, Role, Trust
from harken.providers.embedder import Space
from harken.search.query import parse_query
from harken.search.recall import AutoRag, Recall, _packed
from harken.search.session import SearchSessions
from harken.storage.conversations import newest_segment
from harken.storage.vectors import ensure_space
from harken.testing import HashingEmbedder
from harken.text import tokens
from recorded import RecordedHome

DEPLOY = "the deploy goes out on thursday with a canary and priya approves it"
GARDEN = "our tomatoes want water plus shade all through july afternoons, says grandma"
QUERY = "when does the deploy go out with a canary?"


class Talk:
    """A conversation with auto-RAG over it."""

    def __init__(self, place: RecordedHome, threshold: float = 0.3) -> None:
        self.place = place
        self.embedder = HashingEmbedder(1024, threshold=threshold)
        self.auto_rag = AutoRag(SearchSessions(place.store, SearchConfig, lambda _space: self.embedder, place.clock))

    def embed(self) -> None:
        space = self.embedder.space
        with self.place.store.writing() as tx:
            stored = ensure_space(tx, space.id, space.dims, space.threshold, {})
        run_until_idle(EmbedWork(self.place.store, self.embedder, stored, 50, 60.0, self.place.clock))

    def recall(self, query: str = QUERY, excluded: Sequence[Message] = (), **config: Any) -> Recall:
        with self.place.store.reading() as tx:
            segment = newest_segment(tx, self.place.uid("talk"))
        assert segment is not None
        return self.auto_rag.search(query, segment, [m.uid for m in excluded], AutoRagConfig(**config))

    def texts(self, query: str = QUERY, **options: Any) -> list[str]:
        return [item.text for item in self.recall(query, **options).items]


@pytest.fixture
def talk(place: RecordedHome) -> Talk:
    return Talk(place)


def test_switched_off_it_finds_nothing(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", DEPLOY)
    assert talk.texts(enabled=False) == []


def test_what_the_query_is_about_comes_back_with_the_reason(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", DEPLOY, "noted", GARDEN)
    talk.embed()
    [item] = talk.recall().items
    assert item.text == DEPLOY
    assert item.hit.similarity is not None
    assert item.hit.reasons[0].name == "similarity"
    assert item.tokens == tokens.estimate(DEPLOY)


def test_who_has_which_word_is_read_once(talk: Talk, place: RecordedHome, monkeypatch: pytest.MonkeyPatch) -> None:
    place.talk("talk", DEPLOY, "noted", GARDEN)
    talk.embed()
    asked: list[object] = []
    read = place.store.text.holders

    def holders(*args: Any, **named: Any) -> Any:
        asked.append(args)
        return read(*args, **named)

    monkeypatch.setattr(place.store.text, "holders", holders)
    assert talk.texts() == [DEPLOY]
    assert len(asked) == 1


def test_it_looks_at_one_segment_of_one_conversation(talk: Talk, place: RecordedHome) -> None:
    place.say("other", DEPLOY)
    place.say("talk", DEPLOY + " of before")
    place.recorder.new_segment(place.uid("talk"))
    place.say("talk", GARDEN)
    talk.embed()
    assert talk.texts() == []
    place.say("talk", DEPLOY)
    talk.embed()
    assert talk.texts() == [DEPLOY]


def test_what_is_in_the_context_already_does_not_come_back(talk: Talk, place: RecordedHome) -> None:
    first, second = place.talk("talk", DEPLOY, DEPLOY + " indeed")
    talk.embed()
    assert talk.texts(excluded=[first]) == [second.text]
    assert talk.texts(excluded=[first, second]) == []


def test_at_most_so_many_come_back(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", *(f"{DEPLOY} part {number}" for number in range(8)))
    talk.embed()
    assert [len(talk.texts(top_k=count)) for count in (1, 3, 5)] == [1, 3, 5]


def test_each_item_is_held_to_the_threshold_also_when_its_words_match(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", DEPLOY, "deploy " + " ".join(f"word{number}" for number in range(60)))
    talk.embed()
    assert talk.texts() == [DEPLOY]
    assert len(talk.texts(relevance_threshold=0.01)) == 2
    assert talk.texts(relevance_threshold=0.99) == []


def test_a_query_of_words_that_nobody_has_said_must_be_nearer(place: RecordedHome) -> None:
    place.talk("talk", DEPLOY, GARDEN)
    said, unsaid = "thursday deploy", "thursday zeppelin airship"
    plain = Talk(place)
    plain.embed()
    [near] = plain.recall(unsaid, relevance_threshold=0.01).items
    assert near.hit.similarity is not None
    # Just near enough, were it not for the airship: two thirds of the words ask for two thirds of 0.06 more.
    strict = Talk(place, threshold=near.hit.similarity - 0.02)
    strict.embed()
    assert strict.texts(said) == [DEPLOY]
    assert strict.texts(unsaid) == []
    lenient = Talk(place, threshold=near.hit.similarity - 0.1)
    lenient.embed()
    assert lenient.texts(unsaid) == [DEPLOY]
    # What somebody has set is kept to the letter.
    assert strict.texts(unsaid, relevance_threshold=near.hit.similarity - 0.02) == [DEPLOY]


def test_one_that_is_nearly_near_enough_comes_back_by_its_rare_words(place: RecordedHome) -> None:
    place.talk("talk", DEPLOY, GARDEN)
    talk = Talk(place, threshold=0.6)
    talk.embed()
    similarity = float(talk.embedder.embed_passages([DEPLOY])[0] @ talk.embedder.embed_query(QUERY))
    assert 0.52 < similarity < 0.6
    [item] = talk.recall().items
    assert (item.text, item.hit.reasons[0].name) == (DEPLOY, "words")
    assert talk.texts(relevance_threshold=0.6) == []


def test_one_rare_word_alone_does_not_bring_back_what_is_not_near_enough(place: RecordedHome) -> None:
    said = "the canary sang all morning in its little cage by the open window"
    place.talk("talk", said, GARDEN, "the fence wants new paint before the winter comes")
    embedder = HashingEmbedder(1024)

    def comes_back(query: str) -> bool:
        similarity = float(embedder.embed_passages([said])[0] @ embedder.embed_query(query))
        talk = Talk(place, threshold=similarity + 0.02)
        talk.embed()
        return said in talk.texts(query)

    assert not comes_back("who has painted a canary there?")
    assert comes_back("who has heard a canary sang there?")


def test_what_is_nearly_near_enough_comes_along_with_what_is(place: RecordedHome) -> None:
    said = "when it rains the canary does not go out a lot"
    beside = "when does a canary come back when it was out in the cold all night"
    place.talk("talk", said, GARDEN, "priya moved every single deploy to thursday long before", "noted", beside)
    embedder = HashingEmbedder(1024)
    high, low = map(float, embedder.embed_passages([said, beside]) @ embedder.embed_query(QUERY))
    assert 0.02 < high - low < 0.08
    talk = Talk(place, threshold=high - 0.01)
    talk.embed()
    assert set(talk.texts()) == {said, beside}
    assert talk.texts(relevance_threshold=high - 0.01) == [said]
    alone = Talk(place, threshold=high + 0.01)
    alone.embed()
    assert alone.texts() == []


def test_four_come_back_unless_somebody_says_otherwise(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", *(f"{DEPLOY}, said number {number}" for number in range(6)))
    talk.embed()
    assert (len(talk.texts()), len(talk.texts(top_k=2))) == (4, 2)


def test_an_answer_comes_back_with_its_question(talk: Talk, place: RecordedHome) -> None:
    question = "how does the deploy go out: with a canary, or when all is quiet?"
    answer = "the second way, when most people of the company are asleep"
    place.talk("talk", question, answer, GARDEN, "yes")
    talk.embed()
    assert talk.texts() == [question, answer]
    assert talk.texts(relevance_threshold=0.3) == [question]


class TestWithoutVectors:
    def test_half_of_the_rare_words_are_needed(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", DEPLOY, "a canary sings", GARDEN, "the deploy waits")
        assert talk.texts("deploy canary priya") == [DEPLOY]
        assert set(talk.texts("deploy canary")) == {DEPLOY, "a canary sings", "the deploy waits"}
        assert talk.texts("deploy zebra lemon") == []

    def test_a_word_that_everybody_says_is_not_rare(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", *(f"the deploy number {number}" for number in range(20)), "the deploy with a canary")
        assert talk.texts("deploy canary") == ["the deploy with a canary"]

    def test_a_neighbours_words_are_not_ones_own(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", DEPLOY, GARDEN)
        assert talk.texts() == [DEPLOY]

    def test_a_short_message_among_embedded_ones_is_found_by_its_words(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", GARDEN, "canary on thursday")
        talk.embed()
        assert talk.texts("the canary, thursday?") == ["canary on thursday"]

    def test_a_tools_result_is_found_by_its_words(self, talk: Talk, place: RecordedHome) -> None:
        place.say("talk", "look")
        place.say("talk", "exit code 137 in pod billing", Role.TOOL, type=MessageType.TOOL_RESULT, call_id="1")
        talk.embed()
        assert talk.texts("which pod had code 137?") == ["exit code 137 in pod billing"]


@pytest.mark.parametrize(
    "words", ["ok", "thanks", "да", "and you?", "???", "", "<system-reminder>deploy</system-reminder> ok"]
)
def test_small_talk_is_not_even_searched(talk: Talk, place: RecordedHome, words: str) -> None:
    place.talk("talk", DEPLOY)
    talk.embed()
    asked = talk.embedder.calls
    assert talk.recall(words).query == ""
    assert talk.embedder.calls == asked


def test_the_same_question_asked_before_tells_nothing_new(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", QUERY, DEPLOY, GARDEN)
    talk.embed()
    assert talk.texts(QUERY.upper()) == [DEPLOY]


def test_a_script_that_the_model_does_not_know_is_searched_by_words(talk: Talk, place: RecordedHome) -> None:
    place.talk("talk", "решили выкатывать деплой в четверг, утверждает Прия, сначала канарейка", GARDEN)
    talk.embed()
    talk.embedder._space = _latin_only(talk.embedder)
    recall = talk.recall("деплой в четверг?")
    assert [item.hit.reasons[0].name for item in recall.items] == ["words"]
    assert any("does not know this script" in note for note in recall.notes)


class TestFailing:
    def test_an_error_gives_an_empty_result_and_a_note_with_its_class(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", DEPLOY)
        recall = talk.auto_rag.search(QUERY, "no such segment", [], AutoRagConfig())
        assert (recall.items, recall.notes) == ((), ("Searched without search: NotFoundError.",))

    def test_a_model_that_fails_leaves_the_words(self, talk: Talk, place: RecordedHome) -> None:
        place.talk("talk", DEPLOY, GARDEN)
        talk.embed()
        talk.embedder.fail(ProviderError("down"))
        recall = talk.recall()
        assert [item.text for item in recall.items] == [DEPLOY]
        assert recall.notes == ("Searched without vectors: ProviderError.",)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.integers(1, 300), st.integers(1, 5))
def test_what_comes_back_never_takes_more_than_its_budget(sizes: list[int], budget: int, most: int) -> None:
    hits = (_hit(number, size) for number, size in enumerate(sizes))
    config = AutoRagConfig(max_tokens=budget, top_k=most)
    packed = list(_packed(parse_query("zebra"), hits, config, lambda entry, text: f"<{entry.id}>{text}</>"))
    assert sum(item.tokens for item in packed) <= budget
    assert len(packed) <= most


def _hit(number: int, size: int) -> Hit:
    moment = datetime(2023, 5, 8, tzinfo=UTC)
    words = f"{number} " + "canary " * size
    return Hit(
        Entry(number, "message", str(number), None, None, None, None, None, moment, Trust.OWNER, words), 1.0, 1.0
    )


def _latin_only(embedder: HashingEmbedder) -> Space:
    return replace(embedder.space, latin_only=True)
