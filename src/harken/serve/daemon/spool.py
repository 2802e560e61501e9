"""Transcripts that hooks report, as small files that outlive every process. Standard library only.

A file holds a format and a path, never a word of a transcript.
"""

from __future__ import annotations

import _thread
import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harken.folders import make_private

_WAITING, _TAKEN, _DRAFT = ".json", ".taken", ".draft"
# Of a hook that was killed over it; one that lives is done with it in a moment.
_DRAFT_SECONDS = 60.0


class Transcript(NamedTuple):
    """A transcript that has grown.

    Attributes:
        format: as `harken import` calls it.
        path: absolute.
    """

    format: str
    path: str


def put(folder: str, transcript: Transcript) -> None:
    """Report a transcript; reported twice before it is taken, it waits once.

    Raises:
        OSError: the folder cannot be written.
    """
    place = Path(folder)
    make_private(place)
    name = hashlib.sha256("\0".join(transcript).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    draft = place / f"{name}.{os.getpid()}.{_thread.get_ident()}{_DRAFT}"
    try:
        draft.touch(0o600)
        # Closed before it is renamed: some disks say only then that they are full.
        draft.write_text(json.dumps(transcript), encoding="ascii")
        draft.replace(place / f"{name}{_WAITING}")
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def waiting(folder: Path) -> list[Path]:
    """The reports that nobody took yet, oldest first."""
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
        What `done` wants, and the transcript; None where the file is damaged.
    """
    taken = file.with_suffix(_TAKEN)
    file.replace(taken)
    try:
        format_name, path = json.loads(taken.read_bytes())
        return taken, Transcript(str(format_name), str(path))
    except (ValueError, TypeError):
        return taken, None


def done(taken: Path) -> None:
    """The transcript was read: the report goes."""
    taken.unlink(missing_ok=True)


def give_back(taken: Path) -> None:
    """The transcript could not be read now: the report waits again."""
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
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                draft.unlink()
