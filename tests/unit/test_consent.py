"""What a language model summarizes unasked: what is said after it was set, once it rests, and no import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from harken.engine import Harken
from harken.jobs.workers import CONVERSATION, EXCHANGE, SEGMENT
from harken.storage.tables import summaries
from harken.testing import ChatServer, Says
from recorded import Clock

WRITTEN = Says(json.dumps({"summary": "The model wrote this.", "title": "A tap"}))
MODEL = "openai:any"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(otherwise=lambda _request: WRITTEN) as running:
        yield running


class House:
    """One home, opened again and again, with a model or without."""

    def __init__(self, home: Path, clock: Clock, server: ChatServer) -> None:
        self.home, self.clock, self.server = home, clock, server

    def opened(self, model: str | None = MODEL, **settings: Any) -> Harken:
        prices = {"llm.input_usd_per_million": 1, "llm.output_usd_per_million": 2}
        named = {"llm.model": model, "llm.url": self.server.url, "llm.api_key": "k", **prices} if model else {}
        return Harken(self.home, env={}, settings={"embedder": "none", **named, **settings}, now=self.clock)

    def talk(self, harken: Harken, name: str = "tap") -> None:
        harken.record_message(name, "user", "Why does the kitchen tap drip all night?")
        harken.record_message(name, "assistant", "The seal of the kitchen tap is worn out.")
        harken.end_exchange(name)

    def rested(self, harken: Harken) -> dict[str, list[str]]:
        """Who wrote the summaries, by kind, after everything has rested."""
        self.clock.go_on(hours=1)
        harken.background.summarize()
        with harken.store.reading() as tx:
            rows = tx.connection.execute(select(summaries.c.kind, summaries.c.model).order_by(summaries.c.covers))
            found: dict[str, list[str]] = {EXCHANGE: [], CONVERSATION: []}
            for row in rows:
                found[row.kind].append(row.model)
        return found

    def transcript(self, *moments: datetime | None) -> Path:
        lines = [
            {"conversation": f"c{n}", "role": role, "content": f"Words {n} of the {role} on a dripping tap."}
            | ({"ts": moment.isoformat()} if moment else {})
            for n, moment in enumerate(moments)
            for role in ("user", "assistant")
        ]
        file = self.home.parent / "talk.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return file


@pytest.fixture
def house(tmp_path: Path, clock: Clock, server: ChatServer) -> House:
    return House(tmp_path / "home", clock, server)


def test_what_was_said_before_the_model_was_set_is_never_sent(house: House) -> None:
    with house.opened(None) as harken:
        house.talk(harken)
    house.clock.go_on(days=1)
    with house.opened() as harken:
        assert house.rested(harken) == {EXCHANGE: ["extractive"], CONVERSATION: ["extractive"]}
        house.talk(harken, "new")
        assert house.rested(harken)[EXCHANGE] == ["extractive", MODEL]
        assert house.rested(harken)[CONVERSATION] == ["extractive", MODEL]
        assert len(house.server.requests) == 2


def test_an_old_conversation_that_goes_on_has_its_new_exchanges_written_and_itself_not(house: House) -> None:
    with house.opened(None) as harken:
        house.talk(harken)
    house.clock.go_on(days=1)
    with house.opened() as harken:
        house.talk(harken)
        assert house.rested(harken) == {EXCHANGE: ["extractive", MODEL], CONVERSATION: ["extractive"]}


def test_a_model_that_was_unset_counts_from_the_moment_at_which_it_is_set_again(house: House) -> None:
    with house.opened(None, **{"llm.url": house.server.url, "llm.api_key": "k"}) as harken:
        harken.run_time.set("llm.model", MODEL)
        house.talk(harken, "with")
        harken.run_time.unset("llm.model")
        house.clock.go_on(days=1)
        house.talk(harken, "without")
        house.clock.go_on(days=1)
        harken.run_time.set("llm.model", MODEL)
        assert house.rested(harken)[EXCHANGE] == ["extractive", "extractive"]
        house.talk(harken, "again")
        assert house.rested(harken)[EXCHANGE][-1] == MODEL


def test_nothing_is_written_before_its_conversation_rests_or_while_it_is_held(house: House) -> None:
    with house.opened() as harken:
        for _ in range(3):
            house.talk(harken)
            house.clock.go_on(seconds=300)
            harken.background.summarize()
        assert house.server.requests == []
        harken.background.hold(harken.chats.session("tap", "library").conversation_uid)
        assert house.rested(harken) == {EXCHANGE: [], CONVERSATION: []}
    with house.opened() as harken:
        assert house.rested(harken) == {EXCHANGE: [MODEL] * 3, CONVERSATION: [MODEL]}


def test_an_import_costs_nothing_whatever_time_its_file_claims(house: House) -> None:
    now = house.clock()
    with house.opened() as harken:
        file = house.transcript(now - timedelta(days=9), now + timedelta(seconds=1), None, now + timedelta(days=900))
        harken.import_transcripts("jsonl", [file])
        harken.background.summarize()
        written = house.rested(harken)
        assert set(written[EXCHANGE] + written[CONVERSATION]) == {"extractive"}
        assert harken.background.backfill.count() == 8
        assert house.server.requests == []


def test_an_export_of_another_store_costs_nothing_either(house: House, tmp_path: Path) -> None:
    with house.opened(None) as harken:
        house.clock.go_on(days=2)
        house.talk(harken)
        harken.maintenance.export(tmp_path / "export.jsonl")
    other = House(tmp_path / "other", Clock(), house.server)
    with other.opened() as harken:
        harken.import_transcripts("jsonl", [tmp_path / "export.jsonl"])
        other.clock.go_on(days=2)
        assert other.rested(harken) == {EXCHANGE: ["extractive"], CONVERSATION: ["extractive"]}


def test_what_hooks_report_is_talk_and_an_import_of_the_same_changes_nothing(house: House) -> None:
    with house.opened() as harken:
        file = house.transcript(house.clock() + timedelta(seconds=1))
        harken.import_transcripts("jsonl", [file], is_live=True)
        harken.import_transcripts("jsonl", [file])
        assert house.rested(harken) == {EXCHANGE: [MODEL], CONVERSATION: [MODEL]}


def test_what_left_the_window_before_the_model_was_set_is_chosen_from_not_sent(house: House) -> None:
    settings = {"context.sliding_window": 2}
    with house.opened(None, **settings) as harken:
        for number in range(20):
            harken.record_message("long", "user", f"Valve {number} of the old kitchen tap drips.")
        harken.end_exchange("long")
    house.clock.go_on(days=1)
    with house.opened(**settings) as harken:
        for number in range(20):
            harken.record_message("long", "user", f"Pump {number} of the new house hums.")
        harken.build_context("long", ["And now?"])
        for name in (EXCHANGE, CONVERSATION):
            harken.background.switch(name, False)
        assert harken.background.summarize()[SEGMENT] > 0
        assert len(house.server.requests) == 1
        assert "Pump 3 of the new house" in house.server.prompts()[0]


def test_extraction_goes_on_while_the_days_money_is_spent(house: House) -> None:
    with house.opened(None) as harken:
        for number in range(3):
            house.talk(harken, f"old {number}")
    house.clock.go_on(days=1)
    with house.opened(**{"llm.max_usd_per_day": "0"}) as harken:
        house.talk(harken, "new")
        assert house.rested(harken)[EXCHANGE] == ["extractive"] * 3
        assert "llm.max_usd_per_day is reached" in harken.background.status(EXCHANGE)[0].blocked_reason


def test_what_a_model_was_asked_for_stays_with_it_and_is_not_paid_for_twice(house: House) -> None:
    with house.opened(None) as harken:
        house.talk(harken)
    house.clock.go_on(days=1)
    with house.opened() as harken:
        house.rested(harken)
        backfill = harken.background.backfill
        assert backfill.run(backfill.backlog(), None) == {EXCHANGE: 1, CONVERSATION: 1}
        assert backfill.run(backfill.backlog(), None) == {EXCHANGE: 0, CONVERSATION: 0}
        assert house.rested(harken) == {EXCHANGE: [MODEL], CONVERSATION: [MODEL]}
        assert len(house.server.requests) == 2
        house.talk(harken)
        assert house.rested(harken) == {EXCHANGE: [MODEL, MODEL], CONVERSATION: [MODEL]}
        assert len(house.server.requests) == 4
