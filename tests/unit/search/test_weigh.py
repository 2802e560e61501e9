from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harken.config.sections import SearchConfig
from harken.model.conversations import Trust
from harken.search.candidates import AuthorCue, weigh
from harken.search.query import parse_query
from harken.storage.facts import EntryFacts
from harken.storage.tables import to_microseconds

NOW = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)


def facts(author: str | None = None, role: str = "user", days: float = 0, weight: float = 1.0) -> EntryFacts:
    return EntryFacts(author, role, to_microseconds(NOW - timedelta(days=days)), weight, Trust.OWNER)


PEOPLE = {1: facts("Melanie"), 2: facts("Caroline"), 3: facts(None)}
AGENTS = {1: facts(None, "user"), 2: facts(None, "assistant"), 3: facts(None, "tool")}


def meant(query: str, candidates: dict[int, EntryFacts]) -> list[int]:
    cue = AuthorCue(parse_query(query), candidates)
    return [entry_id for entry_id, each in candidates.items() if cue.names(each)]


class TestAuthorCue:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("What did Melanie say about pottery?", [1]),
            ("what did MELANIE say", [1]),
            ("What is Melanie's plan?", [1]),
            ("What is Melanie’s plan?", [1]),
            ("What did Melanie and Caroline paint?", []),
            ("What did you suggest?", []),
            ("melanies", []),
            ("pottery", []),
        ],
    )
    def test_one_known_author_may_be_named(self, query: str, expected: list[int]) -> None:
        assert meant(query, PEOPLE) == expected

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("what did you suggest about pottery", [2]),
            ("your plan for the house", [2]),
            ("what did I say about pottery", [1]),
            ("my plan", [1]),
            ("what did I tell you", []),
            ("pottery", []),
        ],
    )
    def test_without_authors_the_person_or_the_agent_may_be_meant(self, query: str, expected: list[int]) -> None:
        assert meant(query, AGENTS) == expected

    def test_an_author_of_several_names_goes_by_the_first(self) -> None:
        people = {1: facts("Mary Ann Evans"), 2: facts("George")}
        assert meant("what did mary write", people) == [1]
        assert meant("what did evans write", people) == []

    @pytest.mark.parametrize("author", ["", " ", "\n", "!!"])
    def test_an_author_without_a_name_is_nobody(self, author: str) -> None:
        assert meant("what did melanie say", {1: facts(author), 2: facts("Melanie")}) == [2]


class TestFactors:
    def weighed(self, each: EntryFacts, query: str = "pottery", **config: object) -> dict[str, float]:
        cue = AuthorCue(parse_query(query), {1: each})
        reasons = weigh(each, cue, SearchConfig(**config), NOW)  # type: ignore[arg-type]
        return {reason.name: reason.value for reason in reasons}

    def test_nothing_special_weighs_nothing(self) -> None:
        assert self.weighed(facts(days=400)) == {}

    def test_the_author_who_is_meant_is_lifted(self) -> None:
        assert self.weighed(facts("Melanie"), "melanie's pottery", author_lift=0.5) == {"author": 1.5}

    @pytest.mark.parametrize(("days", "factor"), [(0, 1.0), (10, 0.5), (20, 0.25), (-5, 1.0)])
    def test_age_counts_half_after_its_half_life(self, days: float, factor: float) -> None:
        assert self.weighed(facts(days=days), recency_half_life_days=10) == {"recency": pytest.approx(factor)}

    def test_importance_counts_as_it_is(self) -> None:
        assert self.weighed(facts(weight=2.0)) == {"importance": 2.0}
