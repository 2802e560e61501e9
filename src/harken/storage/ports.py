"""Ports of a store: transactions over the shared tables, and the two searches that engines do differently."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    bindparam,
    delete,
    func,
    select,
    update,
)

from harken.model.conversations import DERIVED_SOURCES, KEPT_FOLDERS
from harken.storage.statements import insertion, row_reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scored = tuple[int, float]
Values = Mapping[str, Any]
# A table, and which of its rows: of entries and vectors those of a space, elsewhere 0.
RowCount = tuple[str, int]
# What `Dialect.bare_rows` is asked; words, each list with the `most` for `TextIndex.holders`; and what `find` is asked.
Question = tuple[ClauseElement, Values]
WordsAsked = tuple[Sequence[str], str, "RowScope", int, bool]
WordLists = Sequence[tuple[Sequence[str], int | None]]
EMBEDDED_TENANT = "local"
# The name under which statements that are made once get the ids that they are about.
AMONG = "among"
MESSAGE_SOURCE = "message"
APART_SOURCES = frozenset({*KEPT_FOLDERS, *DERIVED_SOURCES})  # their entries belong to no conversation


@dataclass(frozen=True, slots=True)
class RowScope:
    """Which entries a search may see, as row ids and microseconds; None or empty means no limit.

    Attributes:
        conversation_ids: any of these conversations.
        without_conversation_id: no entry of this one.
        facets: all of these.
        without_sources: no entry of these sources.
        without_untrusted: no entry that is not to be trusted.
        without_project_ids: no entry of these projects; those of none stay.
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
    without_project_ids: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether nothing is limited."""
        return self == RowScope()

    @property
    def is_narrow(self) -> bool:
        """Whether it is some conversations, or a part of one."""
        return self.conversation_id is not None or self.segment_id is not None or bool(self.conversation_ids)

    @property
    def is_small_part(self) -> bool:
        """Whether it is likely to be a small part of a store."""
        of_projects = self.project_id is not None or bool(self.without_project_ids)
        chosen = self.outside_conversations or bool(self.facets) or of_projects
        return chosen or self.is_narrow or self.since is not None or self.until is not None

    @property
    def outside_conversations(self) -> bool:
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
        ids: of each term the entries that hold it, ascending.
        entries: how many entries the scope has, with any of the words or none; 0 where they were not counted.
        inside: the same where that is of the whole segment, and this of the scope alone; else 0.
    """

    ids: Mapping[str, NDArray[np.int64]]
    entries: int
    inside: int = 0

    @property
    def of(self) -> dict[str, frozenset[int]]:
        """Each term with the entries that hold it."""
        return {term: frozenset(ids.tolist()) for term, ids in self.ids.items()}


class TextIndex(Protocol):
    """Full text over each entry's own words, those of its neighbours, and its date in words."""

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out, before their rows or their neighbours' change."""

    def before_change(self, connection: Connection, entry_ids: Sequence[int]) -> Callable[[Sequence[int]], None]:
        """What indexes entries, with new ones of higher ids, once their neighbours have changed: not yet."""
        return lambda added: self.add(connection, [*entry_ids, *added])

    def foresee_end(self, tx: Transaction, conversation_uid: str) -> None:
        """Be told that `end_of` a conversation is about to be asked; no-op without a server."""
        return

    def end_of(
        self, tx: Transaction, conversation_uid: str, rows: Sequence[Values], new_conversations: frozenset[int]
    ) -> Any:
        """What `append` takes to index rows without reading them; None where their place, or the index, asks for it."""
        return None

    def append(self, tx: Transaction, end: Any, rows: Mapping[int, Values], facets: Sequence[Sequence[str]]) -> None:
        """Index what was added at the `end_of` conversations, by id, with those whose words it stands beside."""
        self.add(tx.connection, list(rows))

    def search(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, limit: int, with_context: bool = True
    ) -> list[Scored]:
        """See `find`, without a quotation."""
        return self.find(connection, terms, "", scope, limit, with_context)[0]

    def holders(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1, most: int | None = None
    ) -> Holding:
        """Who of a scope has each word or phrase in its own text.

        The scope's entries are counted where a word has more holders than `few`. With `most`, words that more have are
        left out, and the entries are counted roughly, so that a large store takes no longer.
        """

    @abstractmethod
    def find(
        self,
        connection: Connection,
        terms: Sequence[str],
        quote: str,
        scope: RowScope,
        limit: int,
        with_context: bool = True,
    ) -> tuple[list[Scored], set[int]]:
        """Entries that hold any of the words or phrases, best first, with a score that is higher for better ones.

        With context, the words of neighbours and the date count as well, less than the entry's own. Also the ids of
        entries whose own text has the words of a quote in this order, whatever marks stand between them.
        """

    def foresee(self, tx: Transaction, asked: WordsAsked, holders: WordLists) -> None:
        """Be told that `find` is about to be asked, and `holders` of some words and `most`; no-op likewise."""
        return

    def merge(self, connection: Connection) -> bool:
        """Bring the index a little nearer to how it is read soonest; whether that is not all. No-op on a server."""
        return False

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which the index differs from the rows; empty when all agrees."""


class NearestIndex(Protocol):
    """Comparison of vectors: the nearest of a scope, and how near some entries are."""

    def nearest(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        """The nearest in the scope with their cosine similarity, best first; the query is `(dims,)`, of unit length."""
        return self.compare(tx, space, query, scope, limit, ())[0]

    @abstractmethod
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

    def foresee(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> None:
        """Be told that a scope of a space is about to be compared; no-op without a server."""
        return

    def build_index(self) -> None:
        """Make what many new vectors ask for, however long it takes; called when all are embedded."""

    def discard(self) -> None:
        """Throw the derived index away, in memory and on disk; rows are untouched."""

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each way in which a kept index cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right that somebody has on a server and should not have, or the other way round.

    Attributes:
        problem: one sentence.
        fixed: whether it is right now.
    """

    problem: str
    fixed: bool


class Dialect(Protocol):
    """The statements that engines spell differently; two of one engine are equal.

    Attributes:
        is_remote: whether each statement waits for a server, so that it pays to `foresee`.
    """

    is_remote: ClassVar[bool]

    def __hash__(self) -> int:
        """Statements are made once for each engine."""

    def of_tenant(self, table: FromClause, tenant: str | BindParameter[str]) -> tuple[ColumnElement[bool], ...]:
        """The condition that rows to be counted are of a tenant; none where there is one tenant alone."""

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Whether a column has one of the values, however many they are."""

    def among(self, column: ColumnElement[Any], name: str = AMONG) -> ColumnElement[bool]:
        """The same of numbers or texts that each execution binds, as `listing` gives them, to a name."""

    def listing(self, values: Sequence[Any]) -> object:
        """Values as a statement with `among` takes them."""

    def bare_rows(self, connection: Connection, statement: ClauseElement, values: Values) -> Sequence[Sequence[Any]]:
        """The rows of a statement that was made once and is kept for good, by place alone and as the driver gives them.

        The types of its columns convert nothing, and it has no list (`IN`).
        """

    def foresee(self, connection: Connection, *questions: Question) -> None:
        """Be told what `bare_rows` is about to be asked, of what is not written before; no-op without a server."""

    def end_with(self, connection: Connection, *questions: Question) -> None:
        """The same of the last that a transaction asks which reads; what else is asked afterwards may be newer."""

    def kept_counts(self, connection: Connection) -> Mapping[RowCount, int] | None:
        """The counts of rows that the engine keeps for `storage.state.count_rows`; None where it does not."""

    def keep_counts(self, connection: Connection, counts: Mapping[RowCount, int]) -> None:
        """Keep these from now on; no-op where none are kept."""

    def execute_each(self, connection: Connection, statement: ClauseElement, values: Sequence[Values]) -> None:
        """Execute a statement that was made once and is kept for good with each of some values, as Python has them."""

    def add_rows(self, connection: Connection, table: Table, rows: Sequence[Values]) -> Sequence[int]:
        """Insert rows of the same columns, complete but for ids, as Python has them; and give the ids in order."""

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert one row or some of different keys; each may change the one that has its key.

        Rows are complete but for the id, `{}` where they are given when the statement is executed. The key is that of
        a unique constraint, without the tenant. A row of the same key gets the changes, which may speak of its columns,
        if the condition holds for it; without changes it stays as it is.
        """


@dataclass(frozen=True, slots=True)
class Transaction:
    """A connection inside a transaction, with the tenant that every statement is bound to."""

    connection: Connection
    tenant: str
    text: TextIndex
    dialect: Dialect

    def select(self, *wanted: Any, of: FromClause | None = None) -> Select[Any]:
        """A selection of the tenant's rows: of the table that the first of the columns is of, unless one is named."""
        table = of if of is not None else wanted[0] if isinstance(wanted[0], FromClause) else wanted[0].table
        return select(*wanted).where(table.c.tenant == self.tenant)

    def count(self, table: FromClause, *conditions: Any) -> int:
        """How many of the tenant's rows meet the conditions."""
        statement = (
            select(func.count()).select_from(table).where(*self.dialect.of_tenant(table, self.tenant), *conditions)
        )
        return int(self.connection.execute(statement).scalar_one())

    def insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows that are complete but for id and tenant; without any, do nothing."""
        if made := [{"tenant": self.tenant, **row} for row in rows]:
            self.dialect.execute_each(self.connection, insertion(table), made)

    def put(self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Give the row of a unique key these values, made if it is new."""
        row = {"tenant": self.tenant, **key, **values}
        self.connection.execute(self.dialect.upsert(table, row, tuple(key), values))

    def update(self, table: Table, *conditions: Any, **values: Any) -> int:
        """Change the tenant's rows that meet the conditions; how many they are."""
        statement = update(table).where(table.c.tenant == self.tenant, *conditions).values(**values)
        return self.connection.execute(statement).rowcount

    def delete(self, table: Table, *conditions: Any) -> int:
        """Delete the tenant's rows that meet the conditions; how many they were."""
        return self.connection.execute(delete(table).where(table.c.tenant == self.tenant, *conditions)).rowcount


class Readable(Protocol):
    """What of a store a search needs."""

    @property
    def text(self) -> TextIndex:
        """The full-text index."""

    @property
    def nearest(self) -> NearestIndex:
        """The index of nearest vectors."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A consistent view that writes nothing."""


class Store(Readable, Protocol):
    """One open store; safe to use from several threads, each transaction on its own connection."""

    url: str
    tenant: str

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

    def rows_imported(self) -> None:
        """Be told that many rows came at once; quick for the most part."""

    def count_ahead(self) -> None:
        """Have many new rows counted once and for all; no-op where somebody is writing, or counts are not kept."""

    def check(self) -> list[str]:
        """One sentence for each damage that the engine itself can see."""

    def mend(self) -> bool:
        """Repair what can be repaired from the rows themselves; whether no such damage is left."""

    def check_rights(self, fix: bool = False) -> list[Right]:
        """Each way in which others may use the store than its operator has let in; none where only files guard it."""

    def scrub(self) -> bool:
        """Overwrite what deleted rows left in the files; False when other processes prevented it."""

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the database while others use it."""

    def size_bytes(self) -> int:
        """What the database takes on disk."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Call `wake` whenever another process leaves work behind, until the returned function is called.

        None where the engine has no such signal, and workers find their work by polling.
        """

    def close(self) -> None:
        """Keep what was derived, where that is worth it, and give every connection back."""


# SQLite binds 32,766 values in one statement, PostgreSQL's protocol 65,535.
_MOST = 10_000

_Value = TypeVar("_Value")


def batches(values: Iterable[_Value], most: int = _MOST) -> Iterator[list[_Value]]:
    """The values in order, in lists that one statement can bind."""
    rest = iter(values)
    while batch := list(islice(rest, most)):
        yield batch


def rows_in(
    tx: Transaction, statement: Select[Any], column: ColumnElement[Any], values: Iterable[Any]
) -> Iterator[Any]:
    """The rows of a statement whose column has one of the values; one made once names the tenant `of_tenant`."""
    for batch in batches(values):
        chosen = statement.where(tx.dialect.one_of(column, batch))
        # All at once: one by one they take half as long again.
        yield from tx.connection.execute(chosen, {"of_tenant": tx.tenant}).all()


def rows_among(tx: Transaction, statement: Select[Any], values: Iterable[Any]) -> Iterator[Any]:
    """The rows of a statement that was made once, with the places `of_tenant` and that of `Dialect.among`."""
    for batch in batches(values):
        yield from named_rows(tx, *among_these(tx, statement, batch))


def named_rows(tx: Transaction, statement: Select[Any], values: Values) -> list[Any]:
    """The rows that `Dialect.bare_rows` gives by name, and as the types of their columns convert them."""
    kind: Any = type(tx.connection.dialect)
    read = row_reader(statement, kind)
    return [read(row) for row in tx.dialect.bare_rows(tx.connection, statement, values)]


def rows_by(tx: Transaction, column: Column[Any], values: Iterable[Any], *wanted: Any) -> Iterator[Any]:
    """The rows of a table of which a column has one of the values, or some of their columns."""
    return rows_among(tx, _rows_by(tx.dialect, column, wanted), values)


@cache
def _rows_by(dialect: Dialect, column: Column[Any], wanted: tuple[Any, ...]) -> Select[Any]:
    """Made once for the same columns: putting it together takes longer than to execute it."""
    chosen = column.table.c.tenant == bindparam("of_tenant"), dialect.among(column)
    return select(*(wanted or (column.table,))).where(*chosen)


def bare_among(tx: Transaction, statement: Select[Any], values: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """The same as `rows_among` by place alone and sooner, where the types of its columns convert nothing."""
    for batch in batches(values):
        yield from tx.dialect.bare_rows(tx.connection, *among_these(tx, statement, batch))


def among_these(tx: Transaction, statement: Select[Any], values: Sequence[Any]) -> tuple[Select[Any], dict[str, Any]]:
    """What `bare_among` asks, of values that one statement can bind."""
    return statement, {"of_tenant": tx.tenant, AMONG: tx.dialect.listing(values)}


def bare_by(tx: Transaction, column: Column[Any], values: Iterable[Any], *wanted: Any) -> Iterator[Sequence[Any]]:
    """The same as `rows_by` for columns whose types convert nothing."""
    return bare_among(tx, _rows_by(tx.dialect, column, wanted), values)


def asked_by(tx: Transaction, column: Column[Any], values: Sequence[Any], *wanted: Any) -> Question:
    """What `bare_by` asks, of values that one statement can bind."""
    return among_these(tx, _rows_by(tx.dialect, column, wanted), values)
