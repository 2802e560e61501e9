"""Memories that say the same, say it anew, or deny it: the rule by which duplicates never pile up."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from harken.errors import MissingExtraError, ProviderError
from harken.jobs.spaces import Spaces
from harken.log import Log
from harken.providers.embedder import Embedder
from harken.storage.conversations import entries_of
from harken.storage.ports import RowScope, Store, Transaction
from harken.storage.vectors import Float32, answering_space, put_vectors
from harken.text.words import WEEKDAY, content_terms, foreign_share, is_english, is_weekday

_MARKS = ".,;:!?\"'“”‘’«»()[]{}…"
_CONTRACTED = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not"}
# What denies a sentence, affirms it, or says since when it holds; `do` is there only for `not`.
_DENYING = "not never no longer always anymore now still do does did не нет никогда больше теперь всегда уже"
_DENIALS = frozenset(_DENYING.split())
_NEGATIONS = frozenset(["not", "never", "no", "не", "нет", "никогда"])
_LONGEST_DENIAL = 30
_LEAST_SHARED, _SPELLED_ALIKE = 3, 60
_CHANGES = re.compile(
    r"\b(?:now|moved?|switched|migrated|changed|renamed|replaced|rescheduled|postponed|no longer|any ?more|instead"
    r"|теперь|больше не|отныне|вместо|перен[её]с\w*|перешл\w+|переехал\w*|сменил\w*|замен\w+)\b",
    re.IGNORECASE,
)
_CHANGING = re.compile(rf"{WEEKDAY.pattern}|[\d一二三四五六七八九十百千万两零〇不没沒]", re.IGNORECASE)
# Said one in place of the other, they are another stand on the same thing.
_TAKING_A_STAND = """
    add allow avoid deny disable drop enable exclude forbid hide include keep often only prefer remove show sometimes
    start stop use usually можно нельзя редко часто
"""
_STANCES = _DENIALS | frozenset(_TAKING_A_STAND.split())
_DETERMINERS = frozenset(["the", "our", "a", "an", "my", "your", "their", "his", "her", "its", "this", "that"])
_HELPING = "is are was were has have had will would must should shall can could may might"
_AUXILIARIES = frozenset(_HELPING.split())
_FINITE = re.compile(r"[a-z]{2,}[a-rt-z]s|[а-яё]+[иеёаяую]т(?:ся)?")


def bare_words(text: str) -> list[str]:
    """The words in small letters, without the marks around them."""
    words = (word.strip(_MARKS) for word in text.replace("’", "'").casefold().split())
    return [word for word in words if word]


def restates(one: str, other: str) -> bool:
    """True for the same words, but for those that deny or affirm, or say since when it holds."""
    if abs(len(one) - len(other)) > _LONGEST_DENIAL:
        return False
    first, second = _undenied(one), _undenied(other)
    return bool(first) and first == second


def denies(one: str, other: str) -> bool:
    """True for the same words, of which one side denies what the other says."""
    return restates(one, other) and len({_NEGATIONS.isdisjoint(_spelled_out(each)) for each in (one, other)}) == 2


def changes(new: str, old: str) -> bool:
    """True where the new sentence says that what the old one is about has changed, and to what."""
    if _CHANGES.search(new) is None or not (about := _subject(old)) or not about <= _subject(new):
        return False
    before, after = _values(old), _values(new)
    return any(before[kind] and after[kind] and before[kind] != after[kind] for kind in before)


def are_of_two(one: str, other: str) -> bool:
    """True where they say the same of two subjects: of Ann and of Bob, of the staging and of the production server."""
    first, second = bare_words(one), bare_words(other)
    begin = _shared(first, second)
    again = begin + 1 + _shared(first[begin + 1 :], second[begin + 1 :])
    verb = next((place for place, word in enumerate(first) if _is_finite(word)), 0)
    # Of room 101 one thing, and another of room 102.
    is_between = begin < verb < again < min(len(first), len(second))
    if is_between and _has_digit(first[begin]) and _has_digit(second[begin]):
        return True
    end = _shared(first[begin:][::-1], second[begin:][::-1])
    before, behind = first[:begin], first[len(first) - end :]
    middles = (first[begin : len(first) - end], second[begin : len(second) - end])
    if not behind or not all(1 <= len(middle) <= 2 and _STANCES.isdisjoint(middle) for middle in middles):
        return False
    if all(middle[-1].endswith("'s") for middle in middles):
        return True
    if not before:
        return _is_finite(behind[0])
    return (before[-1] == "of" or (len(before) == 1 and before[0] in _DETERMINERS)) and any(map(_is_finite, behind[:3]))


def name_others(one: str, other: str) -> bool:
    """True where the same words end in one or two that stand for something else: another module, another host.

    Words that are spelled alike are the same word, mistyped or bent.
    """
    from rapidfuzz import fuzz

    first, second = bare_words(one), bare_words(other)
    begin = _shared(first, second)
    left, right = first[begin:], second[begin:]
    if len(left) != len(right) or not 1 <= len(left) <= 2 or begin < _LEAST_SHARED:
        return False
    pairs = zip(left, right, strict=True)
    return all(content_terms(a) and content_terms(b) and fuzz.ratio(a, b) < _SPELLED_ALIKE for a, b in pairs)


def say_others(one: str, other: str) -> bool:
    """True where each has another word, no number, day or denial, nor one mistyped; for grammars not known here."""
    from rapidfuzz import fuzz

    said = [{each for each in content_terms(text) if not _CHANGING.search(each)} - _STANCES for text in (one, other)]
    both = said, said[::-1]
    return all(any(all(fuzz.ratio(a, b) < _SPELLED_ALIKE for b in theirs) for a in mine) for mine, theirs in both)


def marked_words(text: str) -> Iterator[str]:
    """Words with a number in them, and those with a capital inside of a sentence."""
    words = text.split()
    for place, word in enumerate(words):
        begins = place == 0 or words[place - 1].endswith((".", "!", "?", ":"))
        bare = word.strip(_MARKS)
        if _has_digit(bare) or (not begins and any(map(str.isupper, bare))):
            yield bare.casefold()


@lru_cache(maxsize=4096)
def _undenied(text: str) -> list[str]:
    # Whoever saves something compares it with everything that stands.
    return [_stem(word) for word in _spelled_out(text) if word not in _DENIALS]


def _spelled_out(text: str) -> list[str]:
    """The words, `don't` as two."""
    words = bare_words(re.sub(r"\bany more\b", "anymore", text))
    spelled = (_CONTRACTED.get(word) or (f"{word[:-3]} not" if word.endswith("n't") else word) for word in words)
    return " ".join(spelled).split()


def _subject(text: str) -> set[str]:
    """Words that say what a sentence is about, rather than how it stands with it."""
    values = set(marked_words(text))
    words = (word for word in content_terms(text) if word not in values and not is_weekday(word))
    return {_stem(word) for word in words if word not in _DENIALS}


def _values(text: str) -> dict[str, set[str]]:
    """The values that a sentence gives to its subject, by kind: weekdays, numbers, names."""
    marked = {word for word in marked_words(text) if not is_weekday(word)}
    numbers = {word for word in marked if _has_digit(word)}
    return {"day": set(filter(is_weekday, bare_words(text))), "number": numbers, "name": marked - numbers}


def _shared(one: list[str], other: list[str]) -> int:
    """The number of words that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_finite(word: str) -> bool:
    return word in _AUXILIARIES or _FINITE.fullmatch(word) is not None


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


ALIKE_IN_WORDS, ALIKE_IN_MEANING = 0.90, 0.92
SAME, WORDS, MEANING = "the same words", "alike in words", "alike in meaning"
DENIED, CHANGED = "says otherwise", "says what has changed"
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
    """The others (contents by id, of the same category) that say the same or say it anew, the likest first.

    `meanings` are the cosine similarities of those that have been compared by meaning.
    """
    # Imported late, for hooks and searches show memories and compare none.
    from rapidfuzz import fuzz, process

    own = normal(content)
    normals = {uid: normal(text) for uid, text in others.items()}
    least = 100 * ALIKE_IN_WORDS
    worded = process.extract(own, normals, scorer=fuzz.ratio, score_cutoff=least, limit=None)
    found = {uid: Alike(uid, score / 100, SAME if text == own else WORDS) for text, score, uid in worded}
    for uid, text in others.items():
        if uid in found:
            continue
        if meanings.get(uid, -1.0) >= ALIKE_IN_MEANING:
            found[uid] = Alike(uid, meanings[uid], MEANING)
        elif category in _OF_A_MOMENT:
            continue
        # However few words they share.
        elif why := DENIED if restates(content, text) else CHANGED if changes(content, text) else "":
            found[uid] = Alike(uid, fuzz.ratio(own, normals[uid]) / 100, why)
    sure = (SAME, DENIED, CHANGED)
    kept = [it for it in found.values() if it.why in sure or not _are_two(content, others[it.uid], category, it.why)]
    return sorted(kept, key=lambda one: (one.why != SAME, -one.similarity, one.uid))


def normal(text: str) -> str:
    """The words in small letters with one space between them, without the marks around them."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(filter(None, [word.strip(_MARKS) for word in words])) or " ".join(words)


def _are_two(one: str, other: str, category: str, why: str) -> bool:
    """True where they differ in what makes them two things rather than one said anew.

    Two subjects make two things. Two names make two facts, and another number, weekday or last word another event; a
    decision, a preference or a way of working that differs in these is the same one, decided anew.
    """
    if are_of_two(one, other) or (category in _OF_A_MOMENT and (denies(one, other) or name_others(one, other))):
        return True
    if category not in _OF_A_SUBJECT | _OF_A_MOMENT:
        return False
    if why == WORDS and not is_english(one) and say_others(one, other):
        return True
    first, second = Counter(marked_words(one)), Counter(marked_words(other))
    differing = [*(first - second), *(second - first)]
    numbered = [word for word in differing if is_weekday(word) or _has_digit(word)]
    return len(numbered) < len(differing) or (bool(numbered) and category in _OF_A_MOMENT)


_MEMORIES = RowScope(sources=("memory",))
_MOST_WAITING, _MOST_FRESH, _MOSTLY = 64, 256, 0.5

_log = Log(__name__)


@dataclass(slots=True)
class MeaningComparison:
    """Compares a text with entries by meaning: by their vectors, or by its own of those that wait to be embedded.

    The latter are in `fresh`, by space and hash of the text, so that saving many embeds each once.
    """

    store: Store
    spaces: Spaces
    fresh: dict[tuple[str, int], Float32] = field(default_factory=dict)

    def __call__(self, text: str, others: Mapping[int, str]) -> Mapping[int, float]:
        """The cosine similarity of a text to others, by the ids of their entries; to none without a model."""
        try:
            found = self.spaces.answering()
            embedder = self.spaces.embedder() if found is None else found.embedder
            # To one that knows the Latin script alone, whatever is written in another looks alike.
            if embedder is None or not others or (embedder.space.latin_only and foreign_share(text) > _MOSTLY):
                return {}
            [vector] = self._vectors(embedder, [text])
            told: dict[int, float] = {}
            if found is not None:
                with self.store.reading() as tx:
                    self.store.nearest.foresee(tx, found.space, _MEMORIES)
                    _, told = self.store.nearest.compare(tx, found.space, vector, _MEMORIES, 1, list(others))
            # The newest wait longest to be embedded, and are the likeliest to be said again.
            waiting = [entry_id for entry_id in others if entry_id not in told][-_MOST_WAITING:]
            vectors = self._vectors(embedder, [others[entry_id] for entry_id in waiting])
        except (ProviderError, MissingExtraError) as error:
            # Duplicates are then known by their words alone.
            _log.warning("not_compared_by_meaning", error_class=type(error).__name__)
            return {}
        fresh = {entry_id: float(one @ vector) for entry_id, one in zip(waiting, vectors, strict=True)}
        return {entry_id: told[entry_id] for entry_id in others if entry_id in told} | fresh

    def keep(self, tx: Transaction, uid: str, text: str) -> None:
        """Give a memory that was saved in this transaction the vector by which it was compared, if it was.

        It is found by its meaning at once, and no worker embeds it again by that model.
        """
        space = answering_space(tx)
        vector = None if space is None else self.fresh.get((space.name, hash(text)))
        if space is not None and vector is not None:
            put_vectors(tx, space, sorted(entries_of(tx, [uid])), vector[None])

    def _vectors(self, embedder: Embedder, texts: Sequence[str]) -> list[Float32]:
        space = embedder.space.id
        keys = {text: (space, hash(text)) for text in texts}
        known = {text: self.fresh[key] for text, key in keys.items() if key in self.fresh}
        missing = [text for text in keys if text not in known]
        if missing:
            known |= dict(zip(missing, embedder.embed_passages(missing), strict=True))
            self.fresh |= {keys[text]: known[text] for text in missing}
            for key in list(self.fresh)[:-_MOST_FRESH]:
                self.fresh.pop(key, None)
        return [known[text] for text in texts]
