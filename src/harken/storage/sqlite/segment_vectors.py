"""The vectors of the segments that were searched last, each in one matrix: what auto-RAG compares before every call.

Derived from the rows and checked against them each time by two numbers: how many vectors were ever removed from the
store, and the id of its newest. An id is never given twice, and a vector is never changed in place.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from harken.storage.entries import scope_conditions
from harken.storage.ports import RowScope, StoredSpace, Transaction
from harken.storage.sqlite.known_vectors import vectors_version
from harken.storage.sqlite.postings import Int64
from harken.storage.tables import entries, refers, vectors
from harken.storage.vectors import similarities, unpack

# With 384 dimensions 3 MB for 2,000 vectors.
MOST_VECTORS = 10_000
_KEPT_SEGMENTS = 4
# From so many new vectors in the store on, reading the segment again is quicker than looking for its own among them.
_MOST_NEW = 2_000


@dataclass(frozen=True, slots=True)
class SegmentMatrix:
    """A segment's vectors.

    Attributes:
        removed: how many vectors had been removed from the store.
        newest: the id of the store's newest vector.
        ids: of the entries, `(n,)`.
        matrix: `(n, dims)` float32.
    """

    removed: int
    newest: int
    ids: Int64
    matrix: NDArray[np.float32]

    def nearest(self, query: NDArray[np.float32], limit: int) -> dict[int, float]:
        """The nearest by cosine similarity, best first."""
        scores = similarities(self.matrix, query)
        best = np.argpartition(-scores, limit - 1)[:limit] if 0 < limit < len(scores) else np.arange(len(scores))
        best = best[np.lexsort((best, -scores[best]))][:limit]
        return dict(zip(self.ids[best].tolist(), scores[best].tolist(), strict=True))

    def of(self, entry_ids: Sequence[int], query: NDArray[np.float32]) -> dict[int, float]:
        """The similarity of those that are here, best first."""
        here = np.flatnonzero(np.isin(self.ids, np.asarray(entry_ids, dtype=np.int64)))
        part = SegmentMatrix(self.removed, self.newest, self.ids[here], self.matrix[here])
        return part.nearest(query, len(here))


class SegmentVectors:
    """Keeps the matrices of a few segments; threads may share it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, RowScope], SegmentMatrix] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> SegmentMatrix | None:
        """A segment's vectors as they stand now; None for what is no whole segment, or too large to be kept."""
        if scope.segment_id is None or scope.roles or scope.since is not None or scope.until is not None:
            return None
        removed, newest = vectors_version(tx)
        key = (space.id, scope)
        with self._lock:
            held = self._kept.get(key)
        if held is None or held.removed != removed or newest - held.newest > _MOST_NEW:
            held = SegmentMatrix(removed, 0, np.empty(0, dtype=np.int64), np.empty((0, space.dims), dtype=np.float32))
        if newest > held.newest:
            held = _caught_up(tx.connection, tx.tenant, space, scope, held, newest)
        with self._lock:
            self._kept[key] = held
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT_SEGMENTS:
                self._kept.popitem(last=False)
        return held if len(held.ids) <= MOST_VECTORS else None

    def discard(self) -> None:
        """Forget them."""
        with self._lock:
            self._kept.clear()


def _caught_up(
    connection: Connection, tenant: str, space: StoredSpace, scope: RowScope, held: SegmentMatrix, newest: int
) -> SegmentMatrix:
    """With what the segment has got since; of one that is too large, no more than shows that."""
    fresh = (
        select(vectors.c.entry_id, vectors.c.vector)
        .select_from(vectors.join(entries, refers(vectors.c.entry_id, entries)))
        .where(vectors.c.tenant == tenant, vectors.c.space_id == space.id, *scope_conditions(scope))
    )
    if held.newest:
        fresh = fresh.where(vectors.c.id > held.newest, vectors.c.id <= newest)
    rows = connection.execute(fresh.limit(MOST_VECTORS + 1 - len(held.ids))).all()
    if not rows:
        return SegmentMatrix(held.removed, newest, held.ids, held.matrix)
    ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    matrix = unpack([row[1] for row in rows], space.dims)
    return SegmentMatrix(held.removed, newest, np.concatenate([held.ids, ids]), np.concatenate([held.matrix, matrix]))
