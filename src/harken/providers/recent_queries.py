"""An embedder that is asked about the same few words several times in a row, and embeds them once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from harken.providers.embedder import Embedder, Space, Vectors

# What is searched for one prompt, by several people at once; more would only be kept and never asked for.
_QUERIES = 4


class RecentQueries:
    """Remembers the vectors of the last few queries; threads may share it.

    One prompt is looked for among what was saved, in this conversation and in others, each by a search of its own.

    Args:
        embedder: makes the vectors; what it refuses is asked of it again.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._vector = lru_cache(_QUERIES)(self._made)

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self.embedder.space

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length; shared, so it cannot be written."""
        return self._vector(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors; see `Embedder.embed_passages`."""
        return self.embedder.embed_passages(texts)

    def _made(self, text: str) -> Vectors:
        vector = self.embedder.embed_query(text)
        vector.flags.writeable = False
        return vector
