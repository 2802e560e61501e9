"""Estimates are near enough, cheap enough, and cuts never exceed them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.text.tokens import clip, clip_middle, estimate

# Counted once by o200k itself (benchmarks/tokens.py measures whole corpora).
COUNTED = [
    ("The quick brown fox jumps over the lazy dog, and nobody in the village was surprised to hear of it.", 22),
    ("def add(first: int, second: int) -> int:\n    return first + second\n", 19),
    (
        "Резервное копирование запускается каждую ночь. Хранилище проверяется контрольными суммами, а повреждённые "
        "сегменты восстанавливаются из журнала; ошибки попадают в отчёт администратора.",
        47,
    ),
    ("这家酒店的房间很干净，服务员态度也不错，早餐品种丰富，就是离地铁站稍微远了一点，下次还会考虑入住。", 38),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_prose_and_code_are_counted_within_a_fifth(text: str, tokens: int) -> None:
    assert estimate(text) == pytest.approx(tokens, rel=0.2)


def test_nothing_has_no_tokens_and_anything_has_one() -> None:
    assert estimate("") == 0
    assert estimate(".") == estimate(" ") == estimate("\x00") == 1


def test_a_long_number_is_not_one_token() -> None:
    assert estimate("1234567890" * 30) == pytest.approx(100, rel=0.2)


@given(st.text(), st.text())
def test_more_text_has_about_as_many_tokens_or_more(first: str, second: str) -> None:
    assert estimate(first + second) >= max(estimate(first), estimate(second)) - 1


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_a_cut_is_never_above_its_count(text: str, limit: int) -> None:
    assert estimate(clip(text, limit)) <= limit
    assert estimate(clip_middle(text, limit)) <= limit


@given(st.text())
def test_what_fits_is_left_as_it_is(text: str) -> None:
    assert clip(text, estimate(text)) == text
    assert clip_middle(text, estimate(text)) == text


def test_a_cut_keeps_the_beginning_and_a_cut_in_the_middle_keeps_both_ends() -> None:
    text = "begin " + "filler " * 500 + "end"
    assert clip(text, 50).startswith("begin filler")
    assert clip(text, 50).endswith("…")
    assert clip_middle(text, 50).startswith("begin filler")
    assert clip_middle(text, 50).endswith("filler end")


def test_a_cut_uses_most_of_what_it_may() -> None:
    assert estimate(clip("word " * 1000, 100)) >= 95


@pytest.mark.parametrize(
    "grapheme", ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "e\u0301\u0323", "❤️", "नि", "\r\n", "\ud83d\ude00"], ids=ascii
)
def test_a_cut_never_parts_a_grapheme(grapheme: str) -> None:
    text = grapheme * 60
    for limit in range(1, 60):
        head = clip(text, limit, marker="")
        assert head == grapheme * (len(head) // len(grapheme))
        both = clip_middle(text, limit, marker="")
        assert both == grapheme * (len(both) // len(grapheme))


def test_a_drawn_line_is_few_tokens() -> None:
    assert estimate("=" * 500) <= 3
    assert estimate("a\n" + "-" * 80 + "\nb") <= 6


def test_other_scripts_are_counted_within_a_third() -> None:
    counted = {
        "明日の朝、家の野菜がなくなったので市場へ行かなければなりません。": 23,
        "내일 아침에 집에 채소가 떨어져서 시장에 가야 합니다.": 19,
        "Morgen früh muss ich auf den Markt gehen, weil das Gemüse im Haus ausgegangen ist.": 19,
        "Great work! 🎉 Let us ship it 🚀🔥 thanks 😀": 14,
    }
    for text, tokens in counted.items():
        assert estimate(text) == pytest.approx(tokens, rel=0.34), text


def test_a_budget_too_small_for_the_marker_gives_nothing() -> None:
    assert clip("word " * 50, 0) == clip_middle("word " * 50, -1) == ""
    assert clip("word " * 50, 2, marker=" [the rest is left out]") == ""
