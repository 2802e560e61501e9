"""The daemon's life: the lock, the socket, the workers, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import uvicorn
from starlette.types import ASGIApp

from harken.config.settings import environment
from harken.engine import Harken
from harken.errors import HarkenError
from harken.journal.journal import DATABASE_NAME
from harken.serve.daemon.place import DaemonPaths, settings_mark
from harken.serve.daemon.spool import Transcript
from harken.serve.daemon.watcher import TranscriptWatcher
from harken.serve.http.app import make_app
from harken.serve.http.guard import Guard
from harken.serve.http.tcp import Tcp
from harken.serve.mcp.mount import Mount

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0
_QUESTION = "what was said before"
_DRAIN_SECONDS = 20.0
_BACKLOG = 128


_Identity = tuple[int, int] | None


class _DaemonServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon: uvicorn raises them again at its end, as if that had gone wrong."""
        yield


@dataclass(frozen=True, slots=True)
class Remote:
    """What clients over TCP come to.

    Attributes:
        listening: a socket of its own.
        token: that they have to show.
    """

    tcp: Tcp
    listening: socket.socket
    token: str = field(repr=False)


class Daemon:
    """Serves one home until it is told to stop, or nobody asks any more; the lock is held by who makes it.

    Args:
        harken: the open store.
        place: of its home.
        ready: called when the socket answers.
        remote: where it listens over TCP beside the socket, and the token; it stays then, however long nobody asks.

    Attributes:
        was_idle: it left because nobody asked.
    """

    def __init__(
        self, harken: Harken, place: DaemonPaths, ready: Callable[[], None] = lambda: None, remote: Remote | None = None
    ) -> None:
        self.settings_mark = settings_mark(environment())
        self.was_idle = False
        self._harken = harken
        self._place = place
        self._ready = ready
        self._asked_at = time.monotonic()
        self._database = str(harken.home / DATABASE_NAME)
        self._opened = _identity(self._database)
        self._own: _Identity = None
        self.unwritten: set[Transcript] = set()
        self._intake = TranscriptWatcher(Path(place.reports), self._bring_in, self.unwritten)
        self._mcp = Mount(harken)
        app = make_app(harken, self, self._mcp)
        self._server = _server(app)
        self._remote = remote
        self._remote_server = None if remote is None else _remote_server(app, remote, harken.settings.serve.hosts)

    def run(self) -> None:
        """Serve; returns when all that was accepted is done, or `_DRAIN_SECONDS` have passed."""
        listening = _listen(self._place)
        self._own = _identity(self._place.socket)
        try:
            self._intake.start()
            self._start_workers()
            asyncio.run(self._serve(listening))
        finally:
            # Another's stands there where the home was deleted and made anew.
            if _identity(self._place.socket) == self._own:
                with suppress(FileNotFoundError):
                    Path(self._place.socket).unlink()
            listening.close()
            self._intake.stop(_DRAIN_SECONDS)

    def touch(self) -> None:
        """Somebody asks: it is not idle."""
        self._asked_at = time.monotonic()

    def leave(self) -> None:
        """End, once everything that was asked has been answered."""
        self._server.should_exit = True
        if self._remote_server is not None:
            self._remote_server.should_exit = True

    def wake_intake(self) -> None:
        """A transcript was reported."""
        self._intake.wake()

    @property
    def reports(self) -> str:
        """Where hooks report."""
        return self._place.reports

    async def _serve(self, listening: socket.socket) -> None:
        watching = asyncio.create_task(self._watch())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        serving = [self._server.serve([listening])]
        if self._remote is not None and self._remote_server is not None:
            serving.append(self._remote_server.serve([self._remote.listening]))
        try:
            await asyncio.gather(*serving)
        finally:
            watching.cancel()
            await self._mcp.close()

    async def _watch(self) -> None:
        while not self._server.started:
            await asyncio.sleep(0.01)
        self._ready()
        while not self._server.should_exit:
            idle_seconds = 0.0 if self._remote is not None else self._harken.settings.serve.idle_seconds
            await asyncio.sleep(min(_LOOK_SECONDS, idle_seconds or _LOOK_SECONDS))
            with suppress(HarkenError):
                # Somebody may have switched something off: the next hook has to know.
                await asyncio.to_thread(self._harken.run_time.refresh)
            waited = time.monotonic() - self._asked_at
            self.was_idle = (
                bool(idle_seconds)
                and waited > idle_seconds
                and self._intake.idle
                and not self._harken.background.is_busy
            )
            if self.was_idle or self.is_lost():
                self.leave()

    def is_lost(self) -> bool:
        """Whether nobody can find this daemon any more, or what it serves is no longer what others open.

        The home was deleted under it, its lock file or its socket; or a damaged database was set aside.
        """
        found = _identity(self._place.socket) == self._own and Path(self._place.lock).exists()
        return not found or _identity(self._database) != self._opened

    def _start_workers(self) -> None:
        try:
            self._harken.start_worker()
        except HarkenError as error:
            # Words still find things; `harken status` says what is missing, and the workers go on once it is there.
            _log.warning("workers_stand_still", error_class=type(error).__name__)
        threading.Thread(target=self._warm_up, name="harken-warm-up", daemon=True).start()

    def _warm_up(self) -> None:
        """Load what the first question would have to wait for, longer than a hook may take."""
        try:
            # A long question runs on more threads, in a session of its own.
            for question in (_QUESTION, " ".join([_QUESTION] * 40)):
                self._harken.search(question, limit=1)
        except HarkenError as error:
            _log.warning("not_warmed_up", error_class=type(error).__name__)

    def _bring_in(self, transcript: Transcript) -> None:
        self._harken.import_transcripts(transcript.format, [transcript.path], is_live=True)


def _server(app: ASGIApp, tcp: Tcp | None = None) -> _DaemonServer:
    # What it says of a request that went wrong may quote it; ours says the class of the error.
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn").propagate = False
    return _DaemonServer(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=int(_DRAIN_SECONDS),
            ws="none",
            ssl_certfile=tcp.certificate if tcp else None,
            ssl_keyfile=tcp.key if tcp else None,
        )
    )


def _remote_server(app: ASGIApp, remote: Remote, hosts: Sequence[str]) -> _DaemonServer:
    return _server(Guard(app, remote.token, hosts), remote.tcp)


def _identity(path: str) -> _Identity:
    """Which file stands at a path: its device and number; None where there is none."""
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _listen(place: DaemonPaths) -> socket.socket:
    """A socket for this user alone; one that a dead daemon left is in nobody's way."""
    with suppress(FileNotFoundError):
        Path(place.socket).unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(place.socket)
    except OSError as error:
        listening.close()
        raise HarkenError(f"No socket can be made at {place.socket}: {error.strerror}") from error
    finally:
        os.umask(mask)
    listening.listen(_BACKLOG)
    return listening
