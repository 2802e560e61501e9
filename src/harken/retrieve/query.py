"""What a query asks for: the words worth looking up, and the text worth embedding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harken import tokens

MAX_QUERY_TOKENS = 400
MAX_TERMS = 32
MAX_QUOTED_WORDS = 16
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_SCAFFOLDING = re.compile(
    r"<(system-reminder|harken-recall|environment_context|ide_[a-z_]+)\b[^>]*>.*?</\1>|```.*?```", re.DOTALL
)
_STOP_WORDS = """
    a about above after again all also am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
    further get got had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him
    himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's like may me might
    more most mustn't my myself no nor not of off on once one only or other ought our ours ourselves out over own
    please same shan't she she'd she'll she's should shouldn't so some such than that that's the their theirs them
    themselves then there there's these they they'd they'll they're they've this those through to too under until up
    us very was wasn't we we'd we'll we're we've were weren't what what's when when's where where's which while who
    who's whom why why's will with won't would wouldn't you you'd you'll you're you've your yours yourself
    yourselves и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было
    вот от меня еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас нибудь вам ведь там
    потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже
    себе под будет кто этот того потому этого какой ним здесь этом один почти мой тем чтобы нее были куда зачем всех
    можно при об
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


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
    flat = " ".join((cleaned if _WORD.search(cleaned) else text).split())
    clipped = tokens.clip_middle(flat, MAX_QUERY_TOKENS)
    found = [word.lower() for word in _WORD.findall(clipped)]
    content = [word for word in found if word not in STOP_WORDS] or found
    terms: dict[str, None] = {}
    for word in content:
        for term in _split_unspaced(word):
            terms[term] = None
    return Query(clipped if found else "", tuple(terms)[:MAX_TERMS], frozenset(found), _quote(found, flat))


def whole_words(text: str) -> dict[str, re.Pattern[str]]:
    """A pattern for each word of a text, lower case, that finds it in any case and not inside another word.

    In scripts without spaces every place is the beginning and the end of a word.
    """
    patterns: dict[str, re.Pattern[str]] = {}
    for word in map(str.lower, _WORD.findall(text)):
        before = "" if _UNSPACED_RUN.match(word[0]) else f"(?<![^\\W{_UNSPACED}])"
        behind = "" if _UNSPACED_RUN.match(word[-1]) else f"(?![^\\W{_UNSPACED}])"
        patterns[word] = re.compile(before + re.escape(word) + behind, re.IGNORECASE)
    return patterns


def _quote(found: list[str], flat: str) -> str:
    """The first words of a query that may be a quotation: several words of which one says something, or a name."""
    names = any(character.isdigit() or character == "_" for word in found for character in word)
    says = any(word not in STOP_WORDS for word in found)
    return " ".join(flat.split()[:MAX_QUOTED_WORDS]) if names or (says and len(found) > 1) else ""


def _split_unspaced(word: str) -> list[str]:
    """Pairs of characters for scripts without spaces, the word itself for the others."""
    runs = _UNSPACED_RUN.findall(word)
    if not runs:
        return [word]
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = [part for part in _UNSPACED_RUN.split(word) if part]
    return [*pairs, *rest]
