"""What `harken view` does: has the daemon open the pages, and hands a browser the link to them."""

from __future__ import annotations

import html
import os
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from harken.config.settings import environment
from harken.errors import HarkenError
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.starting import start
from harken.serve.daemon.wire import OK, OTHER_SETTINGS, DaemonError, StrangerError, exchange, ping
from harken.serve.viewer.access import LINK_SECONDS
from harken.serve.viewer.entrance import ROUTE, parse_link

if TYPE_CHECKING:
    from harken.serve.cli.session import CommandSession

_START_SECONDS, _ASK_SECONDS, _LOOK_SECONDS, _COMING_SECONDS = 20.0, 10.0, 0.25, 4.0


def show_pages(session: CommandSession, paths: DaemonPaths, with_browser: bool) -> None:
    """Print a one-time link, or open it; returns once a browser has come by it.

    Raises:
        HarkenError: there is no daemon that could show them, or nobody came within a minute.
    """
    env = environment()
    _ready(paths, env)
    url, key = parse_link(_asked(paths, env, ROUTE, b"{}"))
    session.say(url)
    with _private_page(paths, url) if with_browser else nullcontext("") as page:
        if page and not webbrowser.open(page):
            session.note("No browser could be opened here. Open the link yourself; it is good for a minute.")
            page = ""
        deadline = time.monotonic() + LINK_SECONDS
        while b"true" not in _asked(paths, env, f"{ROUTE}?key={quote(key)}", None):
            if (left := deadline - time.monotonic()) < 0:
                raise HarkenError("Nobody opened the link within a minute. Make another: harken view")
            if page and left < LINK_SECONDS - _COMING_SECONDS:
                # One in a sandbox (a snap, on another side of WSL) may not read the page that leads to it.
                session.note("No browser has come yet. Where it shows an error, open the link above in it.")
                page = ""
            time.sleep(_LOOK_SECONDS)


def _ready(paths: DaemonPaths, env: Mapping[str, str]) -> None:
    """Find the daemon of the home, or start it."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            status = ping(paths.socket, env, _ASK_SECONDS)
        except StrangerError as error:
            raise HarkenError(str(error)) from error
        if status == OK:
            return
        if status == OTHER_SETTINGS:
            raise HarkenError("The daemon was started with other settings (HARKEN_*). Stop it: harken serve --stop")
        if time.monotonic() > deadline:
            raise HarkenError("No daemon answers for this home. See why: harken serve")
        try:
            start(paths, env)
        except OSError as error:
            raise HarkenError(f"The daemon cannot be started: {error.strerror or type(error).__name__}.") from error
        time.sleep(_LOOK_SECONDS)


def _asked(paths: DaemonPaths, env: Mapping[str, str], route: str, content: bytes | None) -> bytes:
    try:
        status, answer = exchange(paths.socket, route, content, env, _ASK_SECONDS)
    except (DaemonError, OSError, HTTPException) as error:
        raise HarkenError("The daemon has ended. Try again: harken view") from error
    if status != OK:
        raise HarkenError(
            answer.decode("utf-8", "replace").partition('"error":')[2].strip(' "}') or "It cannot be shown."
        )
    return answer


@contextmanager
def _private_page(paths: DaemonPaths, url: str) -> Iterator[str]:
    """A page for this user alone that leads to the link: what a browser is started with, every user can read."""
    descriptor, name = tempfile.mkstemp(".html", "view-", paths.folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}"><title>Harken</title>'
            )
        yield Path(name).as_uri()
    finally:
        Path(name).unlink(missing_ok=True)
