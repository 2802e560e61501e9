"""The newest word of a speaker wins: what they said before on the same matter, with another value, comes behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import combinations, pairwise

from harken.model.conversations import Hit, Reason, Role
from harken.model.lookups import PastConversation, PastExchange
from harken.search.query import distinctive_terms, is_bare_question
from harken.storage.ports import MESSAGE_SOURCE, Readable, Transaction
from harken.storage.vectors import answering_space, read_vectors
from harken.text.words import (
    MONTHS,
    STOP_WORDS,
    WORD,
    days_in_words,
    is_weekday,
    phrases,
    split_sentences,
    word_lists,
)

SAID_BEFORE = "said_before"
MARK = "said before that"
# So many of the best are compared, by so much of each: reading clauses takes longest.
_COMPARED, _CHARS = 10, 600
# Words that two clauses on one matter share, and what share of all of theirs; one that says "now" may share fewer.
_SHARED, _SHARE = 3, 0.6
# Of a clause with another value in one place, so much is the same.
_SAME, _PLACE_WORDS = 0.6, 3
_STEM = 5
_CHANGES = ("now", "home", "left")
_CLAUSE = re.compile(r"[,;:—–]\s+|\s+(?:and|but|und|aber|et|mais|y|pero|e|ma|mas|и|но)\s+")
_MONTH = "|".join(MONTHS)
_DATE = re.compile(rf"\b(?:({_MONTH})\s+(\d{{1,2}})|(\d{{1,2}})\.?\s+({_MONTH}))\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])([$€£]?)(\d[\d,]*(?:\.\d+)?)(?![\d.]*\d)\s?(%|[^\W\d_]+)?")
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(?:19|20)\d\d")
# Before where somebody lives, or what has moved there: it is not the speaker, or has not come about.
_SOMEBODY = re.compile(
    r"(?i)\b(?:never|almost|nearly|(?:(?:my|our|his|her|their|the|mein\w*|unser\w*|mon|ma|mes|mi|mis|mio|mia|meu|minha"
    r"|мо[йяи]|наш\w*)\s+[^\W\d_]+|he|she|they|er|sie|il|elle|él|ella|lui|lei|ele|ela|он|она|они)"
    r"\s+(?:(?!(?:i|we|ich|wir)\b)\w+\s+){0,2})\s*$"
)
_SUBJECT = re.compile(r"([^\W\d_]{2,})\s+(?:(?:has|had|have|is|was|ha|a|est|s'est|se|è)\s+)?$")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A part of a sentence that states something.

    Attributes:
        said: the beginnings of its words but stop words, values left out; `matter` those of them that say something.
        values: by what they are values of: a unit, a date, the speaker's home or that of somebody who is named.
        changes: it says that something is otherwise now.
        left: what it says to hold no longer.
    """

    words: tuple[str, ...]
    said: frozenset[str]
    matter: frozenset[str]
    values: Mapping[str, frozenset[str]]
    changes: bool
    left: frozenset[str]

    @classmethod
    def of(cls, text: str, sections: frozenset[str]) -> _Clause:
        """Read a clause in which nothing but these sections' phrases may stand."""
        values: dict[str, frozenset[str]] = {}
        for kind, value in _values(text, sections):
            values[kind] = values.get(kind, frozenset()) | {value}
        is_new = "now" in sections and phrases("change", "now").search(text) is not None
        bare = _DATE.sub(" ", text) if values else text
        bare = phrases("change", "now").sub(" ", bare) if is_new else bare
        words = tuple(word.lower() for word in WORD.findall(bare))
        plain = [word for word in words if not any(map(str.isdigit, word)) and "'" not in word]
        left = frozenset(value for _, value in _behind(text, "left")) if "left" in sections else frozenset()
        said, told = _begun(plain), _begun(distinctive_terms(plain))
        return cls(words, said, told, values, is_new or bool(left), left)

    def corrects(self, earlier: _Clause) -> bool:
        """Whether this, said later, gives another value to the matter of that."""
        if self.left & frozenset(earlier.words) and not self.left & earlier.left:
            return True
        if self.changes and self._moves(earlier):
            return True
        kinds = self.values.keys() & earlier.values.keys()
        if not kinds and (self.values or not self.changes):
            return False
        shared = len(self.matter & earlier.matter)
        is_same = shared >= _SHARE * len(self.matter | earlier.matter) and shared >= (1 if self.changes else _SHARED)
        # "The staging server has 16 GB" and "the production server has 64 GB" are of two matters.
        is_same = is_same and (self.changes or self.said <= earlier.said or self.said >= earlier.said)
        for kind in kinds:
            # Where a clause has two of a kind, nobody knows which of them is meant.
            one, two = self.values[kind], earlier.values[kind]
            if (is_same or kind.startswith("home")) and len(one) == len(two) == 1 and one != two:
                return True
        return self.changes and shared > 0 and not self.values and _differ_in_one_place(earlier.words, self.words)

    def _moves(self, earlier: _Clause) -> bool:
        """Whether this moves just what that tells of to another day of the week."""
        new = _begun(day for before, day in pairwise(self.words) if before in ("to", "на") and is_weekday(day))
        old = _begun(filter(is_weekday, earlier.words))
        is_same = self.matter - new - old == earlier.matter - old != frozenset()
        return is_same and self.said - new - old <= earlier.said and len(new) == len(old) == 1 and new != old


def newest_first(view: Readable, hits: Sequence[Hit]) -> list[Hit]:
    """Hits, best first, with what a speaker said later before what it corrects, which is marked and stays."""
    stated = [place for place, hit in enumerate(hits[:_COMPARED]) if _states(hit)]
    stated.sort(key=lambda place: (hits[place].entry.created_at, hits[place].entry.position))
    pairs = [(one, two) for one, two in combinations(stated, 2) if _corrects(hits[two], hits[one])]
    if pairs:
        with view.reading() as tx:
            pairs = _alike(tx, hits, pairs)
    if not pairs:
        return list(hits)
    order, marked = list(range(len(hits))), list(hits)
    for one, two in pairs:
        at, newer = order.index(one), hits[two].entry
        if order.index(two) > at:
            order.remove(two)
            order.insert(at, two)
        note = f"{MARK}: {newer.created_at.astimezone():%-d %B %Y} says otherwise ({newer.ref_uid})"
        # The newest of several that say otherwise is told.
        others = [reason for reason in marked[one].reasons if reason.name != SAID_BEFORE]
        marked[one] = replace(marked[one], reasons=(*others, Reason(SAID_BEFORE, 1.0, note)))
    return [replace(marked[place], score=hit.score) for place, hit in zip(order, hits, strict=True)]


def is_said_before(hit: Hit) -> bool:
    """Whether its speaker has said otherwise since."""
    return any(reason.name == SAID_BEFORE for reason in hit.reasons)


def corrects(later: str, earlier: str) -> bool:
    """Whether what was said later gives another value to a matter of what was said earlier."""
    said, before = later[:_CHARS], earlier[:_CHARS]
    if not _tells_change(said) and not _values_may_differ(said, before):
        return False
    for new in _telling_clauses(said):
        for old in _clauses(before):
            if new.corrects(old):
                return True
    return False


def mark_corrected(shown: tuple[PastConversation, ...]) -> tuple[PastConversation, ...]:
    """The same with those exchanges marked of which whoever asked has said otherwise in a later one."""
    said = [each for talk in shown for each in talk.exchanges]

    def mark(one: PastExchange) -> PastExchange:
        later = [each.user for each in said if each.at > one.at and each.authors[:1] == one.authors[:1]]
        return replace(one, said_before=any(corrects(each, one.user) for each in later))

    return tuple(replace(talk, exchanges=tuple(map(mark, talk.exchanges))) for talk in shown)


def _corrects(later: Hit, earlier: Hit) -> bool:
    new, old = later.entry, earlier.entry
    same_speaker = (new.role, new.author) == (old.role, old.author) and new.created_at > old.created_at
    return same_speaker and corrects(new.text, old.text)


def _alike(tx: Transaction, hits: Sequence[Hit], pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs that are as near to each other as a query must be to what answers it, where both have a vector."""
    space = answering_space(tx)
    if space is None:
        return list(pairs)
    ids, matrix = read_vectors(tx, space, sorted({hits[place].entry.id for pair in pairs for place in pair}))
    vectors = dict(zip(ids.tolist(), matrix, strict=True))
    near = []
    for one, two in pairs:
        first, second = (vectors.get(hits[place].entry.id) for place in (one, two))
        if first is None or second is None or float(first @ second) >= space.threshold:
            near.append((one, two))
    return near


def _states(hit: Hit) -> bool:
    # What an assistant or a tool writes explains: it does not tell how things are. Who has a name is a person.
    entry = hit.entry
    is_person = entry.role == Role.USER.value or entry.author is not None
    return entry.source == MESSAGE_SOURCE and is_person and not is_bare_question(entry.text)


def _values_may_differ(one: str, two: str) -> bool:
    """Whether clauses of two texts may be of one matter with another number: mostly not, and soon known."""
    return bool(_DIGIT.search(one) and _DIGIT.search(two)) and len(_stems(one) & _stems(two)) >= _SHARED


@lru_cache(maxsize=512)
def _stems(text: str) -> frozenset[str]:
    return _begun(WORD.findall(text.lower()))


def _begun(words: Iterable[str]) -> frozenset[str]:
    """The beginnings of words but stop words."""
    return frozenset(word[:_STEM] for word in words if word not in STOP_WORDS)


@lru_cache(maxsize=512)
def _tells_change(text: str) -> bool:
    return any(phrases("change", section).search(text) for section in _sections(text))


@lru_cache(maxsize=512)
def _sections(text: str) -> frozenset[str]:
    """Whose phrases may stand in a text, by the words that they begin with: to look for the phrases takes longest."""
    if not text.isascii():
        return frozenset(_CHANGES)
    words = WORD.findall(text.lower())
    return frozenset(section for section in _CHANGES if not _openings(section).isdisjoint(words))


@cache
def _openings(section: str) -> frozenset[str]:
    return frozenset(phrase.split("_")[0] for phrase in word_lists("change")[section])


@lru_cache(maxsize=512)
def _clauses(text: str) -> tuple[_Clause, ...]:
    unsaid = word_lists("courtesies/any_language")["questions"] | word_lists("change")["supposed"]
    sections, found = _sections(text), []
    for sentence in split_sentences(days_in_words(text)):
        parts = _CLAUSE.split(sentence)
        if sentence.rstrip().endswith(("?", "？")):
            parts.pop()
        for part in parts:
            first = re.search(r"\w+", part.lower())
            if first and first[0] not in unsaid:
                found.append(_Clause.of(part, sections))
    return tuple(found)


@lru_cache(maxsize=512)
def _telling_clauses(text: str) -> tuple[_Clause, ...]:
    """Those that may correct another: most clauses neither have a value nor tell of a change."""
    return tuple(clause for clause in _clauses(text) if clause.values or clause.changes)


def _values(text: str, sections: frozenset[str]) -> list[tuple[str, str]]:
    told = _behind(text, "home") if "home" in sections else []
    home = [(f"home{_named_in(before)}", value) for before, value in told if not _SOMEBODY.search(before)]
    if not _DIGIT.search(text):
        return home
    dates = [((first or second), day_first or day) for first, day, day_first, second in _DATE.findall(text)]
    found = [("date", f"{month} {day}".lower()) for month, day in dates]
    # "8080 now" has no unit, while "5 new servers" are no correction of what there was before.
    no_units = STOP_WORDS | word_lists("change")["now"] - {"new"}
    for sign, number, unit in _NUMBER.findall(_DATE.sub(" ", text)):
        if not _YEAR.fullmatch(number) and (sign or unit) and unit.lower() not in no_units:
            found.append((f"#{sign or unit.lower()[:_STEM]}", number.replace(",", "")))
    return found + home


def _behind(text: str, section: str) -> list[tuple[str, str]]:
    """What stands before each phrase of a section, and the word behind it."""
    found = []
    for match in phrases("change", section).finditer(text):
        word = WORD.search(text, match.end())
        if word and word[0].lower() not in STOP_WORDS:
            found.append((text[: match.start()], word[0].lower()))
    return found


def _named_in(before: str) -> str:
    """The name that a text ends with, of whom something is said; empty where it is the speaker."""
    subject = _SUBJECT.search(before)
    name = subject[1] if subject else ""
    known = name.lower() in STOP_WORDS or name.lower() in word_lists("change")["now"]
    return f" {name.lower()}" if name[:1].isupper() and not known else ""


def _differ_in_one_place(one: Sequence[str], two: Sequence[str]) -> bool:
    steps = [step for step in SequenceMatcher(None, one, two, autojunk=False).get_opcodes() if step[0] != "equal"]
    if len(steps) != 1 or steps[0][0] != "replace":
        return False
    _, first, behind, start, end = steps[0]
    changed = max(behind - first, end - start)
    return changed <= _PLACE_WORDS and changed <= (1 - _SAME) * max(len(one), len(two))
