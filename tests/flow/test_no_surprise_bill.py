"""What is sent to a paid model, and what is not: real commands and a real terminal against a scripted model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from harken.testing import ChatServer, EmbeddingServer, Says
from harken.testing.local_server import Request
from terminals import WITHOUT_TERMINALS, terminal

EXCHANGE_SUMMARY = (
    "Maya asked which valve of the kitchen tap drips; the agent looked at the plan of the house, found that the seal "
    "of the third valve is worn out, and ordered a rubber one for Thursday."
)
CONVERSATION_SUMMARY = (
    "Maya and the agent went through the valves of the kitchen one after the other. The seal of the third is worn out, "
    "and a rubber one was ordered for Thursday. Who mends the boiler stays open; Maya asks the plumber, and the agent "
    "reminds her on Friday, once the bill of the last repair is paid and filed with the papers of the house."
)


def written_exchange() -> Says:
    return Says(json.dumps({"summary": EXCHANGE_SUMMARY}))


def written(request: Request) -> Says:
    """As long as models answer: one or two sentences, or two or three with a title."""
    asked = str(request.body["messages"])
    if "You summarize a conversation" in asked:
        return Says(json.dumps({"title": "The valves of the kitchen", "summary": CONVERSATION_SUMMARY}))
    if "You summarize one exchange" in asked:
        return written_exchange()
    return Says("Good day.")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(otherwise=written) as running:
        yield running


@pytest.fixture
def priced(cli: CommandLine, server: ChatServer) -> CommandLine:
    """The command line with a model of a known price, which was set before anything was imported."""
    settings = {
        **cli.settings,
        "HARKEN_LLM__MODEL": "openai:gpt-5-mini",
        "HARKEN_LLM__URL": server.url,
        "HARKEN_LLM__API_KEY": "unused",
        # Everything rests at once, and is looked for all the time.
        "HARKEN_WORKER__REST_SECONDS": "0",
        "HARKEN_WORKER__SUMMARY_POLL_SECONDS": "0.2",
    }
    told = replace(cli, settings=settings)
    told.status()
    return told


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Conversations of last month; two more claim to be of now, and of a year to come."""
    begun = datetime.now(UTC) - timedelta(days=30)
    lines: list[dict[str, Any]] = []
    for number in range(12):
        moments: dict[int, str | None] = {10: None, 11: "2031-01-01T00:00:00Z"}
        for turn in range(4):
            for role in ("user", "assistant"):
                words = f"Valve {turn} of house {number} by {role}: " + "the kitchen tap drips at night. " * (
                    2 + number
                )
                moment = moments.get(number, (begun + timedelta(hours=number, minutes=turn)).isoformat())
                line = {"conversation": f"house {number}", "project": "waterworks", "role": role, "content": words}
                lines.append(line if moment is None else {**line, "ts": moment})
    file = tmp_path / "history.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_an_open_chat_on_an_imported_history_calls_the_model_for_its_own_answers_alone(
    priced: CommandLine, server: ChatServer, history: Path
) -> None:
    priced("import", "jsonl", history)
    with terminal(priced) as person:
        greeting = person.sees("older ones by extraction (/summarizer backfill)")
        assert "Summaries: openai:gpt-5-mini for what " in greeting
        assert ", at most $1.00 a day; 60 " in greeting
        person.waits_for_prompt()
        person.types("Good day, which valve drips?")
        person.sees(" tokens in, ")
        # Seven looks for what could be summarized.
        time.sleep(1.5)
        assert len(server.requests) == 1
        person.waits_for_prompt()
        person.types("/exit")
        assert person.ends()[0] == 0
    found = priced.status()
    done = {report["name"]: report for report in found["workers"]}
    assert (len(server.requests), done["exchange"]["done"], done["conversation"]["done"]) == (1, 48, 12)
    assert (done["exchange"]["older"], found["max_usd_per_day"]) == (48, 1.0)
    assert "at most $1.00 a day" in priced("status").out
    # The chat is over, and was held after the model was set.
    priced("worker", "run", "--until-idle")
    assert len(server.requests) == 3
    assert all("Valve 1 of house" not in prompt for prompt in server.prompts()[1:])


def test_a_backfill_wants_a_yes_and_costs_what_it_said(priced: CommandLine, server: ChatServer, history: Path) -> None:
    priced("import", "jsonl", history)
    priced("worker", "run", "--until-idle")
    refused = priced.fails("summarizer", "backfill")
    assert "48 exchanges and 12 conversations would take openai:gpt-5-mini 60 calls, about " in refused
    assert "Nothing was sent, for nobody can answer here: to do it, add --yes." in refused
    plan = json.loads(priced("summarizer", "backfill", "--json", code=1).out)
    assert (plan["calls"], plan["summarized"], server.requests) == (60, None, [])
    done = priced("summarizer", "backfill", "--yes", "--json").json()
    assert done["summarized"] == {"exchange": 48, "conversation": 12}
    assert len(server.requests) == 60
    assert priced.status()["spend_usd"] == pytest.approx(plan["price_usd"], rel=0.2)
    assert priced("summarizer", "backfill", "--yes").out == "Nothing older is left to summarize.\n"
    assert len(server.requests) == 60


def test_a_model_that_thinks_before_it_writes_is_stopped_at_the_price_and_named_a_better_one(
    priced: CommandLine, server: ChatServer, history: Path
) -> None:
    server.script(*[replace(written_exchange(), output_tokens=790)] * 48)
    priced("import", "jsonl", history)
    plan = json.loads(priced("summarizer", "backfill", "--json", code=1).out)
    stopped = priced("summarizer", "backfill", "--yes", code=1).err
    assert "that was named: answers are longer than was expected" in stopped
    assert priced.status()["spend_usd"] < plan["price_usd"] * 1.2 + 8 * 0.002, "eight are claimed at a time"
    done = len(server.requests)
    assert done < 48
    # It thinks on; twenty answers are enough to tell.
    again = json.loads(priced("summarizer", "backfill", "--json", code=1).out)
    per_call = again["kinds"]["exchange"]["output_tokens"] / again["kinds"]["exchange"]["calls"]
    expected = plan["kinds"]["exchange"]["output_tokens"] / plan["kinds"]["exchange"]["calls"]
    assert per_call == (790 if done >= 20 else pytest.approx(expected, rel=0.1))


def test_a_backfill_tells_which_answers_were_of_no_use_and_stops_where_none_is(
    priced: CommandLine, server: ChatServer, history: Path
) -> None:
    """As of a model whose thoughts use up the room of its answer."""
    priced("import", "jsonl", history)
    server.script(*[Says("", finish="length", output_tokens=800)] * 8)
    stopped = priced("summarizer", "backfill", "--yes", code=1, settings={"HARKEN_LLM__MAX_USD_PER_DAY": "none"})
    assert "None of its answers was of use (cut off)" in stopped.err
    assert stopped.out.startswith("openai:gpt-5-mini summarized 0 exchanges and 0 conversations. 8 answers of it had")
    assert len(server.requests) == 8
    server.script(Says("I cannot."))
    told = priced("summarizer", "backfill", "--yes").out
    assert told.startswith("openai:gpt-5-mini summarized 47 exchanges and 12 conversations. 1 answer of it had no use")


def test_a_backfill_of_one_project_since_a_day_stops_at_the_days_limit_and_goes_on(
    priced: CommandLine, server: ChatServer, history: Path
) -> None:
    priced("import", "jsonl", history)
    assert "There is no project" in priced.fails("summarizer", "backfill", "--project", "elsewhere", "--yes")
    assert "belong to a backfill" in priced.fails("summarizer", "--since", "yesterday", code=2)
    # Of now, and of a year to come: two conversations of four exchanges.
    words = ("summarizer", "backfill", "--project", "waterworks", "--since", "yesterday", "--yes")
    stopped = priced(*words, code=1, settings={"HARKEN_LLM__MAX_USD_PER_DAY": "0.003"}).err
    assert "Stopped, and the next backfill goes on from here. llm.max_usd_per_day is reached" in stopped
    assert "Raise it: harken config set llm.max_usd_per_day" in stopped
    asked = len(server.requests)
    assert 0 < asked < 10
    assert priced(*words).out.startswith("openai:gpt-5-mini summarized ")
    assert len(server.requests) == 10


def test_a_chat_at_its_limit_says_how_to_go_on(priced: CommandLine, server: ChatServer) -> None:
    told = priced.fails("chat", "Good day", settings={"HARKEN_LLM__MAX_USD_PER_DAY": "0"})
    assert "llm.max_usd_per_day is reached" in told
    assert "Raise it: harken config set llm.max_usd_per_day 5" in told
    assert server.requests == []
    assert priced("chat", "Good day", settings={"HARKEN_LLM__MAX_USD_PER_DAY": "none"}).out == "Good day.\n"


def test_embeddings_of_an_endpoint_are_booked_and_stop_at_the_same_limit(cli: CommandLine, history: Path) -> None:
    with EmbeddingServer() as endpoint:
        remote = replace(
            cli,
            settings={
                "HARKEN_EMBEDDER": "openai-compatible",
                "HARKEN_EMBEDDING__URL": endpoint.url,
                "HARKEN_EMBEDDING__MODEL": "words",
                "HARKEN_EMBEDDING__USD_PER_MILLION": "20",
                "HARKEN_WORKER__BATCH_SIZE": "10",
            },
        )
        limited = {"HARKEN_LLM__MAX_USD_PER_DAY": "0.05"}
        said = remote("import", "jsonl", history, settings=limited).err
        assert "llm.max_usd_per_day is reached" in said
        found = remote.status(settings=limited)
        (report,) = [one for one in found["workers"] if one["name"] == "embeddings"]
        assert 0 < report["done"] < 96
        assert 0 < found["spend_usd"] <= 0.05
        asked = len(endpoint.requests)
        assert "stands still: llm.max_usd_per_day is reached" in remote("status", settings=limited).out
        assert "llm.max_usd_per_day is reached" in remote("worker", "run", "--until-idle", settings=limited).err
        assert len(endpoint.requests) <= asked + 1, "only to learn how long a vector is"
        (report,) = [one for one in remote.status()["workers"] if one["name"] == "embeddings"]
        assert report["spend_usd"] == pytest.approx(remote.status()["spend_usd"])
        remote("worker", "run", "--until-idle")
        done = remote.status()
        used = sum(_words(request) for request in endpoint.requests)
        assert done["spend_usd"] == pytest.approx(used / 50_000), "by the tokens that the endpoint reports"
        before = len(endpoint.requests)
        remote("search", "which tap drips")
        assert remote.status()["spend_usd"] > done["spend_usd"]
        assert len(endpoint.requests) > before


def _words(request: Request) -> int:
    return sum(len(text.split()) for text in request.body["input"])
