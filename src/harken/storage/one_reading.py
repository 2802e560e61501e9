"""One view of the store for several questions that belong together: one transaction instead of one for each."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Protocol, TypeVar

from harken.storage.store import NearestIndex, TextIndex, Transaction

# A local model needs a tenth of it; so long a search keeps its view of the store, for another one costs a millisecond.
_SOON_SECONDS = 0.05

_Result = TypeVar("_Result")


class Readable(Protocol):
    """What of a store a search needs."""

    @property
    def text(self) -> TextIndex:
        """The full-text index."""
        ...

    @property
    def nearest(self) -> NearestIndex:
        """The index of nearest vectors."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """A consistent view that writes nothing."""
        ...


class OneReading:
    """A store whose readings are one transaction; of one thread, and closed by leaving it as a context.

    Where a reading fails, the transaction ends with it, and the next one begins another.

    Args:
        store: what is read.
    """

    def __init__(self, store: Readable) -> None:
        self._store = store
        self._open = ExitStack()
        self._transaction: Transaction | None = None

    @property
    def text(self) -> TextIndex:
        """The full-text index."""
        return self._store.text

    @property
    def nearest(self) -> NearestIndex:
        """The index of nearest vectors."""
        return self._store.nearest

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The one view, begun by whoever first reads."""
        if self._transaction is None:
            self._transaction = self._open.enter_context(self._store.reading())
        try:
            yield self._transaction
        except BaseException as error:
            self._transaction = None
            # The store's own reading sees the error, and says it in our words.
            self._open.__exit__(type(error), error, error.__traceback__)
            raise

    def release(self) -> None:
        """End the view before something that takes long; whoever reads next begins another."""
        self._transaction = None
        self._open.close()

    def wait_for(self, asked: Future[_Result]) -> _Result:
        """What another thread makes; where that takes seconds, it is waited for without a view."""
        if not wait([asked], _SOON_SECONDS).done:
            self.release()
        return asked.result()

    def __enter__(self) -> OneReading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
