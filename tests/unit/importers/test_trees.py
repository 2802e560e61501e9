"""Forked conversations are put in an order in which no answer comes before what it answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.importers.web_exports import threaded

FORK = {"q": None, "a1": "q", "a2": "q", "thanks": "a1"}


def beside(parents: dict[str, str | None], leaf: str | None, times: dict[str, float] | None = None) -> dict[str, str]:
    """The messages that are not on the branch in use, each with the first message of its own branch."""
    return {key: branch for key, branch in threaded(parents, times or {}, leaf).items() if branch is not None}


def test_messages_come_by_time_but_never_before_what_they_answer() -> None:
    assert list(threaded(FORK, {"q": 10, "a2": 11, "a1": 12, "thanks": 1}, None)) == ["q", "a2", "a1", "thanks"]


def test_everything_beside_the_used_branch_names_where_its_own_begins() -> None:
    tree = {**FORK, "why": "a2"}
    assert beside(tree, "thanks") == {"a2": "a2", "why": "a2"}
    assert beside(tree, "a2") == {"a1": "a1", "thanks": "a1", "why": "why"}


def test_an_unknown_leaf_means_the_latest_one() -> None:
    assert beside(FORK, "gone", {"a2": 5, "thanks": 4}) == {"a1": "a1", "thanks": "a1"}
    assert beside(FORK, None) == {"a2": "a2"}


def test_an_unknown_parent_makes_a_root() -> None:
    assert list(threaded({"a": "gone", "b": "a"}, {}, None)) == ["a", "b"]


def test_circles_end() -> None:
    tree = {"root": None, "a": "c", "b": "a", "c": "b", "self": "self"}
    assert list(threaded(tree, {}, "c")) == ["root", "a", "b", "c", "self"]
    assert beside(tree, "c") == {"root": "root", "self": "self"}
    assert beside({"a": "a"}, None) == {"a": "a"}


KEYS = st.sampled_from("abcdefgh")


@given(st.dictionaries(KEYS, st.none() | KEYS), st.dictionaries(KEYS, st.integers(0, 5)), st.none() | KEYS)
def test_every_message_comes_exactly_once(
    parents: dict[str, str | None], times: dict[str, float], leaf: str | None
) -> None:
    assert sorted(threaded(parents, times, leaf)) == sorted(parents)
