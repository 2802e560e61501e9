"""Vectors that were read before, in one matrix: reading one again from its row takes ten times as long.

Derived from the rows and checked against them each time by two numbers: how many vectors were ever removed from the
store, and the id of its newest. An id is never given twice, and a vector is never changed in place.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.storage.ports import StoredSpace, Transaction
from harken.storage.vectors import VECTORS_REMOVED, unpack

# With 384 dimensions 40,000 vectors.
MOST_BYTES = 32 * 2**20
# So many more are read with what is missing, until all are known: 4 ms.
_READ_AHEAD = 2_000

_VERSION = (
    "SELECT coalesce((SELECT value FROM counters WHERE tenant = ? AND name = ?), 0),"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'vectors'), 0)"
)
_OF_ENTRIES = (
    "SELECT id, entry_id, vector FROM vectors WHERE tenant = ? AND space_id = ?"
    " AND entry_id IN (SELECT value FROM json_each(?))"
)
_BEHIND = "SELECT id, entry_id, vector FROM vectors WHERE tenant = ? AND space_id = ? AND id > ? ORDER BY id LIMIT ?"

Float32 = NDArray[np.float32]


def vectors_version(tx: Transaction) -> tuple[int, int]:
    """How many vectors were ever removed, and the id of the newest: while both are the same, so are all vectors."""
    removed, newest = tx.connection.exec_driver_sql(_VERSION, (tx.tenant, VECTORS_REMOVED)).one()
    return int(removed), int(newest)


class KnownVectors:
    """Keeps vectors of the space that was asked last; threads may share it."""

    def __init__(self) -> None:
        self._held: _Held | None = None
        self._lock = threading.Lock()

    def of(self, tx: Transaction, space: StoredSpace, entry_ids: Sequence[int]) -> tuple[list[int], Float32]:
        """Those of the entries that have a vector, in the same order, and their vectors, `(n, dims)` float32."""
        removed, newest = vectors_version(tx)
        with self._lock:
            held = self._held
            if held is None or (held.space_id, held.removed) != (space.id, removed):
                held = self._held = _Held(space, removed)
            missing = [entry_id for entry_id in entry_ids if entry_id not in held.places]
            if len(held.places) + len(missing) > held.room:
                held, missing = _Held(space, removed, max(held.room, len(entry_ids))), list(entry_ids)
                self._held = held
            if missing:
                held.read(tx, missing, newest)
            return held.part(entry_ids, newest)

    def discard(self) -> None:
        """Forget them."""
        with self._lock:
            self._held = None


class _Held:
    """Vectors with the numbers of their rows.

    Attributes:
        places: the row of the matrix, by entry.
        room: how many it can hold.
    """

    def __init__(self, space: StoredSpace, removed: int, room: int = 0) -> None:
        self.space_id = space.id
        self.removed = removed
        self.places: dict[int, int] = {}
        self.room = room or MOST_BYTES // (2 * space.dims)
        # Takes memory only as it is filled.
        self._matrix = np.empty((self.room, space.dims), dtype=np.float16)
        self._numbers = np.empty(self.room, dtype=np.int64)
        self._newest = 0
        self._ahead = -1

    def read(self, tx: Transaction, missing: Sequence[int], newest: int) -> None:
        """Add some entries' vectors; from the second time on also what comes next, where all of them have room."""
        self._add(tx, _OF_ENTRIES, json.dumps(missing))
        if self._ahead < 0:
            # Whoever asks but once would read for nothing.
            self._ahead = 0
        elif self._ahead < newest <= self.room:
            self._ahead = self._add(tx, _BEHIND, self._ahead, _READ_AHEAD) or newest

    def part(self, entry_ids: Sequence[int], newest: int) -> tuple[list[int], Float32]:
        """What is known of some entries, as far as a transaction sees it whose newest vector is this one."""
        found = [entry_id for entry_id in entry_ids if entry_id in self.places]
        places = [self.places[entry_id] for entry_id in found]
        if self._newest > newest:
            seen = (self._numbers[places] <= newest).tolist()
            found = [entry_id for entry_id, is_seen in zip(found, seen, strict=True) if is_seen]
            places = [self.places[entry_id] for entry_id in found]
        return found, self._matrix[places].astype(np.float32)

    def _add(self, tx: Transaction, statement: str, *values: str | int) -> int:
        """Add what is new of a statement's rows; the last one's number, 0 where there is none."""
        rows = tx.connection.exec_driver_sql(statement, (tx.tenant, self.space_id, *values)).all()
        fresh = [row for row in rows if row[1] not in self.places]
        if fresh and len(self.places) < self.room:
            self._append(fresh)
        return int(rows[-1][0]) if rows else 0

    def _append(self, rows: Sequence[Any]) -> None:
        first = len(self.places)
        # Where others have meanwhile added what this transaction does not see, not all that is ahead has room.
        rows = rows[: self.room - first]
        behind = first + len(rows)
        self._matrix[first:behind] = unpack([row[2] for row in rows], self._matrix.shape[1])
        self._numbers[first:behind] = [row[0] for row in rows]
        self._newest = max(self._newest, int(self._numbers[first:behind].max()))
        self.places.update((row[1], place) for place, row in enumerate(rows, start=first))
