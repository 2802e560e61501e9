"""One request to the daemon. On the way of every hook, which pays for each import.

Written by hand: the standard library's HTTP client takes longer to import than the daemon to answer.
"""

from __future__ import annotations

# What `socket` is made of: that one makes enumerations of all its constants, which takes as long as Python's own start.
import _socket
import errno
import os
import sys
import time

from harken import __version__
from harken.files import foreign, is_open
from harken.serve.daemon.paths import settings_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSION_HEADER, SETTINGS_HEADER = "x-harken-version", "x-harken-settings"
# The working directory of who asks, percent-encoded; where it is named, no more than its project is read.
DIRECTORY_HEADER = "x-harken-directory"
# Asked for by clients that want to hear of progress: one JSON object in each line.
LINES = "application/x-ndjson"
OK, OTHER_SETTINGS, OTHER_VERSION = 200, 409, 426
_LONGEST_ANSWER = 64 * 1024 * 1024
# SOL_LOCAL, LOCAL_PEERCRED and the size of its answer, where there is no SO_PEERCRED (macOS, FreeBSD).
_LOCAL_PEERCRED = (0, 1, 76)
OTHER_FOLDER = "Remove it, or set XDG_RUNTIME_DIR or HARKEN_HOME to a folder of your own."


class DaemonError(Exception):
    """The daemon is not there, or gives no answer in time that can be read."""


class StrangerError(DaemonError):
    """Another user has, or may have, put there what is to be asked; it was told nothing."""


def exchange(
    listening: str, route: str, content: bytes | None, env: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """Ask the daemon once, and return the status of HTTP and the body.

    Content is posted as JSON; None asks by GET. The seconds are for everything together, and the settings in the
    environment must equal the daemon's.

    Raises:
        StrangerError: another user listens there, or could; nothing was sent.
        DaemonError: it is not there, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    head = (
        f"{'GET' if content is None else 'POST'} {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"{VERSION_HEADER}: {__version__}\r\n{SETTINGS_HEADER}: {settings_mark(env)}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content or b'')}\r\n\r\n"
    )
    stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        check_folder(listening)
        _limit(stream, deadline)
        stream.connect(listening)
        check_peer(stream, listening)
        stream.sendall(head.encode("ascii") + (content or b""))
        return _parsed(_all_of(stream, deadline))
    except (OSError, ValueError, IndexError) as error:
        raise DaemonError(type(error).__name__) from error
    finally:
        stream.close()


def ping(listening: str, env: Mapping[str, str], seconds: float) -> int:
    """Return the status with which the daemon answers at all; 0 where it does not.

    Raises:
        StrangerError: another user listens there, or could.
    """
    try:
        return exchange(listening, "/v1/ping", None, env, seconds)[0]
    except StrangerError:
        raise
    except DaemonError:
        return 0


def check_folder(listening: str) -> None:
    """Check that nobody else can have put a socket where the daemon's is expected; for clients, before they connect.

    Raises:
        StrangerError: the folder is another user's, or open to others.
        OSError: it cannot be looked at, or is not there.
    """
    folder = os.path.dirname(listening)
    if os.path.isfile(folder) and not os.path.islink(folder) and os.stat(folder).st_uid == os.getuid():
        # A file of this user's own in its place: no daemon can be there, and nobody else's socket either.
        raise NotADirectoryError(errno.ENOTDIR, "is no folder", folder)
    if why := foreign(folder):
        raise StrangerError(f"{folder} {why}, so nothing was sent to the daemon's socket there. {OTHER_FOLDER}")
    if is_open(folder):
        raise StrangerError(
            f"{folder} is open to other users, so nothing was sent to the daemon's socket there. "
            f"Close it: chmod 700 '{folder}'"
        )


def check_peer(stream: Any, listening: str) -> None:
    """Check that a process of this user's is at the other end; for every client, before it sends anything.

    Raises:
        StrangerError: it is another user's.
        OSError: the system does not tell whose it is.
    """
    # Both structures (`ucred`, `xucred`) have the user's id as their second number of four bytes.
    asked = (_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12) if sys.platform == "linux" else _LOCAL_PEERCRED
    uid = int.from_bytes(stream.getsockopt(*asked)[4:8], sys.byteorder)
    if uid != os.getuid():
        raise StrangerError(
            f"{listening} is served by another user (uid {uid}), so nothing was sent there. Remove it: rm '{listening}'"
        )


def _all_of(stream: _socket.socket, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _LONGEST_ANSWER:
        _limit(stream, deadline)
        part = stream.recv(65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise ValueError("an answer without an end")


def _limit(stream: _socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    stream.settimeout(left)


def _parsed(raw: bytes) -> tuple[int, bytes]:
    head, _, content = raw.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    status = int(lines[0].split(b" ", 2)[1])
    length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), None)
    if length is None or len(content) != length:
        raise ValueError("an answer that was cut off")
    return status, content
