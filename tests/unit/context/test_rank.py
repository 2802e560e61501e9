"""What makes one item of a source more relevant than another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harken.config.sections import AssembleConfig
from harken.context.compose import on_one_scale, ranked
from harken.model.conversations import ContextItem, Entry, Hit, Trust
from harken.sources.experiences.experiences import TIERS
from harken.sources.source import SourceHit

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)
PLAIN = AssembleConfig()


def found(*given: tuple[str, dict[str, Any], float, float | None, int]) -> SourceHit:
    """Hits of (source, metadata, score, similarity, age in days)."""
    hits, items = [], []
    for number, (source, metadata, score, similarity, age) in enumerate(given):
        moment = NOW - timedelta(days=age)
        entry = Entry(number, source, str(number), None, None, None, None, None, moment, Trust.AGENT, "zebra")
        hits.append(Hit(entry, score, score, similarity))
        items.append(ContextItem(source, "zebra", similarity or score, metadata))
    return SourceHit(tuple(hits), tuple(items))


def test_gold_stands_before_silver_bronze_and_abandoned() -> None:
    """Ranking 1: confidence weighting."""
    items = ranked(
        found(*(("experience", {"confidence_tier": tier}, 0.5, 0.5, 3) for tier in reversed(TIERS))),
        AssembleConfig(),
        NOW,
    )
    assert [item.metadata["confidence_tier"] for item in items] == ["gold", "silver", "bronze", "abandoned"]


def test_important_memories_stand_before_others() -> None:
    """Ranking 2: importance weighting; 0.5 changes nothing."""
    given_memories = (("memory", {"importance": share}, 0.5, 0.6, 0) for share in (0.0, 0.5, 1.0))
    items = ranked(found(*given_memories), AssembleConfig(), NOW)
    assert [(item.metadata["importance"], item.relevance) for item in items] == [(1.0, 0.66), (0.5, 0.6), (0.0, 0.54)]


def test_what_is_recent_gains_a_little_where_age_matters() -> None:
    """Ranking 3: recency bonus for commits and experiences; others have none."""
    items = ranked(found(*(("commit", {}, 0.5, 0.6, age) for age in (300, 30, 0))), AssembleConfig(), NOW)
    assert [round(item.relevance, 2) for item in items] == [0.66, 0.63, 0.6]
    values = ranked(found(*(("value", {}, 0.5, 0.6, age) for age in (300, 0))), AssembleConfig(), NOW)
    assert [item.relevance for item in values] == [0.6, 0.6]


def test_what_the_search_puts_first_for_its_words_stays_first() -> None:
    items = ranked(found(("code", {"n": 1}, 0.9, 0.5, 0), ("code", {"n": 2}, 0.6, 0.8, 0)), AssembleConfig(), NOW)
    assert [(item.metadata["n"], item.relevance) for item in items] == [(1, 0.8), (2, 0.7)]


def test_the_last_that_was_found_is_as_relevant_as_it_is_like_the_question() -> None:
    items = ranked(found(("code", {}, 1.0, 0.8, 0), ("code", {}, 0.4, 0.7, 0), ("code", {}, 0.0, 0.6, 0)), PLAIN, NOW)
    assert [item.relevance for item in items] == [0.8, 0.68, 0.6]


def test_without_likenesses_the_last_has_a_quarter_of_the_first() -> None:
    items = ranked(found(("code", {}, 0.8, None, 0), ("code", {}, 0.0, None, 0)), PLAIN, NOW)
    assert [item.relevance for item in items] == [0.8, 0.2]


@given(st.lists(st.tuples(st.floats(-1, 3), st.floats(0, 1)), max_size=9))
def test_relevances_are_from_0_to_1_in_the_order_of_the_scores(pairs: list[tuple[float, float]]) -> None:
    scores, likenesses = [score for score, _ in pairs], [likeness for _, likeness in pairs]
    scaled = on_one_scale(scores, likenesses)
    assert all(0 <= relevance <= 1 for relevance in scaled)
    order = sorted(range(len(pairs)), key=lambda place: -scores[place])
    assert [scaled[place] for place in order] == sorted(scaled, reverse=True)
