"""What is told by a vector: small talk, and what the world answers, when it is asked; a rule once it is embedded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.model.conversations import SearchScope

EXAMPLES = "I learn best from examples, so lead with one."
RULES = {EXAMPLES, "Temperatures mean something to me only in Celsius."}
RULES_ABROAD = {
    "Fachchinesisch bitte weglassen, egal worum es geht.",
    "Таблица для меня нагляднее, чем абзац.",
    "表格比大段文字更适合我。",
}
NO_RULES = (
    "Please write a small function for me that never returns null.",
    "Who has said that people learn best from a few examples?",
    f"The boss wrote to all of us: {EXAMPLES}",
    f'Her note read "{EXAMPLES}" and nothing else.',
    "We spent the whole long weekend with the family at the lake.",
    "Die Einleitung von diesem Brief ist zu lang, bitte kürze sie.",
    "I always do the ironing while the radio is on.",
    "My parents never eat after eight in the evening.",
    "Ich putze die Fenster immer erst im Frühling.",
    "Я всегда глажу рубашки по воскресеньям утром.",
)
PIANO = "Thank you all so much for your help upstairs with the piano that afternoon, says grandma."


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(ready_home, env={}, settings=engine_settings) as harken:
        yield harken


def test_a_rule_that_no_pattern_knows_is_found_once_its_message_is_embedded(harken: Harken) -> None:
    for text in (*RULES, *RULES_ABROAD, *NO_RULES):
        harken.record_message("talk", "user", text)
    harken.record_message("talk", "assistant", "Being a model, I learn best from examples, so lead with one.")
    assert harken.rules.list() == []
    harken.embed()
    assert {rule.text for rule in harken.rules.list()} == RULES | RULES_ABROAD
    [examples] = [rule for rule in harken.rules.list() if rule.text == EXAMPLES]
    harken.rules.drop(examples.uid)
    assert EXAMPLES not in {rule.text for rule in harken.rules.list()}
    # Its entry was written anew in the full text, and is found as before.
    found = harken.search("examples", scope=SearchScope(sources=("message",)), mode="keyword").hits
    assert EXAMPLES in {hit.entry.text for hit in found}


def test_such_a_rule_is_there_after_the_rows_were_made_anew_from_the_journal(ready_home: Path) -> None:
    with Harken(ready_home, env={}) as harken:
        for text in (*RULES, *RULES_ABROAD, *NO_RULES):
            harken.record_message("talk", "user", text)
        harken.embed()
        list(harken.maintenance.reindex_from_journal())
        harken.embed()
        assert {rule.text for rule in harken.rules.list()} == RULES | RULES_ABROAD


def test_small_talk_brings_nothing_back_however_near_it_lies_to_what_was_said(harken: Harken) -> None:
    for text in (PIANO, "The piano tuner comes on Friday at four.", "Grandma's recipe needs two cups of walnuts."):
        harken.record_message("talk", "user", text)
    harken.embed()
    session = harken.chats.session("talk", "library")
    small = harken.auto_rag(session, "you helped so much upstairs, I owe you one, thank you all")
    assert (small.items, small.notes) == ((), ("It resembles small talk more than anything that was said.",))
    asked = harken.auto_rag(session, "who was thanked for the help upstairs with the piano?")
    assert PIANO in [item.text for item in asked.items]


PAPER = "We watched how paper is made by hand at the old mill, and the kids made some themselves."


@pytest.mark.parametrize("query", ["How is paper made?", "Wie wird Papier hergestellt?"])
def test_what_the_world_answers_must_be_nearer_to_what_was_said(harken: Harken, query: str) -> None:
    for text in (PAPER, "The piano tuner comes on Friday at four.", "Grandma's recipe needs two cups of walnuts."):
        harken.record_message("talk", "user", text)
    harken.embed()
    session = harken.chats.session("talk", "library")
    assert not harken.auto_rag(session, query).items
    assert not harken.chats.past(query).conversations
    assert PAPER in [hit.entry.text for hit in harken.search(query).hits]
    asked = "what did the kids make at the old mill?"
    assert PAPER in [item.text for item in harken.auto_rag(session, asked).items]
    [found] = harken.chats.past(asked).conversations
    assert PAPER in [exchange.user for exchange in found.exchanges]


def test_a_short_message_needs_every_rare_word_of_what_the_world_answers(harken: Harken) -> None:
    """It has no vector, so words alone would let it pass: half of them are enough for other questions."""
    for text in ("I like cheese on pizza.", "The piano tuner comes on Friday at four.", PAPER):
        harken.record_message("talk", "user", text)
    harken.embed()
    session = harken.chats.session("talk", "library")
    assert not harken.auto_rag(session, "Which cheese melts best on pizza?").items
    assert harken.auto_rag(session, "so who of us likes cheese on pizza?").items


BRIEF = {"No emojis ever, please.", "Короче отвечай, без воды."}


def test_few_words_that_state_a_rule_are_looked_at_once_and_keep_no_vector(harken: Harken) -> None:
    for text in (*BRIEF, "Put the kettle on.", "ok, thanks", "I bought a bike.", "Купил велосипед."):
        harken.record_message("talk", "user", text)
    harken.record_message("talk", "assistant", "No emojis ever, please!")
    before = harken.maintenance.status()
    harken.embed()
    assert {rule.text for rule in harken.rules.list()} == BRIEF
    after = harken.maintenance.status()
    assert (before.counts.embedded, after.counts.embedded, after.queue, after.languages_queue) == (0, 0, 0, 0)
    assert harken.embed() == 0
    harken.maintenance.embed_again()
    harken.embed()
    assert {rule.text for rule in harken.rules.list()} == BRIEF
