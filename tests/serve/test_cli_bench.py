"""`harken bench mine`: what it prints, what it leaves alone, and how it ends early."""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine
from documented import PAGES, blocks
from harken.testing import EmbeddingServer, Reply

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
WORDS = (
    ("crimson", "turquoise", "ochre", "violet", "emerald", "silver"),
    ("bicycle", "lantern", "telescope", "accordion", "kettle", "anvil"),
    ("harbour", "attic", "orchard", "chapel", "lighthouse", "tannery"),
)


def talk() -> list[dict[str, str]]:
    lines = []
    for number in range(36):
        colour, thing, place = WORDS[0][number % 6], WORDS[1][number // 6], WORDS[2][(number * 5 + number // 6) % 6]
        texts = {
            "user": f"The {colour} {thing} stands near the {place}.",
            "assistant": "Noted, thank you for telling me so.",
        }
        lines += [
            {
                "conversation": f"day {number // 6}",
                "role": role,
                "content": text,
                "ts": f"2025-05-01T10:{number:02}:00Z",
            }
            for role, text in texts.items()
        ]
    return lines


@pytest.fixture
def harken(cli: CommandLine, write: Write) -> CommandLine:
    cli("import", "jsonl", write("talk.jsonl", talk()))
    return cli


def everything(home: Path) -> dict[str, list[Any]]:
    """Every row of every table."""
    with closing(sqlite3.connect(f"file:{home / 'harken.db'}?mode=ro", uri=True)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE TABLE%'")]
        return {name: database.execute(f"SELECT * FROM [{name}]").fetchall() for name in names}


def test_it_measures_and_leaves_everything_as_it_was(harken: CommandLine) -> None:
    before = everything(harken.home)
    found = harken("bench", "mine", "--limit", "20", "--json").json()
    assert found["asked"] == found["planned"] >= 20
    [first, *_] = found["search"]
    assert (first["kind"], first["fusion"], first["questions"]) == ("all", "learned", 20)
    assert first["recall@10"] > 0.8
    assert first["recall@10 interval"][0] < first["recall@10"] <= first["recall@10 interval"][1]
    assert found["recall"][0]["evidence"] > 0.8
    assert found["recall"][0]["wrong: off topic"].startswith("0 of ")
    # Each question can be looked at: its gold is a message.
    asked = next(each for each in found["questions"] if each["kind"] == "known item")
    shown = harken("show", asked["gold"][0], "--json").json()
    assert asked["query"].split()[-2] in str(shown).lower()
    assert everything(harken.home) == before


def test_people_get_tables_and_what_to_type(harken: CommandLine) -> None:
    harken("config", "set", "search.fusion", "rrf")
    lines = harken("bench", "mine", "--limit", "20").out.splitlines()
    assert lines[0].startswith("20 questions (known item 20), and ")
    assert any(line.startswith("all, rrf ") for line in lines)
    assert any(line.startswith("present ") for line in lines)
    # The page shows a real run: its tables have these heads, and their lines begin like these.
    [shown] = blocks(PAGES["docs/measuring.md"], "text")
    heads = [line for line in shown.splitlines() if line.startswith(("Search ", "Recall "))]
    assert len(heads) == 2
    assert set(heads) <= set(lines)
    assert _beginnings(lines) & _beginnings(shown.splitlines()) >= {"all, rrf", "all, learned", "known item", "present"}
    assert lines[-1] == "No other setting does better beyond doubt."


def _beginnings(lines: Iterable[str]) -> set[str]:
    return {line.split("  ")[0] for line in lines}


def test_too_little_history_is_said_in_one_line(cli: CommandLine, write: Write) -> None:
    cli("import", "jsonl", write("talk.jsonl", talk()[:6]))
    said = cli.fails("bench", "mine", code=2)
    assert said.startswith("Too little history: of 6 messages of people and agents ")
    assert said.endswith("Bring in what there is: harken import")


def test_ctrl_c_prints_what_is_measured_so_far(cli: CommandLine, write: Write, tmp_path: Path) -> None:
    with EmbeddingServer() as server:
        remote = replace(
            cli,
            settings={
                "HARKEN_EMBEDDER": "openai-compatible",
                "HARKEN_EMBEDDING__URL": server.url,
                "HARKEN_EMBEDDING__MODEL": "words",
                "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
                "HARKEN_EMBEDDING__TIMEOUT_SECONDS": "600",
            },
        )
        remote("import", "jsonl", write("talk.jsonl", talk()))
        before = len(server.requests)
        asked = remote("bench", "mine", "--limit", "20", code=2).err
        assert asked.startswith(
            "Up to 20 questions are sent to the endpoint of openai-compatible/words/64: 800 tokens, "
        )
        assert asked.endswith("To do it all the same, add --yes.\n")
        assert all(request.body["input"] == ["How long is a vector?"] for request in server.requests[before:])
        before = len(server.requests)
        # Each question is embedded once: some are answered, and one waits for its vector.
        server.script(*[Reply()] * 4, Reply(delay_seconds=600))
        out, err = (tmp_path / "out").open("w"), (tmp_path / "err").open("w")
        with out, err, remote.running("bench", "mine", "--limit", "20", "--yes", stdout=out, stderr=err) as process:
            wait_for(lambda: len(server.requests) == before + 5)
            process.send_signal(signal.SIGINT)
            wait_for(lambda: "No other setting" in (tmp_path / "out").read_text())
            server.stop()
            assert process.wait(TIMEOUT_SECONDS) == 130
    said = re.match(r"(\d) questions? \(known item \1\), and (\d) prompts", (tmp_path / "out").read_text())
    assert said
    assert f"\nStopped after {int(said[1]) + int(said[2])} of " in (tmp_path / "err").read_text()


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait until something has happened, at most as long as a command may take."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
