"""The embedding endpoint fails for a minute: it is left alone for longer each time, and the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.jobs.workers import CONVERSATION, EMBEDDINGS, EXCHANGE
from harken.model.conversations import ExchangeStatus
from harken.testing import ChatServer, EmbeddingServer, Reply, Says
from recorded import Clock

# A whole-seconds clock asks at these seconds of the outage: 1, 2, 4, 8, 16 and 32 seconds apart.
TRIES = [0, 1, 3, 7, 15, 31, 63]
TAP = ("Why does the kitchen tap drip all through the night?", "The seal of the kitchen tap is worn out by lime.")
ROPE = ("Which rope holds the blue boat in a storm?", "A rope of twelve millimetres holds the blue boat.")


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=128) as running:
        yield running


@pytest.fixture
def model() -> Iterator[ChatServer]:
    with ChatServer(otherwise=lambda _request: Says("Let us see.")) as running:
        yield running


def opened(home: Path, clock: Clock, server: EmbeddingServer, model: ChatServer) -> Harken:
    embedding = {"embedding.url": server.url, "embedding.model": "words", "embedding.min_message_tokens": 3}
    chat = {"llm.model": "openai:any", "llm.url": model.url, "llm.api_key": "k"}
    limits = {"embedding.threshold": 0.3, "worker.rest_seconds": 1e6}
    settings = {"embedder": "openai-compatible", **embedding, **chat, **limits}
    return Harken(home, env={}, settings=settings, now=clock)


def talk(harken: Harken, name: str, said: tuple[str, str]) -> None:
    harken.record_message(name, "user", said[0])
    harken.record_message(name, "assistant", said[1])
    harken.end_exchange(name)


def test_a_minute_of_failures_is_waited_out_shown_and_made_up_for(
    tmp_path: Path, server: EmbeddingServer, model: ChatServer
) -> None:
    clock = Clock()
    with opened(tmp_path / "home", clock, server, model) as harken:
        for kind in (EXCHANGE, CONVERSATION):
            harken.background.switch(kind, False)
        talk(harken, "tap", TAP)
        harken.embed()
        talk(harken, "rope", ROPE)
        server.requests.clear()
        server.script(*[Reply(status=503)] * 200)
        work = harken.background._embed_work()
        assert work is not None
        begun, tried = clock(), []
        for second in range(60):
            before = len(server.requests)
            work.run_once()
            if len(server.requests) > before:
                tried.append(second)
            (found,) = harken.background.status(EMBEDDINGS)
            # The chat's own words wait as well.
            assert (found.waiting, found.counts.given_up) == (2 if second <= 20 else 4, 0)
            assert found.counts.retrying > 0
            assert found.counts.retry_at is not None
            if second == 20:
                session = harken.chat.begin()
                asked = len(server.requests)
                turn = harken.chat.turn(session, "zanzibar harvest?")
                assert (turn.text, turn.status) == ("Let us see.", ExchangeStatus.COMPLETED)
                assert turn.context.layer("past") is None
                assert len(server.requests) == asked + 1, "a chat asks once, and does not wait"
            clock.go_on(seconds=1)
        assert tried == TRIES[:-1]
        assert clock() - begun == timedelta(minutes=1)
        server._script.clear()
        for _ in range(90):
            work.run_once()
            clock.go_on(seconds=1)
        (found,) = harken.background.status(EMBEDDINGS)
        assert (found.waiting, found.counts.retrying, found.counts.given_up) == (0, 0, 0)
        assert harken.search("blue boat in a storm", mode="semantic").hits[0].entry.text in ROPE
        past = harken.chat.context(harken.chat.begin(), "Which rope holds the blue boat?").layer("past")
        assert past is not None
        assert any("twelve millimetres" in item.text for item in past.items)
