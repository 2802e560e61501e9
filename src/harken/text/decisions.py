"""What a talk came to: the sentence of an answer that says what was decided, and what it leaves open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harken.text.shown import one_line
from harken.text.words import content_terms, phrases, split_sentences, words_of

MOST_CHARS = 240
_LEAST_SHARED = 2
_ENDED = re.compile(r"[^\W\d].*[.!…。！][\"'”’»)*`]*$")
_EXCLAIMED = re.compile(r"(?:\S+ ){0,2}\S+!")
_LED = re.compile(rf"^(?:{'|'.join(words_of('small_talk'))}),? ", re.IGNORECASE)


def decision_in(texts: Sequence[str], about: Iterable[str] = ()) -> str:
    """Return the sentence of texts that says what was decided about some words, the last one; empty without any.

    One that decides stands before one that merely answers: has two of the words, or, of one text, comes first in it.
    """
    wanted, decides = set(about), phrases("decisions", "decides")
    telling = [each for text in texts for each in split_sentences(text) if not each.endswith("?")]
    if deciding := [each for each in telling if decides.search(each)]:
        best = max(enumerate(deciding), key=lambda one: (len(wanted & set(content_terms(one[1]))), one[0]))[1]
        return one_line(best, MOST_CHARS)
    # What an agent is about to do answers nothing, nor does a heading, or a number of a list.
    telling = [each for each in telling if _ENDED.search(each) and not announces(each)] or telling
    sharing = [(len(wanted & set(content_terms(each))), -at, each) for at, each in enumerate(telling)]
    count, _, best = max(sharing, default=(0, 0, ""))
    return one_line(best if count >= _LEAST_SHARED else telling[0] if telling else "", MOST_CHARS)


def announces(text: str) -> bool:
    """Return whether a text says what comes next, or that one is glad to help, and "Good!" or "now" at most beside."""
    begins = phrases("decisions", "announces").match
    said = [each for each in split_sentences(text) if not _EXCLAIMED.fullmatch(each)] or split_sentences(text)
    return bool(said) and all(begins(each) or begins(_LED.sub("", each)) for each in said)


def outcome(sentence: str) -> str:
    """Return how to call what a talk came to: `decided` where the sentence says so, else `answered`."""
    return "decided" if phrases("decisions", "decides").search(sentence) else "answered"


def open_in(texts: Sequence[str]) -> str:
    """Return the last sentence of texts that says that something is still open; empty without any."""
    said = [each for text in texts for each in split_sentences(text) if phrases("decisions", "open").search(each)]
    return one_line(said[-1] if said else "", MOST_CHARS)
