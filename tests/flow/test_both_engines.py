"""Every command does the same on a file and on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from command_line import CommandLine, as_variables
from harken.testing import EmbeddingServer

TALK = (
    ("user", "Which bread keeps longest in the cupboard of our kitchen?"),
    ("assistant", "Sourdough keeps longest, about a week, wrapped in linen."),
    ("user", "And which cheese would you serve beside it to the guests?"),
    ("assistant", "An old gouda, cut an hour before the guests arrive."),
    ("tool", "grep -r gouda recipes"),
)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=64) as running:
        yield running


@pytest.fixture
def harken(cli: CommandLine, engine_settings: dict[str, Any], server: EmbeddingServer) -> CommandLine:
    """The command line on a store of each engine, with an embedding endpoint."""
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
    }
    return replace(cli, settings={**settings, **as_variables(engine_settings)})


@pytest.fixture
def as_owner(request: pytest.FixtureRequest, engine_settings: dict[str, Any]) -> dict[str, str]:
    """Variables that choose the same store, as whoever owns its tables."""
    if not engine_settings:
        return {}
    owner = request.getfixturevalue("postgres").url.username
    url = make_url(engine_settings["store"]).set(username=owner)
    return {"HARKEN_STORE": url.render_as_string(hide_password=False)}


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Two conversations to import."""
    lines = [
        {"conversation": name, "role": role, "content": text, "ts": f"2024-05-0{day}T10:0{minute}:00Z", "project": name}
        for day, name in ((1, "kitchen"), (2, "party"))
        for minute, (role, text) in enumerate(TALK)
    ]
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_import_search_and_a_second_import(harken: CommandLine, talk: Path) -> None:
    assert harken("import", talk, "--json").json()["added"] == 10
    assert harken("import", talk, "--json").json()["added"] == 0
    status = harken.status()
    assert (status["messages"], status["conversations"], status["entries"]) == (10, 2, 10)
    assert (status["embedded"], status["queue"], status["failed"]) == (8, 0, 0)
    found = harken.search("gouda")
    assert {hit["text"] for hit in found[:2]} == {TALK[3][1]}
    assert [hit["role"] for hit in harken.search("gouda", "--role", "tool")] == ["tool", "tool"]
    inside = harken.search("sourdough", "--project", "party")
    assert {hit["conversation_id"] for hit in inside} == {inside[0]["conversation_id"]}
    assert harken.search("sourdough", "--until", "2024-04-30") == []
    assert "Sourdough" in harken("show", inside[0]["id"]).out
    assert harken("doctor").out.startswith("All agrees")


def test_the_worker_embeds_what_waits(harken: CommandLine, talk: Path) -> None:
    harken("import", talk, "--no-embed")
    assert harken.status()["embedded"] == 0
    harken("summarizer", "off")
    harken("worker", "run", "--until-idle")
    assert harken.status()["embedded"] == 8
    assert harken("worker", "status", "--json").json()["queue"] == 0


def test_embedding_everything_again_by_other_rules(harken: CommandLine, server: EmbeddingServer, talk: Path) -> None:
    harken("import", talk)
    before = len(server.requests)
    said = harken("reindex", settings={"HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "12"}).out
    waiting = harken.status()["embedded"]
    assert said == f"Embedded {waiting} texts of {waiting} again.\n"
    assert 0 < waiting < 8
    assert len(server.requests) > before
    assert harken("doctor").out.startswith("All agrees")
    harken("reindex")
    assert harken.status()["embedded"] == 8


def test_forgetting(harken: CommandLine, talk: Path) -> None:
    harken("import", talk)
    first = harken.search("linen")[0]
    harken("forget", first["id"], "--yes")
    assert first["id"] not in [hit["id"] for hit in harken.search("linen")]
    harken("forget", "--conversation", first["conversation_id"], "--yes")
    status = harken.status()
    assert (status["messages"], status["conversations"]) == (5, 1)
    assert harken("import", talk, "--json").json()["added"] == 0
    assert harken("doctor").out.startswith("All agrees")


def test_a_backup_or_what_makes_one(harken: CommandLine, talk: Path, tmp_path: Path) -> None:
    harken("import", talk, "--no-embed")
    if "HARKEN_STORE" in harken.settings:
        said = harken.fails("backup", tmp_path / "backup.tar.gz", code=2)
        assert "pg_dump --format=custom --file=FILE OWNER'S-URL" in said
    else:
        harken("backup", tmp_path / "backup.tar.gz")
    assert (tmp_path / "backup.tar.gz").exists() == ("HARKEN_STORE" not in harken.settings)


def test_migrating_again_changes_nothing(harken: CommandLine, as_owner: dict[str, str], talk: Path) -> None:
    harken("import", talk, "--no-embed")
    before = harken("migrate", "--json", settings=as_owner).json()
    assert before["before"] == before["schema"]
    assert harken.status()["messages"] == 10
