"""SHA-256 of large files, remembered between processes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import structlog

from harken.errors import ModelFileError
from harken.folders import make_private

_log = structlog.get_logger(__name__)


class FileHashes:
    """Hashes files once: a file of the same path, size and modification time is not read again.

    Hashing 34 MB costs a process about 30 ms at every start; looking it up here, under one.

    Args:
        cache: the JSON file that remembers; it may be missing, damaged or read-only, which only costs time.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def sha256(self, path: Path) -> str:
        """The file's SHA-256 in lower-case hex.

        Raises:
            ModelFileError: the file cannot be read.
        """
        try:
            real = path.resolve()
            status = real.stat()
            known = _remembered(self._read().get(str(real)), status)
            if known is not None:
                return known
            with real.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error
        self._remember(str(real), {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest})
        return digest

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._cache.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, path: str, facts: dict[str, Any]) -> None:
        # Two processes may each lose the other's line here; the loser hashes once more, nothing worse.
        known = self._read() | {path: facts}
        try:
            make_private(self._cache.parent)
            handle, name = tempfile.mkstemp(dir=self._cache.parent, prefix=f"{self._cache.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(known, file, indent=1)
                Path(name).replace(self._cache)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            _log.debug("hash_cache_not_written", error=type(error).__name__)


def _remembered(facts: Any, status: os.stat_result) -> str | None:
    if not isinstance(facts, dict):
        return None
    same = facts.get("size") == status.st_size and facts.get("mtime_ns") == status.st_mtime_ns
    digest = facts.get("sha256")
    return digest if same and isinstance(digest, str) else None
