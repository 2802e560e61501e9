"""What a query asks for: the words worth looking up, the text worth embedding, and its vectors."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from harken.storage.ports import NearestIndex, RowScope, StoredSpace, Transaction
from harken.storage.vectors import FOREIGN
from harken.text import tokens
from harken.text.kinds import TALK, leaning
from harken.text.shown import one_line
from harken.text.words import (
    STOP_WORDS,
    UNSAID,
    UNSAID_OPENING,
    UNSPACED,
    UNSPACED_RUN,
    WORD,
    days_in_words,
    passing_words,
    split_sentences,
    split_unspaced,
    stop_words,
    word_lists,
)

if TYPE_CHECKING:
    from harken.providers.embedder import Vectors

# Half of its beginning, half of its end: of 154 prompts of more (BEAM) the answer stood where it does with 400, and the
# model reads them in half of the time.
MAX_QUERY_TOKENS = 256
MAX_TERMS = 32
MAX_QUOTED_WORDS = 16
# A phrase of hundreds of words, as "a_a_a…" is one, takes full text seconds.
_MOST_PHRASE_CHARS = 150
_CUT_WORD = re.compile(f"[^\\W_{UNSPACED}]+$")
# A longer text does more than ask.
_MOST_ASKED_CHARS = 400
_QUESTION_MARK = re.compile("[?？؟]")
_ASKS, _ENDS = re.compile(r"[?？؟]\W*$"), re.compile(r"[.!…:;。！]\W*$")
# What is glued to a word and is none of it: "the gateway's", "dell'errore".
GLUED = re.compile("['’]s$|^(?:[cdjlmnst]|qu|un|[dns]?[aeu]ll|quell)['’](?=..)")
_NUMBERED = re.compile(r".*\d")
# Up to the next opening of the same: of thousands without an end, each looked through all that is behind it.
_SCAFFOLDING = re.compile(rf"{UNSAID_OPENING}(?:(?!<\1\b).)*?</\1>|```.*?```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Query:
    """A query, taken apart.

    Attributes:
        text: what is embedded; empty when there is nothing to search for.
        terms: the words to look up, stop words dropped unless there is nothing else, lower case.
        words: every word, lower case, for cues.
        quote: the query's first words as they stand, for entries that hold them in this order; empty where that
            would say no more than the terms do.
    """

    text: str
    terms: tuple[str, ...]
    words: frozenset[str]
    quote: str = ""


@lru_cache(maxsize=16)
def parse_query(text: str) -> Query:
    """Take a query apart; scaffolding, code dumps and recalled blocks are no part of it, unless nothing else is."""
    cleaned = _SCAFFOLDING.sub(" ", text)
    flat = " ".join((cleaned if WORD.search(cleaned) else text).split())
    clipped = tokens.clip_middle(flat, MAX_QUERY_TOKENS)
    found = list(dict.fromkeys(word.lower() for word in WORD.findall(f"{clipped} {days_in_words(clipped)}")))
    silent = stop_words(flat)
    content = [word for word in found if word not in silent] or found
    terms: dict[str, None] = {}
    for word in content:
        for term in split_unspaced(GLUED.sub("", word)):
            terms[_clipped(term)] = None
    # What may be a quotation: several words of which one says something, or a name.
    names = any(character.isdigit() or character == "_" for word in found for character in word)
    says = len(found) > 1 and any(word not in STOP_WORDS for word in found)
    quote = _clipped(" ".join(flat.split()[:MAX_QUOTED_WORDS])) if names or says else ""
    # What is asked stands before or behind what is pasted.
    both_ends = (*list(terms)[: MAX_TERMS // 2], *list(terms)[MAX_TERMS // 2 :][-MAX_TERMS // 2 :])
    return Query(clipped if found else "", both_ends, frozenset(found), quote)


def _clipped(phrase: str) -> str:
    return (_CUT_WORD.sub("", phrase[:_MOST_PHRASE_CHARS]) if len(phrase) > _MOST_PHRASE_CHARS else "") or phrase


def whole_words(text: str) -> dict[str, re.Pattern[str]]:
    """A pattern for each word of a text, lower case, that finds it in any case and not inside another word.

    In scripts without spaces every place is the beginning and the end of a word.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    for word in map(str.lower, WORD.findall(text)):
        before = "" if UNSPACED_RUN.match(word[0]) else f"(?<![^\\W{UNSPACED}])"
        behind = "" if UNSPACED_RUN.match(word[-1]) else f"(?![^\\W{UNSPACED}])"
        patterns[word] = re.compile(before + re.escape(word) + behind, re.IGNORECASE)
    return patterns


# A message is small talk in one language or in none: German "die" and "war" are no English words.
_LANGUAGES = ("english", "russian", "german", "spanish", "french", "italian", "portuguese")


@dataclass(frozen=True, slots=True)
class Courtesies:
    """The words of one language.

    Attributes:
        plain: function words, and those that keep a talk going: a message of nothing else names nothing.
        either: those, and what greetings and wishes are about (a weekend, a minute), which may be a topic as well.
        markers: of which one shows that it is none; of `asking`, that it is one.
    """

    plain: frozenset[str]
    either: frozenset[str]
    markers: frozenset[str]
    asking: frozenset[str]


@cache
def courtesies() -> tuple[Courtesies, ...]:
    """Those of each language; English and Russian have their function words among the stop words."""
    shared = word_lists("courtesies/any_language")
    found = []
    for language in _LANGUAGES:
        own = word_lists(f"courtesies/{language}")
        plain = own.get("plain", passing_words()) | own.get("light", frozenset()) | shared["plain"]
        asking = shared["asking"] | (frozenset() if language == "english" else shared["asking_abroad"])
        found.append(Courtesies(plain, plain | own["polite"], shared["markers"], asking))
    return tuple(found)


# Signs that hold a Chinese or Japanese sentence together: a pair with one of them in it names nothing.
_FUNCTION_SIGNS = frozenset(
    "的是了我们你您他她它这那在有和与或就不也都很吗呢吧啊么什怎哪谁几多少为对把被给到说要去会能可以过着没还再请让"
)
_HIRAGANA = re.compile("[\u3040-\u309f]")
# A sign of a word, in scripts that part words by blanks.
_SPACED = re.compile(f"[^\\W{UNSPACED}]")


def asks_nothing(query: Query, least_tokens: int) -> bool:
    """Whether there is nothing to search for: no words, too few tokens, or small talk."""
    return not query.text or is_small_talk(query) or tokens.estimate(query.text) < least_tokens


def is_small_talk(query: Query) -> bool:
    """Whether nothing was said but stop words, what keeps a talk going, courtesies, and the number of a choice."""
    words = {word for word in query.words if not (word.isdigit() and len(word) < 3)}
    for each in courtesies():
        # What could be a topic as well counts where something marks it as polite.
        is_polite = words <= each.either and not words.isdisjoint(each.markers)
        if words <= each.plain or (is_polite and words.isdisjoint(each.asking) and "?" not in query.text):
            return True
    return False


def is_bare_question(text: str) -> bool:
    """Whether a text asks and says nothing: a question in each of its sentences that are no courtesies."""
    return len(text) <= _MOST_ASKED_CHARS and _is_bare_question(text)


@lru_cache(maxsize=1024)
def _is_bare_question(text: str) -> bool:
    """Kept, for each hit is asked about several times in one search."""
    if _ENDS.search(text) and not _QUESTION_MARK.search(text):
        return False
    asked = False
    for sentence in split_sentences(text):
        if _asks(sentence):
            asked = True
        elif not is_small_talk(parse_query(sentence)):
            return False
    return asked or "?" in text


def _asks(sentence: str) -> bool:
    # `who's` begins with `who`.
    first = re.search(r"\w+", sentence.lower())
    begins = first is not None and first[0] in word_lists("courtesies/any_language")["questions"]
    return bool(_ASKS.search(sentence)) or (begins and not _ENDS.search(sentence))


def last_question(text: str) -> str:
    """The last sentence of a text that ends as a question; empty where it has none."""
    if not _QUESTION_MARK.search(text):
        return ""
    return next((sentence for sentence in reversed(split_sentences(text)) if _ASKS.search(sentence)), "")


def best_passage(text: str, terms: Sequence[str], max_tokens: int) -> str:
    """The stretch of a text that has most of the terms, whatever their endings, in so many tokens; else its head."""
    if tokens.fits(text, max_tokens):
        return text
    width = len(text) * max_tokens // tokens.estimate(text)
    begin, _ = _stretch(text, terms, width)
    return tokens.clip(text[begin : begin + 2 * width], max_tokens)


def excerpt(text: str, terms: Sequence[str], most_chars: int) -> str:
    """That stretch of what a text says on one line, without code, in so many characters; its head if as good."""
    flat = one_line(text)
    flat = flat if len(flat) <= most_chars else one_line(UNSAID.sub(" ", text)) or flat
    begin, last = _stretch(flat, terms, most_chars - 2) if len(flat) > most_chars else (0, 0)
    return one_line(flat, most_chars) if last < most_chars - 2 else "…" + one_line(flat[begin:], most_chars - 1)


def _stretch(text: str, terms: Sequence[str], width: int) -> tuple[int, int]:
    """Where the stretch that has most of the terms begins, and where its last term does; 0 without any."""
    places = _places(text, terms)
    best, first, last = 0, 0, 0
    for number, (start, _) in enumerate(places):
        inside = places[number : bisect_left(places, (start + width,))]
        if (found := len({term for _, term in inside})) > best:
            best, first, last = found, start, inside[-1][0]
    # Its words in the middle, for what is said of them stands on both sides.
    begin = min(max(0, (first + last - width) // 2), len(text) - width)
    while 0 < begin < first and not text[begin - 1].isspace():
        begin += 1
    return begin, last


def _places(text: str, terms: Sequence[str]) -> list[tuple[int, int]]:
    """Where a text has which of the terms, in order; inside of a word only in scripts without spaces."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # One letter in all becomes two, the Turkish I with a dot: places are those of the text.
        lowered = "".join(sign.lower()[0] for sign in text)
    found = []
    for number, term in enumerate(terms):
        stem, place = _stem(term), -1
        while (place := lowered.find(stem, place + 1)) >= 0:
            if not (place and _SPACED.match(lowered, place - 1)):
                found.append((place, number))
    return sorted(found)


def share_held(terms: Iterable[str], words: Iterable[str]) -> float:
    """The share of terms that are among words, whatever their endings, 0 to 1; without terms 0."""
    wanted, there = list(terms), list(words)
    stems, begun = tuple(map(_stem, there)), " ".join(["", *there])
    alike = {term for term in wanted if f" {_stem(term)}" in begun or term.startswith(stems)}
    held = sum(_stem(term) in stems if _NUMBERED.match(term) else term in alike for term in wanted)
    return held / max(1, len(wanted))


def _stem(word: str) -> str:
    # "TS2345" is no other ending of "TS2322", nor 8080 one of 80.
    return numbered[0] if (numbered := _NUMBERED.match(word)) else word[: max(4, len(word) - 3)]


def distinctive_terms(terms: Iterable[str]) -> list[str]:
    """The terms of a query that say what it is about; all of them where none does."""
    given = list(terms)
    telling = [term for term in given if term not in passing_words() and not _joins(term)]
    return telling or given


def _joins(term: str) -> bool:
    return len(term) <= 2 and any(sign in _FUNCTION_SIGNS or _HIRAGANA.match(sign) for sign in term)


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query in the spaces that answer.

    What is asked in English is looked for in the first model's space, and in the second one's among texts that are not
    English; what is asked in another language, in all of the second one's.

    Attributes:
        space: that of the first model, on whose scale all similarities are.
        readings: spaces with the query's vector, `(dims,)` float32, unit length, read-only; the first model's first.
        note: why the second one was not asked, in a sentence; empty where nothing failed.
    """

    space: StoredSpace
    readings: tuple[tuple[StoredSpace, Vectors], ...]
    note: str = ""

    @property
    def is_english(self) -> bool:
        """Whether it is asked for by the first model; the second one knows English as well as the others."""
        return self.readings[0][0].id == self.space.id

    @property
    def is_talk(self) -> bool:
        """Whether it resembles what asks for nothing that was said, in whatever language its model knows."""
        return self.leaning_to(TALK) > 0.0

    def leaning_to(self, kind: str) -> float:
        """How much it is of a kind, in log-odds: above 0 it is; -1 by a model that was not trained to tell."""
        space, vector = self.readings[0]
        leaned = leaning(kind, space.name, vector[None])
        return -1.0 if leaned is None else float(leaned[0])

    def compare(
        self, tx: Transaction, index: NearestIndex, scope: RowScope, limit: int, also: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float], dict[int, bool]]:
        """The nearest, best first; similarities of those and of these; and what the second model has compared.

        Of that, whether it may have the query's language. It counts by that alone: to a model for English, words of
        another language all look alike.
        """
        near: dict[int, float] = {}
        known: dict[int, float] = {}
        second: dict[int, bool] = {}
        for space, vector in self.readings:
            found, compared = index.compare(tx, space, vector, scope, limit, [*also, *near])
            if space.id != self.space.id:
                found, compared = self._brought(space, found), self._brought(space, compared)
                second |= dict.fromkeys(compared, not self.is_english and space.state == FOREIGN)
            near, known = near | found, known | compared
        if not second:
            return near, known, second
        best = sorted(near, key=lambda entry_id: (-known[entry_id], entry_id))[:limit]
        kept = known.keys() & {*best, *also}
        return (
            {each: known[each] for each in best},
            {each: known[each] for each in kept},
            {each: second[each] for each in second.keys() & kept},
        )

    def _brought(self, space: StoredSpace, similarity: Mapping[int, float]) -> dict[int, float]:
        """Similarities of another space on this one's scale: their threshold is as near as this one's, and 1 is 1."""
        scale = (1.0 - self.space.threshold) / (1.0 - space.threshold)
        return {each: 1.0 - (1.0 - value) * scale for each, value in similarity.items()}
