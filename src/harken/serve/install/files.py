"""Configuration files read, and replaced whole: a reader sees the old text or the new one, never half of it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from glob import escape
from pathlib import Path

from harken.errors import HarkenError
from harken.files import remove_abandoned

_LONGEST_BYTES = 64 * 1024 * 1024
_DRAFT = ".harken"


class InstallError(HarkenError):
    """An agent's configuration cannot be changed; nothing was."""


def read(path: Path) -> bytes | None:
    """A file's content; None where there is none.

    Raises:
        InstallError: it is something else than a readable file.
    """
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or os.fstat(file.fileno()).st_size > _LONGEST_BYTES:
                raise InstallError(f"{path} is no file that holds settings. Nothing was changed.")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path} cannot be read: {error.strerror}. Nothing was changed.") from error


def check_writable(path: Path) -> None:
    """See that a file may be replaced, or made.

    Raises:
        InstallError: it may not: it, or its folder, was made read-only.
    """
    folder = next(each for each in path.parents if each.exists())
    # A file that its owner made read-only could be replaced all the same; he meant that it should not be.
    locked = path.exists() and not path.stat().st_mode & stat.S_IWUSR
    if locked or not os.access(folder, os.W_OK):
        raise InstallError(f"{path} may not be written. Nothing was changed; make it writable (chmod u+w) first.")


def replace(path: Path, content: bytes | None, new_mode: int = 0o600) -> None:
    """Put a content in a file's place, with the file's mode and owner; None removes it. The folder must exist.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    if content is None:
        path.unlink(missing_ok=True)
        return
    remove_abandoned(path.parent, f".{escape(path.name)}.*{_DRAFT}")
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            found = path.stat() if path.exists() else None
            if found:
                with suppress(PermissionError):
                    os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) if found else new_mode)
            file.flush()
            os.fsync(descriptor)
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)


def remove_empty(folders: tuple[Path, ...]) -> None:
    """Remove these folders, the last first, as far as nothing is in them."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()
