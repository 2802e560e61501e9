"""What a store is: transactions over the shared tables, and the two searches that engines do differently."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Connection

from harken.errors import ConfigError, MissingExtraError, UsageError
from harken.model import DERIVED_SOURCES, KEPT_FOLDERS
from harken.storage.dialect import Dialect
from harken.storage.urls import SERVER_ENGINE, file_of, parse_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scored = tuple[int, float]
EMBEDDED_TENANT = "local"
# Entries of these belong to no conversation.
APART_SOURCES = frozenset({*KEPT_FOLDERS, *DERIVED_SOURCES})


@dataclass(frozen=True, slots=True)
class RowScope:
    """Which entries a search may see, as row ids and microseconds; None or empty means no limit.

    Attributes:
        conversation_ids: any of these conversations.
        without_conversation_id: no entry of this one.
        facets: all of these.
        without_sources: no entry of these sources.
        without_untrusted: no entry that is not to be trusted.
    """

    sources: tuple[str, ...] = ()
    project_id: int | None = None
    conversation_id: int | None = None
    segment_id: int | None = None
    roles: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    conversation_ids: tuple[int, ...] = ()
    without_conversation_id: int | None = None
    facets: tuple[str, ...] = ()
    without_sources: tuple[str, ...] = ()
    without_untrusted: bool = False

    @property
    def is_open(self) -> bool:
        """Whether nothing is limited."""
        return self == RowScope()

    @property
    def is_narrow(self) -> bool:
        """Whether it is some conversations, or a part of one."""
        return self.conversation_id is not None or self.segment_id is not None or bool(self.conversation_ids)

    @property
    def is_apart(self) -> bool:
        """Whether it is of no conversation at all, by its sources alone."""
        return bool(self.sources) and APART_SOURCES.issuperset(self.sources)


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A space as the store knows it: its row, and how its embedder is opened again."""

    id: int
    name: str
    dims: int
    threshold: float
    spec: dict[str, object]
    state: str


@dataclass(frozen=True, slots=True)
class Holding:
    """Who has which word.

    Attributes:
        of: each term with the ids of the entries that hold it.
        entries: how many entries the scope has, with any of the words or none; 0 where they were not counted.
    """

    of: Mapping[str, frozenset[int]]
    entries: int


class TextIndex(Protocol):
    """Full text over each entry's own words, those of its neighbours, and its date in words."""

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        ...

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out, before their rows or their neighbours' change."""
        ...

    def outdate(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Say that entries are added anew once their neighbours have changed, which they have not yet."""
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

    def holders(self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1) -> Holding:
        """Who of a scope has each word in its own text.

        Args:
            connection: of a transaction.
            terms: words or phrases, in any case.
            scope: what may be found; narrow, for all of it is counted.
            few: where no word has more holders than this, the scope's entries are not counted.
        """
        ...

    def quoting(self, connection: Connection, text: str, scope: RowScope, limit: int) -> list[Scored]:
        """Entries whose own text has these words in this order, whatever stands between them, best first."""
        ...

    def find(
        self,
        connection: Connection,
        terms: Sequence[str],
        quote: str,
        scope: RowScope,
        limit: int,
        with_context: bool = True,
    ) -> tuple[list[Scored], set[int]]:
        """What `search` finds, and who is `quoting`; nobody where the quote is empty."""
        ...

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        ...

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which the index differs from the rows; empty when all agrees."""
        ...


class NearestIndex(Protocol):
    """Comparison of vectors: the nearest of a scope, and how near some entries are."""

    def nearest(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        """The nearest entries in the scope with their exact cosine similarity, -1 to 1, best first.

        Args:
            tx: any transaction.
            space: whose vectors are compared.
            query: `(dims,)` float32, unit length.
            scope: what may be found.
            limit: how many at most.
        """
        ...

    def compare(
        self,
        tx: Transaction,
        space: StoredSpace,
        query: NDArray[np.float32],
        scope: RowScope,
        limit: int,
        also: Sequence[int],
    ) -> tuple[dict[int, float], dict[int, float]]:
        """What is `nearest`; and the similarities of those and of these entries besides."""
        ...

    def save(self) -> None:
        """Keep what this process has derived, where that is worth it; quick, for it is called at the end of each."""
        ...

    def settle(self) -> None:
        """Make what many new vectors ask for, however long it takes; called when all are embedded."""
        ...

    def discard(self) -> None:
        """Throw the derived index away, in memory and on disk; rows are untouched."""
        ...

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which a kept index cannot be trusted."""
        ...


@dataclass(frozen=True, slots=True)
class Right:
    """A right that somebody has on a server and should not have, or the other way round.

    Attributes:
        problem: one sentence.
        fixed: whether it is right now.
    """

    problem: str
    fixed: bool


@dataclass(frozen=True, slots=True)
class Transaction:
    """A connection inside a transaction, with the tenant that every statement is bound to."""

    connection: Connection
    tenant: str
    text: TextIndex
    dialect: Dialect


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

    def writing(self, of: Sequence[str] | None = None) -> AbstractContextManager[Transaction]:
        """A transaction that holds the write lock from its start; an exception rolls it back.

        Args:
            of: names of what is written, so that an engine may let others write the rest meanwhile; empty where
                rows are claimed one by one. None keeps every other writer of the tenant out.
        Raises:
            StoreBusyError: another process held the lock for too long.
            StoreFullError: no space is left.
            StoreReadOnlyError: the database cannot be written.
        """
        ...

    def brought_in(self) -> None:
        """Be told that many rows came at once; quick for the most part."""
        ...

    def check(self) -> list[str]:
        """One sentence for each damage that the engine itself can see."""
        ...

    def check_rights(self, fix: bool = False) -> list[Right]:
        """Each way in which others may use the store than its operator has let in; where only files guard it, none.

        Args:
            fix: repair what this login may repair.
        """
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

    def listen(self, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Call `wake` whenever another process leaves work behind, until the returned function is called.

        Returns:
            What ends it; None where the engine has no such signal, and workers find their work by polling.
        """
        ...

    def close(self) -> None:
        """Give every connection back."""
        ...


def open_store(place: str | Path, cache: Path, tenant: str = EMBEDDED_TENANT) -> Store:
    """Open a store; the embedded one is made and upgraded as needed, a server's must have been (`harken migrate`).

    Args:
        place: the embedded store's file, or a URL: `sqlite:///PATH`, `sqlite://` for one in memory, or
            `postgresql://USER@HOST/DATABASE`.
        cache: a folder for derived indexes; made when it is first needed.
        tenant: whose rows of a server's tables; the embedded store has one tenant.
    Raises:
        ConfigError: the URL is none, or names an engine that this Harken does not have.
        MissingExtraError: what the engine needs is not installed.
        StoreError: the database cannot be opened.
    """
    url = None if isinstance(place, Path) else parse_url(place)
    if url is not None and url.get_backend_name() == SERVER_ENGINE:
        _need_driver()
        from harken.storage.postgres.store import PostgresStore

        return PostgresStore(url, tenant)
    if tenant != EMBEDDED_TENANT:
        raise ConfigError(f"tenant: the embedded store has one tenant, '{EMBEDDED_TENANT}', not '{tenant}'.")
    from harken.storage.sqlite.store import SqliteStore

    return SqliteStore(place if isinstance(place, Path) else file_of(url), cache)


@dataclass(frozen=True, slots=True)
class Migrated:
    """What bringing a schema up to date did.

    Attributes:
        before: the schema version that was there; None for an empty database.
    """

    before: str | None


def migrate_store(
    place: str, tenant: str, cache: Path, language: str | None = None, role: str | None = None
) -> Migrated:
    """Make or upgrade a store's schema; the embedded one is upgraded whenever it is opened.

    Args:
        place: as for `open_store`.
        tenant: likewise.
        cache: likewise.
        language: whose word forms a server's full text knows; None keeps what is there, English at first.
        role: who gets the rights to use a server's tables.
    Raises:
        UsageError: the embedded store has no such options, or the server no such language or role.
        StoreError: the database cannot be opened or changed.
    """
    url = parse_url(place)
    if url.get_backend_name() == SERVER_ENGINE:
        _need_driver()
        from harken.storage.postgres.store import migrate

        return migrate(url, language, role)
    if language or role:
        raise UsageError("Language and role are a server's matter; this store is an embedded file.")
    open_store(place, cache, tenant).close()
    from harken.storage.migrations import HEAD

    return Migrated(HEAD)


def _need_driver() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("A store on PostgreSQL", "postgres")
