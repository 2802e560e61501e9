"""Where a home's daemon is found. Standard library only: a hook pays for every import."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# What `sun_path` holds on macOS, less its closing zero; Linux has four bytes more.
_LONGEST_SOCKET = 103
_FOLDER = "run"
# How long a hook waits is its own matter.
DEADLINE = "HARKEN_HOOKS__DEADLINE_SECONDS"


class Place(NamedTuple):
    """The files of a home's daemon.

    Attributes:
        home: what it serves.
        socket: where it listens.
        lock: held for as long as it lives; has its process id and version in it.
        token: what clients over TCP show.
        reports: transcripts that grew, until they are read.
    """

    home: Path
    socket: Path
    lock: Path
    token: Path
    reports: Path


def home_of(env: Mapping[str, str]) -> Path:
    """`HARKEN_HOME`, else the platform's data directory; the same as `harken.config.default_home`."""
    configured = env.get("HARKEN_HOME")
    if configured:
        return Path(os.path.abspath(os.path.expanduser(configured)))  # noqa: PTH100, PTH111 - keeps symlinks as they are
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "harken"
    data = env.get("XDG_DATA_HOME", "").strip()
    return Path(data) / "harken" if data else Path.home() / ".local" / "share" / "harken"


def place_of(home: Path) -> Place:
    """The files of a home's daemon; nothing is made yet."""
    folder = home / _FOLDER
    socket = folder / "daemon.sock"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        # A path that no socket can have: a short one that the home alone decides, in a folder of this user's.
        name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
        socket = Path(tempfile.gettempdir()) / f"harken-{os.getuid()}" / f"{name}.sock"
    return Place(home, socket, folder / "daemon.lock", folder / "token", folder / "reports")


def settings_mark(env: Mapping[str, str]) -> str:
    """What tells whether a daemon was started with the same settings; without a secret in it."""
    named = sorted(f"{name}={value}" for name, value in env.items() if name.startswith("HARKEN_") and name != DEADLINE)
    return hashlib.sha256("\0".join(named).encode("utf-8", "surrogateescape")).hexdigest()[:16]
