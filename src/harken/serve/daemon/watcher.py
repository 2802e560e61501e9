"""Reads the transcripts that hooks report, in a thread of its own, each by one reader at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from harken.errors import StoreError
from harken.serve.daemon import spool
from harken.serve.daemon.spool import Transcript

_log = structlog.get_logger(__name__)

# Hooks that found no daemon leave their reports without a word.
_POLL_SECONDS = 2.0
# An agent may write the last lines of a turn after the hook that reports it.
_WATCHED_SECONDS = 60.0


class TranscriptWatcher:
    """Imports what was reported, and for a while what is written behind it.

    The same import as `harken import`: by byte offset, known messages known again. So a report may come twice, late, or
    while its transcript is being read.

    Args:
        folder: of the reports.
        bring_in: imports one transcript; what the store refuses waits and is tried again.
        unwritten: transcripts whose report the disk refused; put down as soon as it takes them.
    """

    def __init__(self, folder: Path, bring_in: Callable[[Transcript], None], unwritten: set[Transcript]) -> None:
        self._folder = folder
        self._bring_in = bring_in
        self._unwritten = unwritten
        self._signal = threading.Event()
        self._ending = threading.Event()
        self._watched: dict[Transcript, tuple[float, int]] = {}
        self._thread = threading.Thread(target=self._run, name="harken-intake", daemon=True)

    def start(self) -> None:
        """Begin, with what a daemon before this one left."""
        self._thread.start()

    def wake(self) -> None:
        """Something was reported; returns at once."""
        self._signal.set()

    @property
    def idle(self) -> bool:
        """Whether nothing is being read, and nothing waits."""
        return not self._unwritten and not spool.is_waiting(self._folder)

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
                self._write_down()
                for report in spool.waiting(self._folder):
                    self._read(report)
                self._look_again()
            except OSError as error:
                # A disk that is full or gone may be neither the next time; the reports wait where they are.
                _log.warning("reports_not_read", error_class=type(error).__name__)
            if ending:
                return
            self._signal.wait(_POLL_SECONDS)

    def _write_down(self) -> None:
        for transcript in list(self._unwritten):
            spool.put(str(self._folder), transcript)
            self._unwritten.discard(transcript)

    def _read(self, report: Path) -> None:
        taken, transcript = spool.take(report)
        if transcript is not None and not self._import(transcript):
            spool.give_back(taken)
            return
        spool.done(taken)

    def _look_again(self) -> None:
        now = time.monotonic()
        for transcript, (until, size) in list(self._watched.items()):
            if now > until:
                del self._watched[transcript]
            elif _size(transcript) != size and not self._import(transcript):
                self._unwritten.add(transcript)

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
