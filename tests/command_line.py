"""The real command line, with a scrubbed environment and a home that is thrown away.

In a process of its own where the command, its environment or a test's claim is about that, else in this one.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from command_here import run_here
from warm_start import MEASURED, WarmProcess, WarmStart

PYTHON = (sys.executable, "-m", "harken")
# A machine under load needs time; a process that needs more than this hangs.
TIMEOUT_SECONDS = 120
# Elsewhere a process that forks without starting a new program may crash in a system library.
FORKS = sys.platform == "linux"
_KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", *MEASURED)
# Which start processes or take over their own; the rest are run in that of the tests.
_OF_PROCESSES = {"hook", "mcp", "serve", "view"}
_IMPORTED = """
import json, sys
sys.argv = ["harken", *{words}]
try:
    from harken.serve.cli import main
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@dataclass(frozen=True)
class Outcome:
    """What a command ended with."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """Runs `harken` on one home.

    Attributes:
        person: what `~` is; nothing of the real one is ever seen.
        settings: `HARKEN_*` variables and others, on top of the scrubbed environment.
        apart: give each command a process of its own, where what is claimed needs one.
        cold: start a new interpreter for each command, as people do.
    """

    home: Path
    person: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    cold: bool = False

    def __call__(
        self, *arguments: str | Path, code: int = 0, stdin: str | None = None, settings: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run a command to its end and check its exit code."""
        done = self.run(*arguments, stdin=(stdin or "").encode(), settings=settings)
        outcome = Outcome(done.returncode, _text(done.stdout), _text(done.stderr))
        assert outcome.code == code, f"harken {' '.join(map(str, arguments))}: {outcome}"
        return outcome

    def run(
        self, *arguments: str | Path, stdin: bytes = b"", settings: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end, however that is."""
        words, environment = list(map(str, arguments)), self.environment(settings)
        if self._fits_here(words, {**self.settings, **(settings or {})}):
            return subprocess.CompletedProcess(words, *run_here(words, environment, stdin))
        if FORKS and not self.cold:
            return subprocess.CompletedProcess(words, *warm_start().run(words, environment, stdin, TIMEOUT_SECONDS))
        words = [*PYTHON, *words]
        return subprocess.run(
            words, env=environment, input=stdin, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )

    def _fits_here(self, words: Sequence[str], settings: Mapping[str, str]) -> bool:
        """Whether a command says and leaves the same in the process of the tests.

        It does not where it is about its process, or where its environment has more than settings of Harken. The time
        zone of a process is that of its start, and only the main thread may have its signals and its environment.
        """
        return (
            not (self.apart or self.cold)
            and _OF_PROCESSES.isdisjoint(words)
            and all(name.startswith("HARKEN_") or name == "COLUMNS" for name in settings)
            and threading.current_thread() is threading.main_thread()
            and time.tzname[0] == "UTC"
        )

    def imports(self, *arguments: str, settings: Mapping[str, str] | None = None) -> tuple[Outcome, set[str]]:
        """What a command ends with in a process of its own, and all modules that it imported."""
        script = _IMPORTED.format(words=list(arguments))
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=self.environment(settings),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        *lines, modules = done.stderr.splitlines()
        return Outcome(done.returncode, done.stdout, "\n".join(lines)), set(json.loads(modules))

    def fails(self, *arguments: str | Path, code: int = 1, **options: Any) -> str:
        """Run a command that must fail, and return its one line on stderr; nothing else may be said."""
        outcome = self(*arguments, code=code, **options)
        assert outcome.out == ""
        assert outcome.err.endswith("\n")
        assert outcome.err.count("\n") == 1, outcome.err
        assert outcome.err.startswith("harken: ")
        assert "Traceback" not in outcome.err
        return outcome.err.removeprefix("harken: ").strip()

    def start(self, *arguments: str | Path, **streams: Any) -> subprocess.Popen[Any]:
        """Start a command and leave it running, to be interrupted or killed."""
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # A Ctrl-C at the wrong moment leaves the lock of coverage's tracer taken, and the process hangs for good.
        unmeasured = {name: value for name, value in self.environment().items() if name not in MEASURED}
        options = {"env": unmeasured, "encoding": "utf-8", **silent, **streams}
        words = list(map(str, arguments))
        if FORKS and not self.cold:
            return WarmProcess(warm_start(), words, **options)
        return subprocess.Popen([*PYTHON, *words], **options)

    @contextmanager
    def running(self, *arguments: str | Path, **streams: Any) -> Iterator[subprocess.Popen[Any]]:
        """The same, ended at the latest with the block."""
        with self.start(*arguments, **streams) as process:
            try:
                yield process
            finally:
                process.kill()

    def environment(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a command sees: nothing of this process but the path, and what measures coverage."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        plain = {"HOME": str(self.person), "LANG": "C.UTF-8", "TZ": "UTC", "COLUMNS": "120"}
        return {**kept, **plain, "HARKEN_HOME": str(self.home), **self.settings, **(settings or {})}

    def search(self, *arguments: str, **options: Any) -> list[dict[str, Any]]:
        """The hits of a search."""
        hits: list[dict[str, Any]] = self("search", *arguments, "--json", **options).json()["hits"]
        return hits

    def status(self, **options: Any) -> dict[str, Any]:
        """The store's status."""
        facts: dict[str, Any] = self("status", "--json", **options).json()
        return facts


def start_program(file: Path | str, *arguments: object, **options: Any) -> subprocess.Popen[Any]:
    """Start a Python program that uses the library, or `-c` and what follows it, and leave it running."""
    words = [str(file), *map(str, arguments)]
    options = {"env": dict(os.environ), "encoding": "utf-8", **options}
    return WarmProcess(warm_start(), words, **options) if FORKS else subprocess.Popen([PYTHON[0], *words], **options)


def as_variables(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings of a store as a command's environment has them."""
    return {f"HARKEN_{name.upper()}": value for name, value in settings.items()}


@cache
def warm_start() -> WarmStart:
    """The process that forks for commands."""
    return WarmStart()


def _text(written: bytes) -> str:
    return written.decode().replace("\r\n", "\n").replace("\r", "\n")


def rows(home: Path, table: str) -> int:
    """How many rows another process has committed so far; asked without one in between, which would take its time."""
    try:
        with closing(sqlite3.connect(f"file:{home / 'harken.db'}?mode=ro", uri=True)) as database:
            return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def files_holding(home: Path, words: bytes) -> list[Path]:
    """Every file under a home that has these bytes in it."""
    return [file for file in sorted(home.rglob("*")) if file.is_file() and words in file.read_bytes()]
