"""Private folders, and files that killed processes left. Hooks import it: light parts of the standard library only."""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def make_private(folder: Path | str) -> None:
    """Make a folder, and what is missing above it, for this user alone; one that is there stays as it is.

    `mkdir` gives what it makes above whatever the umask leaves, which for the home is everybody's right to read it.

    Raises:
        OSError: it cannot be made, or is no folder.
    """
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above not in (os.fspath(folder), ""):
        make_private(above)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        # Another process may be quicker.
        if not os.path.isdir(folder):
            raise


def foreign(path: Path | str) -> str:
    """Why a folder is none of this user's own, for a sentence; empty where it is, or where nothing is there.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    if not stat.S_ISDIR(found.st_mode):
        return "is a link" if stat.S_ISLNK(found.st_mode) else "is no folder"
    return "" if found.st_uid == os.getuid() else f"belongs to another user (uid {found.st_uid})"


def is_open(path: Path | str) -> bool:
    """Whether others than its owner have any rights to a folder.

    Raises:
        OSError: it cannot be looked at.
    """
    return bool(os.lstat(path).st_mode & 0o077)


# Nobody is still at work on what has not changed for so long.
_ABANDONED_SECONDS = 3600.0


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove what matches in a folder and has not changed for an hour; what cannot be removed stays."""
    # Not on the way of hooks, which pay for each import.
    import shutil

    for stray in folder.glob(pattern):
        parts = [os.path.join(place, name) for place, folders, files in os.walk(stray) for name in folders + files]
        try:
            changed_at = max(os.lstat(path).st_mtime for path in [os.fspath(stray), *parts])
        except FileNotFoundError:
            # It goes away by itself.
            continue
        if time.time() - changed_at > _ABANDONED_SECONDS:
            if stray.is_dir() and not stray.is_symlink():
                shutil.rmtree(stray, ignore_errors=True)
            else:
                stray.unlink(missing_ok=True)


def write_whole(path: Path, blocks: Iterable[bytes | memoryview]) -> None:
    """Put blocks of bytes in a file's place, all of them or none, for this user alone; its folder is made.

    Raises:
        OSError: it cannot be written; what was there stays as it was.
    """
    # Likewise.
    import tempfile

    make_private(path.parent)
    remove_abandoned(path.parent, f"{path.name}.*")
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise
