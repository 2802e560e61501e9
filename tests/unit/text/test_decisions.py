from __future__ import annotations

import pytest

from harken.text.decisions import announces, decision_in, open_in, outcome


@pytest.mark.parametrize(
    ("texts", "decided"),
    [
        (
            ["There are three ways. We decided to keep Redis for sessions. Anything else?"],
            "We decided to keep Redis for sessions.",
        ),
        (["We'll use port 8080.", "No: let's go with port 9090 instead."], "No: let's go with port 9090 instead."),
        (["Quay seven is free for the Aurora. The weather is fine."], "Quay seven is free for the Aurora."),
        (["Wir haben uns für Hamburg entschieden."], "Wir haben uns für Hamburg entschieden."),
        (
            ["Certainly! I'd be happy to help you with decorators. A decorator wraps a function."],
            "A decorator wraps a function.",
        ),
        (["# The quay of the Aurora\n\nIt is quay seven, behind the crane."], "It is quay seven, behind the crane."),
        (["1.\n\nOpen the valve of the pump."], "Open the valve of the pump."),
        (["I'll look at it."], "I'll look at it."),
        (["Shall we use Redis?"], ""),
        ([], ""),
    ],
)
def test_the_last_sentence_that_decides_stands_before_one_that_answers(texts: list[str], decided: str) -> None:
    assert decision_in(texts, ["quay", "aurora"]) == decided


def test_what_is_open_is_said_by_the_last_such_sentence() -> None:
    assert open_in(["The backup is still open. It is late."]) == "The backup is still open."
    assert open_in(["All is done."]) == ""


@pytest.mark.parametrize(
    ("text", "announced"),
    [
        ("Now let me wire everything together:", True),
        ("Good finds! Let me look at the actual repository:", True),
        ("Perfect! Yes, let me update the image:", True),
        ("Certainly!", True),
        ("Deployed to staging!", False),
        ("The build is broken. Let me fix it:", False),
        ("Now the build is green.", False),
        ("", False),
    ],
)
def test_what_comes_next_is_announced_behind_a_word_that_says_nothing_too(text: str, announced: bool) -> None:
    assert announces(text) is announced


def test_what_merely_answers_is_not_called_decided() -> None:
    assert outcome("We decided to keep Redis for sessions.") == "decided"
    assert outcome("The service listens on port 8085.") == "answered"
    assert outcome("Instead of merging into main, use pull requests.") == "answered"
