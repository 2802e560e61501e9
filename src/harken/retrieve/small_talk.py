"""What asks for nothing: greetings, thanks, agreement; and which words of a query say what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harken import tokens
from harken.retrieve.courtesies import COURTESIES, SMALL_TALK, Courtesies
from harken.retrieve.query import Query
from harken.words import STOP_WORDS

# Signs that hold a Chinese or Japanese sentence together: a pair with one of them in it names nothing.
_FUNCTION_SIGNS = frozenset(
    "的是了我们你您他她它这那在有和与或就不也都很吗呢吧啊么什怎哪谁几多少为对把被给到说要去会能可以过着没还再请让"
)
# Made once: this is asked of every query.
_NOTHING = STOP_WORDS | SMALL_TALK
_HIRAGANA = re.compile("[\u3040-\u309f]")


def asks_nothing(query: Query, least_tokens: int) -> bool:
    """Whether there is nothing to search for: no words, too few tokens, or small talk."""
    return not query.text or is_small_talk(query) or tokens.estimate(query.text) < least_tokens


def is_small_talk(query: Query) -> bool:
    """Whether nothing was said but stop words, what keeps a talk going, courtesies, and the number of a choice."""
    words = {word for word in query.words if not _is_choice(word)}
    return words <= _NOTHING or any(_is_courtesy(words, query.text, each) for each in COURTESIES)


def _is_courtesy(words: set[str], text: str, courtesies: Courtesies) -> bool:
    """Whether a message is only polite; what could be a topic as well counts where something marks it as that."""
    if words <= courtesies.plain:
        return True
    is_polite = words <= courtesies.either and not words.isdisjoint(courtesies.markers)
    return is_polite and words.isdisjoint(courtesies.asking) and "?" not in text


def telling_terms(terms: Iterable[str]) -> list[str]:
    """The terms of a query that say what it is about; all of them where none does."""
    given = list(terms)
    telling = [term for term in given if term not in SMALL_TALK and term not in STOP_WORDS and not _joins(term)]
    return telling or given


def is_mostly_foreign(text: str) -> bool:
    """Whether more than half of a text's letters are of another script than the Latin one."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(character > "\u024f" for character in letters) > len(letters)


def _is_choice(word: str) -> bool:
    return word.isdigit() and len(word) < 3


def _joins(term: str) -> bool:
    return len(term) <= 2 and any(sign in _FUNCTION_SIGNS or _HIRAGANA.match(sign) for sign in term)
