"""The derived vector index: a cache that any process may throw away, rebuild or catch up from the rows.

A kept file carries in its name the database it was made from, its space, the removals it has seen and the newest
vector row in it, so that a stale or foreign one is never mistaken for a good one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import threading
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from harken.files import make_private, remove_abandoned
from harken.storage.entries import scope_conditions
from harken.storage.ports import RowScope, StoredSpace
from harken.storage.sqlite.postings import Int64, parsed_ids
from harken.storage.tables import entries
from harken.storage.vectors import VECTORS_REMOVED, unpack

_BITS = 4
# turbovec packs dimensions by the byte; a space of another size is searched in one matrix.
_DIMS_UNIT = 8
_CHUNK_ROWS = 20_000
# Below this many vectors a rebuild takes a few hundredths of a second: not worth a file.
_SAVE_FROM_ROWS = 5_000
_KNOWN_SCOPES = 64
_SAVE_AFTER_GROWTH = 1.05
_OF_CONVERSATIONS = (
    "SELECT group_concat(id) FROM"
    " (SELECT id FROM entries WHERE conversation_id IN (SELECT value FROM json_each(?)) LIMIT ?)"
)
_STAMP = "SELECT (SELECT value FROM counters WHERE name = ?), (SELECT max(id) FROM vectors)"
_FILE_NAME = re.compile(r"vectors-(?P<origin>[0-9a-f]+)-(?P<space>\d+)-(?P<epoch>\d+)-(?P<newest>\d+)\.tvim")

_log = structlog.get_logger(__name__)


class _Engine(Protocol):
    def add(self, ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> None: ...

    def nearest(self, query: NDArray[np.float32], limit: int, among: Int64 | None) -> Int64: ...

    def __len__(self) -> int: ...


class _TurboEngine:
    def __init__(self, dims: int, index: Any = None) -> None:
        import turbovec

        self.index = turbovec.IdMapIndex(dims, _BITS) if index is None else index
        # By the identity of a list of ids, which is kept beside it so that no other can take its place.
        self._allowed: dict[int, tuple[Int64, NDArray[np.uint64]]] = {}

    @classmethod
    def load(cls, path: Path, dims: int) -> _TurboEngine:
        import turbovec

        return cls(dims, turbovec.IdMapIndex.load(str(path)))

    def add(self, ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> None:
        self._allowed.clear()
        self.index.add_with_ids(np.ascontiguousarray(matrix), ids.astype(np.uint64))

    def nearest(self, query: NDArray[np.float32], limit: int, among: Int64 | None) -> Int64:
        allowed = None
        if among is not None:
            allowed = self._present(among)
            if not len(allowed):
                return np.empty(0, dtype=np.int64)
        _, ids = self.index.search(query.reshape(1, -1), min(limit, len(self)), allowlist=allowed)
        return np.asarray(ids[0]).astype(np.int64)

    def _present(self, among: Int64) -> NDArray[np.uint64]:
        """Those of the ids that the index has: one that it lacks would be an error."""
        if id(among) not in self._allowed:
            if len(self._allowed) >= _KNOWN_SCOPES:
                self._allowed.clear()
            present = np.fromiter(filter(self.index.contains, among.tolist()), dtype=np.uint64)
            self._allowed[id(among)] = (among, present)
        return self._allowed[id(among)][1]

    def save(self, path: Path) -> None:
        self.index.write(str(path), durable=False)

    def __len__(self) -> int:
        return len(self.index)


class _MatrixEngine:
    """All vectors in one matrix: exact, and slower by an order of magnitude from some 50,000 rows on."""

    def __init__(self, dims: int) -> None:
        self._ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._matrix: NDArray[np.float32] = np.empty((0, dims), dtype=np.float32)

    def add(self, ids: NDArray[np.int64], matrix: NDArray[np.float32]) -> None:
        self._ids = np.concatenate([self._ids, ids])
        self._matrix = np.concatenate([self._matrix, matrix])

    def nearest(self, query: NDArray[np.float32], limit: int, among: Int64 | None) -> Int64:
        inside = slice(None) if among is None else np.isin(self._ids, among)
        ids, similarities = self._ids[inside], self._matrix[inside] @ query
        if len(ids) > limit:
            best = np.argpartition(-similarities, limit - 1)[:limit]
            ids, similarities = ids[best], similarities[best]
        return ids[np.argsort(-similarities)]

    def __len__(self) -> int:
        return len(self._ids)


class _Derived:
    """An index, with the newest vector in it, and the newest of any space when it was last caught up."""

    def __init__(self, engine: _Engine, epoch: int, newest: int, saved_rows: int) -> None:
        self.engine = engine
        self.epoch = epoch
        self.newest = newest
        self.seen = -1
        self.saved_rows = saved_rows


class VectorCache:
    """The index derived from the rows, by turbovec, or by one numpy matrix where that is not installed."""

    def __init__(self, folder: Path | None, prefer_turbovec: bool = True) -> None:
        self._folder = folder
        self._turbo = prefer_turbovec and importlib.util.find_spec("turbovec") is not None
        self._derived: dict[int, _Derived] = {}
        self._origin = ""
        self._lock = threading.Lock()
        self._scopes: dict[tuple[RowScope, int], Int64] = {}
        self._scopes_at = (0, 0)

    def nearest(
        self,
        connection: Connection,
        space: StoredSpace,
        query: NDArray[np.float32],
        limit: int,
        among: Int64 | None = None,
    ) -> Int64:
        """Ids of about the `limit` nearest entries of the space, best first."""
        with self._lock:
            derived = self._current(connection, space)
            if len(derived.engine) == 0:
                return np.empty(0, dtype=np.int64)
            return derived.engine.nearest(query.astype(np.float32), limit, among)

    def inside(self, connection: Connection, scope: RowScope, at_most: int) -> Int64 | None:
        """Ids of the entries of a scope; None when there are more than `at_most`.

        A scope of sources and facets alone is listed once for as long as vectors neither come nor go: what an entry is
        made from never changes, and one without a vector cannot be near to anything.
        """
        if scope != RowScope(sources=scope.sources, facets=scope.facets) or not scope.is_apart:
            return self._listed(connection, scope, at_most)
        stamp = _stamp(connection)
        with self._lock:
            if self._scopes_at != stamp or len(self._scopes) >= _KNOWN_SCOPES:
                self._scopes, self._scopes_at = {}, stamp
            known = self._scopes.get((scope, at_most))
        if known is None:
            known = self._listed(connection, scope, at_most)
            with self._lock:
                if known is not None and self._scopes_at == stamp:
                    self._scopes[scope, at_most] = known
        return known

    def _listed(self, connection: Connection, scope: RowScope, at_most: int) -> Int64 | None:
        if scope == RowScope(conversation_ids=scope.conversation_ids):
            # Putting the statement together takes longer than running it.
            values = (json.dumps(scope.conversation_ids), at_most + 1)
            ids = parsed_ids(connection.exec_driver_sql(_OF_CONVERSATIONS, values).scalar())
            return None if len(ids) > at_most else ids
        # The embedded store has one tenant, so the indexes alone can tell, which no row has to be read for.
        chosen = select(entries.c.id).where(*scope_conditions(scope)).limit(at_most + 1).subquery()
        ids = parsed_ids(connection.execute(select(func.group_concat(chosen.c.id))).scalar())
        return None if len(ids) > at_most else ids

    def save(self) -> None:
        """Write what grew enough since the last file; older files of the space go."""
        with self._lock:
            for space_id, derived in self._derived.items():
                rows = len(derived.engine)
                if isinstance(derived.engine, _TurboEngine) and self._worth_a_file(derived, rows):
                    self._write(space_id, derived, derived.engine)
                    derived.saved_rows = rows

    def discard(self) -> None:
        """Forget every derived index, in memory and on disk."""
        with self._lock:
            self._derived.clear()
            for path in self._files("vectors-*"):
                path.unlink(missing_ok=True)

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each kept file that is damaged; a stale one is no problem, it is caught up or dropped."""
        found = []
        for path in self._files():
            # One that another process has just replaced is gone, not damaged.
            if self._turbo and not _readable(path) and path.exists():
                found.append(f"The vector cache {path.name} is damaged.")
        return found

    def _worth_a_file(self, derived: _Derived, rows: int) -> bool:
        return rows >= _SAVE_FROM_ROWS and rows > derived.saved_rows * _SAVE_AFTER_GROWTH

    def _current(self, connection: Connection, space: StoredSpace) -> _Derived:
        epoch, newest = _stamp(connection)
        derived = self._derived.get(space.id)
        if derived is None or derived.epoch != epoch:
            derived = self._open(connection, space, epoch)
            self._derived[space.id] = derived
        if derived.seen != newest:
            _catch_up(connection, space, derived)
            derived.seen = newest
        return derived

    def _open(self, connection: Connection, space: StoredSpace, epoch: int) -> _Derived:
        self._origin = self._origin or _origin(connection)
        turbo = self._turbo and space.dims % _DIMS_UNIT == 0
        for path in self._files():
            named = _FILE_NAME.fullmatch(path.name)
            if named is None or named["origin"] != self._origin or int(named["space"]) != space.id or not turbo:
                continue
            if int(named["epoch"]) == epoch:
                try:
                    engine = _TurboEngine.load(path, space.dims)
                except (ValueError, OSError, RuntimeError) as error:
                    _log.warning("vector_cache_damaged", file=path.name, error_class=type(error).__name__)
                else:
                    return _Derived(engine, epoch, int(named["newest"]), len(engine))
            with contextlib.suppress(OSError):
                path.unlink()
        fresh: _Engine = _TurboEngine(space.dims) if turbo else _MatrixEngine(space.dims)
        return _Derived(fresh, epoch, 0, 0)

    def _files(self, pattern: str = "vectors-*.tvim") -> list[Path]:
        """The kept files, newest first; others may take them away at any moment."""
        found: list[tuple[float, Path]] = []
        for path in self._folder.glob(pattern) if self._folder is not None else ():
            with contextlib.suppress(FileNotFoundError):
                found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found, reverse=True)]

    def _write(self, space_id: int, derived: _Derived, engine: _TurboEngine) -> None:
        if self._folder is None:
            return
        name = f"vectors-{self._origin}-{space_id}-{derived.epoch}-{derived.newest}.tvim"
        try:
            make_private(self._folder)
            remove_abandoned(self._folder, "vectors-*.part")
            # Whole or not at all, whoever else saves at the same moment or opens the file.
            part = self._folder / f"{name}.{os.getpid()}.part"
            engine.save(part)
            part.chmod(0o600)
            part.replace(self._folder / name)
            for path in self._files():
                if path.name != name and path.name.startswith(f"vectors-{self._origin}-{space_id}-"):
                    path.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:
            # A cache that cannot be kept costs the next process a rebuild and nobody anything else.
            _log.warning("vector_cache_not_saved", error_class=type(error).__name__)


def _catch_up(connection: Connection, space: StoredSpace, derived: _Derived) -> None:
    while True:
        rows = connection.exec_driver_sql(
            "SELECT id, entry_id, vector FROM vectors WHERE space_id = ? AND id > ? ORDER BY id LIMIT ?",
            (space.id, derived.newest, _CHUNK_ROWS),
        ).all()
        if not rows:
            return
        derived.engine.add(
            np.fromiter((row[1] for row in rows), dtype=np.int64, count=len(rows)),
            unpack([row[2] for row in rows], space.dims),
        )
        derived.newest = rows[-1][0]


def _readable(path: Path) -> bool:
    try:
        _TurboEngine.load(path, 0)
    except (ValueError, OSError, RuntimeError):
        return False
    return True


def _stamp(connection: Connection) -> tuple[int, int]:
    """How many removals there were, and the newest vector's id: while both are the same, so are all vectors."""
    removed, newest = connection.exec_driver_sql(_STAMP, (VECTORS_REMOVED,)).one()
    return int(removed or 0), int(newest or 0)


def _origin(connection: Connection) -> str:
    value = connection.exec_driver_sql("SELECT value FROM settings WHERE name = 'store.origin'").scalar()
    return str(value or "0").strip('"')
