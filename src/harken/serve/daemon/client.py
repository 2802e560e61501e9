"""Asking the daemon, and starting it. Standard library only: a hook pays for every import."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from harken import __version__
from harken.serve.daemon.place import Place, settings_mark

VERSION_HEADER, SETTINGS_HEADER = "x-harken-version", "x-harken-settings"
OTHER_VERSION, OTHER_SETTINGS = 426, 409
_LONGEST_ANSWER = 64 * 1024 * 1024


class DaemonError(Exception):
    """The daemon is not there, or gives no answer in time that can be read."""


class Answer(NamedTuple):
    """What the daemon answered.

    Attributes:
        status: of HTTP.
        body: the parsed JSON.
    """

    status: int
    body: Any


def ask(place: Place, path: str, body: Mapping[str, Any] | None, env: Mapping[str, str], seconds: float) -> Answer:
    """Ask the daemon once.

    Written by hand: the standard library's HTTP client takes longer to import than the daemon to answer.

    Args:
        place: whose daemon.
        path: of the route.
        body: posted as JSON; None asks by GET.
        env: the settings of this process, which the daemon's must equal.
        seconds: for everything together.
    Raises:
        DaemonError: it is not there, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"{VERSION_HEADER}: {__version__}\r\n{SETTINGS_HEADER}: {settings_mark(env)}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            _limit(stream, deadline)
            stream.connect(str(place.socket))
            stream.sendall(head.encode("ascii") + content)
            return _parsed(_all_of(stream, deadline))
    except (OSError, ValueError) as error:
        raise DaemonError(type(error).__name__) from error


def _all_of(stream: socket.socket, deadline: float) -> bytes:
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


def _limit(stream: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    stream.settimeout(left)


def _parsed(raw: bytes) -> Answer:
    head, _, content = raw.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    status = int(lines[0].split(b" ", 2)[1])
    length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), None)
    if length is None or len(content) != length:
        raise ValueError("an answer that was cut off")
    return Answer(status, json.loads(content) if content else None)


def start(place: Place, env: Mapping[str, str]) -> None:
    """Start a daemon and leave it to itself; returns at once, whether or not it can live.

    The first one that gets the lock stays, any other leaves again.

    Raises:
        DaemonError: no process can be started.
    """
    words = [sys.executable, "-m", "harken", "--home", str(place.home), "serve", "--quiet"]
    try:
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(env),
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        raise DaemonError(type(error).__name__) from error


def wait_for(place: Place, env: Mapping[str, str], seconds: float) -> bool:
    """Whether the daemon answers within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if ask(place, "/v1/ping", None, env, 1.0).status == 200:
                return True
        except DaemonError:
            time.sleep(0.05)
    return False


def environment() -> Mapping[str, str]:
    """The process's environment, for those that cannot pay for `harken.config`."""
    return os.environ  # noqa: TID251 - a hook must not import pydantic to read a variable
