"""Questions that ask for many things: each exchange about the theme counts, not one of them with all that it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from chatting import filler, recalled, say
from harken.engine import Harken
from harken.model.conversations import Hit, SearchScope
from harken.search.query import parse_query
from harken.search.spread import Several
from harken.serve.hooks.answers import Hooks
from harken.storage.enrichment.summaries import EXCHANGE, StoredSummary, put_summary
from harken.testing import HashingEmbedder

TRIED = (
    "I pinned the browser version for the flaky login test.",
    "I raised the timeout of the flaky login test to a minute.",
    "I mocked the clock in the flaky login test.",
    "I put the flaky login test into a queue of its own.",
    "I replaced the sleep of the flaky login test by a wait.",
    "I gave the flaky login test a fresh database.",
)
ECHO = "The flaky login test: things to try for it, in order, are the things we try for the flaky login test."
ASPECTS = ("panes", "heating", "slugs", "drainage", "shelves", "paint", "hinges", "permits")
QUESTION = "In which order did we try things for the flaky login test?"


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    settings = {"embedding.min_message_tokens": 3, **engine_settings}
    with Harken(ready_home, env={}, settings=settings, embedder=HashingEmbedder(1024, threshold=0.3)) as harken:
        say(harken, *(text for tried in TRIED for text in (tried, ECHO)))
        say(harken, *filler(40))
        harken.embed()
        yield harken


def found(harken: Harken, question: str, limit: int) -> tuple[Hit, ...]:
    return harken.search(question, scope=SearchScope(sources=("message",)), limit=limit).hits


def test_a_search_for_an_order_brings_what_each_exchange_began_with(harken: Harken) -> None:
    hits = found(harken, QUESTION, len(TRIED))
    assert {hit.entry.text for hit in hits} == set(TRIED)
    for hit in hits:
        (note,) = [reason.note for reason in hit.reasons if reason.name == "several"]
        assert note.startswith("one of several asked for: ")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_search_for_a_summary_brings_whole_exchanges(harken: Harken) -> None:
    hits = found(harken, "Summarize what we said about the flaky login test", 6)
    exchanges = [hit.entry.exchange_uid for hit in hits]
    assert len(set(exchanges)) == 3
    assert exchanges[::2] == exchanges[1::2]


def test_a_summary_prefers_what_a_session_began_with(harken: Harken, tmp_path: Path) -> None:
    """All is as much about the theme: who begins to talk after a silence says what it is about."""
    said = list[tuple[str, str, str]]()
    for day, number in product((3, 10, 17), range(8)):
        when = f"2026-02-{day:02d}T09:{number:02d}"
        said.append((f"{when}:00Z", "user", f"The greenhouse matter: {ASPECTS[day % 3]}, {ASPECTS[number]}."))
        said.append((f"{when}:01Z", "assistant", "Right, the greenhouse matter."))
    lines = [{"conversation": "glass", "role": role, "content": text, "ts": when} for when, role, text in said]
    (tmp_path / "glass.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    harken.import_transcripts("jsonl", [tmp_path / "glass.jsonl"])
    harken.embed()
    hits = found(harken, "Summarize what we said about the greenhouse matter", 48)
    asked = [hit.entry.created_at for hit in hits if hit.entry.role == "user"]
    for day in (10, 17):
        minutes = [moment.minute for moment in asked if moment.day == day]
        assert minutes.index(0) < minutes.index(6)


def test_a_summary_that_matches_leads_to_what_was_said(harken: Harken) -> None:
    """A summary in a model's words: nothing of the exchange itself is like the question."""
    said = "Shall nginx keep what it has served for a minute?", "Fine, it keeps it."
    uid = harken.record_message("cache", "user", said[0]).exchange_uid
    talk = harken.record_message("cache", "assistant", said[1]).conversation_uid
    now = datetime(2026, 5, 1, tzinfo=UTC)
    with harken.store.writing() as tx:
        put_summary(tx, StoredSummary(EXCHANGE, uid, "They cured slow pages by caching.", "", "model", now, now), talk)
    harken.embed()
    hits = harken.search("Summarize what we said about slow pages").hits
    assert {hit.entry.text for hit in hits if hit.entry.exchange_uid == uid} == set(said)


def test_a_chat_gets_more_than_the_usual_four_by_time_within_the_same_budget(harken: Harken) -> None:
    harken.run_time.set("auto_rag.max_tokens", "1500")
    usual = recalled(harken.build_context("talk", ["when was the browser version pinned for the flaky login test?"]))
    assert len(usual) <= 4
    texts = recalled(harken.build_context("talk", [QUESTION]))
    assert [text for text in texts if text in TRIED] == list(TRIED)
    harken.run_time.set("auto_rag.max_tokens", "150")
    layer = harken.build_context("talk", [QUESTION]).layer("auto_rag")
    assert layer is not None
    assert layer.tokens <= 150


def test_a_hook_tells_the_exchanges_of_another_conversation_by_time(harken: Harken, tmp_path: Path) -> None:
    payload = {"session_id": "new", "prompt": QUESTION, "hook_event_name": "UserPromptSubmit"}
    said = Hooks(harken, str(tmp_path)).answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode())
    text = json.loads(said)["hookSpecificOutput"]["additionalContext"]
    places = [text.find(f"User: {tried}") for tried in TRIED]
    told = [place for place in places if place >= 0]
    assert len(told) > 2
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("question", "is_theme", "in_order"),
    [
        (QUESTION, True, True),
        ("What have we tried against the memory leak?", True, False),
        ("How did my budget tracker develop over our talks?", True, True),
        ("In welcher Reihenfolge haben wir die Migration besprochen?", True, True),
        ("Fasse zusammen, was wir über das Lager gesagt haben", True, False),
        ("Dans quel ordre avons-nous parlé de la migration ?", True, True),
        ("¿En qué orden hablamos de la migración?", True, True),
        ("In che ordine abbiamo parlato della migrazione?", True, True),
        ("Em que ordem falamos da migração?", True, True),
        ("В каком порядке мы обсуждали миграцию?", True, True),
        ("我们按时间顺序讨论过什么迁移方案", True, True),
        ("Fais un résumé de ce que nous avons dit de la migration", True, False),
        ("What order did we try the three fixes in?", True, True),
        ("Which books has Melanie read?", False, False),
    ],
)
def test_a_question_that_asks_for_many_is_recognized(question: str, is_theme: bool, in_order: bool) -> None:
    several = Several.asked_by(parse_query(question))
    assert several is not None
    assert (several.is_theme, several.in_order) == (is_theme, in_order)


@pytest.mark.parametrize(
    "question",
    [
        "When did we deploy the billing service?",
        "Who owns the staging cluster?",
        "Please resume the work on my parser.",
        "What does this do?",
        "Walk me through how to prove two triangles congruent.",
        "Summarize this page: " + "It tells of our harbour. " * 30,
        "Wann haben wir den Dienst ausgeliefert?",
        "Что такое миграция?",
        "What does James do for work?",
        "What status does the build have?",
        "What order number did I give you?",
        "When is my résumé due?",
    ],
)
def test_a_question_for_one_thing_is_not(question: str) -> None:
    assert Several.asked_by(parse_query(question)) is None
