"""What stands first: what answers, not who asked the same; what is near, not what neither list ranks high."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine
from harken.engine import Harken
from harken.providers.embedder import Vectors
from harken.testing import HashingEmbedder
from repositories import new_repository

RECORD = "For the record: our staging cluster is called Zanzibar, and Priya owns it."
TALKS = {
    "told": [RECORD, "Noted."],
    "asked": ["Who owns the staging cluster Zanzibar?", "Noted."],
    "deploying": ["What do we deploy on?", "Noted."],
    "tools": ["Biome reformats the prisma files on every commit.", "I see."],
    "yesterday": ["which tool kept reformatting the prisma files", "Let me look."],
    "russian": ["Кто дежурит в пятницу?", "Понял."],
    "duty": ["В пятницу дежурит Илья.", "Понял."],
}
DECISION = "We deploy on Thursdays, decided with operations."


@pytest.fixture
def remembering(cli: CommandLine, tmp_path: Path) -> CommandLine:
    lines = [
        {"conversation": name, "role": role, "content": text, "ts": f"2026-05-0{day}T09:00:00Z"}
        for day, (name, said) in enumerate(TALKS.items(), start=1)
        for role, text in zip(("user", "assistant"), said, strict=True)
    ]
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", "jsonl", tmp_path / "talks.jsonl")
    cli("memory", "add", DECISION, "--category", "decision")
    return cli


@pytest.mark.parametrize(
    ("query", "answer", "question"),
    [
        ("who owns the staging cluster", RECORD, TALKS["asked"][0]),
        ("Who owns the staging cluster Zanzibar?", RECORD, TALKS["asked"][0]),
        ("What do we deploy on?", DECISION, TALKS["deploying"][0]),
        ("which tool reformats prisma files", TALKS["tools"][0], TALKS["yesterday"][0]),
        ("кто дежурит в пятницу", TALKS["duty"][0], TALKS["russian"][0]),
    ],
)
def test_a_statement_stands_before_a_question_that_asks_the_same(
    remembering: CommandLine, query: str, answer: str, question: str
) -> None:
    hits = remembering.search(query)
    assert hits[0]["text"] == answer
    assert question in [hit["text"] for hit in hits]
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert [hit["text"] for hit in remembering.search(query, "--limit", "1")] == [answer]


def test_a_question_that_nothing_answers_stays_where_it_is(remembering: CommandLine) -> None:
    remembering("forget", "--conversation", remembering.search(RECORD)[0]["conversation_id"], "--yes")
    assert remembering.search("who owns the staging cluster")[0]["text"] == TALKS["asked"][0]


QUERY = "who gets the weekly income report"
NEAR = "Each Friday the finance team in Porto receives the revenue spreadsheet"
MIDDLING = ("Weekly, as it was, the report on what had failed", "Weekly, as they are, the report of what was fetched")
TEXTS = {
    NEAR: 0.62,
    **dict.fromkeys(MIDDLING, 0.58),
    **{f"gets weekly income report {n}": 0.2 for n in range(10)},
    **{f"Somebody is sent a summary of sales, number {n}": 0.59 for n in range(12)},
    **{
        f"The report which nobody reads any more, however long it may have become by now, is {n}": 0.2 for n in range(9)
    },
}


class Judging(HashingEmbedder):
    """Finds each text as near to the query as it is told to."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.space.dims), dtype=np.float32)
        for row, text in enumerate(texts):
            near = TEXTS.get(text, 1.0)
            vectors[row, 0], vectors[row, 1 + len(text) % (self.space.dims - 1)] = near, (1 - near**2) ** 0.5
        return vectors


def test_what_is_near_stands_before_what_neither_words_nor_meaning_rank_high(ready_home: Path) -> None:
    with Harken(ready_home, env={}, embedder=Judging(threshold=0.6)) as harken:
        for text in TEXTS:
            harken.record_message(f"of {text}", "user", text)
        harken.embed()
        hits = harken.search(QUERY, limit=len(TEXTS)).hits
    order = [hit.entry.text for hit in hits]
    found = {hit.entry.text: hit for hit in hits}
    assert (found[NEAR].vector_rank, found[NEAR].keyword_rank) == (1, None)
    for text in MIDDLING:
        assert min(found[text].vector_rank or 100, found[text].keyword_rank or 100) >= 10
        assert order.index(NEAR) < order.index(text)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    # What has the words themselves is there all the same, however far it lies.
    assert sum(text.startswith("gets weekly income report") for text in order) == 10


def test_what_is_called_as_was_asked_for_comes_before_modules_and_all_that_calls_it(
    tmp_path: Path, engine_settings: dict[str, Any]
) -> None:
    repository = new_repository(tmp_path / "shop")
    callers = "".join(f"def caller_{at}():\n    return parse_ledger()\n\n\n" for at in range(20))
    about = '"""parse_ledger reads; parse_ledger is the one entry."""\n\n\n'
    ledger = f"{about}def parse_ledger(text: str) -> list[str]:\n    return text.splitlines()\n"
    repository.commit("first", ledger_py=ledger, parse_ledger_py=f'"""parse_ledger script."""\n\n\n{callers}')
    with Harken(tmp_path / "home", settings=engine_settings, embedder=HashingEmbedder(), env={}) as harken:
        harken.code.index(repository.root)
        harken.embed()
        for asked in ("parse_ledger", "parse_ledger()", "ledger.parse_ledger"):
            found = harken.code.search(asked, limit=3)
            assert (found.items[0].metadata["qualified_name"], len(found.hits)) == ("ledger.parse_ledger", 3)
            assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
