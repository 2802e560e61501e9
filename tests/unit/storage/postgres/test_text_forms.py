from __future__ import annotations

import pytest

from harken.storage.postgres.fulltext import plain_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop_here: a/b.py!", "Don t stop here a b py"),
        ("Café naïve", "Cafe naive"),
        ("Завтра ёлка, йод", "завтр елк йод"),
        ("北京天气", "北 京 天 气"),
        ("김치를", "김 치 를"),
        ("🦓 ?!", ""),
        ("", ""),
    ],
)
def test_words_are_those_of_the_embedded_engine(text: str, words: str) -> None:
    assert plain_words(text) == words


def test_a_text_of_a_megabyte_keeps_each_of_its_words() -> None:
    text = " ".join(f"word{number % 900}" for number in range(120_000))
    assert sorted(plain_words(text).split()) == sorted({f"word{number}" for number in range(900)})
