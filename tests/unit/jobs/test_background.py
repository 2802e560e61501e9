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

from harken.engine import Harken
from harken.errors import ConfigError, UsageError
from harken.jobs.job import WorkerState
from harken.jobs.workers import CONVERSATION, EMBEDDINGS, EXCHANGE, SEGMENT
from harken.model.conversations import SearchScope
from harken.storage.tables import summaries
from harken.testing import ChatServer, HashingEmbedder, Reply, Says
from harken.testing.local_server import Request
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
    deadline = time.monotonic() + 120
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
        assert harken.maintenance.status().spent.calls == 2


def test_at_the_days_limit_it_stops_says_so_and_goes_on_the_next_day(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    limit = with_model(
        server,
        **{"llm.max_usd_per_day": Decimal("0.0085"), "worker.rest_seconds": 0, "llm.output_usd_per_million": 10},
    )
    server.script(*[Says(WRITTEN)] * 20)
    with opened(tmp_path, clock, **limit) as harken:
        harken.background.switch(CONVERSATION, False)
        for number in range(4):
            talk(harken, f"tap {number}")
        harken.background.summarize()
        found = report(harken, EXCHANGE)
        assert (found.done, found.waiting) == (1, 3), found
        assert "llm.max_usd_per_day is reached" in found.blocked_reason
        asked = len(server.requests)
        harken.background.summarize()
        assert len(server.requests) == asked
        clock.go_on(days=1)
        harken.background.summarize()
        assert report(harken, EXCHANGE).done > 1


@pytest.mark.parametrize(
    ("limit", "mended"),
    [(5, {"llm.url": "{other}", "llm.model": "openai:other"}), (0.0001, {"llm.max_usd_per_day": 5})],
)
def test_what_blocked_another_model_or_a_lower_limit_is_not_waited_out(
    tmp_path: Path, clock: Clock, server: ChatServer, limit: float, mended: dict[str, Any]
) -> None:
    server.script(*[Reply(status=429, headers=(("Retry-After", "86400"),))] * (limit == 5))
    server.script(*[Says(WRITTEN)] * 2)
    wanted = with_model(server, **{"llm.max_usd_per_day": limit})
    here = {"worker.rest_seconds": 0, "llm.api_key": wanted.pop("llm.api_key")}
    with ChatServer(otherwise=lambda _: Says(WRITTEN)) as other, opened(tmp_path, clock, **here) as harken:
        for key, value in wanted.items():
            harken.run_time.set(key, value)
        work = harken.background.work_of(EXCHANGE)
        talk(harken)
        work.run_once()
        assert work.blocked_reason
        for key, value in mended.items():
            harken.run_time.set(key, str(value).format(other=other.url))
        clock.go_on(seconds=60)
        talk(harken, "later")
        work.run_once()
        assert not work.blocked_reason
        assert texts(harken, EXCHANGE)[-1][0] == json.loads(WRITTEN)["summary"]


def test_a_model_of_whose_answers_none_is_of_use_is_asked_no_more_that_day(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    """As of one whose thoughts use up the room of its answer: each is paid for."""
    server.script(*[Says("", finish="length", output_tokens=800)] * 8)
    with opened(tmp_path, clock, **with_model(server, **{"worker.rest_seconds": 0})) as harken:
        for number in range(12):
            talk(harken, f"tap {number}")
        work = harken.background.work_of(EXCHANGE)
        while work.run_once():
            pass
        assert len(server.requests) == 8
        assert "None of its answers was of use (cut off): name another model" in report(harken, EXCHANGE).blocked_reason
        # What is said meanwhile gets what talk without a model gets, for which the model can be asked later.
        talk(harken, "meanwhile")
        assert work.run_once() == 1
        found = report(harken, EXCHANGE)
        assert (len(server.requests), found.done, found.waiting, found.older) == (8, 13, 0, 13)
        assert "name another model" in found.blocked_reason
        # Nor does whoever waits until all is done wait for it.
        harken.background.switch(CONVERSATION, False)
        harken.background.summarize()
        server.script(*[Says(WRITTEN)] * 16)
        clock.go_on(days=1)
        talk(harken, "later")
        while work.run_once():
            pass
        assert not work.blocked_reason
        backfill = harken.background.backfill
        assert backfill.run(backfill.backlog(), None)[EXCHANGE] == 13
        assert {model for _, model in texts(harken, EXCHANGE)} == {"openai:any"}


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
        first = found[0].hit.entry.ref_uid
        for excluded in ([first], first):
            left = harken.auto_rag("tap", "the kitchen tap drip", excluded=excluded).items
            assert len(left) == len(found) - 1
            assert first not in {item.hit.entry.ref_uid for item in left}


def long_talk(harken: Harken, count: int = 6) -> None:
    for number in range(count):
        harken.record_message("long", "user", f"Question {number}: which valve of the kitchen tap drips?")
        harken.record_message("long", "assistant", f"Answer {number}: valve number {number * 7} of the kitchen tap.")


def test_a_model_rolls_the_summary_of_what_left_the_window_and_it_stands_in_the_context(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    first, second = (json.dumps({"summary": f"They went through the valves, part {part}."}) for part in (1, 2))
    settings = {"context.sliding_window": 2, "worker.rest_seconds": 1e6}
    with opened(tmp_path, clock, **with_model(server, **settings)) as harken:
        harken.background.switch(EXCHANGE, False)
        long_talk(harken)
        harken.build_context("long", ["And now?"])
        server.script(Says(first))
        assert harken.background.summarize()[SEGMENT] > 0
        layer = harken.build_context("long", ["And now?"]).layer("summary")
        assert layer is not None
        assert "part 1" in layer.items[0].text
        long_talk(harken, 4)
        harken.build_context("long", ["And now?"])
        assert harken.background.summarize()[SEGMENT] == 0, "eight messages are not worth a call"
        long_talk(harken, 1)
        harken.build_context("long", ["And now?"])
        server.script(Says(second))
        assert harken.background.summarize()[SEGMENT] == 10
        assert "part 1" in server.prompts()[1], "it rolls on from the summary before"
        assert "Question 5" in server.prompts()[1]
        assert "Question 4" not in server.prompts()[1], "each message is read once"
        found = report(harken, SEGMENT)
        assert (found.spent.calls, found.done, found.waiting) == (2, 1, 0)


def test_a_models_useless_answer_leaves_the_segments_own_sentences(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    server.script(Says("No JSON at all."))
    with opened(tmp_path, clock, **with_model(server, **{"context.sliding_window": 2})) as harken:
        harken.background.switch(EXCHANGE, False)
        harken.background.switch(CONVERSATION, False)
        long_talk(harken)
        harken.build_context("long", ["And now?"])
        assert harken.background.summarize()[SEGMENT] > 0
        layer = harken.build_context("long", ["And now?"]).layer("summary")
        assert layer is not None
        assert "kitchen tap" in layer.items[0].text


def test_at_the_days_limit_segments_wait_as_well_and_go_on_the_next_day(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    settings = {"llm.output_usd_per_million": 10, "context.sliding_window": 2}
    with opened(tmp_path, clock, **with_model(server, **settings)) as harken:
        harken.run_time.set("llm.max_usd_per_day", "0.001")
        harken.background.switch(EXCHANGE, False)
        harken.background.switch(CONVERSATION, False)
        long_talk(harken)
        harken.build_context("long", ["And now?"])
        harken.background.summarize()
        assert "llm.max_usd_per_day is reached" in report(harken, SEGMENT).blocked_reason
        assert (server.requests, report(harken, SEGMENT).waiting) == ([], 1)
        harken.run_time.set("llm.max_usd_per_day", "1")
        clock.go_on(days=1)
        server.script(Says(json.dumps({"summary": "They went through the valves."})))
        harken.background.summarize()
        assert (report(harken, SEGMENT).waiting, report(harken, SEGMENT).blocked_reason) == (0, "")


def test_what_is_said_to_be_in_work_is_what_the_model_is_asked_for(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def answer(asked: Request) -> Says:
        (uid,) = [uid for name, uid in uids.items() if name in str(asked.body)]
        told.append((report(harken, EXCHANGE).current, uid))
        return Says(WRITTEN)

    with (
        ChatServer(otherwise=answer) as server,
        Harken(
            tmp_path, env={}, settings=with_model(server, **{"embedder": "none", "worker.rest_seconds": 0})
        ) as harken,
    ):
        uids = {
            f"zander{n}": harken.record_message(f"talk{n}", "user", f"How long does the zander{n} bake?").exchange_uid
            for n in range(6)
        }
        for number in range(6):
            harken.record_message(f"talk{number}", "assistant", "It bakes for forty minutes, or a bit longer.")
            harken.end_exchange(f"talk{number}")
        harken.background.switch(CONVERSATION, False)
        harken.background.summarize()
    assert len(told) == len(uids)
    assert [current for current, _ in told] == [asked for _, asked in told]


def use_tools(harken: Harken, count: int) -> str:
    asked = harken.record_message("tools", "user", "Check every pump of the waterworks.")
    for number in range(count):
        at = {"call_id": str(number), "tool_name": "probe"}
        harken.record_message("tools", "assistant", f'{{"pump": {number}}}', type="tool_call", **at)
        harken.record_message("tools", "tool", f"zircon gasket {number} failed", type="tool_result", **at)
    harken.record_message("tools", "assistant", "All pumps are checked.")
    harken.end_exchange("tools")
    return asked.exchange_uid


def tool_entries(harken: Harken) -> list[str]:
    only = SearchScope(sources=("tools",))
    return sorted(hit.entry.text for hit in harken.search("zircon gasket pump probe", scope=only, limit=50).hits)


def test_each_tool_call_of_a_long_exchange_becomes_an_entry(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        exchange = use_tools(harken, 12)
        harken.background.summarize()
        found = tool_entries(harken)
        assert found == sorted(f'probe({{"pump": {n}}}) → zircon gasket {n} failed' for n in range(12))
        hit = harken.search("zircon", scope=SearchScope(sources=("tools",))).hits[0]
        assert hit.entry.exchange_uid == hit.entry.ref_uid == exchange
        assert {hit.entry.source for hit in harken.search("zircon gasket").hits} == {"message"}
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=[harken.show(exchange).messages[2].uid]))
        assert tool_entries(harken) == []


def test_what_a_tool_brought_comes_back_in_its_segment_once_it_has_left_the_window(
    tmp_path: Path, clock: Clock
) -> None:
    question = "Which pump had the zircon gasket 2 that failed?"

    def recalled(harken: Harken) -> list[str]:
        layer = harken.build_context("tools", [question]).layer("auto_rag")
        return [item.text for item in layer.items] if layer else []

    with opened(tmp_path, clock, **{"context.sliding_window": 6, "auto_rag.top_k": 20}) as harken:
        use_tools(harken, 3)
        harken.background.summarize()
        assert tool_entries(harken) == [f'probe({{"pump": {n}}}) → zircon gasket {n} failed' for n in range(3)]
        # Its calls stand in the window.
        assert not [text for text in recalled(harken) if text.startswith("probe")]
        for number in range(8):
            harken.record_message("tools", "user" if number % 2 else "assistant", f"Lunch {number} was good.")
        assert 'probe({"pump": 2}) → zircon gasket 2 failed' in recalled(harken)
        harken.new_segment("tools")
        for number in range(8):
            harken.record_message("tools", "user" if number % 2 else "assistant", f"Dinner {number} was good.")
        assert recalled(harken) == []


def test_few_tool_calls_are_told_by_the_exchange_alone(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as harken:
        use_tools(harken, 2)
        harken.background.summarize()
        assert tool_entries(harken) == []


def test_a_model_tells_of_ten_calls_at_once_and_what_was_told_is_not_paid_for_again(
    tmp_path: Path, clock: Clock, server: ChatServer
) -> None:
    six = Says(json.dumps({"summaries": ["The zircon gasket of a pump has failed."] * 6}))
    server.script(six, Reply(status=503), six, Says(WRITTEN))
    with opened(tmp_path, clock, **with_model(server, **{"worker.rest_seconds": 0})) as harken:
        use_tools(harken, 12)
        work = harken.background._summary_work(EXCHANGE)
        work.run_once()
        assert len(tool_entries(harken)) == 6
        clock.go_on(seconds=60)
        work.run_once()
        assert len(tool_entries(harken)) == 12
        assert len(server.requests) == 4
        assert report(harken, EXCHANGE).spent.calls == 3
