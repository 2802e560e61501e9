"""What the searches of one call share: a view of the store, the space that answers, and each query's vector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType

from harken.providers.embedder import Embedder, Space, Vectors
from harken.search.coverage import NOTHING_EMBEDDED
from harken.search.query import Query
from harken.search.search import SpaceReader
from harken.search.small_talk import is_mostly_foreign
from harken.storage.ports import SharedTransaction, Store, StoredSpace


@dataclass(frozen=True, slots=True)
class Embedded:
    """A query in the space that answers."""

    space: StoredSpace
    vector: Vectors


# What another thread makes; a sentence where words alone must do.
DaemonClient = Future[Embedded] | str


class SearchSession:
    """Searches that belong together; of one thread, and closed by leaving it as a context.

    The model works while rows are read: each takes about as long, and neither needs the other.

    Args:
        store: what is searched.
        reader: finds the space that answers; None while nothing is embedded.
        threads: embed.
    """

    def __init__(self, store: Store, reader: Callable[[], SpaceReader | None], threads: ThreadPoolExecutor) -> None:
        self.view = SharedTransaction(store)
        self._reader = reader
        self._threads = threads
        self._asked: dict[str, DaemonClient] = {}

    def ask(self, query: Query) -> DaemonClient:
        """Begin to embed a query, once; where it cannot be begun, each search meets that again."""
        if query.text not in self._asked:
            self._asked[query.text] = self._begun(query.text)
        return self._asked[query.text]

    def answer(self, asking: DaemonClient) -> Embedded | str:
        """What was asked for, once it is there."""
        return asking if isinstance(asking, str) else self.view.wait_for(asking)

    def _begun(self, text: str) -> DaemonClient:
        # The space is read in a transaction of its own, and a store in memory has one connection.
        self.view.release()
        reader = self._reader()
        if reader is None:
            return NOTHING_EMBEDDED
        if reader.embedder.space.latin_only and is_mostly_foreign(text):
            return "Searched by words alone: the embedding model does not know this script."
        return self._threads.submit(lambda: Embedded(reader.space, reader.embedder.embed_query(text)))

    def __enter__(self) -> SearchSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.view.release()


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
