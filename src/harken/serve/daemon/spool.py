"""Transcripts that hooks report, as small files that outlive every process. On the way of hooks, which pay for imports.

A file holds a format and a path, never a word of a transcript.
"""

from __future__ import annotations

import _thread
import json
import os
import time

from harken.files import make_private

try:
    from _blake2 import blake2b
except ImportError:
    # The same, by the way of a library that takes longer to load than all the rest.
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_WAITING, _TAKEN, _DRAFT = ".json", ".taken", ".draft"
# Of a hook that was killed over it; one that lives is done with it in a moment.
_DRAFT_SECONDS = 60.0


class Transcript:
    """A transcript that has grown: its format, as `harken import` calls it, and its absolute path."""

    # By hand: what would write it imports more than a hook needs.
    __slots__ = ("format", "path")

    def __init__(self, format: str, path: str) -> None:
        self.format = format
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and (self.format, self.path) == (other.format, other.path)

    def __hash__(self) -> int:
        return hash((self.format, self.path))


def put(folder: str, transcript: Transcript) -> None:
    """Report a transcript; reported twice before it is taken, it waits once.

    Raises:
        OSError: the folder cannot be written.
    """
    make_private(folder)
    named = f"{transcript.format}\0{transcript.path}".encode("utf-8", "surrogateescape")
    name = blake2b(named, digest_size=16).hexdigest()
    draft = os.path.join(folder, f"{name}.{os.getpid()}.{_thread.get_ident()}{_DRAFT}")
    try:
        # Closed before it is renamed: some disks say only then that they are full.
        with open(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="ascii"
        ) as file:
            file.write(json.dumps([transcript.format, transcript.path]))
        os.replace(draft, os.path.join(folder, f"{name}{_WAITING}"))
    except OSError:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise


def waiting(folder: Path) -> list[Path]:
    """Return the reports that nobody took yet, oldest first."""
    found: list[tuple[int, Path]] = []
    for file in folder.glob(f"*{_WAITING}"):
        try:
            found.append((file.stat().st_mtime_ns, file))
        except FileNotFoundError:
            continue
    return [file for _, file in sorted(found)]


def take(file: Path) -> tuple[Path, Transcript | None]:
    """Take a report. What is reported while it is worked on waits anew.

    Returns:
        The file that goes once the transcript is read, and the transcript; None where the report is damaged.
    """
    taken = file.with_suffix(_TAKEN)
    file.replace(taken)
    try:
        format_name, path = json.loads(taken.read_bytes())
        return taken, Transcript(str(format_name), str(path))
    except (ValueError, TypeError):
        return taken, None


def give_back(taken: Path) -> None:
    """Have a report wait again whose transcript could not be read now."""
    taken.replace(taken.with_suffix(_WAITING))


def is_waiting(folder: Path) -> bool:
    """Whether there is any report, taken or not."""
    return any(file.suffix in (_WAITING, _TAKEN) for file in folder.glob("*"))


def restore(folder: Path) -> None:
    """Have what was taken and not done wait again, and clear away what dead hooks began.

    Only for who holds the lock, and takes nothing meanwhile.
    """
    for taken in folder.glob(f"*{_TAKEN}"):
        give_back(taken)
    for draft in folder.glob(f"*{_DRAFT}"):
        try:
            if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                draft.unlink()
        except FileNotFoundError:
            continue
