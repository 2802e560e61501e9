"""Workers of a whole Harken: summaries without and with a language model, switches, money, and what is shown."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from harken.background import CONVERSATION, EMBEDDINGS, EXCHANGE
from harken.engine import Harken
from harken.enrich.worker import WorkerState
from harken.errors import ConfigError, UsageError
from harken.model import SearchScope
from harken.storage.tables import summaries
from harken.testing import ChatServer, HashingEmbedder, Says
from recorded import Clock

QUESTION, ANSWER = "Why does the kitchen tap drip all night?", "The seal of the kitchen tap is worn out."
WRITTEN = json.dumps({"summary": "Maya asked about a dripping tap; its seal is worn out.", "title": "The kitchen tap"})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


def opened(home: Path, clock: Clock, **settings: Any) -> Harken:
    return Harken(home, env={}, settings={"embedder": "none", **settings}, now=clock)


def with_model(server: ChatServer, **more: Any) -> dict[str, Any]:
    prices = {"llm.input_usd_per_million": 1, "llm.output_usd_per_million": 2}
    return {"llm.model": "openai:any", "llm.url": server.url, "llm.api_key": "k", **prices, **more}


def talk(harken: Harken, name: str = "tap") -> None:
    harken.record_message(name, "user", QUESTION)
    harken.record_message(name, "assistant", ANSWER)
    harken.end_exchange(name)


def texts(harken: Harken, kind: str) -> list[tuple[str, str]]:
    with harken.store.reading() as tx:
        rows = tx.connection.execute(select(summaries.c.text, summaries.c.model).where(summaries.c.kind == kind))
        return [(row.text, row.model) for row in rows]


def report(harken: Harken, name: str) -> Any:
    return harken.background.status(name)[0]


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_without_a_model_summaries_are_sentences_that_were_said(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        assert harken.background.summarize() == {"segment": 0, EXCHANGE: 1, CONVERSATION: 0}
        assert texts(harken, EXCHANGE) == [(f"{QUESTION} → {ANSWER}", "extractive")]
        clock.go_on(hours=1)
        assert harken.background.summarize()[CONVERSATION] == 1
        assert report(harken, CONVERSATION).spent.calls == 0


def test_a_conversation_is_summarized_after_it_rested_so_long_as_is_set(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        clock.go_on(seconds=100)
        assert harken.background.summarize()[CONVERSATION] == 0
        harken.run_time.set("worker.rest_seconds", "60")
        assert harken.background.summarize()[CONVERSATION] == 1


def test_one_that_went_on_is_summarized_again(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        clock.go_on(hours=1)
        harken.background.summarize()
        clock.go_on(seconds=1)
        harken.record_message("tap", "user", "Which plumber mends a tap on Sundays in the valley?")
        assert harken.background.summarize()[CONVERSATION] == 0
        clock.go_on(hours=1)
        assert harken.background.summarize()[CONVERSATION] == 1
        assert "plumber" in texts(harken, CONVERSATION)[0][0]


def test_with_a_model_it_writes_and_every_call_is_in_the_books(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    server.script(Says(WRITTEN), Says(WRITTEN))
    with opened(tmp_path, clock, **with_model(server)) as harken:
        talk(harken)
        clock.go_on(hours=1)
        harken.background.summarize()
        assert texts(harken, EXCHANGE) == [(json.loads(WRITTEN)["summary"], "openai:any")]
        assert [report(harken, kind).spent.calls for kind in (EXCHANGE, CONVERSATION)] == [1, 1]
        assert report(harken, EXCHANGE).spent.usd > 0
        assert harken.upkeep.status().spent.calls == 2


def test_at_the_days_limit_it_stops_says_so_and_goes_on_the_next_day(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    limit = with_model(
        server,
        **{"llm.max_usd_per_day": Decimal("0.0085"), "worker.rest_seconds": 1e6, "llm.output_usd_per_million": 10},
    )
    server.script(*[Says(WRITTEN)] * 20)
    with opened(tmp_path, clock, **limit) as harken:
        for number in range(4):
            talk(harken, f"tap {number}")
        harken.background.summarize()
        found = report(harken, EXCHANGE)
        assert (found.done, found.waiting) == (1, 3), found
        assert "llm.max_usd_per_day is reached" in found.halted
        asked = len(server.requests)
        harken.background.summarize()
        assert len(server.requests) == asked
        clock.go_on(days=1)
        harken.background.summarize()
        assert report(harken, EXCHANGE).done > 1


def test_a_switch_holds_in_the_next_process_as_well(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        harken.background.switch(EXCHANGE, False)
        assert harken.background.summarize()[EXCHANGE] == 0
    with opened(tmp_path, clock) as harken:
        assert not report(harken, EXCHANGE).enabled
        assert harken.background.summarize()[EXCHANGE] == 0
        harken.background.switch(EXCHANGE, True)
        assert harken.background.summarize()[EXCHANGE] == 1


def test_the_workers_summarize_and_embed_the_summary_in_the_background(tmp_path: Path) -> None:
    settings = {"worker.poll_seconds": 0.05, "worker.summary_poll_seconds": 0.05, "worker.rest_seconds": 0}
    with Harken(tmp_path, env={}, settings=settings, embedder=HashingEmbedder()) as harken:
        talk(harken)
        harken.start_worker()
        until(lambda: report(harken, CONVERSATION).done == 1)
        until(lambda: report(harken, EMBEDDINGS).waiting == 0 and report(harken, EMBEDDINGS).done >= 3)
        assert all(each.state is not WorkerState.STOPPED for each in harken.background.status())
    with Harken(tmp_path, env={}, embedder=HashingEmbedder()) as harken:
        assert all(each.state is WorkerState.STOPPED for each in harken.background.status())


def test_a_model_that_cannot_be_opened_is_told_before_anything_is_tried(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock, **{"llm.model": "nobody:any"}) as harken:
        talk(harken)
        with pytest.raises(ConfigError, match="nobody"):
            harken.start_worker()
        assert report(harken, EXCHANGE).counts.retrying == 0


def test_a_worker_that_is_none_is_named(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        with pytest.raises(UsageError, match="exchange, conversation, embeddings"):
            harken.background.status("titles")
        with pytest.raises(UsageError, match="'titles'"):
            harken.background.switch("titles", False)


def test_search_shows_what_was_said_and_not_its_echo_in_a_summary(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        clock.go_on(hours=1)
        harken.background.summarize()
        assert [hit.entry.source for hit in harken.search("kitchen tap").hits] == ["message", "message"]
        only = SearchScope(sources=(EXCHANGE,))
        assert [hit.entry.source for hit in harken.search("kitchen tap", scope=only).hits] == [EXCHANGE]


def test_auto_rag_recalls_messages_and_no_summaries(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        talk(harken)
        harken.background.summarize()
        found = harken.auto_rag("tap", "the kitchen tap drip").items
        assert {item.hit.entry.source for item in found} == {"message"}
