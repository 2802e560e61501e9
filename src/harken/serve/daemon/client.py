"""Asking the daemon, and starting it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from harken.serve.daemon.place import DaemonPaths
from harken.serve.daemon.starting import claim, words_of
from harken.serve.daemon.wire import DaemonError, exchange

__all__ = ["Answer", "DaemonError", "ask", "start"]


class Answer(NamedTuple):
    """The daemon's answer: the status of HTTP and the parsed JSON."""

    status: int
    body: Any


def ask(
    place: DaemonPaths, route: str, body: Mapping[str, Any] | None, env: Mapping[str, str], seconds: float
) -> Answer:
    """Ask the daemon once, by POST with a body, else by GET; see `wire.exchange`.

    Raises:
        DaemonError: it is not there, or does not answer in time, or not in JSON.
    """
    content = None if body is None else json.dumps(body).encode()
    status, answer = exchange(place.socket, route, content, env, seconds)
    try:
        return Answer(status, json.loads(answer) if answer else None)
    except ValueError as error:
        raise DaemonError(type(error).__name__) from error


def start(place: DaemonPaths, env: Mapping[str, str]) -> None:
    """Start a daemon and leave it to itself; returns at once, whether or not it can live.

    Where one of this version runs, and only does not answer, or is being started, none is started: it would be one more
    process each time.

    Raises:
        DaemonError: no process can be started.
    """
    try:
        claimed = claim(place)
        if claimed is None:
            return
        try:
            process = subprocess.Popen(
                words_of(place, claimed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=dict(env),
                start_new_session=True,
                pass_fds=(claimed,),
            )
        finally:
            os.close(claimed)
    except OSError as error:
        raise DaemonError(type(error).__name__) from error
    # For those who outlive it: the kernel keeps a dead child until its end was asked for.
    threading.Thread(target=process.wait, name="harken-daemon-end", daemon=True).start()
