from __future__ import annotations

import pytest

from harken.retrieve.query import Query, parse_query
from harken.retrieve.small_talk import SMALL_TALK, is_mostly_foreign, is_small_talk, telling_terms
from harken.words import STOP_WORDS


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Thanks!",
        "да",
        "ok, thank you so much",
        "and you?",
        "а что ты",
        "спасибо, понял",
        "好的",
        "谢谢",
        "2",
        "",
        "👍",
        "sounds good, go ahead",
        "Let me think about it.",
        "that's fine",
        "you can do it",
        "see you tomorrow",
    ],
)
def test_what_asks_for_nothing_is_small_talk(text: str) -> None:
    assert is_small_talk(parse_query(text))


@pytest.mark.parametrize(
    "text",
    [
        "ok, and the deploy?",
        "thanks, now the invoice",
        "да, а что с деплоем?",
        "北京",
        "ticket 4711",
        "why Thursday?",
        "x1",
    ],
)
def test_one_word_that_says_something_is_enough(text: str) -> None:
    assert not is_small_talk(parse_query(text))


def test_its_words_are_in_lower_case() -> None:
    assert all(word == word.lower() for word in SMALL_TALK)
    assert is_small_talk(Query("", (), frozenset(STOP_WORDS | SMALL_TALK)))


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        ("what did we decide about the deploy?", ["decide", "deploy"]),
        ("ok, the deploy please", ["deploy"]),
        ("我们部署的决定是什么", ["部署", "决定"]),
        ("ok ok", ["ok"]),
    ],
)
def test_the_telling_terms_say_what_it_is_about(text: str, telling: list[str]) -> None:
    assert telling_terms(parse_query(text).terms) == telling


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("deploy on Thursday", False),
        ("café naïve", False),
        ("деплой в четверг", True),
        ("部署", True),
        ("", False),
        ("deploy завтра", False),
        ("релиз v2 сегодня", True),
    ],
)
def test_a_text_is_foreign_when_most_of_its_letters_are(text: str, foreign: bool) -> None:
    assert is_mostly_foreign(text) is foreign
