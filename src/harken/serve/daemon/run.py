"""The daemon's life: the lock, the socket, the workers, the transcripts it reads, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from harken.config.settings import environment
from harken.engine import Harken
from harken.errors import HarkenError, StoreError
from harken.journal.journal import DATABASE_NAME
from harken.log import Log
from harken.providers.embedder import HeapTrimmer, trim_heap
from harken.serve.daemon import spool
from harken.serve.daemon.paths import DaemonPaths, settings_mark
from harken.serve.daemon.spool import Transcript
from harken.serve.http.guard import Guard
from harken.serve.http.tcp import Door, Tcp
from harken.serve.mcp.mount import Mount, answers_of

_log = Log(__name__)

_LOOK_SECONDS = 1.0
_QUESTION = "what was said before"
_DRAIN_SECONDS = 20.0
_BACKLOG = 128
_SWITCH_SECONDS = 0.001
# A hook that has started this process asks within so long.
_FIRST_SECONDS = 1.0
# Hooks that found no daemon leave their reports without a word.
_POLL_SECONDS = 2.0
# An agent may write the last lines of a turn after the hook that reports it.
_WATCHED_SECONDS = 60.0

# Of mallopt: each thread allocates from an arena of its own, which keeps what that thread needed once.
_M_ARENA_MAX, _ARENAS = -8, 2
# Settings that what is open does not follow.
_OPENED_BY = ("embedder", "embedding", "record", "redaction", "worker")

_Identity = tuple[int, int] | None


class _DaemonServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon: uvicorn raises them again at its end, as if that had gone wrong."""
        yield


@dataclass(frozen=True, slots=True)
class Remote:
    """What clients over TCP come to: a listening socket, and the token that they have to show."""

    tcp: Tcp
    listening: Door
    token: str = field(repr=False)


class Daemon:
    """Serves one home until it is told to stop, or nobody asks any more; the lock is held by who makes it.

    Args:
        ready: called when the socket answers.
        remote: where it listens over TCP beside the socket; it stays then, however long nobody asks.
    Attributes:
        paths: where it listens, and where hooks report.
        watcher: reads the transcripts that hooks report.
        mcp: what answers at `/mcp`.
        was_idle: it left because nobody asked; `was_outdated`: for one with other settings to take its place.
        has_answered: set once a hook has its answer.
        is_loading: whether a question would still have to wait for the model.
    """

    def __init__(
        self, harken: Harken, paths: DaemonPaths, ready: Callable[[], None] = lambda: None, remote: Remote | None = None
    ) -> None:
        self.settings_mark = settings_mark(environment())
        self.is_leaving = self.was_idle = self.was_outdated = False
        self.is_loading = True
        self._opened_by = harken.settings
        self.has_answered = threading.Event()
        self._harken = harken
        self.paths = paths
        self._ready = ready
        self._asked_at = time.monotonic()
        self._database = str(harken.home / DATABASE_NAME)
        self._opened = _identity(self._database)
        self._own: _Identity = None
        self.watcher = TranscriptWatcher(Path(paths.reports), self._bring_in)
        self.mcp = Mount(answers_of(harken))
        self._beginning = threading.Thread(target=self._begin, name="harken-begin", daemon=True)
        self._remote = remote
        self._servers: list[_DaemonServer] = []
        self._beside: list[asyncio.Task[None]] = []

    def run(self, app: ASGIApp) -> None:
        """Serve the routes; returns when all that was accepted is done, or `_DRAIN_SECONDS` have passed."""
        # Whoever asks gets the interpreter from a worker within a millisecond, as often as it takes to answer.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # With a dozen threads 50 MB; glibc alone has it.
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
        listening = _listen(self.paths)
        self._own = _identity(self.paths.socket)
        try:
            self._beginning.start()
            self.watcher.start()
            asyncio.run(self._serve(app, listening))
        finally:
            # Or workers would be started behind the end of all others, on a store that is closed.
            self._beginning.join(_DRAIN_SECONDS)
            # Another's stands there where the home was deleted and made anew.
            if _identity(self.paths.socket) == self._own:
                with suppress(FileNotFoundError):
                    Path(self.paths.socket).unlink()
            listening.close()
            self.watcher.stop(_DRAIN_SECONDS)
            gc.unfreeze()

    def touch(self) -> None:
        """Note that somebody asks: it is not idle."""
        self._asked_at = time.monotonic()

    def leave(self) -> None:
        """End, once everything that was asked has been answered."""
        self.is_leaving, self.was_outdated = True, False
        self.has_answered.set()
        for server in self._servers:
            server.should_exit = True

    def serve_beside(self, app: ASGIApp, listening: Door) -> None:
        """Serve another application as well, from now until the daemon ends; for the thread of its loop."""
        server = _server(app)
        server.should_exit = self.is_leaving
        self._servers.append(server)
        self._beside.append(asyncio.create_task(server.serve([listening])))

    async def _serve(self, app: ASGIApp, listening: socket.socket) -> None:
        served = [(_server(app), listening)]
        if (remote := self._remote) is not None:
            guarded = Guard(app, remote.token, self._harken.settings.serve.hosts, remote.listening.admit)
            served.append((_server(guarded, remote.tcp), remote.listening))
        self._servers = [server for server, _ in served]
        watching = asyncio.create_task(self._watch())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        try:
            await asyncio.gather(*(server.serve([each]) for server, each in served))
            await asyncio.gather(*self._beside)
        finally:
            watching.cancel()
            await self.mcp.close()

    async def _watch(self) -> None:
        while not self._servers[0].started:
            await asyncio.sleep(0.01)
        self._ready()
        trimmer = HeapTrimmer()
        while not self.is_leaving:
            await asyncio.to_thread(trimmer.look)
            idle_seconds = 0.0 if self._remote is not None else self._harken.settings.serve.idle_seconds
            await asyncio.sleep(min(_LOOK_SECONDS, idle_seconds or _LOOK_SECONDS))
            is_outdated = False
            with suppress(HarkenError):
                # Somebody may have switched something off: the next hook has to know.
                is_outdated = await asyncio.to_thread(self._is_outdated)
            is_over = idle_seconds and time.monotonic() - self._asked_at > idle_seconds
            self.was_idle = bool(is_over and self.watcher.idle and not self._harken.background.is_busy)
            if not self.is_leaving and (self.was_idle or is_outdated or self.is_lost()):
                self.leave()
                self.was_outdated = is_outdated

    def _is_outdated(self) -> bool:
        """Follow what was set; whether the file has changed, or what parts are opened by once."""
        self._harken.run_time.refresh()
        now, then = self._harken.run_time.load().settings, self._opened_by
        return now != self._harken.settings or any(getattr(now, name) != getattr(then, name) for name in _OPENED_BY)

    def is_lost(self) -> bool:
        """Whether nobody can find this daemon any more, or what it serves is no longer what others open.

        The home was deleted under it, its lock file or its socket; or a damaged database was set aside.
        """
        found = _identity(self.paths.socket) == self._own and Path(self.paths.lock).exists()
        return not found or _identity(self._database) != self._opened

    def _begin(self) -> None:
        """Begin to work, and load what a question would have to wait for, longer than a hook may take.

        Whoever has started this process waits for an answer, and gets it first: by words, for which nothing is loaded.
        """
        self.has_answered.wait(_FIRST_SECONDS)
        if not self.is_leaving:
            self._start_workers()
        if not self.is_leaving:
            self._warm_up()
            # All that is imported and loaded by now stays. To look for garbage among it takes 45 ms, and whoever waits
            # for a hook at that moment waits for it too.
            gc.collect()
            gc.freeze()
            # What loading vectors and models has used for a moment, 12 MB.
            trim_heap()
        self.is_loading = False

    def _bring_in(self, transcript: Transcript) -> None:
        """Import a transcript, and see whether its answers have used what was recalled for them."""
        self._harken.import_transcripts(transcript.format, [transcript.path], is_live=True)
        try:
            self._harken.feedback.notice()
        except HarkenError as error:
            # The transcript is in; what was used is looked for again with the next one.
            _log.warning("use_not_noticed", error_class=type(error).__name__)

    def _start_workers(self) -> None:
        try:
            self._harken.start_worker()
        except HarkenError as error:
            # Words still find things; `harken status` says what is missing, and the workers go on once it is there.
            _log.warning("workers_stand_still", error_class=type(error).__name__)

    def _warm_up(self) -> None:
        try:
            loading = self._harken.chats.warm_up()
            self._harken.search(_QUESTION, limit=1)
            # Modules are imported and statements put together by then: the first `status` would take 60 ms for that.
            self._harken.maintenance.status()
            self._harken.background.status()
            if loading is not None:
                loading.result()
        except HarkenError as error:
            _log.warning("not_warmed_up", error_class=type(error).__name__)


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
            # Who asks is told by the connection, never by a header.
            proxy_headers=False,
            ws="none",
            ssl_certfile=tcp.certificate if tcp else None,
            ssl_keyfile=tcp.key if tcp else None,
        )
    )


def _identity(path: str) -> _Identity:
    """Return the device and number of the file at a path; None where there is none."""
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _listen(paths: DaemonPaths) -> socket.socket:
    """Open a socket for this user alone; one that a dead daemon left is in nobody's way."""
    with suppress(FileNotFoundError):
        Path(paths.socket).unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(paths.socket)
    except OSError as error:
        listening.close()
        raise HarkenError(f"No socket can be made at {paths.socket}: {error.strerror}") from error
    finally:
        os.umask(mask)
    listening.listen(_BACKLOG)
    return listening


class TranscriptWatcher:
    """Imports the transcripts that hooks report, and for a while what is written behind it, in a thread of its own.

    The same import as `harken import`: by byte offset, known messages known again. So a report may come twice, late, or
    while its transcript is being read.

    Args:
        bring_in: imports one transcript; what the store refuses waits and is tried again.

    Attributes:
        unwritten: transcripts whose report the disk refused; put down as soon as it takes them.
    """

    def __init__(self, folder: Path, bring_in: Callable[[Transcript], object]) -> None:
        self._folder = folder
        self._bring_in = bring_in
        self.unwritten: set[Transcript] = set()
        self._signal = threading.Event()
        self._ending = threading.Event()
        self._watched: dict[Transcript, tuple[float, int]] = {}
        self._thread = threading.Thread(target=self._run, name="harken-intake", daemon=True)

    def start(self) -> None:
        """Begin, with what a daemon before this one left."""
        self._thread.start()

    def wake(self) -> None:
        """Look at the reports now; returns at once."""
        self._signal.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is being read, and nothing waits."""
        return not self.unwritten and not spool.is_waiting(self._folder)

    def stop(self, seconds: float) -> None:
        """Read what waits, as far as that gets within so many seconds; the rest waits for the next daemon."""
        self._ending.set()
        self._signal.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            ending = self._ending.is_set()
            self._signal.clear()
            try:
                spool.restore(self._folder)
                for refused in list(self.unwritten):
                    spool.put(str(self._folder), refused)
                    self.unwritten.discard(refused)
                for report in spool.waiting(self._folder):
                    taken, transcript = spool.take(report)
                    if transcript is None or self._import(transcript):
                        taken.unlink(missing_ok=True)
                    else:
                        spool.give_back(taken)
                self._look_again()
            except OSError as error:
                # A disk that is full or gone may be neither the next time; the reports wait where they are.
                _log.warning("reports_not_read", error_class=type(error).__name__)
            if ending:
                return
            self._signal.wait(_POLL_SECONDS)

    def _look_again(self) -> None:
        now = time.monotonic()
        for transcript, (until, size) in list(self._watched.items()):
            if now > until:
                del self._watched[transcript]
            elif _size(transcript) != size and not self._import(transcript):
                self.unwritten.add(transcript)

    def _import(self, transcript: Transcript) -> bool:
        """Whether the store took it, or there is nothing to take."""
        self._watched[transcript] = (time.monotonic() + _WATCHED_SECONDS, _size(transcript))
        try:
            self._bring_in(transcript)
        except StoreError as error:
            _log.warning("intake_failed", error_class=type(error).__name__)
            return False
        except Exception as error:  # noqa: BLE001 - one transcript that cannot be read must not stop the others
            _log.warning("transcript_failed", error_class=type(error).__name__)
        return True


def _size(transcript: Transcript) -> int:
    try:
        return Path(transcript.path).stat().st_size
    except OSError:
        return -1
