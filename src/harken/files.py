"""Private folders, and files that killed processes left. Hooks import it: light parts of the standard library only."""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
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


# Everything that was said is in these while a backup, an export or a restore is at work.
_STAGED, _NOTE = ".harken-staged-", ".harken-staged-in-"
_EARLIER_STAGED = (".harken-backup-", ".harken-restore-")


@contextmanager
def staging(folder: Path, home: Path) -> Iterator[Path]:
    """Make a folder for work beside its target, which goes with the block.

    It is locked until then, and noted in the home where it is elsewhere, so that `remove_staged` finds what a killed
    process has left, and nothing else.
    """
    import fcntl
    import shutil
    import tempfile

    descriptor, place = None, ""
    while descriptor is None:
        place = tempfile.mkdtemp(prefix=_STAGED, dir=folder)
        # Another may have taken it for left behind, before it was locked.
        with suppress(FileNotFoundError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not os.path.isdir(place):
                os.close(descriptor)
                descriptor = None
    note = None
    try:
        if folder.resolve() != home.resolve():
            make_private(home)
            number, note = tempfile.mkstemp(prefix=_NOTE, dir=home)
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(os.path.abspath(place))
        yield folder / os.path.basename(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if note is not None:
            with suppress(FileNotFoundError):
                os.unlink(note)
        os.close(descriptor)


def remove_staged(folder: Path) -> list[str]:
    """Remove what killed backups, exports and restores left in a folder, or noted in it as a home; what that was."""
    try:
        found = [entry.path for entry in os.scandir(folder) if entry.name.startswith((_STAGED, *_EARLIER_STAGED))]
    except OSError:
        return []
    removed = []
    for path in found:
        is_note, place = os.path.basename(path).startswith(_NOTE), path
        with suppress(OSError):
            if is_note:
                with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                    place = stream.read()
            # Whatever else a note may name is none of ours.
            if os.path.basename(place).startswith((_STAGED, *_EARLIER_STAGED)) and _removed(place):
                removed.append(place)
            if is_note and not os.path.lexists(place):
                os.unlink(path)
    return removed


def _removed(place: str) -> bool:
    import fcntl
    import shutil

    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
        return not os.path.lexists(place)
    finally:
        os.close(descriptor)
