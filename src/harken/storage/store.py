"""What a store is: transactions over the shared tables, and the two searches that engines do differently."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from harken.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scored = tuple[int, float]


@dataclass(frozen=True, slots=True)
class RowScope:
    """Which entries a search may see, as row ids and microseconds; None or empty means no limit."""

    sources: tuple[str, ...] = ()
    project_id: int | None = None
    conversation_id: int | None = None
    segment_id: int | None = None
    roles: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is limited."""
        return self == RowScope()


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A space as the store knows it: its row, and how its embedder is opened again."""

    id: int
    name: str
    dims: int
    threshold: float
    spec: dict[str, object]
    state: str


class TextIndex(Protocol):
    """Full text over each entry's own words, those of its neighbours, and its date in words."""

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        ...

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out, before their rows or their neighbours' change."""
        ...

    def search(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, limit: int, with_context: bool = True
    ) -> list[Scored]:
        """Entries that hold any of the words, best first, with a score that is higher for better ones.

        Args:
            connection: of a transaction.
            terms: words or phrases, in any case.
            scope: what may be found.
            limit: how many at most.
            with_context: whether neighbours' words and the date count as well, less than the entry's own.
        """
        ...

    def quoting(self, connection: Connection, text: str, scope: RowScope, limit: int) -> list[Scored]:
        """Entries whose own text has these words in this order, whatever stands between them, best first."""
        ...

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        ...

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which the index differs from the rows; empty when all agrees."""
        ...


class NearestIndex(Protocol):
    """The nearest vectors of a space, for scopes too large to scan."""

    def nearest(
        self,
        connection: Connection,
        space: StoredSpace,
        query: NDArray[np.float32],
        limit: int,
        among: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Ids of about the `limit` nearest entries, best first; the caller rescores them exactly from the rows.

        Args:
            connection: of a transaction.
            space: whose vectors are compared.
            query: `(dims,)` float32, unit length.
            limit: how many at most.
            among: only these may be found; those without a vector are passed over. None is everything.
        """
        ...

    def inside(self, connection: Connection, scope: RowScope, at_most: int) -> NDArray[np.int64] | None:
        """Ids of the entries of a scope, with or without a vector; None when there are more than `at_most`."""
        ...

    def save(self) -> None:
        """Keep what was derived for the next process, where that is worth it."""
        ...

    def discard(self) -> None:
        """Throw the derived index away, in memory and on disk; rows are untouched."""
        ...

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which a kept index cannot be trusted."""
        ...


@dataclass(frozen=True, slots=True)
class Transaction:
    """A connection inside a transaction, with the tenant that every statement is bound to."""

    connection: Connection
    tenant: str
    text: TextIndex


class Store(Protocol):
    """One open store; safe to use from several threads, each transaction on its own connection."""

    url: str
    tenant: str

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

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that holds the write lock from its start; an exception rolls it back.

        Raises:
            StoreBusyError: another process held the lock for too long.
            StoreFullError: no space is left.
            StoreReadOnlyError: the database cannot be written.
        """
        ...

    def check(self) -> list[str]:
        """One sentence for each damage that the engine itself can see."""
        ...

    def scrub(self) -> bool:
        """Overwrite what deleted rows left in the files; False when other processes prevented it."""
        ...

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the database while others use it."""
        ...

    def size_bytes(self) -> int:
        """What the database takes on disk."""
        ...

    def close(self) -> None:
        """Give every connection back."""
        ...


def open_store(place: str | Path, cache: Path) -> Store:
    """Open a store, making and upgrading the embedded one as needed.

    Args:
        place: the embedded store's file, or a URL: `sqlite:///PATH`, or `sqlite://` for one in memory.
        cache: a folder for derived indexes; made when it is first needed.
    Raises:
        ConfigError: the URL is none, or names an engine that this Harken does not have.
        StoreError: the database cannot be opened.
    """
    file = place if isinstance(place, Path) else _file_of(place)
    from harken.storage.sqlite.store import SqliteStore

    return SqliteStore(file, cache)


def _file_of(url: str) -> Path | None:
    """The file that a URL of the embedded engine names; None for a store in memory."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"store: '{url}' is no URL. Use sqlite:///PATH.") from error
    engine = parsed.get_backend_name()
    if engine != "sqlite":
        raise ConfigError(f"store: there is no engine '{engine}'. Use sqlite:///PATH.")
    return Path(parsed.database) if parsed.database and parsed.database != ":memory:" else None
