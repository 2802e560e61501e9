"""What comes back in a long chat, with the model that everybody has: the right words, or none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from long_chat import DECISION, messages

from chatting import TALK, recalled, say
from harken.engine import Harken

pytestmark = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")

NOTHING_ASKED = (
    "ok",
    "thanks",
    "да",
    "Ok, thank you!",
    "спасибо, понял",
    "好的",
    "sounds good, go ahead",
    "let's pick this up tomorrow morning",
    "I had to step out, sorry",
    "yes",
    "👍",
    "2",
)
NEVER_DISCUSSED = (
    "What is the boiling point of nitrogen?",
    "Who won the football world cup in 1966?",
    "How do vaccines train the immune system?",
    "How tall is Mount Kilimanjaro?",
    "Какая столица Монголии?",
)


@pytest.fixture(scope="module", params=["a file", "a server"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """One store for all tests, on each engine: three hundred messages are embedded by the real model."""
    if request.param == "a file":
        yield {}
        return
    yield {"store": request.getfixturevalue("shared_database"), "tenant": "long_chat"}


@pytest.fixture(scope="module")
def harken(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(tmp_path_factory.mktemp("long"), env={}, settings=settings) as harken:
        said = list(messages())
        assert len(said) == 300
        say(harken, *said)
        harken.embed()
        yield harken


@pytest.mark.parametrize(
    "question",
    [
        "what did we decide about the deploy?",
        "who has to approve the rollout of checkout?",
        "Remind me: when does the canary go out?",
    ],
)
def test_the_deciding_message_comes_back_long_after_it_left_the_window(harken: Harken, question: str) -> None:
    context = harken.build_context(TALK, [question])
    window = context.layer("window")
    assert window is not None
    assert len(window.items) == 20
    assert DECISION in recalled(context)


@pytest.mark.parametrize("words", NOTHING_ASKED)
def test_small_talk_brings_nothing_back(harken: Harken, words: str) -> None:
    assert recalled(harken.build_context(TALK, [words])) == []


@pytest.mark.parametrize("question", NEVER_DISCUSSED)
def test_what_was_never_discussed_brings_nothing_back(harken: Harken, question: str) -> None:
    assert recalled(harken.build_context(TALK, [question])) == []


def test_the_reason_of_what_came_back_is_shown(harken: Harken) -> None:
    layer = harken.build_context(TALK, ["what did we decide about the deploy?"]).layer("auto_rag")
    assert layer is not None
    item = next(item for item in layer.items if item.text == DECISION)
    assert "near enough" in item.why
    assert {"similarity", "keyword_rank", "reasons", "trust", "created_at"} <= item.facts.keys()
