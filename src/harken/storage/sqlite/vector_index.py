"""The derived index (turbovec, 4 bits a dimension): any process may throw it away, rebuild it or catch it up.

A kept file carries in its name the database it was made from, its space, the removals it has seen and the newest
vector row in it with its checksum, so that a stale or foreign one, or one of a database in whose place an older copy
was put, is never mistaken for a good one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

from harken.files import make_private, remove_abandoned
from harken.log import Log
from harken.storage.ports import StoredSpace
from harken.storage.vectors import Float32, Int64, unpack

_BITS = 4
# turbovec packs dimensions by the byte.
_DIMS_UNIT = 8
_CHUNK_ROWS = 20_000
# Below this many vectors a rebuild takes a few hundredths of a second: not worth a file.
_SAVE_FROM_ROWS = 5_000
_SAVE_AFTER_GROWTH = 1.05
_BEHIND = "SELECT id, entry_id, vector FROM vectors WHERE space_id = ? AND id > ? ORDER BY id LIMIT ?"
_NEWEST = "SELECT vector FROM vectors WHERE space_id = ? AND id = ?"
_ORIGIN = "SELECT value FROM settings WHERE name = 'store.origin'"
_FILE_NAME = re.compile(r"vectors-(?P<origin>\w+)-(?P<space>\d+)-(?P<removed>\d+)-(?P<newest>\d+)-(?P<crc>\d+)\.tvim")

_log = Log(__name__)


@dataclass(slots=True)
class _Derived:
    """An index of one space.

    Attributes:
        index: of turbovec.
        removed: how many vectors had been removed from the store when it was made.
        newest: the id of the newest vector in it, and its checksum.
        saved_rows: how many its file holds.
    """

    index: Any
    removed: int
    newest: int = 0
    crc: int = 0
    saved_rows: int = 0

    def catch_up(self, connection: Connection, space: StoredSpace) -> None:
        """Add what the rows have beyond it."""
        while rows := connection.exec_driver_sql(_BEHIND, (space.id, self.newest, _CHUNK_ROWS)).all():
            ids = np.fromiter((row[1] for row in rows), dtype=np.uint64, count=len(rows))
            self.index.add_with_ids(unpack([row[2] for row in rows], space.dims), ids)
            self.newest, self.crc = rows[-1][0], zlib.crc32(rows[-1][2])


class VectorIndex:
    """The indexes of a store's spaces, in memory and in files; threads may share it.

    Args:
        folder: where files are kept; None keeps none.
        is_wanted: False goes without it, as where turbovec is not installed.
    """

    def __init__(self, folder: Path | None, is_wanted: bool = True) -> None:
        self._folder = folder
        self._is_there = is_wanted and importlib.util.find_spec("turbovec") is not None
        self._derived: dict[int, _Derived] = {}
        self._origin = ""
        self._lock = threading.Lock()

    def serves(self, space: StoredSpace) -> bool:
        """Whether it can hold a space's vectors."""
        return self._is_there and space.dims % _DIMS_UNIT == 0

    def nearest(
        self,
        connection: Connection,
        space: StoredSpace,
        version: tuple[int, int],
        query: Float32,
        limit: int,
        among: Int64 | None = None,
    ) -> Int64:
        """Ids of about the `limit` nearest entries of a space that it `serves`, best first.

        The version is that of the vectors as the transaction sees them, the query `(dims,)` float32 of unit length;
        among entries that have a vector, or all.
        """
        removed, newest = version
        with self._lock:
            derived = self._derived.get(space.id)
            if derived is None or derived.removed != removed:
                derived = self._derived[space.id] = self._open(connection, space, removed)
            if derived.newest < newest:
                derived.catch_up(connection, space)
            if not len(derived.index):
                return np.empty(0, dtype=np.int64)
            allowed = None if among is None else among.astype(np.uint64)
            most = min(limit, len(derived.index))
            _, ids = derived.index.search(query.astype(np.float32).reshape(1, -1), most, allowlist=allowed)
            return np.asarray(ids[0]).astype(np.int64)

    def save(self) -> None:
        """Write what grew enough since the last file; older files of the space go."""
        with self._lock:
            for space_id, derived in self._derived.items():
                rows = len(derived.index)
                if rows >= _SAVE_FROM_ROWS and rows > derived.saved_rows * _SAVE_AFTER_GROWTH:
                    self._write(space_id, derived)
                    derived.saved_rows = rows

    def discard(self) -> None:
        """Forget every index, in memory and on disk."""
        with self._lock:
            self._derived.clear()
            for path in self._files("vectors-*"):
                path.unlink(missing_ok=True)

    def problems(self) -> list[str]:
        """One sentence for each kept file that is damaged; a stale one is no problem, it is caught up or dropped."""
        # One that another process has just replaced is gone, not damaged.
        damaged = [p for p in self._files() if self._is_there and _load(p) is None and p.exists()]
        return [f"The vector cache {path.name} is damaged." for path in damaged]

    def _open(self, connection: Connection, space: StoredSpace, removed: int) -> _Derived:
        self._origin = self._origin or str(connection.exec_driver_sql(_ORIGIN).scalar() or "0").strip('"')
        for path in self._files():
            named = _FILE_NAME.fullmatch(path.name)
            if named is None or (named["origin"], named["space"]) != (self._origin, str(space.id)):
                continue
            newest, crc = int(named["newest"]), int(named["crc"])
            is_known = crc == zlib.crc32(connection.exec_driver_sql(_NEWEST, (space.id, newest)).scalar() or b"")
            if is_known and named["removed"] == str(removed) and (index := _load(path)) is not None:
                return _Derived(index, removed, newest, crc, len(index))
            with contextlib.suppress(OSError):
                path.unlink()
        import turbovec

        return _Derived(turbovec.IdMapIndex(space.dims, _BITS), removed)

    def _files(self, pattern: str = "vectors-*.tvim") -> list[Path]:
        """The kept files, newest first; others may take them away at any moment."""
        found: list[tuple[float, Path]] = []
        for path in self._folder.glob(pattern) if self._folder is not None else ():
            with contextlib.suppress(FileNotFoundError):
                found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found, reverse=True)]

    def _write(self, space_id: int, derived: _Derived) -> None:
        if self._folder is None:
            return
        of_space = f"vectors-{self._origin}-{space_id}-"
        name = f"{of_space}{derived.removed}-{derived.newest}-{derived.crc}.tvim"
        try:
            make_private(self._folder)
            remove_abandoned(self._folder, "vectors-*.part")
            # Whole or not at all, whoever else saves at the same moment or opens the file.
            part = self._folder / f"{name}.{os.getpid()}.part"
            derived.index.write(str(part), durable=False)
            part.chmod(0o600)
            part.replace(self._folder / name)
            for path in self._files():
                if path.name != name and path.name.startswith(of_space):
                    path.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:
            # A cache that cannot be kept costs the next process a rebuild and nobody anything else.
            _log.warning("vector_cache_not_saved", error_class=type(error).__name__)


def _load(path: Path) -> Any:
    """A kept index; None for a damaged file."""
    import turbovec

    try:
        return turbovec.IdMapIndex.load(str(path))
    except (ValueError, OSError, RuntimeError) as error:
        _log.warning("vector_cache_damaged", file=path.name, error_class=type(error).__name__)
        return None
