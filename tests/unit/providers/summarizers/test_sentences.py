from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.text import tokens
from harken.text.words import MAX_SENTENCE_TOKENS, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One cat. Two dogs! Three? Yes.", ["One cat.", "Two dogs!", "Three?", "Yes."]),
        ("Кот спит. Собака лает!", ["Кот спит.", "Собака лает!"]),
        ("猫在睡觉。狗在叫！真的吗？是的", ["猫在睡觉。", "狗在叫！", "真的吗？", "是的"]),
        ("猫は寝ている。「本当？」彼は言った。", ["猫は寝ている。", "「本当？」", "彼は言った。"]),
        ("It costs 3.50, e.g. at Dr. Smith's. Then rest.", ["It costs 3.50, e.g. at Dr. Smith's.", "Then rest."]),
        ("Живёт на ул. Ленина, т.е. в центре. Да.", ["Живёт на ул. Ленина, т.е. в центре.", "Да."]),
        ("J. R. Tolkien wrote it. Really.", ["J. R. Tolkien wrote it.", "Really."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("Run harken.search now. Then wait... and see.", ["Run harken.search now.", "Then wait... and see."]),
        (
            "I used `lines[0] ?? ''` here. Done: `a. B` is `b! C`. A lone ` stays. End.",
            ["I used `lines[0] ?? ''` here.", "Done: `a. B` is `b! C`.", "A lone ` stays.", "End."],
        ),
        ("A line that goes\non in the next. End.", ["A line that goes on in the next.", "End."]),
        (
            "# Plan\n\n- first **bold** step\n- second step\n1. third",
            ["Plan", "first bold step", "second step", "third"],
        ),
        ("Look:\n```python\nx = 1. Y\n```\nDone.", ["Look:", "Done."]),
        ("Hello.<system-reminder>Never say this.</system-reminder> Bye.", ["Hello.", "Bye."]),
        ("Hello.\n<harken-recall>Old words. More", ["Hello."]),
        ("Hello.\n<harken-recall-bcdfgh>\nOld words.\n</harken-recall-bcdfgh>\nBye.", ["Hello.", "Bye."]),
        ("---\n| --- |\n...\n", []),
        ("", []),
    ],
)
def test_a_text_is_split_where_a_reader_would(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(st.text(max_size=400))
def test_any_text_gives_short_sentences_of_its_own_characters(text: str) -> None:
    for sentence in split_sentences(text):
        assert sentence == sentence.strip() != ""
        assert tokens.estimate(sentence) <= MAX_SENTENCE_TOKENS
        assert set(sentence) <= set(text) | {" ", "…"}


def test_a_log_of_a_megabyte_takes_no_time() -> None:
    found = split_sentences("First words. " + "2026-05-08 12:00:00 line of a log\n" * 30_000 + "Last words.")
    assert (found[0], found[-1][-11:]) == ("First words.", "Last words.")
    assert len(found) < 1000


@pytest.mark.parametrize("row", ["." * 100_000, "。" * 100_000, '."' * 50_000])
def test_a_row_of_marks_is_read_at_once(row: str) -> None:
    # It took a minute and more.
    assert split_sentences(f"The harbour is open. {row}") == ["The harbour is open."]
