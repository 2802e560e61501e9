"""A process that has imported Harken and forks for each command.

Importing takes a second on a small machine, and tests run some two hundred commands. Each is still a process of its
own, with its own arguments, environment, files and exit code; only the second is saved.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_KEPT_FROM_START = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


class WarmStart:
    """Starts commands; opened once in each process that runs tests."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in _KEPT_FROM_START if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONUTF8": "1", **kept},
            encoding="utf-8",
        )
        atexit.register(self.close)

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdin: str, timeout_seconds: float
    ) -> tuple[int, str, str]:
        """Run `harken` with these arguments; its exit code, stdout and stderr."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("in", "out", "err")]
            files[0].write_text(stdin, encoding="utf-8")
            request = {
                "arguments": list(arguments),
                "environment": dict(environment),
                "folder": str(Path.cwd()),
                "files": list(map(str, files)),
            }
            writer, reader = self._streams()
            writer.write(json.dumps(request) + "\n")
            writer.flush()
            ready, _, _ = select.select([reader], [], [], timeout_seconds)
            if not ready:
                self.close()
                raise TimeoutError(f"harken {' '.join(arguments)}: no answer within {timeout_seconds} s")
            code = int(reader.readline())
            return code, files[1].read_text(encoding="utf-8"), files[2].read_text(encoding="utf-8")

    def close(self) -> None:
        """End the process; a command that still runs ends with it."""
        if self._process.poll() is None:
            for stream in self._streams():
                stream.close()
            time.sleep(0)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _streams(self) -> tuple[IO[str], IO[str]]:
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None
        assert reader is not None
        return writer, reader


def _serve() -> None:
    from harken.serve.cli.main import COMMANDS, run

    # Commands import these when they run.
    late = (
        "harken.engine",
        "harken.engine.maintenance",
        "harken.serve.repl.loop",
        "harken.text.console",
        "rich.progress",
    )
    for module in (*late, *(module for module, _line in COMMANDS.values())):
        importlib.import_module(module)
    requests, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            # What the parent reads from and answers on is not the command's. The streams themselves, since one that
            # still holds a closed number closes whatever file has that number by then.
            requests.close()
            answers.close()
            run()
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _become(request: Mapping[str, Any]) -> None:
    """Take on the command's environment, arguments, working folder and files."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = ["harken", *request["arguments"]]
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (file, flag) in enumerate(zip(request["files"], flags, strict=True)):
        opened = os.open(file, flag, 0o600)
        os.dup2(opened, number)
        os.close(opened)


if __name__ == "__main__":
    _serve()
