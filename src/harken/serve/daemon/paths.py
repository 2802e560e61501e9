"""Where a home's daemon is found. On the way of every hook, which pays for each import: paths are plain strings."""

from __future__ import annotations

import os
import sys
import zlib

from harken.files import foreign, is_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What `sun_path` holds on macOS, less its closing zero; Linux has four bytes more.
_LONGEST_SOCKET = 103
# How long a hook waits is its own matter.
DEADLINE = "HARKEN_HOOKS__DEADLINE_SECONDS"
# What says to whom that which was said belongs, and where.
_WHOSE = ("HARKEN_KEY", "HARKEN_STORE", "HARKEN_TENANT")


class DaemonPaths:
    """The files of a home's daemon; nothing is made yet.

    Attributes:
        home: what it serves; absolute.
        folder: of the lock, the token and the reports, for the home's user alone.
        socket: where it listens.
        lock: held for as long as it lives; has its process id and version in it.
        starting: held by one that starts, until it holds `lock` or has given up.
        token: what clients over TCP show.
        reports: transcripts that grew, until a daemon with the same store and key has read them.
    """

    __slots__ = ("folder", "home", "lock", "reports", "socket", "starting", "token")

    def __init__(self, home: str) -> None:
        self.home = home
        self.folder = os.path.join(home, "run")
        self.lock = os.path.join(self.folder, "daemon.lock")
        self.starting = os.path.join(self.folder, "starting.lock")
        self.token = os.path.join(self.folder, "token")
        whose = {name: value for name, value in os.environ.items() if name in _WHOSE}  # noqa: TID251 - as `home_of`
        self.reports = os.path.join(self.folder, f"reports-{settings_mark(whose)}" if whose else "reports")
        # A home that has two names, one by a link, has one daemon at one socket.
        real = os.path.realpath(home)
        self.socket = os.path.join(real, "run", "daemon.sock")
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET:
            self.socket = _short(real)


def home_of(env: Mapping[str, str]) -> str:
    """`HARKEN_HOME`, else the platform's data directory; the same as `harken.config.settings.default_home`."""
    configured = env.get("HARKEN_HOME")
    if configured:
        return os.path.abspath(os.path.expanduser(configured))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/harken")
    data = env.get("XDG_DATA_HOME", "").strip()
    return os.path.join(data, "harken") if data else os.path.expanduser("~/.local/share/harken")


def settings_mark(env: Mapping[str, str]) -> str:
    """Return a checksum of the settings in an environment, by which a daemon and its client compare theirs.

    Less the home, which the socket is of, whoever names it.
    """
    names = {name for name in env if name.startswith("HARKEN_")} - {DEADLINE, "HARKEN_HOME"}
    named = sorted(f"{name}={env[name]}" for name in names)
    return f"{zlib.crc32(os.fsencode(chr(0).join(named))):08x}"


def _short(home: str) -> str:
    """Return a path that a socket can have, which the home alone decides, in a folder of this user's."""
    import hashlib

    name = f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}.sock"
    # What a login has for its sockets: nobody else can make anything there. Agents start some of their servers without
    # the variable, and they have to come to the same socket.
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"  # noqa: TID251 - as `tempfile` reads its own
    path = os.path.join(runtime, "harken", name)
    if len(os.fsencode(path)) <= _LONGEST_SOCKET and _is_private(runtime):
        return path
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"harken-{os.getuid()}", name)


def _is_private(folder: str) -> bool:
    try:
        return os.path.isabs(folder) and not foreign(folder) and not is_open(folder)
    except OSError:
        return False
