"""Traits of a text that no query changes: kept with its entry in one number, so that ranking need not read the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from harken.text import tokens
from harken.text.rules import LOOKED_AT, rules_in
from harken.text.words import STOP_WORDS, UNSPACED_RUN, word_lists, words_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHARES = 15
# The width of each trait in the number, in its order.
_BITS = {
    "ends_asking": 1, "asks": 1, "greets": 1, "dated": 1, "counts": 1,
    "asking": 4, "tokens": 16, "telling": 16, "names": 11, "rules": 1,
}  # fmt: skip
# The bit of the number that says that it asks.
ASKS = 1 << sum(_BITS[name] for name in itertools.takewhile("asks".__ne__, _BITS))
# Likewise the one that says that it states a rule.
STATES = 1 << sum(_BITS[name] for name in itertools.takewhile("rules".__ne__, _BITS))
_ASKING_SHIFT = sum(_BITS[name] for name in itertools.takewhile("asking".__ne__, _BITS))
_TOKENS_SHIFT = sum(_BITS[name] for name in itertools.takewhile("tokens".__ne__, _BITS))
_TOKENS_MOST = (1 << _BITS["tokens"]) - 1
_SENTENCE = re.compile(r"\w[^.!?…。！？\n]*[.!?…。！？]?")
_ASKING = "?？"
_ENDS_ASKING = re.compile(r"[?？][\s\"'”’»)*_`]*\Z")
_INSIDE = re.compile(r"(?<=[\w,;:)] )\w\w+")
# Of plain text alone: one that begins with a capital, which is found twice as fast.
_NAME = re.compile(r"[A-Z](?<=[\w,;:)] .)\w+")
# As `\b(?:19|20)\d\d\b`, in a third of the time: a search can skip to the digits that it begins with.
_YEAR = re.compile(r"(?:19|20)(?<!\w..)\d\d\b")
_DIGIT, _PLAIN_DIGIT = re.compile(r"\d"), re.compile("[0-9]")


class Traits(NamedTuple):
    """Traits of some texts, each an array of one number a text, float64.

    Attributes:
        ends_asking: 1 where it ends with a question mark; `asks` where it holds one; `asking` the share of its
            sentences that do.
        greets: 1 where it begins with a greeting or thanks.
        dated: 1 where it says when; `counts` where it has a number.
        tokens: ln(1 + tokens); `telling` and `names` likewise of words that say something, and of names.
        rules: 1 where it is a person's, and states a rule or a preference.
    """

    ends_asking: NDArray[np.float64]
    asks: NDArray[np.float64]
    greets: NDArray[np.float64]
    dated: NDArray[np.float64]
    counts: NDArray[np.float64]
    asking: NDArray[np.float64]
    tokens: NDArray[np.float64]
    telling: NDArray[np.float64]
    names: NDArray[np.float64]
    rules: NDArray[np.float64]


class Studied(NamedTuple):
    """What no query changes of a text: the places of the rules that it states, and its traits as one number."""

    rules: Sequence[tuple[int, int]]
    traits: int

    @property
    def tokens(self) -> int:
        """How many tokens the text has, 65,535 at most; 0 where it has no word, and was not counted."""
        return self.traits >> _TOKENS_SHIFT & _TOKENS_MOST


def asking_share(traits: int) -> float:
    """The share of a text's sentences that ask, 0 to 1, of its traits as one number."""
    return (traits >> _ASKING_SHIFT & _SHARES) / _SHARES


def study(text: str, by_person: bool) -> Studied:
    """What search is to know of a text; rules are looked for in what a person says."""
    words = words_in(text[:LOOKED_AT].lower())
    rules = rules_in(text, words) if by_person else ()
    return Studied(rules, _traits(text, words, len(rules)))


def traits_of(text: str, rules: int = 0) -> int:
    """The traits of a text, which states so many rules, as one number, at least 0 and under 2**53; 0 without a word."""
    return _traits(text, words_in(text[:LOOKED_AT].lower()), rules)


def _traits(text: str, words: Sequence[str], rules: int) -> int:
    said = text[:LOOKED_AT]
    if not words:
        return 0
    is_plain = said.isascii()
    # Of a longer text its beginning tells what kind it is; what is counted there stands for the whole.
    lists, whole = word_lists("traits"), max(1.0, len(text) / LOOKED_AT)
    telling = len(words) - sum(map(STOP_WORDS.__contains__, words))
    names = _NAME.findall(said)
    if not is_plain:
        telling += sum(map(len, UNSPACED_RUN.findall(said)))
        names = [word for word in _INSIDE.findall(said) if word[0].isupper()]
    asked = sum(map(said.count, _ASKING))
    sentences = max(1, len(_SENTENCE.findall(said))) if asked else 1
    is_counted = (_PLAIN_DIGIT if is_plain else _DIGIT).search(said) is not None
    # In the order of `_BITS`; what is no count is 0 or 1.
    values = (
        any(mark in text for mark in _ASKING) and _ENDS_ASKING.search(text) is not None,
        asked > 0,
        words[0] in lists["greeting"],
        not lists["moment"].isdisjoint(words) or (is_counted and _YEAR.search(said) is not None),
        not lists["number"].isdisjoint(words) or is_counted,
        round(min(1.0, asked / sentences) * _SHARES),
        tokens.estimate(text),
        int(whole * telling),
        int(whole * len(names)),
        rules > 0,
    )
    packed = 0
    for value, most, shift in zip(values, _MOST, _SHIFTS, strict=True):
        packed |= min(value, most) << shift
    return packed


_MOST = tuple(2**bits - 1 for bits in _BITS.values())
_SHIFTS = tuple(itertools.accumulate(_BITS.values(), initial=0))[:-1]


def unpack(packed: Sequence[int]) -> Traits:
    """The traits that numbers hold."""
    # Here, for whoever opens a store imports this module, and few of them rank.
    import numpy as np

    most = np.array(_MOST)[:, None]
    values = np.array(packed, dtype=np.int64) >> np.array(_SHIFTS)[:, None] & most
    told: NDArray[np.float64] = values / most
    for place, each in enumerate(_MOST):
        # What is no count is a share of its most.
        if each > _SHARES:
            np.log1p(values[place], out=told[place])
    return Traits(*told)
