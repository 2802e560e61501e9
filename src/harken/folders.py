"""Folders that nobody but their owner may look into. On the way of hooks: the standard library's lightest part only."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
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
