"""Commands that the daemon carries out for the command line: how they are asked for, carried out, and printed.

The one who asks imports nothing of what carries a command out, which would take ten times as long as the answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.errors import HarkenError
from harken.serve.daemon.paths import DaemonPaths, home_of
from harken.serve.daemon.wire import OK, DaemonError, exchange, ping
from harken.serve.operations.operation import LOST, AnyOperation, Caller, Effect, Piece, Printer

if TYPE_CHECKING:
    from harken.engine import Harken

COMMAND_ROUTE = "/v1/command"
_PING_SECONDS, _READ_SECONDS, _CHANGE_SECONDS = 1.0, 10.0, 600.0


@dataclass(frozen=True, slots=True)
class RecordingPrinter:
    """A printer whose lines another process prints."""

    lines: list[tuple[str, list[Any]]] = field(default_factory=list)

    def say(self, *pieces: Piece, lit: str = "") -> None:
        """See `Printer.say`."""
        self.lines.append(("say", [lit, *pieces]))

    def write(self, text: str) -> None:
        """See `Printer.write`."""
        self.lines.append(("write", [text]))

    def note(self, text: str) -> None:
        """See `Printer.note`."""
        self.lines.append(("note", [text]))


def print_recorded(printer: Printer, lines: Iterable[tuple[str, list[Any]]]) -> None:
    """Print what a `RecordingPrinter` has, as it came over JSON."""
    for kind, parts in lines:
        if kind == "say":
            printer.say(*parts[1:], lit=parts[0])
        elif kind == "write":
            printer.write(*parts)
        else:
            printer.note(*parts)


def ask_daemon(
    home: Path | None, operation: AnyOperation, given: Mapping[str, Any], as_json: bool
) -> dict[str, Any] | None:
    """The daemon's answer to a command, see `answer_command`; None where this process has to find it out by itself.

    That is so where no daemon of this version and these settings runs, and when anything goes wrong.

    Raises:
        HarkenError: it ended while it changed something that cannot be done twice.
    """
    env = os.environ  # noqa: TID251 - harken.config.settings takes longer to import than the daemon to answer
    listening = DaemonPaths(home_of(env if home is None else {"HARKEN_HOME": str(home)})).socket
    request = {"command": operation.words, "given": dict(given), "as_json": as_json, "clock": _clock(env)}
    try:
        content = json.dumps({**request, "directory": str(Path.cwd())}).encode()
        # One that is stopped, or has other settings, is seen before anything is asked for.
        if ping(listening, env, _PING_SECONDS) != OK:
            return None
    except (DaemonError, OSError, ValueError):
        return None
    is_read = operation.effect is Effect.READS
    try:
        status, said = exchange(listening, COMMAND_ROUTE, content, env, _READ_SECONDS if is_read else _CHANGE_SECONDS)
        answer: dict[str, Any] = json.loads(said)
    except (DaemonError, ValueError) as error:
        if is_read or operation.is_idempotent:
            return None
        raise HarkenError(LOST) from error
    return answer if status == OK else None


def answer_command(harken: Harken, request: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """The command's output: `view` for JSON, else `lines`.

    Raises:
        HarkenError: this process would not answer as the one who asks: its clock or its settings file is another one.
    """
    from harken.serve.operations.registry import COMMANDS

    if request["clock"] != _clock(env):
        raise HarkenError("The daemon goes by another clock.")
    harken.run_time.refresh()
    if harken.run_time.load().settings != harken.settings:
        raise HarkenError("The settings file has changed since the daemon was started.")
    operation = COMMANDS[request["command"]]
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in request["given"].items()}
    with operation.awaited():
        found = operation.run(harken, operation.arguments(**given), Caller(Path(request["directory"]), is_owner=True))
    if request["as_json"] or operation.show is None:
        return {"view": operation.shell_view(found)}
    printer = RecordingPrinter()
    operation.tell(printer, found, given)
    return {"lines": printer.lines}


def _clock(env: Mapping[str, str]) -> list[object]:
    """The clock of this process: days that people name, and dates that are printed, go by it."""
    return [*time.tzname, time.timezone, time.altzone, env.get("TZ")]
