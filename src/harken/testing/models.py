"""An embedder and a reranker without a model: texts that share words are near each other."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harken.providers.embedder import Space, Vectors

_WORD = re.compile(r"\w+")


def hashed_vectors(texts: Sequence[str], dims: int) -> Vectors:
    """Bags of hashed words: `(len(texts), dims)` float32, unit length; the same in every process.

    Each word of a text, whatever its case, adds one to a place that its hash names, so the cosine similarity of two
    texts grows with the words they share. A text without words lies at a place of its own.
    """
    vectors = np.zeros((len(texts), dims), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.lower()) or [""]:
            digest = hashlib.blake2b(word.encode("utf-8", errors="replace"), digest_size=8).digest()
            vectors[row, int.from_bytes(digest, "big") % dims] += 1
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


class HashingEmbedder:
    """Implements `Embedder` by hashing words; fails when told to. Threads may share it.

    Args:
        dims: length of a vector; more dims, fewer words that meet by chance.
        name: tells apart two that stand for different models; their vectors are the same.
        threshold: cosine similarity below which a text is not about the query.

    Attributes:
        calls: how often it was asked, failures included.
        embedded: how many texts it has embedded.
    """

    def __init__(self, dims: int = 256, name: str = "words", threshold: float = 0.2) -> None:
        self.calls = 0
        self.embedded = 0
        self._space = Space(id=f"testing-hash/{name}/{dims}", dims=dims, max_tokens=8192, threshold=threshold)
        self._failures: deque[Exception | None] = deque()
        self._poison: tuple[str, Exception] | None = None
        self._lock = threading.Lock()

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self._space

    def fail(self, *errors: Exception | None) -> None:
        """Raise these in the next calls, one each; None lets a call pass."""
        with self._lock:
            self._failures.extend(errors)

    def refuse(self, word: str, error: Exception) -> None:
        """Raise this for every call in which a text holds the word."""
        with self._lock:
            self._poison = (word, error)

    def embed_query(self, text: str) -> Vectors:
        """The query's vector: `(dims,)` float32, unit length."""
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors: `(len(texts), dims)` float32, unit length, in order.

        Raises:
            Exception: the next of those that `fail` was given, or the one that `refuse` was.
        """
        with self._lock:
            self.calls += 1
            error = self._failures.popleft() if self._failures else None
            if error is None and self._poison is not None and any(self._poison[0] in text for text in texts):
                error = self._poison[1]
            if error is None:
                self.embedded += len(texts)
        if error is not None:
            raise error
        return hashed_vectors(texts, self._space.dims)


class OverlapReranker:
    """Implements `Reranker` by counting words.

    Attributes:
        asked: every query it was asked about, with the texts.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The share of the query's words that each text holds, `(len(texts),)`, 0 to 1, in order."""
        self.asked.append((query, tuple(texts)))
        wanted = set(_WORD.findall(query.lower()))
        shares = [len(wanted & set(_WORD.findall(text.lower()))) / max(1, len(wanted)) for text in texts]
        return np.asarray(shares, dtype=np.float32)
