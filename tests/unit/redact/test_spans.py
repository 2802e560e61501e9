"""What has to go goes once, and what stands redacted stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.redact.redactor import Redactor
from harken.redact.values import NAMED, SURE, Span, merged, replaced
from harken.redact.vendor_rules import _long_words


def test_overlapping_finds_are_one_of_the_surest_kind() -> None:
    assert merged([Span(4, 9, NAMED, "password"), Span(6, 12, SURE, "jwt"), Span(12, 13, NAMED, "token")]) == [
        Span(4, 12, SURE, "jwt"),
        Span(12, 13, NAMED, "token"),
    ]


def test_a_mark_that_stands_in_a_find_is_kept_whole() -> None:
    text = "ab[redacted:jwt]cd[redacted:token]ef"
    assert replaced(text, [Span(1, len(text), SURE, "x")])[0] == (
        "a[redacted:x][redacted:jwt][redacted:x][redacted:token][redacted:x]"
    )
    assert replaced(text, [Span(4, 10, SURE, "x")]) == (text, {})
    assert replaced(text, [Span(4, 17, SURE, "x")])[0] == "ab[redacted:jwt][redacted:x]d[redacted:token]ef"


def test_a_users_pattern_never_eats_the_marks_of_others() -> None:
    found = Redactor({"word": r"\w+"}).redact("redder [redacted:jwt]!")
    assert found.text == "[redacted:word] [redacted:jwt]!"


@given(st.text(min_size=1), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20))))
def test_nothing_but_the_finds_is_changed(text: str, places: list[tuple[int, int]]) -> None:
    spans = [Span(start, min(len(text), start + size), SURE, "x") for start, size in places if start < len(text)]
    kept = "".join(char for at, char in enumerate(text) if not any(span.start <= at < span.end for span in spans))
    clean, counts = replaced(text, spans)
    assert clean.count("[redacted:x]") >= counts["x"] == len(merged(spans))
    assert clean.replace("[redacted:x]", "") == kept


@given(st.lists(st.sampled_from(["a" * 15, "b" * 16, "é" * 16, "-", " ", "\n", "\x1c", "\x1f", "\x85", "\u3000"])))
def test_every_long_word_is_looked_at_for_a_token(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert _long_words(text) == " ".join(word for word in text.split() if len(word) >= 16)
