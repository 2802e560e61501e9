"""A process that has imported Harken and forks for each command.

Importing takes a second on a small machine, taking it all apart at the end a third of one, and tests run some thousand
commands. Each is still a process of its own, with its own arguments, environment, files, signals and exit code; only
that time is saved, and that of compiling the statements of most commands. What proves how a command starts is run cold.
What a forked one starts by Python is forked as well (`warm_python.py`). The processes of one run share it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MEASURED = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
# The folder of the one that a run's processes share.
SHARED = "TESTS_WARM_PROCESS"
_KILLED = signal.SIGKILL.value
_PATIENCE_SECONDS = 120.0


class WarmStart:
    """Starts commands; whoever asks while it is gone, because it was killed or crashed, starts it anew."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._answered: socket.socket | None = None
        self._folder: str | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes, timeout_seconds: float
    ) -> tuple[int, bytes, bytes]:
        """Run `harken` with these arguments; its exit code, stdout and stderr.

        Raises:
            TimeoutError: it did not end in time, and was killed.
        """
        streams = [os.memfd_create(name) for name in ("in", "out", "err")]
        try:
            with os.fdopen(os.dup(streams[0]), "wb") as given:
                given.write(stdin)
            os.lseek(streams[0], 0, os.SEEK_SET)
            pid, ended = self.spawn(arguments, environment, streams)
            with open(ended, "rb", buffering=0) as told:  # noqa: PTH123 - a number, no path
                # `select` knows no file above the thousandth.
                ending = select.poll()
                ending.register(told, select.POLLIN)
                if not ending.poll(timeout_seconds * 1000):
                    os.kill(pid, signal.SIGKILL)
                    raise TimeoutError(f"harken {' '.join(arguments)}: no answer within {timeout_seconds} s")
                code = os.waitstatus_to_exitcode(int(told.read() or _KILLED))
            out, err = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams[1:])
            return code, out, err
        finally:
            for stream in streams:
                os.close(stream)

    def spawn(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        streams: Sequence[int],
        *,
        folder: str | os.PathLike[str] | None = None,
        terminal: bool = False,
    ) -> tuple[int, int]:
        """Start `harken` with these arguments and files; its process id, and a file that will hold its wait status.

        Where the first argument is a Python file, or `-c`, that is run instead.

        Args:
            terminal: the files are a terminal, which becomes the command's own.
        """
        told, tells = os.pipe()
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
            "terminal": terminal,
        }
        written = os.memfd_create("request")
        try:
            with os.fdopen(os.dup(written), "wb") as given:
                given.write(json.dumps(request).encode())
            with self._lock:
                channel = self.open()
                socket.send_fds(channel, [b"?"], [written, tells, *streams])
                pid = int.from_bytes(channel.recv(4), "big")
            assert pid, "the warm process ended"
        finally:
            os.close(written)
            os.close(tells)
        return pid, told

    @property
    def python(self) -> str:
        """What stands in for Python, for who starts commands by itself, and may not wait until all is imported."""
        channel = self.open()
        if channel is not self._answered:
            assert self.run(["-c", ""], {}, b"", _PATIENCE_SECONDS)[0] == 0
            self._answered = channel
        return f"{self._folder or os.environ[SHARED]}/python"

    def share(self) -> None:
        """Start the process, and let those that this one starts use it as well."""
        self.open()
        assert self._folder is not None
        os.environ[SHARED] = self._folder

    def close(self) -> None:
        """End the process, if it is this one's; commands that still run are not its own any more."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def open(self) -> socket.socket:
        """The way to the process, which is started where none is."""
        if self._channel is None or not _is_open(self._channel):
            self.close()
            self._channel = _shared() or self._started()
        return self._channel

    def _started(self) -> socket.socket:
        """Start a process of this one's own."""
        # Short, for a socket's path may have a hundred characters.
        self._folder = tempfile.mkdtemp(prefix="harken-warm-")
        python = Path(self._folder) / "python"
        program = Path(__file__).with_name("warm_python.py").read_text(encoding="utf-8")
        python.write_text(f"#!{sys.executable} -IS\n{program}", encoding="utf-8")
        python.chmod(0o700)
        kept = {name: os.environ[name] for name in MEASURED if name in os.environ}
        channel, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as door:
            door.bind(f"{self._folder}/door")
            door.listen(128)
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("warm_process.py")), str(door.fileno()), str(python)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", ""), "PYTHONUTF8": "1", **kept},
                pass_fds=[door.fileno()],
            )
        return channel


def _is_open(channel: socket.socket) -> bool:
    """Whether the process at the other end is still there."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _shared() -> socket.socket | None:
    """The way to the process that a run's processes share, if there is one; each measures coverage for itself."""
    if SHARED not in os.environ or any(name in os.environ for name in MEASURED):
        return None
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.connect(f"{os.environ[SHARED]}/door")
    except OSError:
        channel.close()
        return None
    return channel


class WarmProcess(subprocess.Popen[Any]):
    """A command that the warm start forks: used as any process that was started here.

    It is no child of this process, so its end is read and not waited for.
    """

    def __init__(self, warm: WarmStart, arguments: Sequence[str], *, terminal: bool = False, **options: Any) -> None:
        self._warm, self._terminal, self._told = warm, terminal, -1
        super().__init__(arguments, **options)

    def _execute_child(self, args: Any, executable: Any, *others: Any) -> None:
        """Do what the base class does, by the warm start; its arguments are those of all versions since 3.8."""
        folder, environment = others[3], others[4]
        ends = others[8:14]
        streams = [0 if ends[0] == -1 else ends[0], 1 if ends[3] == -1 else ends[3], 2 if ends[5] == -1 else ends[5]]
        self.pid, self._told = self._warm.spawn(args, environment, streams, folder=folder, terminal=self._terminal)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """The id and the wait status, once it has ended; zeros before, where nobody is to wait."""
        if self._told == -1 or (wait_flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]):
            return 0, 0
        with open(self._told, "rb", buffering=0) as told:  # noqa: PTH123
            status = told.read()
        self._told = -1
        return self.pid, int(status or _KILLED)

    def _internal_poll(self, *_unused: Any, **_ignored: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
