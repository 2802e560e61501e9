"""Whether two questions are the same, asked in other words; and what was called wrong in answer to such a one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from harken.model.conversations import Hit
from harken.search.candidates import RATED
from harken.search.query import Query, distinctive_terms, parse_query, share_held
from harken.search.session import QueryVector
from harken.storage.facts import EntryFacts
from harken.storage.ports import NearestIndex, RowScope, Transaction
from harken.storage.records.marks import objections
from harken.text.words import WORD

# Of the shorter question's telling words the other has so many, and no fewer than these.
_SHARE, _LEAST_WORDS = 0.75, 3
# Where words differ, so near by meaning (cosine) is the same question; benchmarks/asked_before.py.
SAME_QUESTION = 0.85
# What asks for a time is not what asks for a place, however alike the rest is.
_KINDS = {
    "when": re.compile(r"\b(?:when|(?:what|which) (?:date|day|year|month|time)|how long ago)\b", re.I),
    "where": re.compile(r"\b(?:where|(?:what|which) (?:place|city|country|town|location))\b", re.I),
    "who": re.compile(r"\b(?:who|whom|whose)\b", re.I),
    "why": re.compile(r"\b(?:why|what (?:reason|for|made|motivat\w+|inspired))\b", re.I),
    "how many": re.compile(r"\bhow (?:many|much|often)\b", re.I),
    "how long": re.compile(r"\bhow long\b(?! ago)", re.I),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it is compared with others.

    Attributes:
        terms: its telling words.
        kinds: what it asks for: a time, a place, a person…; empty where it does not say.
        names: names and numbers in it, which the other must have as well.
    """

    terms: tuple[str, ...]
    kinds: frozenset[str]
    names: frozenset[str]


@lru_cache(maxsize=2048)
def question_of(text: str) -> Question:
    """Take a question apart."""
    query = parse_query(text)
    kinds = frozenset(name for name, pattern in _KINDS.items() if pattern.search(query.text))
    words = WORD.findall(query.text)
    inside = (word for place, word in enumerate(words) if place > 0 or word[:1].isdigit())
    names = frozenset(
        word.lower().removesuffix("'s").removesuffix("’s")
        for word in inside
        if (word[:1].isupper() and word.lower() not in ("i", "i'm", "i've", "i'd", "i'll")) or word[:1].isdigit()
    )
    return Question(tuple(distinctive_terms(query.terms)), kinds, names)


def is_same_question(one: str, other: str, similarity: float | None = None) -> bool:
    """Whether two texts ask the same: by three quarters of the shorter one's words, or by their meaning.

    Args:
        one: a question, likewise `other`.
        other: in whatever order.
        similarity: cosine of the two, -1 to 1; None where one has no vector.
    """
    first, second = question_of(one), question_of(other)
    if first.kinds != second.kinds and first.kinds and second.kinds:
        return False
    if not _agree(first.names, second.names):
        return False
    shorter, longer = sorted((first.terms, second.terms), key=len)
    held = share_held(shorter, longer)
    if held >= _SHARE and held * len(shorter) >= _LEAST_WORDS:
        return True
    return similarity is not None and similarity >= SAME_QUESTION


def _agree(one: Collection[str], other: Collection[str]) -> bool:
    """Whether names and numbers of two questions are the same, as far as both have any."""
    shorter, longer = (one, other) if len(one) <= len(other) else (other, one)
    return not shorter or share_held(shorter, longer) == 1.0


def objected(
    tx: Transaction, query: Query, facts: Mapping[int, EntryFacts], index: NearestIndex, asked: QueryVector | None
) -> set[int]:
    """Those candidates that somebody has called wrong in answer to such a question: they do not come by themselves.

    Costs nothing where no candidate was judged.
    """
    return _objected(tx, query, [entry_id for entry_id, each in facts.items() if each.rated != 1.0], index, asked)


def objected_hits(
    tx: Transaction, query: Query, hits: Iterable[Hit], index: NearestIndex, asked: QueryVector | None
) -> set[int]:
    """The entries of those hits."""
    judged = [hit.entry.id for hit in hits if any(reason.name == RATED for reason in hit.reasons)]
    return _objected(tx, query, judged, index, asked)


def _objected(
    tx: Transaction, query: Query, judged: list[int], index: NearestIndex, asked: QueryVector | None
) -> set[int]:
    found = objections(tx, judged) if judged else []
    asking = [each.question_entry for each in found if each.question_entry is not None]
    near = asked.compare(tx, index, RowScope(), 0, asking)[1] if asked is not None and asking else {}
    return {
        each.entry_id
        for each in found
        if not each.question or is_same_question(query.text, each.question, near.get(each.question_entry or 0))
    }
