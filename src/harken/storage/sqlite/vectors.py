"""The nearest entries by cosine similarity: all of a scope compared where they are few, else candidates of an index.

What is derived from the rows is checked against them by each question: by how many vectors were ever removed from the
store, and the id of its newest. An id is never given twice, a vector is never changed in place, and neither is an
entry, so that a scope's entries change only as vectors come or go.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from harken.storage.entries import in_scope, scope_conditions
from harken.storage.ports import NearestIndex, RowScope, StoredSpace, Transaction
from harken.storage.sqlite.fulltext import Fts5Index
from harken.storage.sqlite.postings import parsed_ids, share_of
from harken.storage.sqlite.vector_index import VectorIndex
from harken.storage.statements import bare
from harken.storage.tables import entries, refers, vectors
from harken.storage.vectors import VECTORS_REMOVED, Float32, Int64, best_of, similarities, unpack

# The vectors of a scope, or of a space, of up to so many are all compared; for more the index is quicker (ADR 5).
EXACT_UP_TO = 2_000
# With 384 dimensions 43,000 vectors.
MOST_BYTES = 64 * 2**20
# So many more are read with what is missing, until all are known: 8 ms.
_READ_AHEAD = 2_000
# An index orders by vectors of four bits: some more than wanted hold the best.
_SLACK = 50
# Scopes of up to so many entries are listed, and searched alone.
_SPARSE = 200_000
_KEPT_SCOPES = 32
_NONE: Int64 = np.empty(0, dtype=np.int64)
# One answers, two are of the model for other languages.
_KEPT_SPACES = 3
# From so many new vectors in the store on, listing a scope again is quicker than looking for its own among them.
_MOST_NEW = 2_000
_OVER_FETCH = 4
# Up to so many vectors the index looks sooner at a role's (0.4 ms of 10,000, 1.4 of 100,000) than at more of all.
_ROLES_LISTED = 20_000
_WIDEST = 20_000

_VERSION = (
    "SELECT coalesce((SELECT value FROM counters WHERE tenant = ? AND name = ?), 0),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vectors'), 0)"
)
_ROWS = "SELECT id, entry_id, vector FROM vectors WHERE tenant = ? AND space_id = ? AND "
_OF_ENTRIES = _ROWS + "entry_id IN (SELECT value FROM json_each(?))"
_BEHIND = _ROWS + "id > ? ORDER BY id LIMIT ?"


def vectors_version(tx: Transaction) -> tuple[int, int]:
    """How many vectors were ever removed, and the id of the newest: while both are the same, so are all vectors."""
    ((removed, newest),) = bare(tx.connection, _VERSION, (tx.tenant, VECTORS_REMOVED))
    return int(removed), int(newest)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, and of which version of the vectors."""

    tx: Transaction
    space: StoredSpace
    query: Float32
    removed: int
    newest: int


@dataclass(frozen=True, slots=True)
class _ScopeList:
    """Entries of a scope that had a vector when the newest was this one; of very many, one more than may be listed."""

    removed: int = -1
    newest: int = 0
    ids: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class ScopedNearest(NearestIndex):
    """A `NearestIndex` over one matrix of vectors that were read from their rows, and the index derived from the rows.

    Args:
        folder: where the derived index is kept; None keeps it in memory alone.
        with_index: False compares all vectors of a space, as where turbovec is not installed.
    """

    def __init__(self, folder: Path | None, with_index: bool = True) -> None:
        self.index = VectorIndex(folder, with_index)
        self._matrices: dict[int, VectorMatrix] = {}
        self._lists: dict[tuple[int, RowScope], _ScopeList] = {}
        self._lock = threading.Lock()

    def compare(
        self, tx: Transaction, space: StoredSpace, query: Float32, scope: RowScope, limit: int, also: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """The nearest; and the similarities of those and of these entries besides."""
        asked = _Question(tx, space, query, *vectors_version(tx))
        among = self._among(asked, scope, limit) if limit else _NONE
        with self._lock:
            matrix = self._matrix_of(space)
            if among is None:
                matrix.read_all(asked)
            else:
                matrix.read(asked, np.concatenate([among, np.array(also, dtype=np.int64)]))
            near = matrix.nearest(asked, limit, among) if limit else {}
            rest = np.array([entry_id for entry_id in also if entry_id not in near], dtype=np.int64)
            return near, near | matrix.nearest(asked, len(rest), rest)

    def save(self) -> None:
        """Keep the derived index in its folder if it grew enough."""
        self.index.save()

    def build_index(self) -> None:
        """The same: the derived index is made by whoever first searches."""
        self.save()

    def discard(self) -> None:
        """Forget what is derived, in memory and on disk."""
        self.index.discard()
        with self._lock:
            self._matrices.clear()
            self._lists.clear()

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each kept file that is damaged."""
        return self.index.problems()

    def _among(self, asked: _Question, scope: RowScope, limit: int) -> Int64 | None:
        """Entries of the scope that have the nearest among them; None where all of the space are few enough."""
        is_few = asked.newest <= EXACT_UP_TO
        if scope.is_open:
            return None if is_few else self._nearest(asked, limit + _SLACK)
        is_listed = is_few or scope.is_small_part or (_is_role(scope) and asked.newest <= _ROLES_LISTED)
        listed = self._listed_without(asked, scope) if is_listed else None
        among = self._widened(asked, scope, limit) if listed is None else listed
        return among if len(among) <= EXACT_UP_TO else self._nearest(asked, limit + _SLACK, among)

    def _nearest(self, asked: _Question, limit: int, among: Int64 | None = None) -> Int64:
        """About the nearest of a space, or of entries that have a vector; by the index, unless there are few."""
        if asked.newest > EXACT_UP_TO and self.index.serves(asked.space):
            version = asked.removed, asked.newest
            return self.index.nearest(asked.tx.connection, asked.space, version, asked.query, limit, among)
        with self._lock:
            matrix = self._matrix_of(asked.space)
            matrix.read_all(asked)
            found = matrix.nearest(asked, limit, among)
        return np.fromiter(found, dtype=np.int64, count=len(found))

    def _listed_without(self, asked: _Question, scope: RowScope) -> Int64 | None:
        """The same as `_listed`; one list of a project serves all of its conversations, each left out by its own."""
        one = scope.without_conversation_id
        if one is None or not scope.without_project_ids:
            return self._listed(asked, scope)
        wide = self._listed(asked, replace(scope, without_conversation_id=None))
        without = self._listed(asked, RowScope(conversation_ids=(one,)))
        return None if wide is None or without is None else wide[~np.isin(wide, without)]

    def _matrix_of(self, space: StoredSpace) -> VectorMatrix:
        """The matrix of a space; those of the spaces that were asked last are kept."""
        matrix = self._matrices.pop(space.id) if space.id in self._matrices else VectorMatrix()
        self._matrices[space.id] = matrix
        while len(self._matrices) > _KEPT_SPACES:
            del self._matrices[next(iter(self._matrices))]
        return matrix

    def _listed(self, asked: _Question, scope: RowScope) -> Int64 | None:
        """The entries of a scope that have a vector; None where they are too many to be listed."""
        key = asked.space.id, scope
        with self._lock:
            known = self._lists.pop(key, _ScopeList())
        if known.removed != asked.removed or not 0 <= asked.newest - known.newest <= _MOST_NEW:
            known = _ScopeList(asked.removed)
        if known.newest < asked.newest:
            # Entries of the scope with vectors that came after it was listed; all where that was never.
            fresh = select(vectors.c.entry_id).where(vectors.c.space_id == asked.space.id)
            conditions = scope_conditions(scope, has_tenants=False)
            if known.newest:
                joined = fresh.join(entries, refers(vectors.c.entry_id, entries))
                fresh = joined.where(vectors.c.id > known.newest, *conditions)
            else:
                # Not joined: SQLite would look at all vectors of the space.
                fresh = fresh.where(vectors.c.entry_id.in_(select(entries.c.id).where(*conditions)))
            chosen = fresh.limit(_SPARSE + 1 - len(known.ids)).subquery()
            listed = asked.tx.connection.execute(select(func.group_concat(chosen.c.entry_id))).scalar()
            known = _ScopeList(asked.removed, asked.newest, np.concatenate([known.ids, parsed_ids(listed)]))
        with self._lock:
            self._lists[key] = known
            while len(self._lists) > _KEPT_SCOPES:
                del self._lists[next(iter(self._lists))]
        return known.ids if len(known.ids) <= _SPARSE else None

    def _widened(self, asked: _Question, scope: RowScope, limit: int) -> Int64:
        """Entries of a wide scope, the nearest among them, by looking at ever more of all the nearest."""
        reach, without = limit * _OVER_FETCH, None
        one = scope.without_conversation_id
        if one is not None and scope == RowScope(without_conversation_id=one):
            # All that the scope leaves out is one conversation's: to list that is quickest.
            without = self._listed(asked, RowScope(conversation_ids=(one,)))
        of_roles = None
        if _is_role(scope) and isinstance(asked.tx.text, Fts5Index):
            of_roles = asked.tx.text.inside_roles(asked.tx.connection, scope.roles)
        if of_roles is not None:
            # A quarter more than would do if the role were the same part of what is near as of all.
            reach = min(reach, round(1.25 * (limit + _SLACK) / max(share_of(of_roles), 1 / _OVER_FETCH)))
        while True:
            found = self._nearest(asked, reach)
            if of_roles is not None:
                inside = found[of_roles[found]]
            elif without is None:
                inside = found[np.isin(found, list(in_scope(asked.tx, found.tolist(), scope)))]
            else:
                inside = found[~np.isin(found, without)]
            if len(inside) >= limit or len(found) < reach:
                break
            if reach >= _WIDEST:
                # So few of so many: the scope is a small part of the store after all.
                sparse = None if scope.is_small_part else self._listed(asked, scope)
                if sparse is not None:
                    return sparse
                break
            reach = min(reach * _OVER_FETCH, _WIDEST)
        return inside[: limit + _SLACK]


def _is_role(scope: RowScope) -> bool:
    return bool(scope.roles) and scope == RowScope(roles=scope.roles)


class VectorMatrix:
    """Vectors of a space, in one matrix; reading one again from its row takes ten times as long.

    Halves would need half the memory, and making 2,000 of them whole again 2.4 ms, which comparing them takes 0.1.
    """

    def __init__(self) -> None:
        self._of: tuple[int, int] | None = None

    def read(self, asked: _Question, entry_ids: Int64) -> None:
        """Read those of some entries' vectors that are not here; and from the second time on also what comes next."""
        self._check(asked)
        if self._ahead >= asked.newest:
            return
        missing = entry_ids[self._places(entry_ids) < 0]
        if self._count and self._count + len(missing) > len(self._ids):
            self._empty(asked.space.dims)
            missing = entry_ids
        # Whoever asks but once would read ahead for nothing.
        is_first = self._count == 0
        if len(missing):
            self._add(asked, _OF_ENTRIES, json.dumps(missing.tolist()))
            if not is_first and asked.newest <= len(self._ids):
                self._read_ahead(asked, _READ_AHEAD)

    def read_all(self, asked: _Question) -> None:
        """Read every vector of the space that is not here."""
        self._check(asked)
        while self._ahead < asked.newest:
            self._read_ahead(asked, 10 * _READ_AHEAD)

    def nearest(self, asked: _Question, limit: int, among: Int64 | None) -> dict[int, float]:
        """The nearest of some entries, or of all that are here, best first; as far as the question sees them."""
        places: slice | Int64 = slice(self._count)
        if among is not None:
            places = self._places(among)
            places = places[places >= 0]
            if len(places) and (last := int(places.max())) - (first := int(places.min())) < len(places):
                # Side by side, as those of a segment mostly are: rows that are picked one by one are copied.
                places = slice(first, last + 1)
        scores = similarities(self._matrix[places], asked.query)
        seen = self._numbers[places] <= asked.newest
        return best_of(self._ids[places][seen], scores[seen], limit)

    def _check(self, asked: _Question) -> None:
        if self._of != (asked.space.id, asked.removed):
            self._of = asked.space.id, asked.removed
            self._empty(asked.space.dims)

    def _empty(self, dims: int) -> None:
        # Each row's entry and number, the row of each entry, and the number up to which every vector is here.
        room, self._count, self._ahead = MOST_BYTES // (4 * dims), 0, 0
        # Takes memory only as it is filled.
        self._ids, self._numbers = np.empty((2, room), dtype=np.int64)
        self._matrix: Float32 = np.empty((room, dims), dtype=np.float32)
        self._place_of: Int64 = np.empty(0, dtype=np.int64)

    def _places(self, entry_ids: Int64) -> Int64:
        """The row of each entry; -1 where it is not here."""
        places = np.full(len(entry_ids), -1, dtype=np.int64)
        inside = entry_ids < len(self._place_of)
        places[inside] = self._place_of[entry_ids[inside]]
        return places

    def _read_ahead(self, asked: _Question, most: int) -> None:
        self._ahead = self._add(asked, _BEHIND, self._ahead, most) or asked.newest

    def _add(self, asked: _Question, statement: str, *values: str | int) -> int:
        """Add what is new of a statement's rows; the last one's number, 0 where there is none."""
        parameters = (asked.tx.tenant, asked.space.id, *values)
        rows = bare(asked.tx.connection, statement, parameters)
        if not rows:
            return 0
        numbers, ids = np.array([row[:2] for row in rows], dtype=np.int64).T
        fresh = np.flatnonzero(self._places(ids) < 0)
        first, self._count = self._count, self._count + len(fresh)
        self._ids, self._numbers, self._matrix = (
            _with_room(kept, self._count) for kept in (self._ids, self._numbers, self._matrix)
        )
        self._place_of = _with_room(self._place_of, int(ids.max()) + 1, -1)
        self._ids[first : self._count], self._numbers[first : self._count] = ids[fresh], numbers[fresh]
        self._matrix[first : self._count] = unpack([rows[place][2] for place in fresh.tolist()], self._matrix.shape[1])
        self._place_of[ids[fresh]] = np.arange(first, self._count)
        return int(numbers[-1])


def _with_room(kept: NDArray[Any], count: int, empty: int = 0) -> NDArray[Any]:
    """An array, or a larger one that begins with it where it has fewer rows."""
    if count <= len(kept):
        return kept
    return np.concatenate([kept, np.full((max(count - len(kept), len(kept)), *kept.shape[1:]), empty, kept.dtype)])
