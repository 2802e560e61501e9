"""Searches that belong together: one space, and each query embedded once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harken.providers.embedder import Embedder, Space, Vectors
from harken.retrieve.search import SpaceReader
from harken.storage.store import StoredSpace

Known = dict[tuple[str, str], Vectors]


@dataclass(slots=True)
class OnceEmbedder:
    """An embedder that remembers the vectors of the queries that it was asked for.

    Attributes:
        known: vectors by space and query.
        aside: called before the model is asked, which may take seconds.
    """

    embedder: Embedder
    known: Known
    aside: Callable[[], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self.embedder.space

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, made on first use."""
        key = (self.embedder.space.id, text)
        with self._lock:
            if key not in self.known:
                self.aside()
                self.known[key] = self.embedder.embed_query(text)
            return self.known[key]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors."""
        return self.embedder.embed_passages(texts)


@dataclass(frozen=True, slots=True)
class OnceSpace:
    """A `SpaceReader` that embeds each query once."""

    space: StoredSpace
    embedder: OnceEmbedder


def _nothing() -> None: ...


class OnceReader:
    """Finds the answering space on first use, and once; a failure is met again by each search.

    Args:
        reader: finds the space; None where nothing is embedded.
        known: vectors of earlier searches, for queries that are always the same; it gains those of these.
        aside: called before a space or a model is asked, so that what is held meanwhile can be let go.
    """

    def __init__(
        self, reader: Callable[[], SpaceReader | None], known: Known | None = None, aside: Callable[[], None] = _nothing
    ) -> None:
        self._reader = reader
        self._aside = aside
        self._known: Known = {} if known is None else known
        self._found: list[OnceSpace | None] = []
        self._lock = threading.Lock()

    def __call__(self) -> SpaceReader | None:
        """The space, with an embedder that remembers."""
        with self._lock:
            if not self._found:
                self._aside()
                opened = self._reader()
                known, aside = self._known, self._aside
                self._found.append(
                    None if opened is None else OnceSpace(opened.space, OnceEmbedder(opened.embedder, known, aside))
                )
            return self._found[0]
