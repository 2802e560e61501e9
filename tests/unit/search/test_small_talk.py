from __future__ import annotations

import pytest

from harken.search.query import (
    Query,
    courtesies,
    distinctive_terms,
    is_small_talk,
    parse_query,
)
from harken.text.words import foreign_share, passing_words


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
        "thanks a lot, that helps",
        "what else?",
        "I see what you mean now",
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


@pytest.mark.parametrize(
    "text",
    [
        "thanks, that was really helpful",
        "good morning, hope you enjoy your holiday!",
        "cheers mate, talk tonight",
        "да, спасибо, увидимся завтра",
        "danke, bis morgen!",
        "schönes Wochenende!",
        "wie geht's dir?",
        "gracias, hasta mañana",
        "merci beaucoup, à demain",
        "grazie, buona notte",
        "obrigado, até logo",
    ],
)
def test_courtesies_are_small_talk_in_the_main_languages(text: str) -> None:
    assert is_small_talk(parse_query(text))


@pytest.mark.parametrize(
    "text",
    [
        "my birthday is next week",
        "ok, what about the weekend?",
        "thanks, tell me about the holiday",
        "hello, friends tonight?",
        "der Krieg",
        "Die Hard",
        "war crimes",
        "wie war das Wochenende?",
        "qué tal el viaje?",
        "спасибо, а что про отпуск",
    ],
)
def test_what_courtesies_are_about_may_be_a_topic(text: str) -> None:
    assert not is_small_talk(parse_query(text))


def test_its_words_are_in_lower_case_and_as_a_query_has_them() -> None:
    assert all(word == word.lower() for word in passing_words())
    for each in courtesies():
        for word in each.either | each.markers | each.asking:
            assert parse_query(word).words == {word}
    assert is_small_talk(Query("", (), passing_words()))


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
    assert distinctive_terms(parse_query(text).terms) == telling


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
    assert (foreign_share(text) > 0.5) is foreign
