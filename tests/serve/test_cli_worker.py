"""`harken worker`: embedding against a local server, failures, and the service."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine
from harken.testing import EmbeddingServer, Reply

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
    assert "embeddings: on, 0 waiting, 4 done, 0 given up\n" in remote("worker", "status").out


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
    assert "Embedding stopped; everything is recorded and searchable by word." in (tmp_path / "err").read_text()
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
    assert cli("summarizer", "exchange", "off").out == "exchange summaries: off, 4 waiting, 0 done, 0 given up\n"
    assert cli("worker", "run", "--until-idle").out.startswith("Summarized 0 exchanges and 4 conversations.\n")
    assert "worker         exchange summaries: off, 4 waiting" in cli("status").out
    cli("summarizer", "on")
    assert cli("worker", "run", "--until-idle").out.startswith("Summarized 4 exchanges and 0 conversations.\n")
    reports = cli("summarizer", "--json").json()
    assert [(each["name"], each["enabled"], each["done"]) for each in reports] == [
        ("exchange", True, 4),
        ("conversation", True, 4),
    ]


def test_embedding_is_switched_off_and_on_again(remote: CommandLine, write: Write) -> None:
    remote("import", "jsonl", write("talk.jsonl", TALK), "--no-embed")
    assert remote("embeddings", "off").out == "embeddings: off, 4 waiting, 0 done, 0 given up\n"
    assert remote("worker", "run", "--until-idle").out == "Embedded 0 texts.\n"
    remote("embeddings", "on")
    assert remote("worker", "run", "--until-idle").out == "Embedded 4 texts.\n"


@pytest.mark.parametrize("words", [["summarizer", "perhaps"], ["embeddings", "exchange"], ["summarizer", "on", "off"]])
def test_a_switch_that_is_none_is_refused(cli: CommandLine, words: list[str]) -> None:
    assert "Say on or off" in cli.fails(*words, code=2)
