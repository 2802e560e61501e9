from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.model.marks import AGENT, ANSWER, OWNER, Rated, Verdict, factor_of, in_force, in_words

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)


def rated(number: int, verdict: Verdict, by: str = OWNER, given_to: str = "") -> Rated:
    return Rated(f"r{number}", "folder", "ref", verdict, by, NOON + timedelta(minutes=number), given_to)


EACH = st.tuples(st.sampled_from(list(Verdict)), st.sampled_from([OWNER, AGENT, ANSWER]), st.sampled_from("abcdefgh"))


@given(st.lists(EACH))
def test_no_number_of_verdicts_weighs_more_than_a_fifth(said: list[tuple[Verdict, str, str]]) -> None:
    told = [rated(number, *each) for number, each in enumerate(said)]
    assert 0.8 <= factor_of(told) <= 1.2


@given(st.integers(0, 500))
def test_answers_only_ever_lift(count: int) -> None:
    told = [rated(number, Verdict.USEFUL, ANSWER, str(number)) for number in range(count)]
    assert 1.0 <= factor_of(told) <= 1.14


def test_who_changes_their_mind_is_counted_once() -> None:
    told = [rated(1, Verdict.USEFUL), rated(2, Verdict.USELESS)]
    assert [one.verdict for one in in_force(told)] == [Verdict.USELESS]
    assert factor_of(told) == 0.93


def test_a_member_takes_back_their_own_verdicts_and_an_owner_all() -> None:
    told = [rated(1, Verdict.WRONG, f"{OWNER}:ann"), rated(2, Verdict.USEFUL, f"{AGENT}:bob"), rated(3, Verdict.USEFUL)]
    assert [one.uid for one in in_force([*told, rated(4, Verdict.NONE, f"{AGENT}:ann")])] == ["r2", "r3"]
    assert in_force([*told, rated(4, Verdict.NONE)]) == []


def test_an_answer_of_a_member_is_an_answer() -> None:
    told = [rated(1, Verdict.USEFUL, f"{ANSWER}:ann")]
    assert factor_of(told) == factor_of([rated(1, Verdict.USEFUL, ANSWER)])
    assert in_words(told) == "used in an answer"


def test_what_is_wrong_is_known_by_its_factor_however_often_it_was_useful() -> None:
    praise = [rated(number, Verdict.USEFUL, given_to=str(number)) for number in range(9)]
    assert factor_of([*praise, rated(99, Verdict.WRONG, AGENT)]) != 1.0
    assert factor_of([rated(1, Verdict.USEFUL), rated(2, Verdict.WRONG, AGENT)]) != 1.0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([], ""),
        ([rated(1, Verdict.USEFUL), rated(2, Verdict.NONE)], ""),
        ([rated(1, Verdict.USEFUL, OWNER, "a"), rated(2, Verdict.USEFUL, OWNER, "b")], "rated useful twice"),
        (
            [rated(1, Verdict.WRONG), *(rated(n, Verdict.USEFUL, ANSWER, str(n)) for n in (2, 3, 4))],
            "rated wrong once; used in 3 answers",
        ),
    ],
)
def test_verdicts_are_said_in_words(told: list[Rated], words: str) -> None:
    assert in_words(told) == words
