"""`harken embeddings rebuild`: what it says, what it asks, what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, as_variables
from harken.testing import EmbeddingServer

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
TALK = [
    {
        "conversation": f"c{number}",
        "role": "user",
        "content": f"A sentence of a dozen words about {animal} in the zoo",
        "ts": "2024-05-01T10:00:00Z",
    }
    for number, animal in enumerate(("ocelots", "pangolins", "quokkas"))
]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def harken(cli: CommandLine, server: EmbeddingServer, write: Write, engine_settings: dict[str, Any]) -> CommandLine:
    """Three conversations, summarized and embedded."""
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
        "HARKEN_EMBEDDING__DIMS": "64",
    }
    told = CommandLine(cli.home, cli.person, {**settings, **as_variables(engine_settings)})
    told("import", "jsonl", write("talk.jsonl", TALK))
    told("worker", "run", "--until-idle")
    server.requests.clear()
    return told


def inputs(server: EmbeddingServer) -> list[str]:
    return [text for request in server.requests for text in request.body["input"]]


def test_all_of_it_is_embedded_again_after_it_was_said_what_that_means(
    harken: CommandLine, server: EmbeddingServer
) -> None:
    done = harken("embeddings", "rebuild", "--yes")
    assert done.out == "Embeddings recreated: 9 of 9.\n"
    told = done.err.splitlines()
    assert told[0].startswith("⚠ WARNING: This will delete and recreate ALL embeddings.")
    assert told[1:6] == [
        "This operation will:",
        "  - Delete 9 existing embeddings",
        "  - Re-embed 3 conversation summaries",
        "  - Re-embed 3 exchange summaries",
        "  - Re-embed 3 messages",
    ]
    # The endpoint of the test listens on this machine.
    assert told[6].startswith("  - Cost nothing: openai-compatible/words/64 runs on this machine (about ")
    # The summary of an exchange of one message says what that says, and is sent once with it.
    assert len(inputs(server)) == len(set(inputs(server))) == 6
    assert harken.search("wombats in the zoo", "--mode", "semantic")
    assert harken("doctor").out.startswith("All agrees")


def test_a_few_words_that_keep_no_vector_are_not_counted_as_missing(harken: CommandLine, write: Write) -> None:
    harken("import", "jsonl", write("brief.jsonl", [{**TALK[0], "content": "Use tabs"}]))
    assert harken("reindex").out == "Embedded 9 texts of 9 again.\n"
    assert harken("embeddings", "rebuild", "--yes").out == "Embeddings recreated: 9 of 9.\n"


@pytest.mark.parametrize("kind", ["conversations", "exchanges"])
def test_one_kind_leaves_the_vectors_of_the_others(harken: CommandLine, server: EmbeddingServer, kind: str) -> None:
    facts = harken("embeddings", "rebuild", kind, "--yes", "--json").json()
    source = kind.removesuffix("s")
    assert (facts["deleted"], facts["texts"], facts["waiting"], facts["embedded"]) == (3, {source: 3}, 3, 3)
    assert facts["price_usd"] == 0
    assert len(inputs(server)) == 3
    assert harken.status()["embedded"] == 9


def test_where_nobody_can_answer_nothing_is_changed(harken: CommandLine, server: EmbeddingServer) -> None:
    refused = harken("embeddings", "rebuild", code=2, stdin="yes\n")
    assert refused.err.endswith(
        "harken: Nothing was changed, for nobody can answer here. To do it all the same, add --yes.\n"
    )
    assert refused.out == ""
    assert (harken.status()["embedded"], inputs(server)) == (9, [])


def test_while_the_pipeline_is_off_texts_wait(harken: CommandLine, server: EmbeddingServer) -> None:
    harken("embeddings", "off")
    said = harken("embeddings", "rebuild", "exchanges", "--yes").out
    assert said == ("Embeddings cleared. 3 texts wait, for the pipeline is OFF.\nSwitch it on: harken embeddings on\n")
    assert (harken.status()["embedded"], harken.status()["queue"], inputs(server)) == (6, 3, [])
    harken("embeddings", "on")
    assert harken("worker", "run", "--until-idle").out.endswith("Embedded 3 texts.\n")


def test_a_price_that_is_known_is_told(harken: CommandLine) -> None:
    settings = {
        "HARKEN_EMBEDDING__URL": "https://api.openai.com/v1",
        "HARKEN_EMBEDDING__MODEL": "text-embedding-3-small",
        "HARKEN_EMBEDDING__API_KEY": "unused",
    }
    refused = harken("embeddings", "rebuild", code=2, settings=settings)
    assert "  - Cost approximately $0.00" in refused.err


def test_without_a_model_there_is_nothing_to_rebuild(cli: CommandLine) -> None:
    assert "name no embedding model" in cli.fails("embeddings", "rebuild", "--yes", code=2)
