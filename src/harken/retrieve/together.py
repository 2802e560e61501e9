"""What the searches of one call share: a view of the store, the space that answers, and each query's vector."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from harken.providers.embedder import Vectors
from harken.retrieve.coverage import NOTHING_EMBEDDED
from harken.retrieve.query import Query
from harken.retrieve.search import SpaceReader
from harken.retrieve.small_talk import is_mostly_foreign
from harken.storage.one_reading import OneReading
from harken.storage.store import Store, StoredSpace


@dataclass(frozen=True, slots=True)
class Embedded:
    """A query in the space that answers."""

    space: StoredSpace
    vector: Vectors


# What another thread makes; a sentence where words alone must do.
Asking = Future[Embedded] | str


class Together:
    """Searches that belong together; of one thread, and closed by leaving it as a context.

    The model works while rows are read: each takes about as long, and neither needs the other.

    Args:
        store: what is searched.
        reader: finds the space that answers; None while nothing is embedded.
        threads: embed.
    """

    def __init__(self, store: Store, reader: Callable[[], SpaceReader | None], threads: ThreadPoolExecutor) -> None:
        self.view = OneReading(store)
        self._reader = reader
        self._threads = threads
        self._asked: dict[str, Asking] = {}

    def ask(self, query: Query) -> Asking:
        """Begin to embed a query, once; where it cannot be begun, each search meets that again."""
        if query.text not in self._asked:
            self._asked[query.text] = self._begun(query.text)
        return self._asked[query.text]

    def answer(self, asking: Asking) -> Embedded | str:
        """What was asked for, once it is there."""
        return asking if isinstance(asking, str) else self.view.wait_for(asking)

    def _begun(self, text: str) -> Asking:
        # The space is read in a transaction of its own, and a store in memory has one connection.
        self.view.release()
        reader = self._reader()
        if reader is None:
            return NOTHING_EMBEDDED
        if reader.embedder.space.latin_only and is_mostly_foreign(text):
            return "Searched by words alone: the embedding model does not know this script."
        return self._threads.submit(lambda: Embedded(reader.space, reader.embedder.embed_query(text)))

    def __enter__(self) -> Together:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.view.release()
