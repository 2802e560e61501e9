"""Which sentences say most of what all of them say, and little twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from harken.providers.embedder import Vectors
from harken.words import content_terms

Embed = Callable[[Sequence[str]], Vectors]

# How much being central counts against being unlike what was chosen before.
_RELEVANCE = 0.7
# What comes first in a text mostly says what it is about.
_LEAD = 0.1
_FEW_TERMS = 3


def choose(sentences: Sequence[str], count: int, embed: Embed | None = None) -> list[int]:
    """Indices of the sentences that stand for all, in their order.

    Each is weighed by its cosine similarity to the centroid, less that to the nearest one chosen already. By the
    vectors of an embedding model where there is one, else by those of their terms.

    Args:
        sentences: in the order of the text.
        count: how many at most.
        embed: vectors of texts, `(n, dims)` float32, unit length.
    Source: maximal marginal relevance, Carbonell and Goldstein 1998; centroids, Radev et al. 2004.
    """
    if len(sentences) <= count:
        return list(range(len(sentences)))
    terms = [content_terms(sentence) for sentence in sentences]
    candidates = _worth_weighing(sentences, terms, count)
    if len(candidates) <= count:
        return candidates
    said = [terms[index] for index in candidates]
    texts = [sentences[index] for index in candidates]
    rows = _weighed_terms(said) if embed is None else np.asarray(embed(texts), dtype=np.float32)
    centroid = rows.sum(axis=0)
    length = float(np.linalg.norm(centroid))
    relevance = (rows @ centroid) / length if length else np.zeros(len(texts), dtype=np.float32)
    relevance = relevance * _fullness(said)
    relevance[0] += _LEAD
    return sorted(candidates[row] for row in most_relevant(rows, relevance, _RELEVANCE, count))


def _worth_weighing(sentences: Sequence[str], terms: Sequence[Sequence[str]], count: int) -> list[int]:
    """The first of sentences that are alike, and, where they are enough, those that say more than "Sure!"."""
    first = list({sentence: index for index, sentence in reversed(list(enumerate(sentences)))}.values())[::-1]
    full = [index for index in first if len(terms[index]) >= _FEW_TERMS]
    return full if len(full) >= count else first


def most_relevant(
    rows: NDArray[np.float32],
    relevance: NDArray[np.float32],
    weight: float,
    count: int,
    takes: Callable[[int], bool] = lambda _row: True,
) -> list[int]:
    """Rows that matter and are unlike each other, the best first.

    Args:
        rows: `(n, dims)`, unit length or zero.
        relevance: of each row, higher is better.
        weight: of relevance, 0 to 1; the rest is that of being unlike what was chosen before.
        count: how many at most.
        takes: asked once for each, the best first, whether it can be had; what cannot hinders no other.
    Source: maximal marginal relevance, Carbonell and Goldstein 1998.
    """
    chosen: list[int] = []
    redundancy = np.zeros(len(rows), dtype=np.float32)
    open_rows = np.ones(len(rows), dtype=bool)
    while len(chosen) < count and open_rows.any():
        scores = np.where(open_rows, weight * relevance - (1 - weight) * redundancy, -np.inf)
        best = int(np.argmax(scores))
        open_rows[best] = False
        if takes(best):
            chosen.append(best)
            redundancy = np.maximum(redundancy, rows @ rows[best])
    return chosen


def _fullness(terms: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """Towards 1 the more terms a sentence has: a short one is near a centroid for the little that it does not say."""
    counts = np.array([len(set(each)) for each in terms], dtype=np.float32)
    return np.asarray(counts / (counts + _FEW_TERMS), dtype=np.float32)


def term_vectors(sentences: Sequence[str]) -> NDArray[np.float32]:
    """A row for each sentence, unit length or zero: its terms, the rarer among the sentences the heavier."""
    return _weighed_terms([content_terms(sentence) for sentence in sentences])


def _weighed_terms(said: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    counted = [Counter(terms) for terms in said]
    frequency = Counter(term for terms in counted for term in terms)
    columns = {term: column for column, term in enumerate(frequency)}
    rows = np.zeros((len(said), max(1, len(columns))), dtype=np.float32)
    for row, terms in zip(rows, counted, strict=True):
        for term, count in terms.items():
            row[columns[term]] = count * math.log1p(len(said) / frequency[term])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows
