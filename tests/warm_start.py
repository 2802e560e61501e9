"""A process that has imported Harken and forks for each command.

Importing takes a second on a small machine, taking it all apart at the end a third of one, and tests run some thousand
commands. Each is still a process of its own, with its own arguments, environment, files, signals and exit code; only
that time is saved, and that of compiling the statements of most commands. What proves how a command starts is run cold.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MEASURED = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
# What Harken imports late, where it is installed. Not `dateparser`, which reads the time zone when it is imported, nor
# `sklearn`: its 60 MB make each fork 8 ms dearer, and few commands cluster.
_LATE = (
    "alembic.command",
    "mcp.server.streamable_http_manager",
    "onnxruntime",
    "openai",
    "psycopg",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai_compatible",
    "rich.progress",
    "rich.table",
    "tokenizers",
    "tree_sitter",
    "turbovec",
    "uvicorn",
)
# What is run, not imported.
_NOT = ("harken.testing", "harken.storage.migrations.", "harken.__main__")
# Its parent is that of the command.
_NOTES_ITS_PARENT = "harken.serve.process"
_KILLED = signal.SIGKILL.value
# Of Linux since 6.1; an older one refuses it.
_HUGE_PAGE, _MADV_COLLAPSE = 2 << 20, 25


class WarmStart:
    """Starts commands; whoever asks while it is gone, because it was killed or crashed, starts it anew."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
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

        Where the first argument is a Python file, that is run instead.

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
                socket.send_fds(channel, [b"?"], [written, *streams, tells])
                pid = int.from_bytes(channel.recv(4), "big")
        finally:
            os.close(written)
            os.close(tells)
        return pid, told

    def close(self) -> None:
        """End the process; commands that still run are not its own any more."""
        if self._process is not None and self._channel is not None:
            self._channel.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def open(self) -> socket.socket:
        """The way to the process, which is started where none is."""
        if self._process is None or self._channel is None or self._process.poll() is not None:
            self.close()
            kept = {name: os.environ[name] for name in MEASURED if name in os.environ}
            self._channel, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, __file__],
                    stdin=theirs,
                    stdout=subprocess.DEVNULL,
                    env={"PATH": os.environ.get("PATH", ""), "PYTHONUTF8": "1", **kept},
                )
        return self._channel


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


def _serve() -> None:
    # A Ctrl-C at the tests ends them, and they end this; commands get theirs back.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before its name is that of a module.
    from harken.serve.cli import main

    _import_all()
    measuring = _measuring()
    if measuring:
        # What was run so far is counted here, and no more in each command.
        measuring.save()
    else:
        _use_once()
    # Else each command copies what it looks at for garbage.
    gc.collect()
    gc.freeze()
    _use_huge_pages()
    _fork_for_each(socket.socket(fileno=os.dup(0)), main, measuring)


def _fork_for_each(channel: socket.socket, main: Callable[[], None], measuring: Any) -> None:
    """Start what is asked for, and tell how each command ended, until nobody can ask any more."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([channel, *running], [], [])
        for child in ready:
            if child is not channel:
                pid, tells = running.pop(child)
                _, status = os.waitpid(pid, 0)
                os.write(tells, str(status).encode())
                os.close(tells)
                os.close(child)
        if channel in ready:
            asked, files, _, _ = socket.recv_fds(channel, 1, 5)
            if not asked:
                return
            written, *streams, tells = files
            with open(written, encoding="utf-8") as text:  # noqa: PTH123
                text.seek(0)
                request = json.loads(text.read())
            pid = os.fork()
            if pid == 0:
                channel.close()
                for number in (tells, *running, *(others for _, others in running.values())):
                    os.close(number)
                if measuring and not any(name in request["environment"] for name in MEASURED):
                    measuring.stop()
                    atexit.unregister(measuring._atexit)
                _become(request, streams)
                _end(_run(main))
            for stream in streams:
                os.close(stream)
            running[os.pidfd_open(pid)] = pid, tells
            channel.sendall(pid.to_bytes(4, "big"))


def _import_all() -> None:
    """Import whatever a command may: all of Harken that can be imported here, and what it imports late."""
    import harken

    ours = (module.name for module in pkgutil.walk_packages(harken.__path__, "harken."))
    for name in (*(name for name in ours if not name.startswith(_NOT)), *_LATE):
        with suppress(ImportError):
            importlib.import_module(name)
    # Read when they are first used, which is in each command.
    importlib.import_module("harken.config.settings").Settings(home="/")


def _use_once() -> None:
    """Call nearly each verb on a store that goes at once, so that no command has to compile what these have.

    Not where coverage is measured: what runs here was claimed by no test.
    """
    from harken.engine import Harken
    from harken.serve.operations.operation import Caller
    from harken.serve.operations.registry import operation_of
    from shared_statements import share_statements
    from verbs import calls, fill

    share_statements()
    with tempfile.TemporaryDirectory() as folder, Harken(folder, settings={"embedder": "none"}, env={}) as harken:
        for name, given in calls(fill(harken)):
            if not name.startswith("index_"):
                operation_of(name).call(harken, given, Caller(Path(folder), is_owner=True))
        # What the most frequent commands do that are no verbs.
        exported = Path(folder) / "export.jsonl"
        harken.maintenance.export(exported)
        with Harken(Path(folder) / "other", settings={"embedder": "none"}, env={}) as other:
            other.import_transcripts("jsonl", [exported])
        harken.background.summarize()
        harken.background.status()
        harken.webhooks.deliver()
        harken.maintenance.failures()
        harken.maintenance.doctor(fix=True)
        for _ in harken.maintenance.reindex_from_journal():
            pass
    # A fork has the one that forks alone.
    for thread in threading.enumerate():
        assert thread is threading.main_thread(), thread


def _use_huge_pages() -> None:
    """Put this process's memory into huge pages, if the system has them.

    A fork copies the tables of pages, 512 times fewer then: that and their end take 20 ms a command else, now 6.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # Read whole first: what reads it makes further mappings.
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        addresses, rights, _, _, inode, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        if rights.startswith("rw") and inode == "0":
            # The first whole one; what is refused stays as it is.
            for address in range(-(-start // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
                madvise(address, _HUGE_PAGE, _MADV_COLLAPSE)


def _measuring() -> Any:
    """What measures coverage in this process; None without."""
    if not any(name in os.environ for name in MEASURED):
        return None
    from coverage import Coverage

    return Coverage.current()


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Take on the command's environment, arguments, working folder, files and terminal."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    if request["terminal"]:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    # Which remembers what an import has asked for.
    tempfile.tempdir = None
    importlib.reload(importlib.import_module(_NOTES_ITS_PARENT))
    sys.argv = ["harken", *request["arguments"]]
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]


def _run(main: Callable[[], None]) -> int:
    """Run the command, or the program that stands in its place; its exit code."""
    try:
        if sys.argv[1:] and sys.argv[1].endswith(".py"):
            del sys.argv[0]
            sys.path.insert(0, str(Path(sys.argv[0]).parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as an interpreter does, but leave to the system what it has imported."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    os._exit(code)


if __name__ == "__main__":
    _serve()
