"""`harken worker`: embedding against a local server, failures, and the service."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coding_agent import eventually
from command_line import TIMEOUT_SECONDS, CommandLine
from harken.engine import Harken
from harken.testing import ChatServer, EmbeddingServer, Reply
from harken.testing.endpoints import Says
from harken.testing.local_server import Request, error_body

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
TALK = [
    {"conversation": f"c{number}", "role": "user", "content": f"A sentence of a dozen words about {animal} in the zoo"}
    for number, animal in enumerate(("ocelots", "pangolins", "quokkas", "wombats"))
]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def remote(cli: CommandLine, server: EmbeddingServer) -> CommandLine:
    """The command line with a model behind a local server."""
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
    }
    return CommandLine(cli.home, cli.person, settings)


def test_work_that_waits_is_done_until_none_is_left(remote: CommandLine, write: Write) -> None:
    facts = remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed", "--json").json()
    assert facts["embedded"] is None
    assert (remote.status()["embedded"], remote.status()["queue"]) == (0, 4)
    assert remote("worker", "run", "--until-idle").out == "Embedded 4 texts.\n"
    assert remote("worker", "run", "--until-idle").out == "Embedded 0 texts.\n"
    facts = remote("worker", "status", "--json").json()
    workers = facts.pop("workers")
    assert facts == {"queue": 0, "embedded": 4, "failed": 0, "stale_leases": 0, "failures": []}
    assert [worker["name"] for worker in workers] == ["segment", "exchange", "conversation", "embeddings"]
    assert "embeddings: on, 0 waiting, 4 done, 0 given up, $0.0000 for 3 calls\n" in remote("worker", "status").out


def test_what_was_given_up_is_shown_and_tried_again_on_demand(remote: CommandLine, write: Write) -> None:
    remote("import", "jsonl", write("talk.jsonl", TALK))
    with sqlite3.connect(remote.home / "harken.db") as database:
        database.execute("DELETE FROM vectors WHERE entry_id = 2")
        database.execute("UPDATE entries SET space_id = 0 WHERE id = 2")
        database.execute(
            "INSERT INTO failed_work (tenant, kind, item_id, attempts, error_class, failed_at)"
            " VALUES ('local', 'embed', 2, 7, 'EndpointError', 0)"
        )
    database.close()
    assert remote.status()["failed"] == 1
    assert "  entry 2: EndpointError after 7 attempts\n" in remote("worker", "status").out
    given_up = remote("worker", "run", "--until-idle", code=1)
    assert "1 item given up after repeated failures, lastly EndpointError. Again: harken worker" in given_up.err
    assert remote("worker", "retry").out.startswith("1 item wait")
    assert remote("worker", "run", "--until-idle").out == "Embedded 1 text.\n"
    assert remote.status()["failed"] == 0


def test_an_endpoint_that_fails_stops_the_embedding_of_an_import_at_once_and_loses_nothing(
    remote: CommandLine, write: Write, server: EmbeddingServer
) -> None:
    path = write("talk.jsonl", TALK)
    server.stop()
    outcome = remote("import", "jsonl", path, settings={"HARKEN_EMBEDDING__DIMS": "64"})
    assert outcome.out.startswith("4 new messages")
    assert "Not embedded, so search goes by words alone for now: http://127.0.0.1" in outcome.err
    assert (remote.status()["messages"], remote.status()["queue"]) == (4, 4)


def test_ctrl_c_during_the_embedding_of_an_import_leaves_everything_searchable(
    remote: CommandLine, write: Write, server: EmbeddingServer, tmp_path: Path
) -> None:
    server.script(Reply(), Reply(delay_seconds=60))
    path = write("talk.jsonl", TALK)
    out, err = (tmp_path / "out").open("w"), (tmp_path / "err").open("w")
    with out, err, remote.running("import", "jsonl", path, stdout=out, stderr=err) as process:
        while process.poll() is None and len(server.requests) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130
    assert (tmp_path / "out").read_text().startswith("4 new messages in 4 conversations")
    said = "Embedding stopped; everything is recorded and searchable by word. Go on: harken worker run --until-idle\n"
    assert said in (tmp_path / "err").read_text()
    server.script()
    assert remote.search("pangolins", "--mode", "keyword")[0]["text"] == TALK[1]["content"]
    assert remote("worker", "run", "--until-idle").out == "Embedded 4 texts.\n"


def test_the_service_embeds_what_others_record_and_ends_in_peace(remote: CommandLine, write: Write) -> None:
    with remote.running("worker", "run") as service:
        remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed")
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while remote.status()["embedded"] < len(TALK) and time.monotonic() < deadline:
            time.sleep(0.2)
        service.send_signal(signal.SIGTERM)
        assert service.wait(TIMEOUT_SECONDS) == 0
    assert remote.status()["embedded"] == len(TALK)


def test_the_service_follows_what_is_set_while_it_runs(cli: CommandLine, write: Write) -> None:
    quick = {f"HARKEN_WORKER__{name}": "0.2" for name in ("REST_SECONDS", "SUMMARY_POLL_SECONDS")}
    busy = replace(cli, settings={**cli.settings, **quick, "HARKEN_WORKER__MIN_MESSAGES_FOR_EXCHANGE_SUMMARY": "50"})
    busy("import", "jsonl", write("talk.jsonl", TALK))

    def done(kind: str) -> int:
        found: dict[str, int] = {
            each["name"]: each["done"] for each in busy("worker", "status", "--json").json()["workers"]
        }
        return found[kind]

    with busy.running("worker", "run"):
        eventually(lambda: done("conversation") == len(TALK))
        assert done("exchange") == 0
        busy("config", "set", "worker.min_messages_for_exchange_summary", "1")
        eventually(lambda: done("exchange") == len(TALK))


def test_the_service_goes_on_once_another_process_has_raised_the_limit(cli: CommandLine, write: Write) -> None:
    with ChatServer(otherwise=lambda _: Says('{"summary": "About the zoo.", "title": "The zoo"}')) as model:
        named = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": model.url, "HARKEN_LLM__API_KEY": "k"}
        at_once = {"REST_SECONDS": "0", "SUMMARY_POLL_SECONDS": "1", "GENTLE": "false"}
        work = {f"HARKEN_WORKER__{key}": value for key, value in at_once.items()}
        paid = replace(cli, settings={**cli.settings, **named, **work})
        paid("config", "set", "llm.max_usd_per_day", "0.000001")
        paid("core", "set", "user", "name", "Ada")
        with Harken(cli.home, env=paid.settings, settings={"embedder": "none"}) as harken:
            harken.record_message("zoo", "user", TALK[0]["content"])
            harken.end_exchange("zoo")
        with paid.running("worker", "run") as service:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not paid.status()["workers"][1]["halted"] and time.monotonic() < deadline:
                time.sleep(0.2)
            paid("config", "set", "llm.max_usd_per_day", "5")
            while not model.requests and time.monotonic() < deadline:
                time.sleep(0.2)
            service.send_signal(signal.SIGTERM)
            assert service.wait(TIMEOUT_SECONDS) == 0
        assert model.requests


def test_without_a_model_summaries_are_made_all_the_same(cli: CommandLine, write: Write) -> None:
    old = [{**line, "ts": "2024-05-01T10:00:00Z"} for line in TALK]
    cli("import", "jsonl", write("talk.jsonl", old))
    assert cli.status()["workers"][1]["waiting"] == 4
    with cli.running("worker", "run") as service:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while cli.status()["workers"][2]["done"] < len(TALK) and time.monotonic() < deadline:
            time.sleep(0.2)
        service.send_signal(signal.SIGTERM)
        assert service.wait(TIMEOUT_SECONDS) == 0
    assert cli("worker", "run", "--until-idle").out == "Embedded 0 texts.\n"
    assert "summaries      4 of exchanges, 4 of conversations, 0 waiting\n" in cli("status").out


def test_a_summarizer_is_switched_off_for_every_process_and_on_again(cli: CommandLine, write: Write) -> None:
    old = [{**line, "ts": "2024-05-01T10:00:00Z"} for line in TALK]
    cli("import", "jsonl", write("talk.jsonl", old))
    assert cli("summarizer", "exchange", "off").out == (
        "Exchange Summarizer: OFF\n"
        "  Progress: 0/4 exchanges\n"
        "  Completed: 0, Failed: 0\n"
        "  Spend: $0.00\n"
        "⚠ Warning: 4 exchanges await a summary (it is OFF). Switch it on: harken summarizer exchange on\n"
    )
    assert cli("worker", "run", "--until-idle").out.startswith("Summarized 0 exchanges and 4 conversations.\n")
    assert "worker         exchange summaries: off, 4 waiting" in cli("status").out
    cli("summarizer", "on")
    assert cli("worker", "run", "--until-idle").out.startswith("Summarized 4 exchanges and 0 conversations.\n")
    reports = cli("summarizer", "--json").json()
    assert [(each["name"], each["enabled"], each["done"]) for each in reports] == [
        ("conversation", True, 4),
        ("exchange", True, 4),
    ]


def test_embedding_is_switched_off_and_on_again(remote: CommandLine, write: Write) -> None:
    remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed")
    off = remote("embeddings", "off").out
    assert off.startswith("Embedding Pipeline: OFF\n  Progress: 0/4 embeddings\n  Completed: 0, Failed: 0\n")
    assert "⚠ Warning: 4 texts await embedding (it is OFF). Switch it on: harken embeddings on\n" in off
    assert remote("worker", "run", "--until-idle").out == "Embedded 0 texts.\n"
    remote("embeddings", "on")
    assert remote("worker", "run", "--until-idle").out == "Embedded 4 texts.\n"


def test_a_summarizer_is_shown_by_itself_and_all_with_the_pipeline(cli: CommandLine, write: Write) -> None:
    cli("import", "jsonl", write("talk.jsonl", [{**line, "ts": "2024-05-01T10:00:00Z"} for line in TALK]))
    waiting = cli("summarizer", "conversation").out
    assert waiting.startswith("Conversation Summarizer: WAITING\n  Progress: 0/4 conversations\n")
    assert "no worker runs here. Do it now: harken worker run --until-idle\n" in waiting
    cli("worker", "run", "--until-idle")
    assert cli("summarizer").out == (
        "Conversation Summarizer: IDLE\n"
        "  Completed: 4, Failed: 0\n"
        "  Spend: $0.00\n"
        "All conversations are summarized. Worker is idle.\n"
        "\n"
        "Exchange Summarizer: IDLE\n"
        "  Completed: 4, Failed: 0\n"
        "  Spend: $0.00\n"
        "All exchanges are summarized. Worker is idle.\n"
        "\n"
        "Embedding Pipeline: NO MODEL (see harken embeddings for details)\n"
    )
    assert "workers        segment IDLE, exchange IDLE, conversation IDLE\n" in cli("status").out
    assert "spend          nothing; no language model was called\n" in cli("status").out


def test_what_is_being_summarized_is_named(cli: CommandLine, write: Write) -> None:
    cli("import", "jsonl", write("talk.jsonl", [{**TALK[0], "ts": "2024-05-01T10:00:00Z"}]))
    (exchange,) = {message["exchange_id"] for message in cli.search("ocelots")}
    with ChatServer(otherwise=lambda _asked: Says("Too late.", delay_seconds=TIMEOUT_SECONDS)) as model:
        named = {"HARKEN_LLM__MODEL": "openai:any", "HARKEN_LLM__URL": model.url, "HARKEN_LLM__API_KEY": "unused"}
        with replace(cli, settings={**cli.settings, **named}).running("summarizer", "backfill", "--yes"):
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not model.requests and time.monotonic() < deadline:
                time.sleep(0.05)
            shown = cli("summarizer", "exchange").out
    assert shown.startswith("Exchange Summarizer: RUNNING\n  Progress: 0/1 exchanges\n")
    assert f"  Current: exchange_id={exchange}\n" in shown


def test_what_failed_is_shown_with_the_time_of_its_next_try(
    remote: CommandLine, write: Write, server: EmbeddingServer
) -> None:
    server.script(*[Reply(status=500)] * 9)
    remote("import", "jsonl", write("talk.jsonl", TALK), settings={"HARKEN_EMBEDDING__DIMS": "64"})
    shown = remote("embeddings").out
    assert "⚠ Retry queue: 4 items (next retry " in shown


def test_the_status_says_what_is_tried_again_and_why_work_stands_still(
    remote: CommandLine, write: Write, server: EmbeddingServer
) -> None:
    server.script(*[Reply(status=500)] * 9)
    remote("import", "jsonl", write("talk.jsonl", TALK), settings={"HARKEN_EMBEDDING__DIMS": "64"})
    lines = remote("status").out.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("worker ") and "embeddings: on" in line)
    assert lines[place + 1].strip().startswith("4 tried again after a failure, the first at ")
    settings = {
        "HARKEN_EMBEDDING__DIMS": "32",
        "HARKEN_EMBEDDING__USD_PER_MILLION": "1000",
        "HARKEN_LLM__MAX_USD_PER_DAY": "0.000001",
    }
    remote("worker", "run", "--until-idle", settings=settings)
    assert "\n                 stands still: llm.max_usd_per_day is reached" in remote("status", settings=settings).out


def test_what_was_done_is_told_to_scripts(remote: CommandLine, write: Write) -> None:
    remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed")
    done = remote("worker", "run", "--until-idle", "--json").json()
    assert done["summarized"].keys() == {"segment", "exchange", "conversation"}
    assert done["embedded"] == remote.status()["embedded"] > 0
    assert "together with --until-idle" in remote.fails("worker", "run", "--json", code=2)
    again = remote("reindex", "--json").json()
    assert again == {"waiting": done["embedded"], "embedded": done["embedded"], "failed": 0}
    assert remote("reindex", "--from-journal", "--json").json() == {"messages": len(TALK)}
    assert remote("worker", "retry", "--json").json() == {"waiting": 0}


def test_switching_all_on_switches_embedding_on_too_and_off_leaves_it(remote: CommandLine) -> None:
    remote("embeddings", "off")
    remote("summarizer", "off")
    states = {each["name"]: each["state"] for each in remote("worker", "status", "--json").json()["workers"]}
    assert states == {"segment": "IDLE", "exchange": "OFF", "conversation": "OFF", "embeddings": "OFF"}
    remote("summarizer", "conversation", "on")
    assert remote("embeddings").out.startswith("Embedding Pipeline: OFF\n")
    remote("summarizer", "on")
    assert remote("embeddings").out.startswith("Embedding Pipeline: IDLE\n")


def test_embeddings_are_counted_by_what_they_are_of(remote: CommandLine, write: Write) -> None:
    remote("import", "jsonl", write("talk.jsonl", [{**line, "ts": "2024-05-01T10:00:00Z"} for line in TALK]))
    remote("worker", "run", "--until-idle")
    shown = remote("embeddings").out
    assert "  Total embeddings: 12 (" in shown
    assert "    - Conversation summaries: 4\n    - Exchange summaries: 4\n    - Messages: 4\n" in shown
    (facts,) = remote("embeddings", "--json").json()
    assert facts["vectors"]["exchange"] == {"embedded": 4, "waiting": 0}
    assert "No embedding model is set" in remote("embeddings", settings={"HARKEN_EMBEDDER": "none"}).out


@pytest.mark.parametrize(
    ("words", "forms"),
    [
        (["summarizer", "perhaps"], "harken summarizer [conversation|exchange] [on|off] | backfill"),
        (["summarizer", "on", "off"], "harken summarizer [conversation|exchange] [on|off] | backfill"),
        (["summarizer", "on", "exchange"], "harken summarizer [conversation|exchange] [on|off] | backfill"),
        (["summarizer", "conversation", "exchange"], "harken summarizer [conversation|exchange] [on|off] | backfill"),
        (["embeddings", "exchange"], "harken embeddings [on|off|rebuild [conversations|exchanges]]"),
        (["embeddings", "rebuild", "everything"], "harken embeddings [on|off|rebuild [conversations|exchanges]]"),
    ],
)
def test_a_form_that_is_none_is_refused_with_the_right_ones(cli: CommandLine, words: list[str], forms: str) -> None:
    said = cli.fails(*words, code=2)
    assert said == f"'{' '.join(words[1:])}' is not understood here. Say: {forms}"


def test_what_is_too_small_for_a_summary_gets_none(cli: CommandLine, write: Write) -> None:
    lines = [
        {
            "conversation": name,
            "role": role,
            "content": f"{role} {number} says that the tap of {name} drips",
            "ts": "2024-05-01T10:00:00Z",
        }
        for name, count in (("short", 1), ("long", 3))
        for number in range(count)
        for role in ("user", "assistant", "assistant")[: count if number else 3]
    ]
    lines.append({**lines[0], "content": "And does the tap of the bath drip as well?"})
    cli("import", "jsonl", write("talk.jsonl", lines))
    cli("config", "set", "worker.min_messages_for_exchange_summary", "3")
    cli("config", "set", "worker.min_exchanges_for_conversation_summary", "3")
    cli("worker", "run", "--until-idle")
    made = {each["name"]: each["done"] for each in cli("worker", "status", "--json").json()["workers"]}
    # Of two and three exchanges; four exchanges have three messages.
    assert (made["exchange"], made["conversation"]) == (4, 1)
    cli("config", "unset", "worker.min_messages_for_exchange_summary")
    cli("config", "unset", "worker.min_exchanges_for_conversation_summary")
    cli("worker", "run", "--until-idle")
    made = {each["name"]: each["done"] for each in cli("worker", "status", "--json").json()["workers"]}
    assert (made["exchange"], made["conversation"]) == (5, 2)


def test_a_text_that_fails_is_tried_again_as_often_as_is_set(
    remote: CommandLine, write: Write, server: EmbeddingServer
) -> None:
    well = server.answer

    def answer(request: Request) -> Reply:
        is_bad = any("pangolins" in text for text in request.body["input"])
        return Reply(400, error_body(400)) if is_bad else well(request)

    server.answer = answer  # type: ignore[method-assign]
    remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed")
    once = {"HARKEN_WORKER__EMBEDDING_MAX_RETRIES": "1"}
    remote("worker", "run", "--until-idle", code=1, settings=once)
    # Those that shared its batch are not given up with it.
    assert "EndpointError after 2 attempts" in remote("worker", "status").out
    assert remote.status()["embedded"] == 3


def test_one_call_of_an_endpoint_takes_a_hundred_texts(
    remote: CommandLine, write: Write, server: EmbeddingServer
) -> None:
    lines = [
        {"conversation": "c", "role": "user", "content": f"Sentence {number} about the animals in the zoo"}
        for number in range(100)
    ]
    remote("import", "jsonl", write("talk.jsonl", lines))
    assert max(len(request.body["input"]) for request in server.requests) == 100
