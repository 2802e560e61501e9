"""Summaries without a model: the sentences that stand for the rest, in their own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from harken import tokens
from harken.providers.embedder import Vectors
from harken.providers.summarizers.choose import most_relevant

# How much nearness to the whole counts against likeness to what was chosen already.
_RELEVANCE = 0.5
_SHORTEST, _LONGEST = 5, 80
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_CODE = re.compile(r"```.*?(?:```|$)", re.DOTALL)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text that may stand alone, without code."""
    parts = (" ".join(part.split()) for part in _END.split(_CODE.sub("\n", text)))
    return [part for part in parts if _SHORTEST <= tokens.estimate(part) <= _LONGEST]


def choose(sentences: Sequence[str], vectors: Vectors, max_tokens: int) -> list[str]:
    """Sentences near to the centre of all and unlike each other, in their order, within so many tokens.

    Args:
        sentences: oldest first.
        vectors: `(len(sentences), dims)` float32, unit length.
        max_tokens: each counts with the line break after it.
    """
    if not sentences:
        return []
    centre = vectors.mean(axis=0)
    nearness = vectors @ (centre / (float(np.linalg.norm(centre)) or 1.0))
    room = max_tokens

    def takes(row: int) -> bool:
        nonlocal room
        size = tokens.estimate(sentences[row]) + 1
        if size > room:
            return False
        room -= size
        return True

    return [sentences[at] for at in sorted(most_relevant(vectors, nearness, _RELEVANCE, len(sentences), takes))]


Vectorize = Callable[[Sequence[str]], Vectors]
