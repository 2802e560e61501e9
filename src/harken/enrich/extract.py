"""Summaries without a model: the sentences that stand for the rest, in their own words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import log

import numpy as np

from harken import tokens
from harken.providers.embedder import Vectors

# How much nearness to the whole counts against likeness to what was chosen already.
_RELEVANCE = 0.5
_SHORTEST, _LONGEST = 5, 80
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+")
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
    Source: maximal marginal relevance, Carbonell and Goldstein 1998.
    """
    if not sentences:
        return []
    centre = vectors.mean(axis=0)
    nearness = vectors @ (centre / (float(np.linalg.norm(centre)) or 1.0))
    likeness = np.zeros(len(sentences), dtype=np.float32)
    open_places = set(range(len(sentences)))
    chosen: list[int] = []
    while open_places:
        best = max(open_places, key=lambda at: (_RELEVANCE * nearness[at] - (1 - _RELEVANCE) * likeness[at], -at))
        open_places.discard(best)
        size = tokens.estimate(sentences[best]) + 1
        if size > max_tokens:
            continue
        max_tokens -= size
        chosen.append(best)
        likeness = np.maximum(likeness, vectors @ vectors[best])
    return [sentences[at] for at in sorted(chosen)]


def word_vectors(sentences: Sequence[str]) -> Vectors:
    """The sentences as bags of words, rare words counting more: `(len(sentences), words)` float32, unit length."""
    bags = [Counter(word.lower() for word in _WORD.findall(sentence)) for sentence in sentences]
    spread = Counter(word for bag in bags for word in bag)
    places = {word: place for place, word in enumerate(spread)}
    vectors: Vectors = np.zeros((len(sentences), max(1, len(places))), dtype=np.float32)
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            vectors[row, places[word]] = count * log(1 + len(bags) / spread[word])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit


Vectorize = Callable[[Sequence[str]], Vectors]
