from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.text import traits as traits_module
from harken.text.traits import Traits, traits_of, unpack


def told(text: str) -> Traits:
    return unpack([traits_of(text)])


@pytest.mark.parametrize(
    ("text", "trait", "is_so"),
    [
        ("Who owns it?", "ends_asking", True),
        ("Wer macht das?»", "ends_asking", True),
        ("谁负责这个集群？", "ends_asking", True),
        ("Who owns it? Priya does.", "ends_asking", False),
        ("Who owns it? Priya does.", "asks", True),
        ("Priya owns it.", "asks", False),
        ("Hey Mel, good to see you", "greets", True),
        ("Danke, das hilft", "greets", True),
        ("Say hi to Mel", "greets", False),
        ("We went there yesterday", "dated", True),
        ("Это было в марта прошлого года", "dated", True),
        ("It was in 2023", "dated", True),
        ("It was room 1023", "dated", False),
        ("I have 3 of them", "counts", True),
        ("Ich habe drei davon", "counts", True),
        ("I have some of them", "counts", False),
    ],
)
def test_a_text_tells_what_it_is_like(text: str, trait: str, is_so: bool) -> None:
    assert getattr(told(text), trait).tolist() == [float(is_so)]


def test_counts_are_logarithms_and_shares_are_shares() -> None:
    few, many = "Ada went to Rome.", "Ada and Melanie and Sue went to Rome and to Venice with Priya. Why? Why not?"
    traits = unpack([traits_of(few), traits_of(many)])
    assert traits.names[0] == pytest.approx(math.log1p(1))
    assert traits.names[0] < traits.names[1]
    assert traits.tokens[0] < traits.tokens[1]
    assert traits.asking.tolist() == [0.0, pytest.approx(10 / 15)]


@pytest.mark.parametrize("text", ["", "?!", " \n", "🌱"])
def test_what_has_no_word_has_no_traits(text: str) -> None:
    assert traits_of(text) == 0


@given(st.lists(st.text(max_size=300), min_size=1, max_size=5))
def test_any_text_fits_into_its_number_and_each_is_told_by_itself(texts: list[str]) -> None:
    packed = [traits_of(text) for text in texts]
    assert all(0 <= number < 2**60 for number in packed)
    together = unpack(packed)
    for place, number in enumerate(packed):
        assert [column[place] for column in together] == [column[0] for column in unpack([number])]
    assert all(0 <= share <= 1 for share in together.asking)


def test_a_very_long_text_is_told_by_its_beginning_and_its_length() -> None:
    long = told("Mel met Ann in Rome. " * 1_000)
    assert long.tokens[0] > math.log1p(4_000)
    assert long.names[0] == pytest.approx(math.log1p(2_000), abs=0.01)


@given(st.text("129 0x\né²１").map(lambda text: f"{text}1999{text[::-1]}"))
def test_a_year_is_four_digits_by_themselves(text: str) -> None:
    assert bool(traits_module._YEAR.search(text)) == bool(re.search(r"\b(?:19|20)\d\d\b", text))
