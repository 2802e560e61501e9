"""One request to the daemon. On the way of every hook, which pays for each import.

Written by hand: the standard library's HTTP client takes longer to import than the daemon to answer.
"""

from __future__ import annotations

# What `socket` is made of: that one makes enumerations of all its constants, which takes as long as Python's own start.
import _socket
import time

from harken import __version__
from harken.serve.daemon.place import settings_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION_HEADER, SETTINGS_HEADER = "x-harken-version", "x-harken-settings"
# The working directory of who asks, percent-encoded; where it is named, no more than its project is read.
DIRECTORY_HEADER = "x-harken-directory"
# Asked for by clients that want to hear of progress: one JSON object in each line.
LINES = "application/x-ndjson"
OK, OTHER_SETTINGS, OTHER_VERSION = 200, 409, 426
_LONGEST_ANSWER = 64 * 1024 * 1024
HOST, PORT = "127.0.0.1", 4275


class DaemonError(Exception):
    """The daemon is not there, or gives no answer in time that can be read."""


def exchange(
    listening: str, route: str, content: bytes | None, env: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """Ask the daemon once.

    Args:
        listening: its socket.
        route: path and query.
        content: posted as JSON; None asks by GET.
        env: the settings of this process, which the daemon's must equal.
        seconds: for everything together.
    Returns:
        The status of HTTP, and the body.
    Raises:
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
        _limit(stream, deadline)
        stream.connect(listening)
        stream.sendall(head.encode("ascii") + (content or b""))
        return _parsed(_all_of(stream, deadline))
    except (OSError, ValueError, IndexError) as error:
        raise DaemonError(type(error).__name__) from error
    finally:
        stream.close()


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
