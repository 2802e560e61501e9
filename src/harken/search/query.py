"""What a query asks for: the words worth looking up, and the text worth embedding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harken.text import tokens
from harken.text.words import STOP_WORDS, UNSPACED, UNSPACED_RUN, WORD, split_unspaced

MAX_QUERY_TOKENS = 400
MAX_TERMS = 32
MAX_QUOTED_WORDS = 16
_SCAFFOLDING = re.compile(
    r"<(system-reminder|harken-recall|environment_context|ide_[a-z_]+)\b[^>]*>.*?</\1>|```.*?```", re.DOTALL
)


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


def parse_query(text: str) -> Query:
    """Take a query apart; scaffolding, code dumps and recalled blocks are no part of it, unless nothing else is."""
    cleaned = _SCAFFOLDING.sub(" ", text)
    flat = " ".join((cleaned if WORD.search(cleaned) else text).split())
    clipped = tokens.clip_middle(flat, MAX_QUERY_TOKENS)
    found = [word.lower() for word in WORD.findall(clipped)]
    content = [word for word in found if word not in STOP_WORDS] or found
    terms: dict[str, None] = {}
    for word in content:
        for term in split_unspaced(word):
            terms[term] = None
    return Query(clipped if found else "", tuple(terms)[:MAX_TERMS], frozenset(found), _quote(found, flat))


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


def _quote(found: list[str], flat: str) -> str:
    """The first words of a query that may be a quotation: several words of which one says something, or a name."""
    names = any(character.isdigit() or character == "_" for word in found for character in word)
    says = any(word not in STOP_WORDS for word in found)
    return " ".join(flat.split()[:MAX_QUOTED_WORDS]) if names or (says and len(found) > 1) else ""
