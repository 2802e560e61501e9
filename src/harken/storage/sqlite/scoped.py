"""The nearest entries by cosine similarity: a scan of the rows where the scope is small, else the derived index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from harken.storage.entries import in_scope
from harken.storage.sqlite.nearest import VectorCache
from harken.storage.store import RowScope, StoredSpace, Transaction
from harken.storage.vectors import read_vectors

# Reading a vector from its row costs 5 µs; asking the index among so many, half a millisecond.
SCAN_UP_TO = 1_000
# An index orders by vectors of four bits: some more than wanted hold the best.
_SLACK = 50
# Scopes of up to so many entries are listed, and searched alone.
_SPARSE = 200_000
_OVER_FETCH = 4
_WIDEST = 20_000


class ScopedNearest:
    """A `NearestIndex` over the rows of SQLite and the index derived from them.

    Args:
        folder: where the derived index is kept; None keeps it in memory alone.
    """

    def __init__(self, folder: Path | None) -> None:
        self.cache = VectorCache(folder)

    def nearest(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        """The nearest entries in the scope, best first."""
        if scope.is_open:
            among = self.cache.nearest(tx.connection, space, query, limit + _SLACK)
            return _best(tx, space, query, among.tolist(), limit)
        listed = self.cache.inside(tx.connection, scope, _SPARSE) if _narrow(scope) else None
        among = self._widened(tx, space, query, scope, limit) if listed is None else listed
        if len(among) > SCAN_UP_TO:
            among = self.cache.nearest(tx.connection, space, query, limit + _SLACK, among)
        return _best(tx, space, query, among.tolist(), limit)

    def similarities(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], entry_ids: Sequence[int]
    ) -> dict[int, float]:
        """The exact cosine similarity of each of these entries that has a vector, best first."""
        return _best(tx, space, query, entry_ids, len(entry_ids))

    def save(self) -> None:
        """Keep the derived index in its folder if it grew enough."""
        self.cache.save()

    def settle(self) -> None:
        """The same: the derived index is made by whoever first searches."""
        self.save()

    def discard(self) -> None:
        """Forget the derived index, in memory and on disk."""
        self.cache.discard()

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each kept file that is damaged."""
        return self.cache.problems(connection)

    def _widened(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> NDArray[np.int64]:
        """Entries of a wide scope, the nearest among them, by looking at ever more of all the nearest."""
        reach = limit * _OVER_FETCH
        while True:
            found = self.cache.nearest(tx.connection, space, query, reach)
            inside = in_scope(tx, found.tolist(), scope)
            if len(inside) >= limit or len(found) < reach:
                break
            if reach >= _WIDEST:
                # So few of so many: the scope is a small part of the store after all.
                sparse = None if _narrow(scope) else self.cache.inside(tx.connection, scope, _SPARSE)
                if sparse is not None:
                    return sparse
                break
            reach = min(reach * _OVER_FETCH, _WIDEST)
        return found[np.isin(found, list(inside))][: limit + _SLACK]


def _narrow(scope: RowScope) -> bool:
    limits = (scope.project_id, scope.since, scope.until)
    return scope.is_narrow or scope.is_apart or bool(scope.facets) or any(limit is not None for limit in limits)


def _best(
    tx: Transaction, space: StoredSpace, query: NDArray[np.float32], entry_ids: Sequence[int], limit: int
) -> dict[int, float]:
    if not entry_ids:
        return {}
    ids, matrix = read_vectors(tx, space, entry_ids)
    scores = matrix @ query
    order = np.argsort(-scores, kind="stable")[:limit]
    return {int(ids[index]): float(scores[index]) for index in order}
