"""The nearest entries by cosine similarity: a scan of the rows where the scope is small, else the derived index."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harken.storage.entries import in_scope
from harken.storage.store import RowScope, Store, StoredSpace, Transaction
from harken.storage.vectors import read_vectors

# Reading a vector from its row costs 5 µs; asking the index among so many, half a millisecond.
SCAN_UP_TO = 1_000
# An index orders by vectors of four bits: some more than wanted hold the best.
_SLACK = 50
# Scopes of up to so many entries are listed, and searched alone.
_SPARSE = 200_000
_OVER_FETCH = 4
_WIDEST = 20_000


def nearest(
    store: Store, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
) -> dict[int, float]:
    """The nearest entries in the scope with their exact cosine similarity, -1 to 1, best first.

    Args:
        store: its derived index is asked where the scope is wide.
        tx: a reading transaction of the same store.
        space: whose vectors are compared.
        query: `(dims,)` float32, unit length.
        scope: what may be found.
        limit: how many at most.
    """
    if scope.is_open:
        found = store.nearest.nearest(tx.connection, space, query, limit + _SLACK)
        return similarities(tx, space, query, found.tolist(), limit)
    among = store.nearest.inside(tx.connection, scope, _SPARSE) if _narrow(scope) else None
    if among is None:
        among = _widened(store, tx, space, query, scope, limit)
    if len(among) > SCAN_UP_TO:
        among = store.nearest.nearest(tx.connection, space, query, limit + _SLACK, among)
    return similarities(tx, space, query, among.tolist(), limit)


def _widened(
    store: Store, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
) -> NDArray[np.int64]:
    """Entries of a wide scope, the nearest among them, by looking at ever more of all the nearest."""
    reach = limit * _OVER_FETCH
    while True:
        found = store.nearest.nearest(tx.connection, space, query, reach)
        inside = in_scope(tx, found.tolist(), scope)
        if len(inside) >= limit or len(found) < reach:
            break
        if reach >= _WIDEST:
            # So few of so many: the scope is a small part of the store after all.
            sparse = None if _narrow(scope) else store.nearest.inside(tx.connection, scope, _SPARSE)
            if sparse is not None:
                return sparse
            break
        reach = min(reach * _OVER_FETCH, _WIDEST)
    return found[np.isin(found, list(inside))][: limit + _SLACK]


def similarities(
    tx: Transaction, space: StoredSpace, query: NDArray[np.float32], entry_ids: list[int], limit: int | None = None
) -> dict[int, float]:
    """The exact cosine similarity of each entry that has a vector, best first."""
    if not entry_ids:
        return {}
    return _best(*read_vectors(tx, space, entry_ids), query, limit or len(entry_ids))


def _narrow(scope: RowScope) -> bool:
    limits = (scope.conversation_id, scope.segment_id, scope.project_id, scope.since, scope.until)
    return any(limit is not None for limit in limits)


def _best(
    ids: NDArray[np.int64], matrix: NDArray[np.float32], query: NDArray[np.float32], limit: int
) -> dict[int, float]:
    scores = matrix @ query
    order = np.argsort(-scores, kind="stable")[:limit]
    return {int(ids[index]): float(scores[index]) for index in order}
