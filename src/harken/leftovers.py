"""What killed processes left: files and folders that were to be renamed or removed, and never were."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

# Nobody is still at work on what has not changed for so long.
_ABANDONED_SECONDS = 3600.0


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove what matches in a folder and has not changed for an hour; what cannot be removed stays."""
    for found in folder.glob(pattern):
        if time.time() - _changed_at(found) > _ABANDONED_SECONDS:
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)


def _changed_at(place: Path) -> float:
    """When anything in it was last changed; now, where it goes away meanwhile."""
    try:
        newest = place.lstat().st_mtime
        for folder, folders, files in os.walk(place):
            newest = max(newest, *(Path(folder, name).lstat().st_mtime for name in (*folders, *files)), newest)
    except FileNotFoundError:
        return time.time()
    return newest
