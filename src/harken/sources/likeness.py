"""Which saved memories say the same, or say it anew: the rule by which duplicates never pile up.

Measured with the default embedding model: rewordings of a sentence lie from 0.93 up in meaning, other sentences of the
same subject below 0.91.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from harken.sources.opposed import are_of_two, changes, denies, is_weekday, marked_words, name_others, restates

ALIKE_IN_WORDS, ALIKE_IN_MEANING = 0.90, 0.92
SAME, WORDS, MEANING = "the same words", "alike in words", "alike in meaning"
DENIED, CHANGED = "says otherwise", "says what has changed"
_MARKS = ".,;:!?\"'“”‘’«»()[]{}…"
_OF_A_SUBJECT = frozenset({"fact", "context"})
_OF_A_MOMENT = frozenset({"event", "error"})


@dataclass(frozen=True, slots=True)
class Alike:
    """A memory that says the same as another.

    Attributes:
        similarity: 0 to 1; what it measures stands in `why`.
        why: `the same words`, `alike in words`, `alike in meaning`, `says otherwise` or `says what has changed`.
    """

    uid: str
    similarity: float
    why: str


def find_alike(content: str, category: str, others: Mapping[str, str], meanings: Mapping[str, float]) -> list[Alike]:
    """Those of the others that say the same or say it anew, the likest first.

    Args:
        content: what is to be saved.
        category: its category, which is theirs as well.
        others: contents by id.
        meanings: cosine similarities of those that have been compared by meaning.
    """
    own = normal(content)
    normals = {uid: normal(text) for uid, text in others.items()}
    least = 100 * ALIKE_IN_WORDS
    worded = process.extract(own, normals, scorer=fuzz.ratio, score_cutoff=least, limit=None)
    found = {uid: Alike(uid, score / 100, SAME if text == own else WORDS) for text, score, uid in worded}
    for uid, similarity in meanings.items():
        if uid in others and similarity >= ALIKE_IN_MEANING and uid not in found:
            found[uid] = Alike(uid, similarity, MEANING)
    if category not in _OF_A_MOMENT:
        found |= _opposed(content, {uid: text for uid, text in others.items() if uid not in found})
    sure = (SAME, DENIED, CHANGED)
    kept = [one for one in found.values() if one.why in sure or not _are_two(content, others[one.uid], category)]
    return sorted(kept, key=lambda one: (one.why != SAME, -one.similarity, one.uid))


def _opposed(content: str, others: Mapping[str, str]) -> dict[str, Alike]:
    """Those that the content denies, or says the change of, however few words they share."""
    found = {}
    for uid, text in others.items():
        if why := DENIED if restates(content, text) else CHANGED if changes(content, text) else "":
            found[uid] = Alike(uid, fuzz.ratio(normal(content), normal(text)) / 100, why)
    return found


def normal(text: str) -> str:
    """The words in small letters with one space between them, without the marks around them."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(filter(None, [word.strip(_MARKS) for word in words])) or " ".join(words)


def _are_two(one: str, other: str, category: str) -> bool:
    """Whether they differ in what makes them two things rather than one said anew.

    Two subjects make two things. Two names make two facts, and another number, weekday or last word another event; a
    decision, a preference or a way of working that differs in these is the same one, decided anew.
    """
    if are_of_two(one, other) or (category in _OF_A_MOMENT and (denies(one, other) or name_others(one, other))):
        return True
    if category not in _OF_A_SUBJECT | _OF_A_MOMENT:
        return False
    first, second = Counter(marked_words(one)), Counter(marked_words(other))
    differing = [*(first - second), *(second - first)]
    numbered = [word for word in differing if is_weekday(word) or any(map(str.isdigit, word))]
    return len(numbered) < len(differing) or (bool(numbered) and category in _OF_A_MOMENT)
