"""The nearest vectors by pgvector: exact where few are compared, by an HNSW index where many are."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    literal_column,
    null,
    select,
    text,
    union_all,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Float, UserDefinedType

from harken.log import Log
from harken.storage.entries import scope_conditions
from harken.storage.ports import NearestIndex, Question, RowScope, StoredSpace, Transaction
from harken.storage.postgres.connection import Statistics, driver_of, set_local
from harken.storage.postgres.dialect import PostgresDialect, bare_rows
from harken.storage.postgres.fulltext import TsvectorIndex, entries_inside
from harken.storage.tables import counters, entries, refers, vectors
from harken.storage.vectors import VECTORS_REMOVED, Float32, Int64, best_of, similarities

# The vectors of a space of up to so many are compared here; with 384 dimensions 7 MB.
MOST_VECTORS = 5_000
# Up to so many rows comparing all is quicker than the index, and finds all (shared facts: "exact per tenant").
EXACT_UP_TO = 20_000
_EF_SEARCH_MOST = 1000
# One answers, two are of the model for other languages.
_KEPT_SPACES = 3
_READ_AGAIN = 50
_RECOUNT_SECONDS = 30.0
# An index on a text of halves orders by rounded distances: some more than wanted hold the best.
_SLACK = 20

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A vector on its way to the server."""

    numbers: Float32


class _Vector(UserDefinedType[str]):
    cache_ok = True
    # Or it would be a text that the server makes a vector of for every row.
    render_bind_cast = True

    def get_col_spec(self, **_options: object) -> str:
        return "vector"


class _Halves(UserDefinedType[str]):
    cache_ok = True

    def __init__(self, dims: int) -> None:
        self.dims = dims

    def get_col_spec(self, **_options: object) -> str:
        return f"halfvec({self.dims})"


_OF_TENANT: BindParameter[str] = bindparam("of_tenant")
_MINE = vectors.c.tenant == _OF_TENANT, vectors.c.space_id == bindparam("of_space")
_REMOVED = (
    select(counters.c.value)
    .where(counters.c.tenant == _OF_TENANT, counters.c.name == VECTORS_REMOVED)
    .scalar_subquery()
)
_NUMBERS: list[ColumnElement[Any]] = [func.count(), func.coalesce(_REMOVED, 0), cast(null(), Text)]
# How many there are and how often any were removed, and those whose rows are younger than one: by one question, since
# each is one more message between the machines of a cluster.
_STATE = union_all(
    select(*_NUMBERS).select_from(vectors).where(*_MINE),
    select(vectors.c.id, vectors.c.entry_id, func.encode(func.halfvec_send(vectors.c.vector), "hex")).where(
        *_MINE, vectors.c.id > bindparam("behind")
    ),
)


class HeldVectors:
    """Keeps the vectors of the spaces that were asked last, if they are few; threads may share it.

    To have the server compare them takes five times as long. They are held to the rows each time by two numbers: how
    many there are, and how often any were removed. Ids are no measure here, for of two who write at once the later id
    may be committed first.
    """

    def __init__(self) -> None:
        self._held: dict[int, Matrix] = {}
        self._lock = threading.Lock()

    def of(self, tx: Transaction, space: StoredSpace) -> Matrix | None:
        """All vectors of a space as the transaction sees them; None where they are too many to be held."""
        held = self._known(space)
        count, removed, rows = self._read(tx, space, held)
        if count > MOST_VECTORS:
            with self._lock:
                self._held.pop(space.id, None)
            return None
        known = 0 if held is None else held.newest
        fresh = [row for row in rows if row[0] > known]
        if held is not None and held.removed == removed and len(held.ids) + len(fresh) == count:
            if fresh:
                held = held.with_rows(fresh)
            elif len(rows) > _READ_AGAIN:
                # Fewer are asked for again, for a transaction that reads sends the same question but once.
                held = replace(held, behind=known)
        else:
            # Some were removed, or somebody whose ids are lower has committed since.
            all_of_it = rows if held is None else self._read(tx, space, None)[2]
            held = Matrix.empty(space, removed)
            held = held.with_rows(all_of_it) if all_of_it else held
        with self._lock:
            self._held.pop(space.id, None)
            self._held[space.id] = held
            while len(self._held) > _KEPT_SPACES:
                del self._held[next(iter(self._held))]
        return held

    def foresee(self, tx: Transaction, space: StoredSpace) -> None:
        """Have asked what `of` will ask, if nothing was removed; of a space that nobody has compared, nothing.

        All of its vectors would come, and again with each search whose query has no need of them.
        """
        if held := self._known(space):
            tx.dialect.foresee(tx.connection, self._question(tx, space, held))

    def _known(self, space: StoredSpace) -> Matrix | None:
        with self._lock:
            return self._held.get(space.id)

    def _read(
        self, tx: Transaction, space: StoredSpace, held: Matrix | None
    ) -> tuple[int, int, Sequence[Sequence[Any]]]:
        rows = tx.dialect.bare_rows(tx.connection, *self._question(tx, space, held))
        [(count, removed, _)] = [row for row in rows if row[2] is None]
        return count, removed, [row for row in rows if row[2] is not None]

    def _question(self, tx: Transaction, space: StoredSpace, held: Matrix | None) -> Question:
        return _STATE, {"of_tenant": tx.tenant, "of_space": space.id, "behind": 0 if held is None else held.behind}

    def discard(self) -> None:
        """Forget them."""
        with self._lock:
            self._held.clear()


@dataclass(frozen=True, slots=True)
class Matrix:
    """The vectors of a space.

    Attributes:
        removed: how often vectors of the tenant had been removed.
        newest: the highest id of a vector's row.
        behind: that from which on rows are asked for.
        ids: of the entries, `(n,)`.
        matrix: `(n, dims)` float32, unit length.
    """

    space_id: int
    removed: int
    newest: int
    behind: int
    ids: Int64
    matrix: Float32

    @classmethod
    def empty(cls, space: StoredSpace, removed: int) -> Matrix:
        """No vectors yet."""
        return cls(space.id, removed, 0, 0, np.empty(0, dtype=np.int64), np.empty((0, space.dims), dtype=np.float32))

    def with_rows(self, rows: Sequence[Sequence[Any]]) -> Matrix:
        """The same and these: a row's id, its entry's, and a vector as the server sends it, in hexadecimal digits."""
        dims = self.matrix.shape[1]
        # Two bytes say how many numbers follow, two are empty.
        whole = np.frombuffer(bytes.fromhex("".join(row[2] for row in rows)), dtype=">f2").reshape(len(rows), dims + 2)
        fresh = whole[:, 2:].astype(np.float32)
        fresh /= np.maximum(np.sqrt(np.einsum("nd,nd->n", fresh, fresh)), np.finfo(np.float32).tiny)[:, None]
        ids = np.fromiter((row[1] for row in rows), dtype=np.int64, count=len(rows))
        newest = max(self.newest, *(row[0] for row in rows))
        both = np.concatenate([self.ids, ids]), np.concatenate([self.matrix, fresh])
        return Matrix(self.space_id, self.removed, newest, self.behind, *both)

    def compare(
        self, query: Float32, limit: int, also: Sequence[int], inside: Int64 | None = None
    ) -> tuple[dict[int, float], dict[int, float]]:
        """The nearest with their cosine similarity, best first; and that of those and of these entries besides.

        Only what is `inside` is among the nearest, where that is told.
        """
        length = float(np.sqrt(np.einsum("d,d->", query, query)))
        scores = similarities(self.matrix, query / np.float32(length or 1.0))
        near = best_of(self.ids, scores, limit) if inside is None else self._nearest_of(inside, scores, limit)
        named = np.flatnonzero(np.isin(self.ids, np.asarray(also, dtype=np.int64)))
        rest = dict(zip(self.ids[named].tolist(), scores[named].tolist(), strict=True))
        return near, near | rest

    def _nearest_of(self, inside: Int64, scores: Float32, limit: int) -> dict[int, float]:
        there = np.flatnonzero(np.isin(self.ids, inside))
        return best_of(self.ids[there], scores[there], limit)


class PgvectorIndex(NearestIndex):
    """A `NearestIndex` by pgvector; makes the indexes of a tenant's spaces outside of any transaction."""

    def __init__(
        self,
        engine: Engine,
        tenant: str,
        translated: Callable[[], AbstractContextManager[None]],
        statistics: Statistics,
        words: TsvectorIndex,
    ) -> None:
        self._engine = engine
        self._text = words
        self._statistics = statistics
        self._tenant = tenant
        self._translated = translated
        self._sizes: dict[tuple[str, int], tuple[float, int]] = {}
        self._lock = threading.Lock()
        self._dialect = PostgresDialect()
        self._held = HeldVectors()

    def compare(
        self, tx: Transaction, space: StoredSpace, query: Float32, scope: RowScope, limit: int, also: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """The nearest; and the similarities of those and of these entries besides, by one question."""
        held = self._held.of(tx, space) if self._is_held(tx, space, scope, limit) else None
        if held is not None:
            asked = entries_inside(self._tenant, scope) if limit else ()
            listed = [np.fromstring(bare_rows(tx.connection, *each)[0][1], dtype=np.int64, sep=",") for each in asked]
            return held.compare(query, limit, also, reduce(np.intersect1d, listed) if listed else None)
        values = {"of_tenant": tx.tenant, "of_space": space.id, "query": _Sent(query), "most": limit}
        values["among"] = self._dialect.listing(also)
        statement, is_kept = self._statement(tx, space, scope, limit)
        if is_kept:
            rows = bare_rows(tx.connection, statement, values)
        else:
            rows = tx.connection.execute(statement, values).all()
        near = sorted([row[:2] for row in rows if row[2]], key=lambda row: (-row[1], row[0]))
        return dict(near), {row[0]: row[1] for row in rows}

    def foresee(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> None:
        """What was written to a space that is held, and which entries the scope has."""
        if self._is_held(tx, space, scope, 1):
            self._held.foresee(tx, space)
            tx.dialect.foresee(tx.connection, *entries_inside(self._tenant, scope))

    def _is_held(self, tx: Transaction, space: StoredSpace, scope: RowScope, limit: int) -> bool:
        is_few = self._size(tx, space) <= min(MOST_VECTORS, EXACT_UP_TO)
        return is_few and (not limit or self._text.lists(tx.connection, scope))

    def build_index(self) -> None:
        """Make the index of every space that has outgrown comparing all, where the role may."""
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            # Of a cluster this server has no rows itself, and does not count the tables of its machines.
            if connection.execute(_CHANGED, {"least": EXACT_UP_TO}).scalar():
                # Or searches would be planned for the tables as they were, until the server looks by itself.
                self._statistics.count()
            else:
                self._statistics.refresh("vectors")
            made = set(connection.execute(_MADE).scalars())
            for space_id, dims in connection.execute(_GROWN, {"tenant": self._tenant, "least": EXACT_UP_TO}).all():
                name = f"ix_vectors_hnsw_{space_id}"
                if name in made:
                    continue
                statement = (
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors"
                    f" USING hnsw ((vector::halfvec({dims})) halfvec_cosine_ops) WHERE space_id = {space_id}"
                )
                try:
                    connection.exec_driver_sql(statement)
                except DBAPIError as error:
                    # Searches go on without the index, slower: this role does not own the table, or there is no room.
                    _log.warning("vector_index_not_made", space=space_id, error_class=type(error).__name__)

    def discard(self) -> None:
        """Forget what this process holds; the server keeps its index in step by itself."""
        self._held.discard()

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each index that a broken-off making left unusable."""
        invalid = connection.execute(_INVALID).scalars().all()
        return [f"The vector index {name} is incomplete. Drop it: DROP INDEX {name}" for name in invalid]

    def _few(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> bool:
        if scope.is_narrow or self._size(tx, space) <= EXACT_UP_TO:
            return True
        if not scope.is_small_part:
            return False
        inside = select(entries.c.id).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))
        counted = select(func.count()).select_from(inside.limit(EXACT_UP_TO + 1).subquery())
        return int(tx.connection.execute(counted).scalar_one()) <= EXACT_UP_TO

    def _size(self, tx: Transaction, space: StoredSpace) -> int:
        """How many vectors the tenant has in the space, counted to just above the limit and now and then."""
        with self._lock:
            counted = self._sizes.get((tx.tenant, space.id))
        if counted is not None and time.monotonic() - counted[0] < _RECOUNT_SECONDS:
            return counted[1]
        size = int(tx.connection.execute(_SIZE, {"of_tenant": tx.tenant, "of_space": space.id}).scalar_one())
        with self._lock:
            self._sizes[tx.tenant, space.id] = (time.monotonic(), size)
        return size

    def _statement(
        self, tx: Transaction, space: StoredSpace, scope: RowScope, limit: int
    ) -> tuple[Select[Any] | CompoundSelect[Any], bool]:
        """What to ask, and whether the next search asks the same."""
        if not limit:
            return _named(self._dialect), True
        if self._few(tx, space, scope):
            if scope.is_open:
                return _exact(self._dialect), True
            is_small = self._size(tx, space) <= MOST_VECTORS
            return _comparing(self._dialect, _within(scope) if is_small else _scoped(scope)), False
        reach = min(limit + _SLACK, _EF_SEARCH_MOST)
        reached = {"hnsw.ef_search": str(reach), "hnsw.iterative_scan": "relaxed_order"}
        # Reading a tenant's rows and sorting them seems cheap where the server takes it for one of average size.
        reached["enable_sort"] = "off" if scope.is_open else "on"
        with driver_of(tx.connection) as driver:
            for name, value in reached.items():
                driver.later(set_local(name, value), None)
        if scope.is_open:
            return _indexed(self._dialect, space.id, space.dims, reach), True
        return _comparing(self._dialect, _by_index(_scoped(scope), space.id, space.dims, reach)), False


_OF_SPACE = select(vectors.c.entry_id, vectors.c.vector).where(*_MINE)
_SIZE = select(func.count()).select_from(_OF_SPACE.limit(literal_column(str(EXACT_UP_TO + 1))).subquery())
_QUERY: BindParameter[str] = bindparam("query", type_=_Vector())


def _scoped(scope: RowScope) -> Select[Any]:
    joined = vectors.join(entries, refers(vectors.c.entry_id, entries))
    conditions = (entries.c.tenant == bindparam("of_tenant"), *scope_conditions(scope))
    return _OF_SPACE.select_from(joined).where(*conditions)


def _within(scope: RowScope) -> Select[Any]:
    """The same by reading all vectors of the space once, whatever the server takes the tenant for.

    What is asked for its truth is no join, so that the entries are looked up in a table of their ids.
    """
    conditions = (entries.c.tenant == bindparam("of_tenant"), *scope_conditions(scope))
    return _OF_SPACE.where(vectors.c.entry_id.in_(select(entries.c.id).where(*conditions)).is_(True))


def _by_index(found: Select[Any], space_id: int, dims: int, reach: int) -> Select[Any]:
    """The nearest by the index, told its space, kind and length as it has them: or it would not be recognized."""
    halves = _Halves(dims)
    distance = cast(vectors.c.vector, halves).op("<=>", return_type=Float())(cast(_QUERY, halves))
    near = found.where(literal_column(f"vectors.space_id = {int(space_id)}")).order_by(distance)
    return near.limit(literal_column(str(reach)))


def _comparing(dialect: PostgresDialect, found: Select[Any], whole: bool = False) -> CompoundSelect[Any]:
    """Exact similarities of the nearest that a statement finds, and of entries that are named.

    Where it finds the whole space, those that are named need not be looked for.
    """
    compared = _compared(found).cte("compared")
    columns = (compared.c.entry_id, compared.c.similarity)
    best_first = (compared.c.similarity.desc(), compared.c.entry_id)
    near = select(*columns, literal(value=True)).order_by(*best_first).limit(bindparam("most", type_=Integer()))
    if whole:
        # What is asked for its truth is no join: the list is read once, however small the server takes the space for.
        is_listed = compared.c.entry_id.in_(select(func.unnest(dialect.list_of()))).is_(True)
        named = select(*columns).where(is_listed)
    else:
        return union_all(select(near.subquery("near")), _named(dialect))
    return union_all(select(near.subquery("near")), named.add_columns(literal(value=False)))


def _compared(found: Select[Any]) -> Select[Any]:
    """The stored halves against the whole query."""
    rows = found.subquery("found")
    distance = cast(rows.c.vector, _Vector()).op("<=>", return_type=Float())(_QUERY)
    return select(rows.c.entry_id, (1 - distance).label("similarity"))


@cache
def _named(dialect: PostgresDialect) -> Select[Any]:
    """Exact similarities of entries that are named."""
    return _compared(_OF_SPACE.where(dialect.among(vectors.c.entry_id))).add_columns(literal(value=False))


@cache
def _exact(dialect: PostgresDialect) -> CompoundSelect[Any]:
    return _comparing(dialect, _OF_SPACE, whole=True)


@cache
def _indexed(dialect: PostgresDialect, space_id: int, dims: int, reach: int) -> CompoundSelect[Any]:
    return _comparing(dialect, _by_index(_OF_SPACE, space_id, dims, reach))


_CHANGED = text("SELECT n_mod_since_analyze > :least FROM pg_stat_user_tables WHERE relname = 'vectors'")
_GROWN = text(
    "SELECT s.id, s.dims FROM spaces s WHERE s.tenant = :tenant AND :least <= (SELECT count(*) FROM"
    " (SELECT 1 FROM vectors v WHERE v.tenant = :tenant AND v.space_id = s.id LIMIT :least) found)"
)
_MADE = text(r"SELECT indexname FROM pg_indexes WHERE indexname LIKE 'ix\_vectors\_hnsw\_%'")
_INVALID = text(
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND c.relname LIKE 'ix\\_vectors\\_hnsw\\_%'"
)


class _SentDumper(Dumper):
    """The length in two bytes, two empty ones, and the numbers; written as text they take both sides a while."""

    format = Format.BINARY

    def dump(self, obj: _Sent) -> bytes:
        return struct.pack(">hh", len(obj.numbers), 0) + obj.numbers.astype(">f4").tobytes()


psycopg.adapters.register_dumper(_Sent, _SentDumper)
