"""Folders for backups, exports and restores under way, and what killed ones left of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harken.errors import StoreError, StoreFullError, UsageError
from harken.files import make_private

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

    descriptor, place = None, folder
    while descriptor is None:
        place = Path(tempfile.mkdtemp(prefix=_STAGED, dir=folder))
        # Another may have taken it for left behind, before it was locked.
        with suppress(FileNotFoundError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not place.is_dir():
                os.close(descriptor)
                descriptor = None
    note = None
    try:
        # A home that may only be read is worth a backup, too.
        if folder.resolve() != home.resolve() and os.access(home if home.exists() else home.parent, os.W_OK):
            make_private(home)
            number, note = tempfile.mkstemp(prefix=_NOTE, dir=home)
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(os.path.abspath(place))  # noqa: PTH100 - `resolve` follows links
        yield folder / place.name
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if note is not None:
            Path(note).unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def new_file(target: Path, home: Path) -> Iterator[Path]:
    """Make a path to write at, in a folder for work; the file gets the target's name when it is whole.

    Raises:
        UsageError: the target exists.
        StoreError: it cannot be written.
    """
    if target.exists():
        raise UsageError(f"{target} exists. Name a file that does not.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A killed one leaves everything that was said, where nothing would ever forget it.
        remove_staged(target.parent)
        with staging(target.parent, home) as place:
            part = place / "part"
            part.touch(mode=0o600)
            yield part
            part.replace(target)
    except (OSError, StoreFullError) as error:
        # What copies a folder names its reasons in a list; a copy of the database that finds no room is no database's.
        why = error.__cause__ if isinstance(error, StoreFullError) else error.strerror or error.args[0][-1][-1]
        raise StoreError(f"{target} cannot be written: {why}.") from error


def remove_staged(folder: Path) -> list[str]:
    """Remove what killed backups, exports and restores left in a folder, or noted in it as a home; what that was."""
    try:
        found = [each for each in folder.iterdir() if each.name.startswith((_STAGED, *_EARLIER_STAGED))]
    except OSError:
        return []
    removed = []
    for path in found:
        is_note = path.name.startswith(_NOTE)
        with suppress(OSError):
            place = path.read_text(encoding="utf-8", errors="surrogateescape") if is_note else str(path)
            # Whatever else a note may name is none of ours.
            if Path(place).name.startswith((_STAGED, *_EARLIER_STAGED)) and _removed(place):
                removed.append(place)
            if is_note and not os.path.lexists(place):
                path.unlink()
    return removed


def _removed(place: str) -> bool:
    import fcntl

    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
        return not os.path.lexists(place)
    finally:
        os.close(descriptor)
