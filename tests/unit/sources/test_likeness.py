from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.sources.likeness import MEANING, SAME, WORDS, find_alike, normal

SENTENCES = st.text(st.sampled_from("abc AB1.,!#+"), min_size=1, max_size=30).filter(str.strip)


def why(new: str, old: str, category: str = "decision", similarity: float | None = None) -> str | None:
    """Why a memory is taken for another one's; None where both stay."""
    found = find_alike(new, category, {"old": old}, {} if similarity is None else {"old": similarity})
    return found[0].why if found else None


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Use tabs.", "use  TABS"),
        ("“Deploy on Tuesdays!”", "Deploy on Tuesdays"),
        ("Straße ﬁnden", "STRASSE finden"),
    ],
)
def test_the_same_words_are_the_same_however_they_are_written(new: str, old: str) -> None:
    assert why(new, old, "fact") == why(new, old, "event") == SAME


@pytest.mark.parametrize(
    ("new", "old"), [("Prefer C++", "Prefer C#"), ("It is -5 degrees", "It is 5 degrees"), ("!", "?")]
)
def test_marks_that_matter_make_other_words(new: str, old: str) -> None:
    assert why(new, old) != SAME


@pytest.mark.parametrize("category", ["decision", "preference", "workflow", "fact", "context"])
def test_another_number_is_the_same_thing_decided_anew(category: str) -> None:
    assert why("The staging port is 8081", "The staging port is 8080", category) == WORDS


@pytest.mark.parametrize("category", ["event", "error"])
def test_another_number_is_another_event(category: str) -> None:
    assert why("We deployed release 42 on time", "We deployed release 41 on time", category) is None


@pytest.mark.parametrize("category", ["fact", "context", "event", "error"])
def test_another_name_is_another_fact(category: str) -> None:
    assert why("The phone of Maya ends in 1234", "The phone of Mara ends in 1234", category) is None


def test_a_name_does_not_keep_an_outdated_decision() -> None:
    assert why("We store the sessions of users in Redis 7", "We store the sessions of users in Redis") == WORDS


def test_a_rewording_is_known_by_its_meaning() -> None:
    new, old = "Run the tests before every push", "Tests must be run before each push"
    assert why(new, old, similarity=0.93) == MEANING
    assert why(new, old, similarity=0.91) is None
    assert why(new, old) is None


def test_the_likest_comes_first_and_the_same_words_before_all() -> None:
    others = {"a": "deploy the service on tuesdays", "b": "deploy the services on Tuesdays", "c": "deploys"}
    found = find_alike("Deploy the services on tuesdays", "workflow", others, {"c": 0.999, "gone": 1.0})
    assert [(one.uid, one.why) for one in found] == [("b", SAME), ("c", MEANING), ("a", WORDS)]


@given(SENTENCES, st.sampled_from(["fact", "event", "decision"]))
def test_what_is_said_again_is_always_known(text: str, category: str) -> None:
    assert why(text, text, category) == SAME
    assert normal(normal(text)) == normal(text)
