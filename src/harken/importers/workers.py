"""Processes that read transcripts for an import beside the one that writes: they parse, redact and prepare.

Each is started anew (nothing is forked, whatever threads there are), reads its tasks from a pipe and answers by
another, so that it ends with whoever started it, however that ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from harken.errors import ImportStoppedError, TranscriptError
from harken.importers.transcript import Portion, ReadingTask, read_portions
from harken.record.prepared import Preparer

# From so much on to read, a second of work, it pays to start a process, which takes a quarter of one.
_WORTH_BYTES = 2_000_000
_MOST = 4
# So far a process works ahead of the writer.
_PIPE_BYTES = 1 << 20
_END_SECONDS = 1.0
_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from harken.importers.workers import serve; serve(sys.stdin.buffer)"
)

Read = Callable[[ReadingTask], Iterator[Portion]]


@contextmanager
def readers(tasks: Sequence[ReadingTask], preparer: Preparer) -> Iterator[Read | None]:
    """What reads the tasks in other processes, in their order; None where that does not pay, or is not possible."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(cores, _MOST, len(tasks)) if sum(task.size - task.begin for task in tasks) >= _WORTH_BYTES else 0
    started: list[_Reader] = []
    try:
        # A program that carries its own Python has none to be started.
        with suppress(OSError):
            for _ in range(count if cores > 1 and sys.executable else 0):
                started.append(_Reader(preparer))
        yield _Readers(started, tasks).portions if started else None
    finally:
        for reader in started:
            reader.close()


class _Readers:
    """Some processes, each with the task that it works on and the next one; the writer takes the tasks in order."""

    def __init__(self, readers: Sequence[_Reader], tasks: Iterable[ReadingTask]) -> None:
        self._waiting = deque(tasks)
        self._reader_of: dict[Path, _Reader] = {}
        for reader in (*readers, *readers):
            self._give(reader)

    def portions(self, task: ReadingTask) -> Iterator[Portion]:
        """The portions of the next task.

        Raises:
            TranscriptError, OSError: it cannot be read; what came before the damage has been yielded.
            ImportStoppedError: its process has ended.
        """
        reader = self._reader_of.pop(task.file)
        while (found := reader.receive()) is not None:
            if isinstance(found, Exception):
                self._give(reader)
                raise found
            yield found
        self._give(reader)

    def _give(self, reader: _Reader) -> None:
        if self._waiting:
            task = self._waiting.popleft()
            self._reader_of[task.file] = reader
            reader.send(task)


class _Reader:
    """One process that reads transcripts."""

    def __init__(self, preparer: Preparer) -> None:
        # Isolated, lest a module that lies in this folder by chance comes before the one that is meant.
        command = [sys.executable, "-I", "-c", _START]
        # In a session of its own it hears no Ctrl-C: whoever started it says when it is over.
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, pipesize=_PIPE_BYTES, start_new_session=True)
        self.send(sys.path)
        self.send(preparer)

    def send(self, value: object) -> None:
        """Pass something on; to one that has ended, nothing, which shows as soon as its answer is wanted."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        with suppress(BrokenPipeError):
            pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()

    def receive(self) -> Portion | Exception | None:
        """The next portion of its task, why it cannot go on, or None at the end."""
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            found: Portion | Exception | None = pickle.load(self._process.stdout)  # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError) as error:
            code = self._process.wait()
            how = f"was killed (signal {-code})" if code < 0 else f"has ended (exit code {code})"
            raise ImportStoppedError(
                f"A process that read transcripts for the import {how}. What came in stays; import again to go on."
            ) from error
        return found

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(tasks: BinaryIO) -> None:
    """Read the transcripts that are asked for, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is read goes as it came, in no circles: looking for them took a fifteenth of the time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    # Nothing else may come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        preparer: Preparer = pickle.load(tasks)  # noqa: S301 - of the process that started this one
        while True:
            task: ReadingTask = pickle.load(tasks)  # noqa: S301 - likewise
            for answer in _answers(task, preparer):
                pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
                answers.flush()
    except (EOFError, BrokenPipeError):
        # Without a last look at what is still to be written: nobody reads it.
        os._exit(0)


def _answers(task: ReadingTask, preparer: Preparer) -> Iterator[Portion | Exception | None]:
    try:
        yield from read_portions(task, preparer)
    except (TranscriptError, OSError) as error:
        yield error
    else:
        yield None
