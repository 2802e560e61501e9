"""Settings that name an OpenAI-compatible endpoint, from the file to the search, against a local server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import CommandLine
from harken.testing import EmbeddingServer

SETTINGS = """
embedder = "openai-compatible"

[embedding]
url = "{url}"
model = "{model}"
apiKey = "{key}"
min_message_tokens = 3
threshold = 0.2
timeout_seconds = 120
"""
KEY = "local-key-of-the-test"
GO_ON = "Go on: harken worker run --until-idle"
QUERY = "which cheese would you serve"
# Nothing listens there.
DEAD_URL, DEAD = "HARKEN_EMBEDDING__URL", "http://127.0.0.1:9/v1"
TALK = (
    ("user", "Which bread keeps longest in the cupboard of our kitchen?"),
    ("assistant", "Sourdough keeps longest, about a week, wrapped in linen."),
    ("user", "And which cheese would you serve beside it to the guests?"),
    ("assistant", "An old gouda, cut an hour before the guests arrive."),
    ("user", "ok"),
)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=128, api_key=KEY) as running:
        yield running


@pytest.fixture
def configured(cli: CommandLine, server: EmbeddingServer, tmp_path: Path) -> CommandLine:
    """A home whose `harken.toml` names the server, and a conversation beside it that is to be imported."""
    lines = [{"conversation": "kitchen", "role": role, "content": text} for role, text in TALK]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    configure(cli, server, "first")
    return replace(cli, settings={})


def configure(cli: CommandLine, server: EmbeddingServer, model: str) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "harken.toml").write_text(SETTINGS.format(url=server.url, model=model, key=KEY), encoding="utf-8")


def test_an_import_embeds_and_a_search_goes_by_meaning(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    facts = configured("import", "jsonl", tmp_path / "talk.jsonl", "--json").json()
    assert (facts["added"], facts["embedded"]) == (5, 4)
    status = configured.status()
    assert (status["embedded"], status["embeddable"], status["queue"]) == (4, 4, 0)
    assert "first" in status["space"]
    sent = [text for request in server.requests for text in request.body["input"]]
    assert sum("Sourdough" in text for text in sent) == 1
    assert {request.authorization for request in server.requests} == {f"Bearer {KEY}"}
    outcome = configured("search", QUERY, "--mode", "semantic", "--json")
    best = outcome.json()["hits"][0]
    assert outcome.err == ""
    assert best["text"].startswith("And which cheese")
    assert best["similarity"] > 0.4
    assert best["vector_rank"] == 1


def test_a_server_that_is_down_leaves_the_words_and_is_said_to_be_down(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    configured("summarizer", "off")
    configured("import", "jsonl", tmp_path / "talk.jsonl")
    server.stop()
    outcome = configured("search", "gouda")
    assert "An old gouda" in outcome.out
    assert outcome.err.startswith("Searched by words alone: http://127.0.0.1:")
    assert "cannot be reached" in outcome.err
    grown = tmp_path / "more.jsonl"
    grown.write_text(json.dumps({"conversation": "x", "role": "user", "content": "The bakery has moved to the square"}))
    later = configured("import", "jsonl", grown)
    assert later.out.startswith("1 new message in 1 conversation")
    assert "Not embedded, so search goes by words alone for now" in later.err
    assert configured.search("bakery")[0]["text"] == "The bakery has moved to the square"
    assert configured.status()["queue"] == 1
    server.start()
    configure(configured, server, "first")
    assert configured("worker", "run", "--until-idle").out == "Embedded 1 text.\n"


def test_every_search_says_what_share_is_embedded_until_all_is(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    configured("summarizer", "off")
    configured("import", "jsonl", tmp_path / "talk.jsonl")
    assert configured("search", "gouda").err == ""
    grown = tmp_path / "more.jsonl"
    grown.write_text(json.dumps({"conversation": "x", "role": "user", "content": "The bakery has moved to the square"}))
    assert configured("import", "jsonl", grown, "--no-embed").err.startswith(f"1 text waits to be embedded. {GO_ON}\n")
    half = f"80 % embedded; the rest is found by words alone. {GO_ON}"
    assert configured("search", "gouda").err == f"{half}\n"
    assert configured("search", "gouda", "--json").json()["notes"] == [half]
    assert half in configured("rag", "test", "Which cheese would you serve?").out
    # Else a chat embeds it by itself, before or after the search.
    configured("embeddings", "off")
    off = half.replace("Go on: ", "Embedding is switched off. Go on: harken embeddings on, and then: ")
    assert off in configured("chat", stdin="/search gouda\n").err
    configured("embeddings", "on")
    configured("worker", "run", "--until-idle")
    assert configured("search", "gouda").err == ""


def test_whoever_waits_long_for_embedding_is_told_how_long(configured: CommandLine, tmp_path: Path) -> None:
    said = ({"conversation": "c", "role": "user", "content": f"Barrel {number} of cider"} for number in range(2000))
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said), encoding="utf-8")
    told = configured("import", "jsonl", tmp_path / "many.jsonl").err
    assert re.search(
        rf"^2,000 texts to embed: about \d+ minutes? more\. .* Ctrl-C stops it; go on: {GO_ON[7:]}$", told, re.M
    )
    assert "\nmessages       2,000 in 1 conversation, 0 projects\n" in configured("status").out
    assert "to embed" not in configured("import", "jsonl", tmp_path / "talk.jsonl").err


def test_a_search_where_nothing_is_recorded_says_how_to_begin(configured: CommandLine) -> None:
    outcome = configured("search", "gouda")
    assert outcome.out == "Nothing was found.\n"
    assert outcome.err == "Nothing is recorded yet. Bring in what there is: harken import\n"


def test_the_key_of_a_new_endpoint_is_not_sent_to_the_one_before(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    configured("import", "jsonl", tmp_path / "talk.jsonl")
    asked = len(server.requests)
    with EmbeddingServer(dims=64, api_key="key-of-the-other") as other:
        url = other.url.replace("127.0.0.1", "localhost")
        text = SETTINGS.format(url=url, model="other", key="key-of-the-other")
        (configured.home / "harken.toml").write_text(text, encoding="utf-8")
        assert "An old gouda" in configured("search", "gouda").out
        assert [request.authorization for request in server.requests[asked:]] == [""]
        # The same endpoint still gets its own, by whichever model of it.
        configured("worker", "run", "--until-idle")
    configure(configured, server, "second")
    configured("worker", "run", "--until-idle")
    configure(configured, server, "first")
    outcome = configured("search", QUERY, "--mode", "semantic", "--json")
    assert outcome.json()["hits"][0]["similarity"] > 0.4
    assert {request.authorization for request in server.requests[asked + 1 :]} == {f"Bearer {KEY}"}


def test_a_key_that_is_refused_is_said_so_and_is_in_no_file_but_the_settings(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    outcome = configured("import", tmp_path / "talk.jsonl", settings={"HARKEN_EMBEDDING__API_KEY": "wrong"})
    assert "answers with status 401: set embedding.api_key" in outcome.err
    configured("worker", "run", "--until-idle")
    holding = [file.name for file in configured.home.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert holding == ["harken.toml"]


def test_another_model_fills_up_while_the_old_one_answers_and_then_takes_over(
    configured: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    configured("summarizer", "off")
    configured("import", "jsonl", tmp_path / "talk.jsonl")
    configure(configured, server, "second")
    server.requests.clear()
    # A new space begins to fill at the first run that has work; until it is full, the old one answers.
    meanwhile = configured("search", QUERY, "--mode", "semantic", "--json", settings={DEAD_URL: DEAD})
    assert meanwhile.err == ""
    assert [request.body["model"] for request in server.requests] == ["first"]
    assert meanwhile.json()["hits"][0]["text"].startswith("And which cheese")
    configured("worker", "run", "--until-idle")
    status = configured.status()
    assert "second" in status["space"]
    assert (status["filling_space"], status["embedded"], status["queue"]) == (None, 4, 0)
    server.requests.clear()
    after = configured.search(QUERY, "--mode", "semantic")
    assert {request.body["model"] for request in server.requests} == {"second"}
    assert [hit["id"] for hit in after] == [hit["id"] for hit in meanwhile.json()["hits"]]
    assert configured("doctor").out.startswith("All agrees")
