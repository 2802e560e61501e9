"""Takes out items that say the same: one record found in two ways, one unit, or nearly the same words.

Texts are compared where they may be alike at all: short ones with those of about their length, long ones with those
that share half of their words, found by the rarer half. All pairs of 200 texts of 800 characters would take 390 ms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz, process

from harken.model.conversations import ContextItem
from harken.sources.memories.duplicates import denies, normal
from harken.text.words import content_terms

_SHORT_CHARS = 250
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
    # Scripts without spaces in pairs of characters.
    words = [frozenset(text.split() if text.isascii() else content_terms(text)) for text in texts]
    frequency = Counter(word for each in words for word in each)
    # Each word's place among all, the rarest first; found once, since every item sorts its words by it.
    rarity = {word: place for place, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    places = [place for place in by_relevance if kept.takes(_unit(items[place]), texts[place], words[place], rarity)]
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
    by_word: dict[str, list[int]] = field(default_factory=dict)

    def takes(self, unit: Hashable, text: str, words: frozenset[str], rarity: Mapping[str, int]) -> bool:
        """Keep an item, unless what it says is kept already."""
        if unit is not None and unit in self.units:
            return False
        rarest = sorted(words, key=rarity.__getitem__)[: len(words) // 2 + 1]
        if text and self._is_said(text, rarest):
            return False
        if unit is not None:
            self.units.add(unit)
        place = len(self.texts)
        self.texts.append(text)
        if len(text) <= _SHORT_CHARS:
            self.short.append(place)
        for word in rarest:
            self.by_word.setdefault(word, []).append(place)
        return True

    def _is_said(self, text: str, rarest: Sequence[str]) -> bool:
        """True where one of the texts that may be like it at all says the same."""
        # A little longer than what counts as short, so that two of one length on either side of it still meet.
        places = set(self.short) if len(text) * self.similarity <= _SHORT_CHARS else set()
        others = [self.texts[at] for at in places.union(*(self.by_word.get(word, ()) for word in rarest))]
        alike = process.extract_iter(text, others, scorer=fuzz.ratio, score_cutoff=100 * self.similarity)
        return any(other and _tell_the_same(text, other) for other, _, _ in alike)


def _tell_the_same(one: str, other: str) -> bool:
    """True unless a number, or a denial, makes two facts of two sentences of nearly the same words."""
    if max(len(one), len(other)) > _SENTENCE_CHARS:
        return True
    return Counter(_NUMBER.findall(one)) == Counter(_NUMBER.findall(other)) and not denies(one, other)
