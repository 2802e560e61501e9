from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harken.model.conversations import Entry, Hit, Trust
from harken.search.query import parse_query
from harken.search.search import rerank
from harken.testing import OverlapReranker
from harken.text import tokens


def hits(*texts: str) -> list[Hit]:
    """Hits with falling scores, best first."""
    moment = datetime(2023, 5, 8, tzinfo=UTC)
    return [
        Hit(Entry(n, "message", f"m{n}", None, None, None, "user", "Ada", moment, Trust.OWNER, text), 1.0 - n / 10, 0.5)
        for n, text in enumerate(texts)
    ]


def texts(found: list[Hit]) -> list[str]:
    return [hit.entry.text for hit in found]


class TestBlending:
    @pytest.mark.parametrize(
        ("blend", "expected"),
        [
            (0.0, ["nothing", "half zebra", "zebra giraffe"]),
            (1.0, ["zebra giraffe", "half zebra", "nothing"]),
            (0.6, ["zebra giraffe", "half zebra", "nothing"]),
        ],
    )
    def test_the_judgement_counts_as_much_as_it_is_told_to(self, blend: float, expected: list[str]) -> None:
        found = rerank(
            OverlapReranker(), parse_query("zebra giraffe"), hits("nothing", "half zebra", "zebra giraffe"), 10, blend
        )
        assert texts(found) == expected

    def test_the_scores_keep_falling(self) -> None:
        before = hits("nothing", "half zebra", "zebra giraffe", "last")
        found = rerank(OverlapReranker(), parse_query("zebra giraffe"), before, 3, 1.0)
        assert [hit.score for hit in found] == [hit.score for hit in before]

    def test_what_lies_behind_the_top_keeps_its_place(self) -> None:
        found = rerank(OverlapReranker(), parse_query("zebra"), hits("a", "b", "zebra"), 2, 1.0)
        assert texts(found) == ["a", "b", "zebra"]

    def test_each_says_how_it_was_judged(self) -> None:
        found = rerank(OverlapReranker(), parse_query("zebra"), hits("a", "zebra", "b"), 2, 1.0)
        assert [[(reason.name, reason.value) for reason in hit.reasons] for hit in found] == [
            [("rerank", 1.0)],
            [("rerank", 0.0)],
            [],
        ]

    def test_equal_judgements_keep_the_order(self) -> None:
        assert texts(rerank(OverlapReranker(), parse_query("zebra"), hits("a", "b", "c"), 10, 0.5)) == ["a", "b", "c"]


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_are_not_judged(count: int) -> None:
    reranker = OverlapReranker()
    found = hits(*["a"] * count)
    assert rerank(reranker, parse_query("zebra"), found, 10, 1.0) == found
    assert reranker.asked == []


def test_a_text_is_judged_with_its_speaker() -> None:
    reranker = OverlapReranker()
    rerank(reranker, parse_query("zebra"), hits("a", "b"), 10, 1.0)
    assert reranker.asked == [("zebra", ("Ada: a", "Ada: b"))]


def test_a_question_is_read_before_what_follows_it() -> None:
    reranker = OverlapReranker()
    rerank(reranker, parse_query("zebra"), hits("a", "b"), 10, 1.0, {1: "Ben: What is it?"})
    assert reranker.asked == [("zebra", ("Ada: a", "Ben: What is it?\nAda: b"))]


def test_questions_take_their_room_from_the_passages_of_long_texts() -> None:
    long = [f"It is {n}. " + "Somebody said so of the zebra that day. " * 40 for n in range(12)]
    lengths = []
    for questions in ({}, dict.fromkeys(range(12), "Ben: Which of the two is it that you had in mind?")):
        reranker = OverlapReranker()
        rerank(reranker, parse_query("zebra"), hits(*long), 12, 1.0, questions)
        lengths.append(sum(tokens.estimate(text) for text in reranker.asked[0][1]))
    without, led = lengths
    assert without / 12 > 24
    assert led <= 1.15 * without
