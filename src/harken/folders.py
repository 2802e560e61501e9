"""Folders that nobody but their owner may look into. Standard library only: hooks make them too."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder, and what is missing above it, for this user alone; one that is there stays as it is.

    `mkdir` gives what it makes above whatever the umask leaves, which for the home is everybody's right to read it.

    Raises:
        OSError: it cannot be made, or is no folder.
    """
    if not folder.is_dir():
        if folder.parent != folder:
            make_private(folder.parent)
        # Another process may be quicker.
        folder.mkdir(mode=0o700, exist_ok=True)
