"""Configuration files read, and replaced whole: a reader sees the old text or the new one, never half of it."""

from __future__ import annotations

import codecs
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


def text_of(path: Path, content: bytes) -> str:
    """A file's text, without its byte order mark.

    Raises:
        InstallError: it is not UTF-8.
    """
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8. Nothing was changed; save it as UTF-8 and try again.") from error


def content_of(text: str, like: bytes | None) -> bytes:
    """A text as it is written, with a byte order mark where the old content had one."""
    mark = codecs.BOM_UTF8 if like is not None and like.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode("utf-8")


def check_writable(path: Path) -> None:
    """See that a file may be replaced, or made.

    Raises:
        InstallError: it may not: it, or its folder, was made read-only.
    """
    folder = next(each for each in (path, *path.parents) if each.exists())
    # A file that its owner made read-only could be replaced all the same; he meant that it should not be.
    locked = folder == path and not stat.S_IMODE(path.stat().st_mode) & stat.S_IWUSR
    inside = path.parent if folder == path else folder
    if locked or not os.access(folder, os.W_OK) or not os.access(inside, os.W_OK):
        raise InstallError(f"{path} may not be written. Nothing was changed; make it writable (chmod u+w) first.")


def replace(path: Path, content: bytes, new_mode: int) -> None:
    """Put a content in a file's place, with the file's mode and owner; the folder must exist.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    remove_abandoned(path.parent, f".{escape(path.name)}.*{_DRAFT}")
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            _like(path, file.fileno(), new_mode)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def make_folders(path: Path) -> list[Path]:
    """Make the folders that a file needs; those that were made, outermost first."""
    made = []
    for folder in reversed(path.parents):
        if not folder.exists():
            # Another process may be quicker, and what it made is its own.
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                made.append(folder)
    return made


def remove_folders(folders: list[Path]) -> None:
    """Remove these folders, innermost first, as far as nothing is in them."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _like(path: Path, descriptor: int, new_mode: int) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, new_mode)
        return
    if (found.st_uid, found.st_gid) != (os.getuid(), os.getgid()):
        with suppress(PermissionError):
            os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
