"""The port to embedding models, the space that each one spans, and what must be known of a model beside its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# English words make 4 to 6 characters a token; 16 leaves room for rows of blanks and of dashes.
_CHARACTERS_A_TOKEN = 16


def presentable(text: str, max_tokens: int) -> str:
    """The text without halves of surrogate pairs, and without what lies far behind the model's limit.

    A tokenizer reads a whole text before it cuts: one pasted log of a megabyte would hold up a batch for a second.
    """
    clipped = text[: max_tokens * _CHARACTERS_A_TOKEN]
    return clipped.encode("utf-8", errors="replace").decode("utf-8")


def clip_bytes(text: str, max_tokens: int) -> str:
    """The text cut to about `max_tokens` tokens of a tokenizer that nobody here knows.

    Three bytes of UTF-8 are seldom less than a token, whatever the vocabulary: 4 letters of English make one, 2 of
    Russian, one character of Chinese. An estimate by one vocabulary would be too hopeful for a smaller one.
    """
    raw = text[: max_tokens * 3].encode("utf-8", errors="replace")
    return raw[: max_tokens * 3].decode("utf-8", errors="ignore")


Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Space:
    """One embedding model at one dimension.

    Attributes:
        id: stable name of model, quantization and dimension, e.g. `bge-small-en-v1.5/int8/384`.
        dims: length of a vector.
        max_tokens: longer texts are cut by the model.
        query_prefix: put before a query; empty where the model wants none.
        passage_prefix: put before a text to be found.
        threshold: calibrated cosine similarity below which a text is not about the query, -1 to 1.
        latin_only: the model knows no other script: whatever is written in one, all of it looks alike.
    """

    id: str
    dims: int
    max_tokens: int
    query_prefix: str = ""
    passage_prefix: str = ""
    threshold: float = 0.5
    latin_only: bool = False


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors, prefix added: `(len(texts), dims)` float32, unit length, in order.

        Empty or blank texts are the caller's mistake. No texts give `(0, dims)`.

        Raises:
            ProviderError: the model failed; nothing of the batch is usable.
        """
        ...


class CallMeter(Protocol):
    """Books each call of an endpoint before it is sent."""

    def begin(self, tokens: int) -> str:
        """Book a call of about so many tokens; its id.

        Raises:
            SpendLimitError: the day's money is spent; nothing is to be sent.
        """
        ...

    def answered(self, uid: str, tokens: int) -> None:
        """Book that the call was answered, and took so many tokens."""
        ...

    def failed(self, uid: str, error: BaseException) -> None:
        """Book that the call failed."""
        ...


class Reranker(Protocol):
    """Judges a query and a text together; slower and sharper than comparing vectors."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """A relevance per text, `(len(texts),)`, 0 to 1 after the model's sigmoid, in order."""
        ...


def unit_rows(matrix: NDArray[np.float32]) -> Vectors:
    """The rows scaled to length one: `(n, dims)` float32.

    Raises:
        ValueError: a row is zero or not finite, so it points nowhere.
    """
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or np.any(lengths == 0):
        raise ValueError("a vector is zero or not finite")
    return np.asarray(matrix / lengths, dtype=np.float32)


def space_id(model: str, variant: str, dims: int, passage_prefix: str = "") -> str:
    """A stable name: models that place the same text elsewhere get different ones.

    Args:
        model: its name.
        variant: what else decides where a text lies: quantization, a file's hash, pooling.
        dims: length of a vector.
        passage_prefix: changes every stored vector, so it is part of the name; a query's prefix changes none.
    """
    name = f"{model}/{variant}/{dims}" if variant else f"{model}/{dims}"
    mark = hashlib.sha256(passage_prefix.encode()).hexdigest()[:6] if passage_prefix else ""
    return f"{name}/{mark}" if mark else name
