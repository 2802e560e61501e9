"""Takes out items that say the same: one record found in two ways, one unit, or nearly the same words.

Texts are compared where they may be alike at all: short ones with those of about their length, long ones with those
that share pairs of neighbouring words: words alone are shared by any two long texts on one matter. All pairs of 200
texts of 800 characters would take 390 ms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from rapidfuzz import fuzz, process

from harken.model.conversations import ContextItem
from harken.sources.memories.duplicates import denies, normal
from harken.text.words import content_terms

_SHORT_CHARS = 250
# Of two texts that are 90 % alike letter by letter, with slips all over, a quarter of the pairs is the same: far more
# than this. Whoever asks for less likeness has all compared that share any.
_PAIRS_SHARED, _FROM_SIMILARITY = 0.08, 0.9
# A number makes two facts of two sentences, but not of two stories.
_SENTENCE_CHARS = 200
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_UNITS: Mapping[str, tuple[str, ...]] = {
    "experience": ("id",),
    "value": ("id",),
    "memory": ("id",),
    "conversation": ("id",),
    "commit": ("sha",),
    "code": ("file_path", "qualified_name", "start_line"),
    "document": ("file_path", "start_line"),
}
# An experience and a value of one id are the same thing learned.
_KINDS = {"value": "experience"}
_FIRST_LINE = re.compile(r"\A\*\*(?!Memory\*\*:)[^*\n]+\*\*.*\n?")
_LABEL = re.compile(r"^(?:- )?\*\*[\w ]+\*\*: ", re.MULTILINE)
_FACTS = re.compile(r"^\*(?:Category|Files|\(truncated)\b.*\*$|^`{3,}\w*$", re.MULTILINE)


def distinct(items: Sequence[ContextItem], similarity: float = 0.9) -> list[ContextItem]:
    """The items in their order, without those that say what a more relevant one says.

    `similarity` is that of two texts, 0 to 1, from which on they say the same.
    """
    kept = _Kept(similarity)
    by_relevance = sorted(range(len(items)), key=lambda place: -items[place].relevance)
    texts = [normal(told(item)) for item in items]
    places = [place for place in by_relevance if kept.takes(_unit(items[place]), texts[place])]
    return [items[place] for place in sorted(places)]


def told(item: ContextItem) -> str:
    """The text of an item without the words that are the same in all of its source."""
    body = _FIRST_LINE.sub("", item.content)
    bare = _LABEL.sub("", _FACTS.sub("", body)).strip()
    return bare or item.content


def _unit(item: ContextItem) -> Hashable:
    """The name of the one thing that an item shows; of a file that is a unit in it, never the file."""
    kind = _KINDS.get(item.source, item.source)
    names = [item.metadata.get(name) for name in _UNITS.get(item.source, ())]
    return (kind, *names) if names and None not in names else None


@dataclass(slots=True)
class _Kept:
    """The items that stay, and where to look for those that a new one may be like."""

    similarity: float
    units: set[Hashable] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    by_pair: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def takes(self, unit: Hashable, text: str) -> bool:
        """Keep an item, unless what it says is kept already."""
        if unit is not None and unit in self.units:
            return False
        pairs = _neighbours(text)
        if text and self._is_said(text, pairs):
            return False
        if unit is not None:
            self.units.add(unit)
        place = len(self.texts)
        self.texts.append(text)
        self.pairs.append(len(pairs))
        if len(text) <= _SHORT_CHARS:
            self.short.append(place)
        for pair in pairs:
            self.by_pair.setdefault(pair, []).append(place)
        return True

    def _is_said(self, text: str, pairs: Collection[tuple[str, str]]) -> bool:
        """True where one of the texts that may be like it at all says the same."""
        shared = Counter(chain.from_iterable(map(self.by_pair.__getitem__, self.by_pair.keys() & pairs)))
        least = _PAIRS_SHARED if self.similarity >= _FROM_SIMILARITY else 0.0
        places = {at for at, count in shared.items() if count >= least * max(len(pairs), self.pairs[at])}
        # A little longer than what counts as short, so that two of one length on either side of it still meet.
        if len(text) * self.similarity <= _SHORT_CHARS:
            places.update(self.short)
        others = [self.texts[at] for at in sorted(places)]
        alike = process.extract_iter(text, others, scorer=fuzz.ratio, score_cutoff=100 * self.similarity)
        return any(other and _tell_the_same(text, other) for other, _, _ in alike)


def _neighbours(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of words that stand beside each other; of scripts without spaces, pairs of pairs of characters."""
    words = text.split() if text.isascii() else content_terms(text)
    return frozenset(pairwise(words)) or frozenset((word, "") for word in words)


def _tell_the_same(one: str, other: str) -> bool:
    """True unless a number, or a denial, makes two facts of two sentences of nearly the same words."""
    if max(len(one), len(other)) > _SENTENCE_CHARS:
        return True
    return Counter(_NUMBER.findall(one)) == Counter(_NUMBER.findall(other)) and not denies(one, other)
