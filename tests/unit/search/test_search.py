from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harken.config.sections import SearchConfig
from harken.errors import EndpointError, MissingExtraError, NotFoundError, UsageError
from harken.jobs.embed import EmbedWork
from harken.jobs.job import run_until_idle
from harken.model.conversations import Message, ProjectIdentity, Role, SearchScope, Trust
from harken.model.lookups import SearchResult
from harken.providers.embedder import Embedder, Reranker, Vectors
from harken.record.recorder import NewMessage
from harken.search import candidates
from harken.search.search import Searcher
from harken.search.session import SearchSessions
from harken.storage.open import _SOON_SECONDS
from harken.storage.ports import StoredSpace, Transaction
from harken.storage.tables import vectors
from harken.storage.vectors import delete_vectors_where, ensure_space
from harken.testing import HashingEmbedder, OverlapReranker
from harken.text import tokens
from recorded import LONG, RecordedHome


class Desk:
    """A home with a searcher over it; what is asked for is embedded by hashing words."""

    def __init__(self, place: RecordedHome) -> None:
        self.place = place
        self.embedder = HashingEmbedder(threshold=0.3)
        self.reranker: Callable[[], Reranker] = OverlapReranker

    def embed(self) -> None:
        """Give every message its vector."""
        run_until_idle(EmbedWork(self.place.store, self.embedder, self._space(), 50, 60, self.place.clock))

    def search(
        self,
        text: str,
        *,
        mode: str = "hybrid",
        rerank: bool | None = None,
        limit: int | None = None,
        scope: SearchScope | None = None,
        **config: Any,
    ) -> SearchResult:
        """Search with these settings."""
        return self.searcher(**config).search(text, scope, limit, mode, rerank)

    def searcher(self, **config: Any) -> Searcher:
        """A searcher with these settings, which opens its models anew."""
        place = self.place
        sessions = SearchSessions(place.store, lambda: SearchConfig(**config), self._embedder_of, place.clock)
        return Searcher(sessions, lambda: self.reranker())

    def texts(self, text: str, **options: Any) -> list[str]:
        """The hits' texts, best first."""
        return [hit.entry.text for hit in self.search(text, **options).hits]

    def _space(self) -> Any:
        with self.place.store.writing() as tx:
            return ensure_space(tx, self.embedder.space.id, 256, self.embedder.space.threshold, {})

    def _embedder_of(self, space: StoredSpace) -> Embedder:
        assert space.name == self.embedder.space.id
        return self.embedder


@pytest.fixture
def desk(place: RecordedHome) -> Desk:
    return Desk(place)


def say(desk: Desk, *texts: str, role: Role = Role.USER, **more: Any) -> list[Message]:
    """Each text in a conversation of its own, so that none is another's neighbour."""
    return [desk.place.say(f"c {text}", text, role, **more) for text in texts]


class TestWords:
    def test_words_find_before_anything_is_embedded(self, desk: Desk) -> None:
        say(desk, "a zebra crossing", "a giraffe")
        result = desk.search("zebra")
        assert [hit.entry.text for hit in result.hits] == ["a zebra crossing"]
        assert result.notes == (
            "Searched by words alone: nothing is embedded yet. Go on: harken worker run --until-idle",
        )
        assert (result.threshold, result.terms) == (None, ("zebra",))

    def test_keyword_mode_asks_no_model_and_says_nothing_of_it(self, desk: Desk) -> None:
        say(desk, f"a zebra {LONG}")
        desk.embed()
        calls = desk.embedder.calls
        result = desk.search("zebra", mode="keyword")
        assert (len(result.hits), result.notes, desk.embedder.calls) == (1, (), calls)
        assert result.hits[0].similarity is None

    def test_a_hit_shows_where_it_stood(self, desk: Desk) -> None:
        say(desk, "zebra zebra zebra", "a zebra among many other words that are not about any animal")
        first, second = desk.search("zebra", mode="keyword").hits
        assert (first.keyword_rank, second.keyword_rank, first.vector_rank) == (1, 2, None)
        assert first.score > second.score

    @pytest.mark.parametrize("text", ["", "  ", "?!", "🦓"])
    def test_a_query_without_words_finds_nothing_and_says_why(self, desk: Desk, text: str) -> None:
        say(desk, "a zebra")
        result = desk.search(text)
        assert (result.hits, result.notes) == ((), ("The query has no words.",))

    @pytest.mark.parametrize(
        "text", ['"', "zebra OR", "NEAR(zebra", "'; DROP TABLE entries; --", "zebra\x00x", "zebra \ud800"]
    )
    def test_no_query_is_taken_for_syntax(self, desk: Desk, text: str) -> None:
        say(desk, "a zebra")
        desk.embed()
        desk.search(text)
        assert desk.texts("zebra") == ["a zebra"]

    def test_without_the_context_window_neighbours_find_nothing(self, desk: Desk) -> None:
        desk.place.talk("c", "a zebra", "I see")
        assert desk.texts("zebra") == ["a zebra", "I see"]
        assert desk.texts("zebra", context_window=False) == ["a zebra"]


class TestMeaning:
    def test_what_resembles_is_found_without_its_words(self, desk: Desk) -> None:
        say(
            desk, "of stripes and of the other long words of this story", "nothing at all like it to be seen by anybody"
        )
        desk.embed()
        result = desk.search("of the of and", mode="semantic")
        assert [hit.entry.text for hit in result.hits][:1] == ["of stripes and of the other long words of this story"]
        assert result.hits[0].vector_rank == 1
        assert result.hits[0].keyword_rank is None

    def test_every_hit_that_only_resembles_reaches_the_threshold(self, desk: Desk) -> None:
        say(desk, *(f"zebra{number} " + "shared words " * number + LONG for number in range(12)))
        desk.embed()
        result = desk.search("shared words", mode="semantic", relevance_threshold=0.5)
        assert result.threshold == 0.5
        assert 0 < len(result.hits) < 12
        assert all(hit.similarity is not None and hit.similarity >= 0.5 for hit in result.hits)

    def test_the_threshold_is_the_models_own_unless_set(self, desk: Desk) -> None:
        say(desk, LONG)
        desk.embed()
        assert desk.search("zebra").threshold == 0.3
        assert desk.search("zebra", relevance_threshold=0.0).threshold == 0.0

    def test_nothing_over_the_threshold_is_nothing(self, desk: Desk) -> None:
        say(desk, LONG)
        desk.embed()
        assert desk.texts("quetzalcoatl", relevance_threshold=0.9) == []

    def test_who_looks_for_a_word_sees_it_whatever_it_resembles(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG} and so on and so forth for a good while")
        desk.embed()
        (hit,) = desk.search("zebra", relevance_threshold=1.0).hits
        assert hit.similarity is not None
        assert hit.similarity < 1.0
        assert hit.keyword_rank == 1

    def test_what_stands_beside_is_read_while_the_query_is_embedded(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.place.talk("talk", LONG, LONG.upper())
        desk.embed()
        asked: list[int] = []
        asked_meanwhile: list[bool] = []
        read, embed_query = candidates.neighbours, desk.embedder.embed_query

        def neighbours(tx: Transaction, entry_ids: Sequence[int]) -> Any:
            asked.append(len(entry_ids))
            return read(tx, entry_ids)

        def slowly(text: str) -> Vectors:
            deadline = time.monotonic() + 30
            while not asked and time.monotonic() < deadline:
                time.sleep(0.005)
            asked_meanwhile.append(bool(asked))
            return embed_query(text)

        monkeypatch.setattr(candidates, "neighbours", neighbours)
        monkeypatch.setattr(desk.embedder, "embed_query", slowly)
        assert len(desk.texts(LONG, fusion="learned")) == 2
        assert asked_meanwhile == [True]
        assert asked[0] == 2

    def test_words_without_a_vector_yet_are_found_with_the_rest(self, desk: Desk) -> None:
        say(desk, f"zebra one {LONG}")
        desk.embed()
        say(desk, f"zebra two {LONG}")
        hits = {hit.entry.text[:9]: hit.similarity for hit in desk.search("zebra").hits}
        assert hits["zebra two"] is None
        assert hits["zebra one"] is not None

    @pytest.mark.parametrize("fusion", ["learned", "convex"])
    def test_what_waits_for_its_vector_stands_where_its_words_have_it(self, desk: Desk, fusion: str) -> None:
        say(desk, *(f"Priya owns the staging of play {number}, and we owe her as before" for number in range(4)))
        say(desk, *(f"the cluster of stars number {number}, as {LONG}" for number in range(4)))
        desk.embed()
        say(desk, "We have Priya, who owns the staging cluster Zanzibar, in the room on call this week")
        found = desk.search("Priya owns the staging cluster Zanzibar", fusion=fusion).hits
        assert len(found) == 9
        assert found[0].entry.text.startswith("We have Priya")
        assert found[0].similarity is None

    def test_a_model_that_fails_leaves_the_words(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG}")
        desk.embed()
        desk.embedder.fail(EndpointError("the endpoint is down"))
        result = desk.search("zebra")
        assert len(result.hits) == 1
        assert result.notes == ("Searched by words alone: the endpoint is down",)
        assert result.threshold is None

    def test_a_model_that_is_not_installed_leaves_the_words(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG}")
        desk.embed()

        def missing(_space: StoredSpace) -> Embedder:
            raise MissingExtraError("Searching by meaning", "local")

        sessions = SearchSessions(desk.place.store, SearchConfig, missing, desk.place.clock)
        result = Searcher(sessions, OverlapReranker).search("zebra")
        assert len(result.hits) == 1
        assert "pip install 'harken[local]'" in result.notes[0]

    def test_who_searches_on_follows_to_the_space_that_answers_now(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG}")
        desk.embed()
        searcher = desk.searcher()
        assert searcher.search("zebra").threshold == 0.3
        before, desk.embedder = desk.embedder, HashingEmbedder(name="newer", threshold=0.6)
        desk.embed()
        found = searcher.search("zebra")
        assert (found.threshold, found.notes) == (0.6, ())
        asked = before.calls
        assert searcher.search("zebra") == found
        assert before.calls == asked

    def test_a_model_that_fails_later_leaves_the_words_and_comes_back(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG}")
        desk.embed()
        searcher = desk.searcher()
        found = searcher.search("zebra")
        desk.embedder.fail(EndpointError("the endpoint is down"))
        failed = searcher.search("the zebra")
        assert failed.notes == ("Searched by words alone: the endpoint is down",)
        assert [hit.entry for hit in failed.hits] == [hit.entry for hit in found.hits]
        assert searcher.search("zebra") == found

    def test_a_model_that_takes_long_is_waited_for(self, desk: Desk) -> None:
        class Slow(HashingEmbedder):
            def embed_query(self, text: str) -> Vectors:
                time.sleep(2 * _SOON_SECONDS)
                return super().embed_query(text)

        say(desk, f"zebra {LONG}")
        desk.embed()
        quick = desk.search("zebra")
        desk.embedder = Slow(threshold=0.3)
        searcher = desk.searcher()
        assert searcher.search("zebra") == searcher.search("zebra") == quick
        assert quick.hits[0].similarity is not None

    def test_nothing_is_compared_once_nothing_is_embedded(self, desk: Desk) -> None:
        say(desk, f"zebra {LONG}")
        desk.embed()
        searcher = desk.searcher()
        assert searcher.search("zebra").threshold == 0.3
        with desk.place.store.writing() as tx:
            delete_vectors_where(tx, vectors.c.space_id.is_not(None))
        assert searcher.search("zebra").notes == (
            "Searched by words alone: nothing is embedded yet. Go on: harken worker run --until-idle",
        )

    @pytest.mark.parametrize("fusion", ["learned", "convex", "rrf"])
    def test_what_both_find_comes_before_what_one_finds(self, desk: Desk, fusion: str) -> None:
        both, word, meaning = (
            "painting with watercolours on a long quiet afternoon at home",
            f"the watercolours {LONG} {LONG} and nothing more of this kind at all",
            "painting on a long quiet afternoon at home with nobody around",
        )
        say(desk, word, both, meaning)
        desk.embed()
        found = desk.texts("painting watercolours on a long quiet afternoon at home", fusion=fusion)
        assert found[0] == both
        assert set(found) == {both, word, meaning}


class TestLimits:
    def test_there_are_no_more_hits_than_asked_for(self, desk: Desk) -> None:
        say(desk, *(f"zebra {number}" for number in range(15)))
        assert len(desk.texts("zebra")) == 10
        assert len(desk.texts("zebra", limit=3)) == 3
        assert desk.texts("zebra", limit=3) == desk.texts("zebra")[:3]

    def test_more_can_be_asked_for_than_are_usually_looked_at(self, desk: Desk) -> None:
        batch = [NewMessage(Role.USER, f"zebra {number} {LONG}") for number in range(60)]
        desk.place.record("c", *batch)
        desk.embed()
        for mode in ("hybrid", "keyword", "semantic"):
            found = desk.texts("zebra", mode=mode, limit=55, candidates=10, relevance_threshold=-1.0)
            assert len(found) == 55, mode

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"limit": 0}, "limit"),
            ({"mode": "psychic"}, "mode must be one of"),
            ({"scope": SearchScope(sources=("memories",))}, "There is no source 'memories'. Sources: message, memory"),
            ({"scope": SearchScope(without_sources=("messages",))}, "There is no source 'messages'"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, desk: Desk, options: dict[str, Any], words: str) -> None:
        with pytest.raises(UsageError, match=words):
            desk.search("zebra", **options)

    def test_a_scope_takes_lists_and_lone_texts_and_refuses_a_role_that_there_is_not(self, desk: Desk) -> None:
        desk.place.record("c", NewMessage(Role.USER, "zebra one"), NewMessage(Role.ASSISTANT, "zebra two"))
        lists: dict[str, Any] = {"roles": ["user"], "sources": ["message"]}
        lone: dict[str, Any] = {"roles": "user", "sources": "message"}
        assert [desk.texts("zebra", scope=SearchScope(**each)) for each in (lists, lone)] == [["zebra one"]] * 2
        with pytest.raises(UsageError, match=r"'human' is no Role\. Give one of: user"):
            SearchScope(roles=("human",))

    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_a_scope_limits_words_and_meaning(self, desk: Desk, mode: str) -> None:
        house = ProjectIdentity("k:house", "house")
        desk.place.record("a", NewMessage(Role.USER, f"zebra here {LONG}"), project=house)
        desk.place.record("b", NewMessage(Role.USER, f"zebra there {LONG}"))
        desk.embed()
        scope = SearchScope(project="house")
        assert [text[:10] for text in desk.texts("zebra", mode=mode, scope=scope, relevance_threshold=-1.0)] == [
            "zebra here"
        ]
        with pytest.raises(NotFoundError, match="no project castle"):
            desk.search("zebra", scope=SearchScope(project="castle"))


class TestWeights:
    def test_the_author_who_is_named_comes_first_with_the_reason(self, desk: Desk) -> None:
        by_ada = desk.place.say("a", "the pottery class", author="Ada")
        desk.place.say("b", "the pottery class", author="Melanie")
        for fusion, name in (("learned", "speaker"), ("convex", "author"), ("rrf", "author")):
            found = desk.search("what did Ada say about the pottery class", fusion=fusion).hits
            assert found[0].entry.ref_uid == by_ada.uid
            named = [reason for reason in found[0].reasons if reason.name in ("speaker", "author")]
            assert [reason.name for reason in named] == [name]
            assert (found[0].score > found[0].fused) == (name == "author")

    def test_learned_fusion_says_in_words_what_adds_and_what_takes(self, desk: Desk) -> None:
        desk.place.say("a", "I went to the pottery class in March 2023 with Sue", author="Ada")
        desk.place.say("b", "How was the pottery class?", author="Melanie")
        first, second = desk.search("When did Ada go to the pottery class?").hits
        told = [str(reason) for reason in first.reasons if reason.is_added]
        assert any(re.fullmatch(r"\+\d\.\d\d said by the one who is asked about", reason) for reason in told)
        told = [str(reason) for reason in second.reasons if reason.is_added]
        assert any(re.fullmatch(r"-\d\.\d\d does not say when, as is asked", reason) for reason in told)
        added = [reason for reason in first.reasons if reason.is_added]
        assert added == sorted(added, key=lambda reason: -abs(reason.value))

    def test_what_is_old_counts_less_when_age_counts(self, desk: Desk) -> None:
        old = desk.place.say("a", "the pottery class")
        desk.place.clock.go_on(days=365)
        new = desk.place.say("b", "the pottery class")
        found = [hit.entry.ref_uid for hit in desk.search("pottery", recency_half_life_days=30).hits]
        assert found == [new.uid, old.uid]

    def test_of_equals_the_newer_comes_first(self, desk: Desk) -> None:
        older, newer = desk.place.say("a", "the pottery class"), desk.place.say("b", "the pottery class")
        assert [hit.entry.ref_uid for hit in desk.search("pottery").hits] == [newer.uid, older.uid]

    def test_a_quotation_comes_first_and_says_so(self, desk: Desk) -> None:
        say(desk, "class after class of pottery in the evening", "the evening pottery class was fun")
        first = desk.search("evening pottery class").hits[0]
        assert first.entry.text == "the evening pottery class was fun"
        assert "quote" in [reason.name for reason in first.reasons]


class Judge:
    """Gives a text the chance of the word that it has."""

    name = "judge"

    def __init__(self, chances: dict[str, float]) -> None:
        self._chances = chances

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([next(c for word, c in self._chances.items() if word in text) for text in texts], np.float32)


class TestReranking:
    def test_the_best_are_looked_at_again_when_asked_for(self, desk: Desk) -> None:
        say(desk, "zebra zebra zebra zebra", "a zebra and a giraffe that walked in the dust and the heat of noon")
        assert desk.texts("zebra giraffe", rerank=True, rerank_blend=1.0)[0].startswith("a zebra and")
        assert desk.texts("zebra giraffe", rerank=None, rerank_blend=1.0) == desk.texts("zebra giraffe")

    def test_it_may_be_set_for_every_search(self, desk: Desk) -> None:
        say(desk, "zebra one", "zebra two")
        searcher = desk.searcher(rerank=True)
        reasons = searcher.search("zebra").hits[0].reasons
        assert [reason.name for reason in reasons if not reason.is_added] == ["rerank"]

    def test_it_sees_more_than_are_asked_for(self, desk: Desk) -> None:
        say(desk, "zebra zebra", "zebra giraffe something something something something something")
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        assert len(desk.texts("zebra giraffe", rerank=True, limit=1)) == 1
        assert len(seen.asked[0][1]) == 2

    def test_of_a_long_answer_it_reads_the_passage_that_has_the_words(self, desk: Desk) -> None:
        filler = "We looked at many things that day and wrote most of them down. " * 120
        say(desk, f"{filler}The giraffe met a zebra at noon. {filler}", "zebra zebra")
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("where did the giraffe meet a zebra?", rerank=True)
        [(_, texts)] = seen.asked
        assert any("The giraffe met a zebra at noon." in text for text in texts)
        assert max(tokens.estimate(text) for text in texts) <= 64

    def test_twelve_long_answers_are_read_no_longer_than_twelve_turns(self, desk: Desk) -> None:
        filler = "We looked at many things that day and wrote most of them down. " * 120
        say(desk, *(f"{filler}The giraffe met zebra {number} at noon." for number in range(12)))
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("where did the giraffe meet a zebra?", rerank=True)
        [(_, texts)] = seen.asked
        assert len(texts) == 12
        assert sum(map(tokens.estimate, texts)) <= 12 * 32
        assert all("giraffe met zebra" in text for text in texts)

    def test_short_texts_leave_their_room_to_a_longer_one(self, desk: Desk) -> None:
        long = (
            "The giraffe met a zebra at noon, and then " + "they went on to the river and drank " * 6 + "until night."
        )
        say(desk, long, *(f"zebra {number}" for number in range(5)))
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("where did the giraffe meet a zebra?", rerank=True)
        assert any("until night." in text for text in seen.asked[0][1])

    def test_an_answer_is_read_behind_the_question_that_it_follows(self, desk: Desk) -> None:
        desk.place.say("c", "Nice weather today. Where did the giraffe meet a zebra?", author="Ben")
        desk.place.say("c", "At the river, like the other zebra.", author="Ada")
        desk.place.say("c", "That zebra was old.", author="Ben")
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("where does the zebra live?", rerank=True)
        assert set(seen.asked[0][1]) == {
            "Ben: Nice weather today. Where did the giraffe meet a zebra?",
            "Ben: Where did the giraffe meet a zebra?\nAda: At the river, like the other zebra.",
            "Ben: That zebra was old.",
        }

    def test_a_question_that_is_not_to_be_trusted_speaks_for_no_answer(self, desk: Desk) -> None:
        desk.place.say("c", "Which zebra is the very best zebra?", trust=Trust.UNTRUSTED)
        desk.place.say("c", "That zebra.")
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("zebra", rerank=True)
        assert "That zebra." in seen.asked[0][1]

    def test_of_a_long_query_it_reads_as_little(self, desk: Desk) -> None:
        say(desk, "zebra one", "zebra two")
        seen = OverlapReranker()
        desk.reranker = lambda: seen
        desk.search("zebra " + "and what else was said about all of these animals " * 40, rerank=True)
        [(query, _)] = seen.asked
        assert tokens.estimate(query) <= 32

    def test_judgements_that_are_all_near_zero_still_tell_the_better_one(self, desk: Desk) -> None:
        say(desk, "zebra one of them", "zebra two of them", "zebra three of them")
        desk.reranker = lambda: Judge({"one": 0.99, "two": 0.01, "three": 0.0001})
        rows = desk.search("zebra", rerank=True, rerank_blend=1.0).hits
        judged = [reason.value for hit in rows for reason in hit.reasons if reason.name == "rerank"]
        assert judged[0] == 1.0
        assert 0.2 < judged[1] < 0.6
        assert judged[2] == 0.0

    def test_a_reranker_that_is_not_installed_says_so(self, desk: Desk) -> None:
        say(desk, "zebra one", "zebra two")

        def missing() -> OverlapReranker:
            raise MissingExtraError("Reranking", "local")

        desk.reranker = missing
        with pytest.raises(MissingExtraError, match="Reranking"):
            desk.search("zebra", rerank=True)
