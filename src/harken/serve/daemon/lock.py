"""One daemon for each home: whoever holds the lock."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harken import __version__
from harken.errors import HarkenError
from harken.files import foreign, is_open, make_private
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.starting import held_content, open_lock
from harken.serve.daemon.wire import OTHER_FOLDER

# Looking at the lock takes it for a moment.
_LOOK_SECONDS = 2.0
# What one holder writes, blanks behind it, hides what another wrote.
_LOCK_BYTES = 256


class DaemonRunsError(HarkenError):
    """Another process serves this home."""


class Holder(NamedTuple):
    """The process that holds the lock, and the version of Harken with which it started."""

    pid: int
    version: str


@contextmanager
def held(paths: DaemonPaths) -> Iterator[None]:
    """Hold the lock of a home; the kernel gives it back however this process ends.

    Raises:
        DaemonRunsError: another process holds it.
        HarkenError: the folder of the socket is not this user's alone, or the lock is none of this user's files.
    """
    own_folder(paths)
    try:
        descriptor = open_lock(paths.lock, make=True)
    except OSError as error:
        raise _unusable(paths, error) from error
    try:
        _take(descriptor, paths)
        _write(descriptor, json.dumps({"pid": os.getpid(), "version": __version__}))
        try:
            yield
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def holder(paths: DaemonPaths) -> Holder | None:
    """Return who holds the lock now; None where nobody does.

    Raises:
        HarkenError: the lock is none of this user's files.
    """
    try:
        content = held_content(paths)
    except OSError as error:
        raise _unusable(paths, error) from error
    try:
        fields = json.loads(content or b"")
        return Holder(int(fields["pid"]), str(fields["version"]))
    except (ValueError, KeyError, TypeError):
        # Nobody holds it, or somebody has taken it and not written into it yet.
        return None


def own_folder(paths: DaemonPaths) -> None:
    """Make the folders that the lock and the socket are in, for this user alone.

    Raises:
        HarkenError: somebody else made one of them first.
    """
    for folder in {Path(paths.folder), Path(paths.socket).parent}:
        _check_own(folder)
        make_private(folder)
        # Somebody else may have been quicker.
        _check_own(folder)
        if is_open(folder):
            folder.chmod(0o700)


def _check_own(folder: Path) -> None:
    if why := foreign(folder):
        raise HarkenError(f"{folder} {why}, so no socket is put there. {OTHER_FOLDER}")


def _unusable(paths: DaemonPaths, error: OSError) -> HarkenError:
    why = "is a link" if error.errno == errno.ELOOP else error.strerror
    return HarkenError(f"{paths.lock} is no lock of this user's: {why}. Remove it: rm '{paths.lock}'")


def _write(descriptor: int, content: str) -> None:
    """Write over what the lock says; it is never truncated."""
    os.pwrite(descriptor, content.ljust(_LOCK_BYTES).encode(), 0)


def _take(descriptor: int, paths: DaemonPaths) -> None:
    deadline = time.monotonic() + _LOOK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = holder(paths)
            if other is not None or time.monotonic() > deadline:
                who = f"process {other.pid}" if other else "another process"
                raise DaemonRunsError(f"{paths.home} is served by {who}. Stop it: harken serve --stop") from None
        # Only somebody who looks whether it is held, or has just taken it and not said so yet.
        time.sleep(0.01)
