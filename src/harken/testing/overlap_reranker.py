"""A reranker without a model: the more of a query's words a text holds, the better."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


class OverlapReranker:
    """Implements `Reranker` by counting words.

    Attributes:
        asked: every query it was asked about, with the texts.
    """

    name = "testing-overlap"

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The share of the query's words that each text holds, `(len(texts),)`, 0 to 1, in order."""
        self.asked.append((query, tuple(texts)))
        wanted = set(_WORD.findall(query.lower()))
        shares = [len(wanted & set(_WORD.findall(text.lower()))) / max(1, len(wanted)) for text in texts]
        return np.asarray(shares, dtype=np.float32)
