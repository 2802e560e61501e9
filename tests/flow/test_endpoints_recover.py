"""Endpoints that fail when a chat starts, in each of their ways, and are well again: work goes on by itself."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import ConfigError, MissingExtraError
from harken.jobs.job import WorkerState
from harken.jobs.workers import CONVERSATION, EMBEDDINGS, EXCHANGE, SEGMENT, WorkerReport
from harken.testing import ChatServer, EmbeddingServer, Reply, Says
from harken.testing.local_server import LocalServer

WRITTEN = json.dumps({"summary": "Maya asked about a dripping tap; its seal is worn out.", "title": "The kitchen tap"})
# What the issue allows, beyond which nobody would call it by itself.
RECOVERY_SECONDS = 60


class Faulty:
    """An embedding endpoint and a language model that fail together."""

    def __init__(self) -> None:
        self.embedding = EmbeddingServer(dims=64)
        self.model = ChatServer(otherwise=lambda _request: Says(WRITTEN))
        self.both: tuple[LocalServer, LocalServer] = (self.embedding, self.model)

    def settings(self) -> dict[str, Any]:
        """What names both, without the length of a vector, which has to be asked for."""
        return {
            "embedder": "openai-compatible",
            "embedding.url": self.embedding.url,
            "embedding.model": "words",
            "embedding.min_message_tokens": 3,
            "embedding.timeout_seconds": 0.5,
            "llm.model": "openai:any",
            "llm.url": self.model.url,
            "llm.api_key": "k",
            "llm.input_usd_per_million": 1,
            "llm.output_usd_per_million": 1,
            "llm.timeout_seconds": 0.5,
            "worker.poll_seconds": 0.1,
            "worker.summary_poll_seconds": 0.1,
            "worker.rest_seconds": 0,
        }

    def fail(self, how: str) -> None:
        """Fail from now on."""
        for server in self.both:
            if how == "refused":
                server.stop()
            else:
                server.ailing = {
                    "503": Reply(status=503),
                    "slow": Reply(delay_seconds=3),
                    "wrong key": Reply(status=401),
                }[how]

    def recover(self) -> None:
        """Be well from now on."""
        for server in self.both:
            server.ailing = None
            if not server.is_running:
                server.start()


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    made = Faulty()
    with ExitStack() as running:
        for server in made.both:
            running.enter_context(server)
        yield made


def report(harken: Harken, name: str) -> WorkerReport:
    return harken.background.status(name)[0]


def until(condition: Callable[[], bool], seconds: float = RECOVERY_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize("how", ["refused", "503", "slow", "wrong key"])
def test_work_goes_on_by_itself_once_an_endpoint_that_failed_at_the_start_is_well(
    tmp_path: Path, faulty: Faulty, how: str
) -> None:
    with Harken(tmp_path, env={}, settings=faulty.settings()) as harken:
        faulty.fail(how)
        harken.record_message("tap", "user", "Why does the kitchen tap drip all night?")
        harken.record_message("tap", "assistant", "The seal of the kitchen tap is worn out.")
        harken.end_exchange("tap")
        harken.start_worker()
        assert all(each.state is not WorkerState.STOPPED for each in harken.background.status())
        # Not once alone: what had begun to wait has failed again.
        until(lambda: bool(report(harken, EMBEDDINGS).blocked_reason) and bool(report(harken, EXCHANGE).blocked_reason))
        time.sleep(1.5)
        assert set(harken.background.blocked_reasons) >= {EMBEDDINGS, EXCHANGE}
        faulty.recover()
        until(lambda: report(harken, EXCHANGE).done == 1 and report(harken, CONVERSATION).done == 1)
        until(lambda: report(harken, EMBEDDINGS).waiting == 0 and report(harken, EMBEDDINGS).done >= 4)
        until(lambda: not harken.background.blocked_reasons)
        reports = harken.background.status()
        assert {(each.blocked_reason, each.counts.given_up, each.counts.retrying) for each in reports} == {("", 0, 0)}
        hit = harken.search("kitchen tap drip", mode="semantic").hits[0]
        assert hit.similarity is not None


def test_what_is_set_wrong_is_said_at_once_and_stops_nothing_else(tmp_path: Path, faulty: Faulty) -> None:
    settings = faulty.settings()
    del settings["llm.model"]
    with Harken(tmp_path, env={"HARKEN_LLM__MODEL": "nobody:any"}, settings=settings) as harken:
        harken.record_message("tap", "user", "Why does the kitchen tap drip all night?")
        with pytest.raises(ConfigError, match="nobody"):
            harken.start_worker()
        until(lambda: report(harken, EMBEDDINGS).done == 1)
        until(lambda: "nobody" in report(harken, SEGMENT).blocked_reason)
        harken.end_exchange("tap")
        harken.run_time.set("llm.model", "openai:any")
        until(lambda: report(harken, EXCHANGE).done == 1)
        # Taken back with the next look, once what is done is kept.
        until(lambda: report(harken, EXCHANGE).blocked_reason == "")


def test_an_embedder_that_is_not_installed_is_said_and_summaries_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    settings = {"embedder": "fastembed", "worker.poll_seconds": 0.1, "worker.summary_poll_seconds": 0.1}
    with Harken(tmp_path, env={}, settings=settings) as harken:
        harken.record_message("tap", "user", "Why does the kitchen tap drip all night?")
        harken.end_exchange("tap")
        with pytest.raises(MissingExtraError, match="fastembed"):
            harken.start_worker()
        until(lambda: report(harken, EXCHANGE).done == 1)
        until(lambda: "harken[fastembed]" in report(harken, EMBEDDINGS).blocked_reason)
