"""The vectors of a small space in one matrix: having the server compare them takes five times as long.

Derived from the rows and checked against them each time by two numbers: how many there are, and how often any were
removed. Ids are no measure here, for of two who write at once the later id may be committed first.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BindParameter, ColumnElement, bindparam, func, select

from harken.storage.ports import StoredSpace, Transaction
from harken.storage.tables import counters, vectors
from harken.storage.vectors import VECTORS_REMOVED, best_of, similarities

# With 384 dimensions 7 MB.
MOST_VECTORS = 5_000
_TENANT: BindParameter[str] = bindparam("of_tenant")
_OF_SPACE = vectors.c.tenant == _TENANT, vectors.c.space_id == bindparam("of_space")
_REMOVED = (
    select(counters.c.value).where(counters.c.tenant == _TENANT, counters.c.name == VECTORS_REMOVED).scalar_subquery()
)
_NUMBERS: list[ColumnElement[Any]] = [func.count(), func.coalesce(_REMOVED, 0)]
_STATE = select(*_NUMBERS).select_from(vectors).where(*_OF_SPACE)
_BEHIND = select(vectors.c.id, vectors.c.entry_id, func.halfvec_send(vectors.c.vector)).where(
    *_OF_SPACE, vectors.c.id > bindparam("behind")
)

Float32 = NDArray[np.float32]


class HeldVectors:
    """Keeps the vectors of the space that was asked last; threads may share it."""

    def __init__(self) -> None:
        self._held: Matrix | None = None
        self._lock = threading.Lock()

    def of(self, tx: Transaction, space: StoredSpace) -> Matrix | None:
        """All vectors of a space as the transaction sees them; None where they are too many to be held."""
        asked = {"of_tenant": tx.tenant, "of_space": space.id}
        ((count, removed),) = tx.dialect.bare_rows(tx.connection, _STATE, asked)
        if count > MOST_VECTORS:
            self.discard()
            return None
        with self._lock:
            held = self._held
        if held is None or (held.space_id, held.removed) != (space.id, removed) or len(held.ids) > count:
            held = Matrix.empty(space, removed)
        if len(held.ids) < count:
            grown = held.with_rows(tx.dialect.bare_rows(tx.connection, _BEHIND, {**asked, "behind": held.newest}))
            if len(grown.ids) < count:
                # Somebody whose ids are lower has committed since.
                empty = Matrix.empty(space, removed)
                grown = empty.with_rows(tx.dialect.bare_rows(tx.connection, _BEHIND, {**asked, "behind": 0}))
            held = grown
        with self._lock:
            self._held = held
        return held

    def discard(self) -> None:
        """Forget them."""
        with self._lock:
            self._held = None


@dataclass(frozen=True, slots=True)
class Matrix:
    """The vectors of a space.

    Attributes:
        removed: how often vectors of the tenant had been removed.
        newest: the highest id of a vector's row.
        ids: of the entries, `(n,)`.
        matrix: `(n, dims)` float32, unit length.
    """

    space_id: int
    removed: int
    newest: int
    ids: NDArray[np.int64]
    matrix: Float32

    @classmethod
    def empty(cls, space: StoredSpace, removed: int) -> Matrix:
        """No vectors yet."""
        return cls(space.id, removed, 0, np.empty(0, dtype=np.int64), np.empty((0, space.dims), dtype=np.float32))

    def with_rows(self, rows: Sequence[Sequence[Any]]) -> Matrix:
        """The same and these: a row's id, its entry's, and a vector as the server sends it."""
        if not rows:
            return self
        dims = self.matrix.shape[1]
        # Two bytes say how many numbers follow, two are empty.
        whole = np.frombuffer(b"".join(row[2] for row in rows), dtype=">f2").reshape(len(rows), dims + 2)
        fresh = whole[:, 2:].astype(np.float32)
        fresh /= np.maximum(np.sqrt(np.einsum("nd,nd->n", fresh, fresh)), np.finfo(np.float32).tiny)[:, None]
        ids = np.fromiter((row[1] for row in rows), dtype=np.int64, count=len(rows))
        return Matrix(
            self.space_id,
            self.removed,
            max(self.newest, *(row[0] for row in rows)),
            np.concatenate([self.ids, ids]),
            np.concatenate([self.matrix, fresh]),
        )

    def compare(self, query: Float32, limit: int, also: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
        """The nearest with their cosine similarity, best first; and that of those and of these entries besides."""
        length = float(np.sqrt(np.einsum("d,d->", query, query)))
        scores = similarities(self.matrix, query / np.float32(length or 1.0))
        near = best_of(self.ids, scores, limit)
        named = np.flatnonzero(np.isin(self.ids, np.asarray(also, dtype=np.int64)))
        rest = dict(zip(self.ids[named].tolist(), scores[named].tolist(), strict=True))
        return near, near | rest
