"""What was paid for once goes along with an export, and is not bought again in the other store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.storage.tables import segment_summaries, summaries
from harken.testing import ChatServer, HashingEmbedder, Says
from recorded import Clock

MODEL = "openai:any"
TOLD = "The seal of the zeppelin hangar was worn out."
WRITTEN = Says(json.dumps({"summary": TOLD, "title": "A hangar"}))
Open = Callable[..., AbstractContextManager[Harken]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(otherwise=lambda _request: WRITTEN) as running:
        yield running


@pytest.fixture
def opened(tmp_path: Path, clock: Clock, server: ChatServer) -> Open:
    """Opens homes that have the same paid model."""
    prices = {"llm.input_usd_per_million": 1, "llm.output_usd_per_million": 2}
    model = {"llm.model": MODEL, "llm.url": server.url, "llm.api_key": "k", **prices}
    settings = {"embedder": "none", "context.sliding_window": 2, **model}
    return lambda name, **more: Harken(tmp_path / name, env={}, settings={**settings, **more}, now=clock)


def lived_in(harken: Harken, clock: Clock) -> list[str]:
    """A long talk with summaries of every kind, all of them paid for; the ids of what was said."""
    said = []
    for number in range(8):
        said.append(harken.record_message("hangar", "user", f"What drips in hangar {number}, where rain came in?").uid)
        said.append(harken.record_message("hangar", "assistant", f"The seal of hangar {number} is worn out.").uid)
        harken.end_exchange("hangar")
        clock.go_on(seconds=1)
    harken.build_context(harken.chats.session("hangar", "library"), "And the zeppelin?")
    clock.go_on(hours=1)
    harken.background.summarize()
    return said


def kept(harken: Harken) -> list[tuple[Any, ...]]:
    """Every summary with its maker and what is in it."""
    table = summaries.c
    with harken.store.reading() as tx:
        columns = (table.kind, table.item_uid, table.text, table.title, table.model, table.covers, table.created_at)
        made = sorted(tuple(row) for row in tx.connection.execute(tx.select(*columns)))
        rolling = tx.connection.execute(
            tx.select(segment_summaries.c.text, segment_summaries.c.model).where(segment_summaries.c.text != "")
        ).all()
    return [*made, *map(tuple, rolling)]


def test_a_summary_that_was_paid_for_is_never_bought_twice(
    opened: Open, clock: Clock, server: ChatServer, tmp_path: Path, engine_settings: dict[str, Any]
) -> None:
    file, back = tmp_path / "all.jsonl", tmp_path / "back.jsonl"
    with opened("first") as first:
        lived_in(first, clock)
        made = kept(first)
        # Of eight exchanges, their conversation, and what left the window.
        assert len(made) == len(server.requests) == 10
        assert {row[-1] for row in made[-1:]} | {row[4] for row in made[:-1]} == {MODEL}
        assert first.maintenance.export(file).summaries == 10
        context = first.build_context(first.chats.session("hangar", "library"), "And the zeppelin?")
    with opened("second", **engine_settings) as second:
        assert second.import_transcripts("jsonl", [file], as_mine=True).summaries == 10
        assert kept(second) == made
        clock.go_on(hours=2)
        assert second.background.summarize() == {"segment": 0, "exchange": 0, "conversation": 0}
        assert second.background.backfill.count() == 0
        assert len(server.requests) == 10
        hits = second.search("zeppelin", scope=SearchScope(sources=("exchange",)), limit=20).hits
        assert [hit.entry.text for hit in hits] == [TOLD] * 8
        again = second.build_context(second.chats.session("hangar", "library"), "And the zeppelin?")
        assert [layer.name for layer in again.layers] == [layer.name for layer in context.layers]
        assert second.import_transcripts("jsonl", [file], as_mine=True).summaries == 0
        second.maintenance.export(back)
        assert back.read_bytes() == file.read_bytes()


def test_what_was_forgotten_here_does_not_come_back_in_a_summary(opened: Open, clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with opened("first") as first:
        said = lived_in(first, clock)
        first.maintenance.export(file)
    with opened("second") as second:
        second.import_transcripts("jsonl", [file], as_mine=True)
        second.maintenance.forget(second.maintenance.plan_forget(messages=[said[0]]))
        forgotten = kept(second)
        second.import_transcripts("jsonl", [file], as_mine=True)
        assert kept(second) == forgotten
        assert "conversation" not in {row[0] for row in forgotten}
        # What was forgotten before it was made is no reason to make it anew.
        second.background.backfill.run(second.background.backfill.backlog(), Decimal(1))
        second.maintenance.export(tmp_path / "later.jsonl")
        made = kept(second)
    with opened("third") as third:
        third.import_transcripts("jsonl", [tmp_path / "later.jsonl"], as_mine=True)
        assert kept(third) == made


def test_a_strangers_summary_stands_only_with_a_strangers_words(opened: Open, clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with opened("first") as first:
        lived_in(first, clock)
        made = kept(first)
        first.maintenance.export(file)
        false = tmp_path / "false.jsonl"
        false.write_text(file.read_text().replace(TOLD, "All is well.").replace('"covers":"20', '"covers":"21'))
        assert first.import_transcripts("jsonl", [false]).summaries == 0
        assert kept(first) == made
        # It does not matter which conversation a line names: it is of what it sums up.
        lines = [line for line in false.read_text().splitlines() if "summary" in line]
        uid = first.show(json.loads(lines[0])["item_uid"]).conversation.uid
        ends = '{"format":"harken-export","version":2}', json.dumps({"end": "harken-export", "lines": len(lines)})
        elsewhere = [line.replace(f'"conversation":"{uid}"', '"conversation":"elsewhere"') for line in lines]
        elsewhere = [
            line.replace(f'"conversation_uid":"{uid}"', '"conversation_uid":"elsewhere"') for line in elsewhere
        ]
        strange = tmp_path / "strange.jsonl"
        strange.write_text("\n".join([ends[0], *elsewhere, ends[1], ""]))
        assert first.import_transcripts("jsonl", [strange]).summaries == 0
        assert kept(first) == made
    with opened("second") as second:
        assert second.import_transcripts("jsonl", [file]).summaries == 10


def test_secrets_in_a_summary_are_taken_out(opened: Open, clock: Clock, tmp_path: Path) -> None:
    file, secret = tmp_path / "all.jsonl", "ghp_" + "Zq7Wm2Xv9Rt4Lp8Kd3Nf6Hs1Bj5Gc0YaTuEo"
    with opened("first") as first:
        lived_in(first, clock)
        first.maintenance.export(file)
    file.write_text(file.read_text().replace("zeppelin hangar", secret))
    with opened("second") as second:
        second.import_transcripts("jsonl", [file], as_mine=True)
        assert {secret in row[2] for row in kept(second)[:-1]} == {False}
        assert secret not in kept(second)[-1][0]


@pytest.mark.parametrize(
    "change", [('"covers":"', '"covers":"x'), ('"kind":"exchange"', '"kind":"poem"'), ('"title":"', '"title":1,"x":"')]
)
def test_a_summary_that_is_none_is_told_as_a_damaged_line(
    opened: Open, clock: Clock, tmp_path: Path, change: tuple[str, str]
) -> None:
    file = tmp_path / "all.jsonl"
    with opened("first") as first:
        lived_in(first, clock)
        first.maintenance.export(file)
    file.write_text(file.read_text().replace(*change))
    with opened("second") as second, pytest.raises(Exception, match="is no whole line of an export"):
        second.import_transcripts("jsonl", [file], as_mine=True)


def test_vectors_move_from_either_engine_on_request(tmp_path: Path, engine_settings: dict[str, Any]) -> None:
    file = tmp_path / "all.jsonl"
    with Harken(tmp_path / "first", env={}, settings=engine_settings, embedder=HashingEmbedder()) as first:
        for number in range(3):
            first.record_message("hangar", "user", f"What drips in hangar {number}, where the rain of May came in?")
        first.memories.add("The zeppelin hangar wants a new seal before the autumn rain")
        assert first.embed() == first.maintenance.export(file, with_vectors=True).vectors == 4
    model = HashingEmbedder()
    with Harken(tmp_path / "second", env={}, settings={}, embedder=model) as second:
        assert second.import_transcripts("jsonl", [file], as_mine=True).vectors == 4
        assert (second.embed(), model.calls) == (0, 0)
        assert second.search("seal of the zeppelin hangar").hits[0].similarity is not None
