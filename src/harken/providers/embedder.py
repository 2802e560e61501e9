"""The port to embedding models, and what is known of the space that each one spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
