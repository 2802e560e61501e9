"""The process that has imported Harken and forks for whoever asks it (`warm_start.py`)."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import termios
import threading
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from warm_start import MEASURED

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
# By these, what another Python has to call is written down.
_INSTALLS = {"install", "setup", "uninstall"}
# Linux passes no more files on at once.
_MOST_FILES = 253
# Of Linux since 6.1; an older one refuses it.
_HUGE_PAGE, _MADV_COLLAPSE = 2 << 20, 25


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
    # As a command has it; programs that use the library then have it as well.
    gc.set_threshold(20_000, 20, 20)
    _use_huge_pages()
    owner, door = socket.socket(fileno=os.dup(0)), socket.socket(fileno=int(sys.argv[1]))
    python, null = sys.argv[2], os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    _Forks(owner, door, main, measuring, python).serve()
    # Whoever made it may have been killed.
    shutil.rmtree(Path(python).parent, ignore_errors=True)


class _Forks:
    """The processes that were forked, and whoever may ask for them.

    Args:
        owner: who ends this process by going.
        door: where others come: processes of the tests, and those that stand in for one that is forked.
        python: what a forked process starts for another Python.
    """

    def __init__(
        self, owner: socket.socket, door: socket.socket, main: Callable[[], None], measuring: Any, python: str
    ) -> None:
        self._owner, self._door, self._main, self._measuring, self._python = owner, door, main, measuring, python
        self._askers = [owner]
        # By the file that tells of its end: the process, where that is told, and who goes with it.
        self._running: dict[int, tuple[int, int, socket.socket | None]] = {}

    def serve(self) -> None:
        """Start what is asked for, and tell how each ended, until the owner is gone."""
        while True:
            ready, _, _ = select.select([self._door, *self._askers, *self._running], [], [])
            for each in ready:
                if each in self._running:
                    self._reap(each)
                elif each is self._door:
                    self._askers.append(each.accept()[0])
            for asker in [each for each in ready if each in self._askers]:
                if not self._answer(asker):
                    self._leave(asker)
            if self._owner not in self._askers:
                for asker in list(self._askers):
                    self._leave(asker)
                return

    def _reap(self, ending: int) -> None:
        pid, tells, _ = self._running.pop(ending)
        _, status = os.waitpid(pid, 0)
        # Who stood for it may have been killed.
        with suppress(BrokenPipeError):
            os.write(tells, str(status).encode())
        os.close(tells)
        os.close(ending)

    def _leave(self, asker: socket.socket) -> None:
        """Let go who asks no more, and end what it stands for."""
        self._askers.remove(asker)
        asker.close()
        for pid, _, stands in self._running.values():
            if stands is asker:
                os.kill(pid, signal.SIGKILL)

    def _answer(self, asker: socket.socket) -> bool:
        """Fork for who asks; False where it is gone."""
        try:
            asked, files, _, _ = socket.recv_fds(asker, 1, _MOST_FILES)
        except ConnectionError:
            return False
        if not asked:
            return False
        written, tells, *streams = files
        with open(written, encoding="utf-8") as text:  # noqa: PTH123
            text.seek(0)
            request = json.loads(text.read())
        pid = os.fork()
        if pid == 0:
            self._be(request, tells, streams)
        for stream in streams:
            os.close(stream)
        self._running[os.pidfd_open(pid)] = pid, tells, asker if "inherited" in request else None
        # Who is gone meanwhile is seen to be so by the next look.
        with suppress(OSError):
            asker.sendall(pid.to_bytes(4, "big"))
        return True

    def _be(self, request: Mapping[str, Any], tells: int, streams: Sequence[int]) -> NoReturn:
        """Be what is asked for, in the process that was forked."""
        for each in (self._door, *self._askers):
            each.close()
        for number in (tells, *self._running, *(others for _, others, _ in self._running.values())):
            os.close(number)
        if self._measuring and not any(name in request["environment"] for name in MEASURED):
            self._measuring.stop()
            atexit.unregister(self._measuring._atexit)
        if _INSTALLS.isdisjoint(request["arguments"]):
            sys.executable = self._python
        _become(request, streams)
        _end(_run(self._main))


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
    # Above all that they become, or one would be written over before it is read.
    inherited = request.get("inherited", ())
    above = [fcntl.fcntl(stream, fcntl.F_DUPFD, max(inherited, default=2) + 1) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, stream in zip((0, 1, 2, *inherited), above, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    if request.get("terminal") or request.get("leads"):
        os.setsid()
    if request.get("terminal"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if "umask" in request:
        os.umask(request["umask"])
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
        if "-c" in sys.argv[1:3]:
            place = sys.argv.index("-c")
            code, sys.argv = sys.argv[place + 1], ["-c", *sys.argv[place + 2 :]]
            if place == 1:
                sys.path.insert(0, "")
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
        elif sys.argv[1:] and sys.argv[1].endswith(".py"):
            del sys.argv[0]
            sys.path.insert(0, str(Path(sys.argv[0]).parent))
            runpy.run_path(str(Path(sys.argv[0]).resolve()), run_name="__main__")
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
