"""Forked conversations are put in an order in which no answer comes before what it answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.importers.web_exports import Tree

FORK = {"q": None, "a1": "q", "a2": "q", "thanks": "a1"}


def test_messages_come_by_time_but_never_before_what_they_answer() -> None:
    assert Tree(FORK, {"q": 10, "a2": 11, "a1": 12, "thanks": 1}).order() == ["q", "a2", "a1", "thanks"]


def test_everything_beside_the_used_branch_names_where_its_own_begins() -> None:
    tree = Tree({**FORK, "why": "a2"}, {})
    assert tree.branches("thanks") == {"a2": "a2", "why": "a2"}
    assert tree.branches("a2") == {"a1": "a1", "thanks": "a1", "why": "why"}


def test_an_unknown_leaf_means_the_latest_one() -> None:
    assert Tree(FORK, {"a2": 5, "thanks": 4}).branches("gone") == {"a1": "a1", "thanks": "a1"}
    assert Tree(FORK, {}).branches(None) == {"a2": "a2"}


def test_an_unknown_parent_makes_a_root() -> None:
    assert Tree({"a": "gone", "b": "a"}, {}).order() == ["a", "b"]


def test_circles_end() -> None:
    tree = Tree({"root": None, "a": "c", "b": "a", "c": "b", "self": "self"}, {})
    assert tree.order() == ["root", "a", "b", "c", "self"]
    assert tree.branches("c") == {"root": "root", "self": "self"}
    assert Tree({"a": "a"}, {}).branches(None) == {"a": "a"}


KEYS = st.sampled_from("abcdefgh")


@given(st.dictionaries(KEYS, st.none() | KEYS), st.dictionaries(KEYS, st.integers(0, 5)), st.none() | KEYS)
def test_every_message_comes_exactly_once(
    parents: dict[str, str | None], times: dict[str, float], leaf: str | None
) -> None:
    tree = Tree(parents, times)
    assert sorted(tree.order()) == sorted(parents)
    assert set(tree.branches(leaf)) <= set(parents)
