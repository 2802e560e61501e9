"""A context asks other conversations and its own one: of one view of the store, with one embedding of the question."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatting import TALK, filler, prompt, say
from harken.engine import Harken
from harken.errors import ProviderError
from harken.providers.embedder import Vectors
from harken.testing import HashingEmbedder

QUESTION = "what did we decide about deploying the billing service?"
DECISION = "We decided to deploy the billing service on Friday with a canary."
PLAN = "We wanted to deploy the billing service with a canary, and to decide about it on Monday."


class Slow(HashingEmbedder):
    """Takes longer than a view of the store is kept for."""

    def embed_query(self, text: str) -> Vectors:
        time.sleep(0.1)
        return super().embed_query(text)


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder(1024, threshold=0.3)


@pytest.fixture(params=["on disk", "in memory"])
def harken(
    request: pytest.FixtureRequest, ready_home: Path, embedder: HashingEmbedder, engine_settings: dict[str, Any]
) -> Iterator[Harken]:
    in_memory = {"HARKEN_STORE": "sqlite://"} if request.param == "in memory" else {}
    if in_memory and engine_settings:
        pytest.skip("A server keeps nothing in memory.")
    env = {"HARKEN_CONTEXT__SLIDING_WINDOW": "4", **in_memory}
    with Harken(ready_home, env=env, embedder=embedder, settings=engine_settings) as harken:
        harken.record_message("another", "user", PLAN)
        harken.record_message("another", "assistant", "Noted: the billing service, a canary, Monday.")
        say(harken, "How shall we bring billing out?", DECISION, *filler(20))
        harken.embed()
        yield harken


def layers(harken: Harken) -> list[str]:
    return [layer.name.value for layer in harken.build_context(TALK, [QUESTION]).layers]


def test_a_question_is_embedded_once_for_other_conversations_and_its_own(
    harken: Harken, embedder: HashingEmbedder
) -> None:
    before = embedder.calls
    assert layers(harken) == ["past", "auto_rag", "window", "pending"]
    assert embedder.calls == before + 1


def test_one_that_cannot_be_embedded_is_looked_for_by_its_words_in_both(
    harken: Harken, embedder: HashingEmbedder
) -> None:
    embedder.fail(ProviderError("down"))
    context = harken.build_context(TALK, [QUESTION])
    past = "Past conversations were searched by words alone: ProviderError."
    assert context.notes == context.failures == (past, "Searched without vectors: ProviderError.")
    assert {"past", "auto_rag"} <= {layer.name.value for layer in context.layers}


def test_a_slow_model_gives_the_same_context(harken: Harken, embedder: HashingEmbedder) -> None:
    quick = prompt(harken.build_context(TALK, [QUESTION]))
    harken.spaces._opened = (os.getpid(), Slow(1024, threshold=0.3))
    assert prompt(harken.build_context(TALK, [QUESTION])) == quick
