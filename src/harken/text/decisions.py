"""What a talk came to: the sentence of an answer that says what was decided, and what it leaves open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harken.text.words import content_terms, phrases, split_sentences

_MOST_CHARS = 240
_LEAST_SHARED = 2
_ENDED = re.compile(r"[.!…。！][\"'”’»)*`]*$")


def decision_in(texts: Sequence[str], about: Iterable[str] = ()) -> str:
    """Return the sentence of texts that says what was decided about some words, the last one; empty without any.

    One that decides stands before one that merely answers: has two of the words, or, of one text, comes first in it.
    """
    wanted, decides = set(about), phrases("decisions", "decides")
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    deciding = [each for each in sentences if decides.search(each) and not each.rstrip().endswith("?")]
    if deciding:
        best = max(enumerate(deciding), key=lambda one: (len(wanted & set(content_terms(one[1]))), one[0]))[1]
        return shown(best)
    telling = [each for each in sentences if not each.rstrip().endswith("?")]
    # What an agent is about to do answers nothing, nor does a heading, or a number of a list.
    announces = phrases("decisions", "announces").match
    full = [each for each in telling if len(content_terms(each)) >= _LEAST_SHARED]
    telling = [each for each in full if _ENDED.search(each) and not announces(each)] or telling
    sharing = [(len(wanted & set(content_terms(each))), -at, each) for at, each in enumerate(telling)]
    count, _, best = max(sharing, default=(0, 0, ""))
    return shown(best if count >= _LEAST_SHARED else telling[0] if telling else "")


def outcome(sentence: str) -> str:
    """Return how to call what a talk came to: `decided` where the sentence says so, else `answered`."""
    return "decided" if phrases("decisions", "decides").search(sentence) else "answered"


def open_in(texts: Sequence[str]) -> str:
    """Return the last sentence of texts that says that something is still open; empty without any."""
    is_open = phrases("decisions", "open")
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    return shown(next((each for each in reversed(sentences) if is_open.search(each)), ""))


def shown(sentence: str) -> str:
    """Return a sentence on one line, cut where it is long."""
    flat = " ".join(sentence.split())
    return flat if len(flat) <= _MOST_CHARS else flat[: _MOST_CHARS - 1].rstrip() + "…"
