from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harken.search.asked import AskedBefore, is_same_question, may_be_asked_again
from harken.search.query import parse_query

NOW = datetime(2026, 9, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "similarity", "same"),
    [
        ("Which port does the importer listen on?", "What port is the importer listening on?", None, True),
        ("Which port does the importer listen on?", "How was your weekend at the lake?", None, False),
        ("Which port does the importer listen on?", "What do we tell the auditors?", 0.95, True),
        ("When did Maria adopt her dog?", "Where did Maria adopt her dog?", 0.95, False),
        ("When did Maria adopt her dog?", "When did Peter adopt his dog, and Maria's?", 0.86, True),
        ("When did Maria adopt her dog?", "When did Peter adopt his dog?", 0.95, False),
        ("What happened in 2021 at the harbour?", "What happened in 2022 at the harbour?", 0.97, False),
        ("Which port does the importer listen on?", "What port is the importer listening on?", 0.5, False),
        ("How do I fix TS2322?", "How do I fix TS2345?", 0.97, False),
        ("TS2322 means what here?", "TS2345 means what here?", 0.97, False),
        ("TS2322 means what here?", "What does TS2322 mean?", 0.97, True),
        ("端口8080是谁的?", "端口9090是谁的?", 0.97, False),
        ("Which service listens on port 80?", "Which service listens on port 8080?", 0.97, False),
        ("What did we do about issue 12345?", "What have we done about issue 12345?", 0.97, True),
        ("How do we parse dates in Java?", "How do we parse dates in JavaScript?", 0.97, False),
        ("What do we build in C for Canada?", "What do we build in CSS for Canada?", 0.97, False),
        ("Which Canadian servers do we rent?", "Which servers in Canada do we rent?", 0.97, True),
        ("Where is the limit of the APIs set?", "Where is the limit of the API set?", 0.97, True),
        ("One thing. Where does Staging listen?", "Quickly, on what port? Where does Staging listen?", 0.97, True),
    ],
)
def test_questions_are_the_same_by_their_words_or_their_meaning_and_never_against_names(
    one: str, other: str, similarity: float | None, same: bool
) -> None:
    assert is_same_question(one, other, similarity) is same
    assert is_same_question(other, one, similarity) is same


@pytest.mark.parametrize("prompt", ["commit and push it", "run the tests again, please", "why?", "thanks, go on"])
def test_what_is_asked_every_day_is_nothing_that_was_asked_before(prompt: str) -> None:
    assert not may_be_asked_again(parse_query(prompt))


def test_the_sentence_counts_this_time_and_says_a_year_where_it_is_another() -> None:
    at = tuple(datetime(year, month, day, 12, tzinfo=UTC) for year, month, day in ((2025, 8, 9), (2026, 9, 2)))
    asked = AskedBefore(at, "exchange", "conversation", "We use Valkey.")
    assert asked.sentence(NOW) == "Asked before: 9 August 2025, 2 September (3rd time). Then answered: We use Valkey."
    assert AskedBefore(at * 5, "e", "c", "").sentence(NOW).endswith("(11th time).")
