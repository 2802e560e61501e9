"""The nearest entries by cosine similarity: a scan of the rows where the scope is small, else the derived index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from harken.storage.entries import in_scope
from harken.storage.ports import RowScope, StoredSpace, Transaction
from harken.storage.sqlite.known_vectors import KnownVectors
from harken.storage.sqlite.nearest import VectorCache
from harken.storage.sqlite.postings import Int64
from harken.storage.sqlite.segment_vectors import SegmentMatrix, SegmentVectors
from harken.storage.vectors import similarities

# Reading a vector from its row costs 5 µs; asking the index among so many, half a millisecond.
SCAN_UP_TO = 1_000
# An index orders by vectors of four bits: some more than wanted hold the best.
_SLACK = 50
# Scopes of up to so many entries are listed, and searched alone.
_SPARSE = 200_000
_OVER_FETCH = 4
_WIDEST = 20_000


class ScopedNearest:
    """A `NearestIndex` over the rows of SQLite, the index derived from them, and the segments searched last.

    Args:
        folder: where the derived index is kept; None keeps it in memory alone.
    """

    def __init__(self, folder: Path | None) -> None:
        self.cache = VectorCache(folder)
        self._segments = SegmentVectors()
        self._known = KnownVectors()

    def nearest(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        """The nearest entries in the scope, best first."""
        return self.compare(tx, space, query, scope, limit, ())[0]

    def compare(
        self,
        tx: Transaction,
        space: StoredSpace,
        query: NDArray[np.float32],
        scope: RowScope,
        limit: int,
        also: Sequence[int],
    ) -> tuple[dict[int, float], dict[int, float]]:
        """The nearest; and the similarities of those and of these entries besides."""
        segment = None if scope.is_open else self._segments.of(tx, space, scope)
        if segment is not None:
            return _compared(segment, query, limit, also)
        among = set(self._among(tx, space, query, scope, limit).tolist())
        entry_ids, matrix = self._known.of(tx, space, sorted(among.union(also)))
        scores = dict(zip(entry_ids, similarities(matrix, query).tolist(), strict=True))
        near = _best({entry_id: score for entry_id, score in scores.items() if entry_id in among}, limit)
        rest = {entry_id: scores[entry_id] for entry_id in sorted({*also} - near.keys()) if entry_id in scores}
        return near, near | _best(rest, len(rest))

    def save(self) -> None:
        """Keep the derived index in its folder if it grew enough."""
        self.cache.save()

    def settle(self) -> None:
        """The same: the derived index is made by whoever first searches."""
        self.save()

    def discard(self) -> None:
        """Forget the derived index, in memory and on disk."""
        self.cache.discard()
        self._segments.discard()
        self._known.discard()

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each kept file that is damaged."""
        return self.cache.problems(connection)

    def _among(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> Int64:
        """Entries of the scope that have the nearest among them."""
        if scope.is_open:
            return self.cache.nearest(tx.connection, space, query, limit + _SLACK)
        listed = self.cache.inside(tx.connection, scope, _SPARSE) if _narrow(scope) else None
        among = self._widened(tx, space, query, scope, limit) if listed is None else listed
        if len(among) <= SCAN_UP_TO:
            return among
        return self.cache.nearest(tx.connection, space, query, limit + _SLACK, among)

    def _widened(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> NDArray[np.int64]:
        """Entries of a wide scope, the nearest among them, by looking at ever more of all the nearest."""
        reach = limit * _OVER_FETCH
        without = self._left_out(tx, scope)
        while True:
            found = self.cache.nearest(tx.connection, space, query, reach)
            inside = _inside(tx, found, scope) if without is None else found[~np.isin(found, without)]
            if len(inside) >= limit or len(found) < reach:
                break
            if reach >= _WIDEST:
                # So few of so many: the scope is a small part of the store after all.
                sparse = None if _narrow(scope) else self.cache.inside(tx.connection, scope, _SPARSE)
                if sparse is not None:
                    return sparse
                break
            reach = min(reach * _OVER_FETCH, _WIDEST)
        return inside[: limit + _SLACK]

    def _left_out(self, tx: Transaction, scope: RowScope) -> Int64 | None:
        """All entries that a scope leaves out, where those are one conversation's: to list them is quickest."""
        one = scope.without_conversation_id
        if one is None or scope != RowScope(without_conversation_id=one):
            return None
        return self.cache.inside(tx.connection, RowScope(conversation_ids=(one,)), _SPARSE)


def _inside(tx: Transaction, found: Int64, scope: RowScope) -> Int64:
    return found[np.isin(found, list(in_scope(tx, found.tolist(), scope)))]


def _narrow(scope: RowScope) -> bool:
    limits = (scope.project_id, scope.since, scope.until)
    return scope.is_narrow or scope.is_apart or bool(scope.facets) or any(limit is not None for limit in limits)


def _compared(
    segment: SegmentMatrix, query: NDArray[np.float32], limit: int, also: Sequence[int]
) -> tuple[dict[int, float], dict[int, float]]:
    near = segment.nearest(query, limit)
    rest = [entry_id for entry_id in also if entry_id not in near]
    return near, (near | segment.of(rest, query) if rest else near)


def _best(scores: Mapping[int, float], limit: int) -> dict[int, float]:
    return dict(sorted(scores.items(), key=lambda each: -each[1])[:limit])
