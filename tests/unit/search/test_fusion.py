from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.model.conversations import Trust
from harken.search.fusion import FEATURES, Evidence, features_of, fusion_weights, learned_scores, standardized
from harken.search.query import parse_query
from harken.storage.facts import EntryFacts, Neighbours
from harken.storage.ports import Holding
from harken.storage.tables import to_microseconds
from harken.text.traits import traits_of

MAY, JUNE = (datetime(2023, month, 8, tzinfo=UTC) for month in (5, 6))
ROSES = "On Friday we planted roses in the garden with Priya"


def known_of(query: str, *texts: str, at: datetime = MAY, held: Holding | None = None, **more: object) -> Evidence:
    """What is known of texts with the ids 1, 2, …, as near and as worded as one another."""
    facts = {
        number: EntryFacts(None, "user", to_microseconds(at), 1.0, Trust.OWNER, traits=traits_of(text))
        for number, text in enumerate(texts, start=1)
    }
    alike = dict.fromkeys(facts, 0.5)
    given = {"similarity": alike, "speakers": {}, "around": {}, "held": held or Holding({}, 10), **more}
    return Evidence(parse_query(query), facts, alike, alike, **given)  # type: ignore[arg-type]


def column(known: Evidence, name: str) -> list[float]:
    return features_of(known, list(known.facts))[0][:, list(FEATURES).index(name)].tolist()


def test_the_weights_name_each_feature_once_and_say_where_they_are_from() -> None:
    weights = fusion_weights()
    assert weights.short.shape == weights.long.shape == (len(FEATURES),)
    assert np.isfinite([weights.short, weights.long]).all()
    assert weights.short[list(FEATURES).index("speaker")] > 0


def test_among_equals_all_score_alike() -> None:
    learned = learned_scores(known_of("roses", ROSES, ROSES, ROSES), [1, 2, 3])
    assert learned.scores == {1: 0.5, 2: 0.5, 3: 0.5}
    assert learned_scores(known_of("roses"), []).scores == {}


def test_what_answers_when_says_when() -> None:
    known = known_of("When did we plant roses?", "We planted roses in the garden with Priya", ROSES)
    assert column(known, "when_dated") == [0.0, 1.0]
    assert column(known_of("Did we plant roses?", "We planted roses", ROSES), "when_dated") == [0.0, 0.0]
    learned = learned_scores(known, [1, 2])
    assert learned.scores[2] > 0.5 > learned.scores[1]
    assert "says when, as is asked" in [reason.note for reason in learned.reasons(2)]
    assert "does not say when, as is asked" in [reason.note for reason in learned.reasons(1)]
    assert learned.reasons(3) == []


def test_the_day_that_is_asked_about() -> None:
    for query, days in (
        ("what happened on 8 May 2023", [2.0]),
        ("what happened on May 20", [1.0]),
        ("what happened in May 2022", [0.0]),
        ("what happened in June", [0.0]),
        ("what happened", [0.0]),
        ("what happened on 2023-05-08", [2.0]),
        ("what happened at 8:30 in May, on Python 3.8", [1.0]),
        ("what happened in may", [1.0]),
        ("which port may we use", [0.0]),
        ("May we use this port", [0.0]),
    ):
        assert column(known_of(query, ROSES), "day") == days
    assert column(known_of("in June", ROSES, at=JUNE), "day") == [1.0]
    assert column(known_of("on Jun 8", ROSES, at=JUNE), "day") == [2.0]
    assert column(known_of("on 1 June", ROSES, at=JUNE - timedelta(days=8)), "day") == [2.0]


def test_what_stands_before_and_behind_counts() -> None:
    around = {1: Neighbours(before=7, follows_question=True, after=8)}
    held = Holding({"roses": np.array([7])}, 10)
    known = known_of("roses", ROSES, ROSES, around=around, held=held, similarity={1: 0.5, 2: 0.5, 8: 0.9})
    assert column(known, "follows_question") == [1.0, 0.0]
    assert column(known, "meaning_after") == [0.9, 0.5]
    assert column(known, "coverage") == [0.0, 0.0]
    assert column(known, "coverage_around") == [1.0, 0.0]


def test_a_rare_word_covers_more_of_a_query_than_a_common_one() -> None:
    held = Holding({"roses": np.array([2]), "garden": np.arange(1, 9, 3)}, 1_000)
    first, second = column(known_of("roses garden", ROSES, ROSES, held=held), "coverage")
    assert 0 < first < 0.5 < second < 1


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=20))
def test_standardized_features_stand_around_nothing_within_three_deviations(rows: list[list[float]]) -> None:
    scaled = standardized(np.array(rows))
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() <= 3.0


def test_all_shares_make_the_score() -> None:
    learned = learned_scores(known_of("When did Priya plant?", ROSES, "Hi! Who is it?", "No."), [1, 2, 3])
    for (entry_id, score), shares in zip(learned.scores.items(), learned.shares, strict=True):
        assert score == pytest.approx(1 / (1 + np.exp(-shares.sum())))
        assert [abs(reason.value) for reason in learned.reasons(entry_id, 50)] == sorted(
            (abs(value) for value in shares.tolist() if value), reverse=True
        )
