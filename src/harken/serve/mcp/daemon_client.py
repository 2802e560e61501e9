"""The client of an MCP server on stdin and stdout: verbs are answered by the daemon, or here where there is none."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anyio.to_thread import run_sync

from harken import __version__
from harken.errors import HarkenError, NotFoundError, UsageError
from harken.serve.daemon.paths import DaemonPaths, settings_mark
from harken.serve.daemon.starting import start
from harken.serve.daemon.wire import (
    DIRECTORY_HEADER,
    LINES,
    OK,
    OTHER_SETTINGS,
    OTHER_VERSION,
    SETTINGS_HEADER,
    VERSION_HEADER,
    StrangerError,
    check_folder,
    check_peer,
    ping,
)
from harken.serve.operations.operation import LOST, AnyOperation, Caller, Effect

if TYPE_CHECKING:
    # A second of processor time, which a server that has a daemon does not need.
    from harken.engine import Harken

_PING_SECONDS, _ANSWER_SECONDS = 2.0, 600.0
_START_AGAIN_SECONDS = 30.0


@dataclass
class DaemonClient:
    """Answers verbs for an agent that works in a directory.

    Attributes:
        paths: of the home's daemon; None where only this process knows the settings.
        engine: opens the store in this process.
    """

    paths: DaemonPaths | None
    env: Mapping[str, str]
    directory: Path
    engine: Callable[[], AbstractContextManager[Harken]]
    _own: ExitStack = field(default_factory=ExitStack, init=False)
    _opened: Harken | None = field(default=None, init=False)
    _opening: Lock = field(default_factory=Lock, init=False)
    _started_at: float = field(default=-_START_AGAIN_SECONDS, init=False)
    _replaced: int = field(default=0, init=False)

    async def answer(
        self, operation: AnyOperation, given: Mapping[str, Any], _context: Any, progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """Return the answer, as JSON has it.

        Raises:
            HarkenError: what went wrong; also that another user listens where the daemon would, who was sent nothing.
        """
        # A client that is gone waits for the daemon no longer, which ends what it has begun.
        answer = await run_sync(self._by_daemon, operation, given, progress, abandon_on_cancel=True)
        return await run_sync(self._alone, operation, given, progress) if answer is None else answer

    def close(self) -> None:
        """Close the store, if this process opened it."""
        self._own.close()

    def is_served(self) -> bool:
        """Whether the daemon answers, and will answer this process; start it where none runs.

        Raises:
            HarkenError: another user listens where it would, or could.
        """
        # One of another version makes way for one of this; where the next does as well, Harken was upgraded meanwhile.
        if self.paths is None or self._replaced > 1:
            return False
        try:
            status = ping(self.paths.socket, self.env, _PING_SECONDS)
        except StrangerError as error:
            # Where the folder is only open to others, the daemon closes it.
            self._start(self.paths)
            raise HarkenError(str(error)) from error
        self._replaced += status == OTHER_VERSION
        if status not in (OK, OTHER_SETTINGS):
            self._start(self.paths)
        return status == OK

    def _start(self, paths: DaemonPaths) -> None:
        if time.monotonic() - self._started_at >= _START_AGAIN_SECONDS:
            self._started_at = time.monotonic()
            # Else this process goes on alone.
            with suppress(OSError):
                start(paths, self.env)

    def _by_daemon(
        self, operation: AnyOperation, given: Mapping[str, Any], progress: Callable[[int, int], None]
    ) -> dict[str, Any] | None:
        """Return the daemon's answer; None where this process has to find it out by itself."""
        if self.paths is None or not self.is_served():
            return None
        # What JSON cannot carry is no argument either: seen here, it is not taken for a daemon that ended.
        operation.check(given)
        headers = {
            VERSION_HEADER: __version__,
            SETTINGS_HEADER: settings_mark(self.env),
            DIRECTORY_HEADER: quote(str(self.directory)),
            "content-type": "application/json",
        }
        if operation.is_long:
            headers["accept"] = LINES
        try:
            with closing(_DaemonConnection(self.paths.socket)) as connection:
                connection.request("POST", f"/v1/{operation.name}", json.dumps(dict(given)), headers)
                return _answer_of(connection.getresponse(), progress)
        except StrangerError as error:
            raise HarkenError(str(error)) from error
        except (HTTPException, OSError, ValueError) as error:
            if operation.effect is not Effect.READS and not operation.is_idempotent:
                raise HarkenError(LOST) from error
        return None

    def _alone(
        self, operation: AnyOperation, given: Mapping[str, Any], progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        with self._opening:
            if self._opened is None:
                self._opened = self._own.enter_context(self.engine())
        self._opened.run_time.refresh()
        return operation.call(self._opened, given, Caller(self.directory, is_limited=True, progress=progress))


class _DaemonConnection(HTTPConnection):
    """Connects to the daemon's socket, and sends nothing before it has seen that it is this user's."""

    def __init__(self, listening: str) -> None:
        super().__init__("localhost")
        self._listening = listening

    def connect(self) -> None:
        check_folder(self._listening)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PING_SECONDS)
        self.sock.connect(self._listening)
        check_peer(self.sock, self._listening)
        self.sock.settimeout(_ANSWER_SECONDS)


def _answer_of(response: HTTPResponse, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Return the answer, which the lines that tell of progress come before."""
    status = response.status
    if response.getheader("content-type", "").startswith(LINES):
        for line in response:
            body = json.loads(line)
            if "progress" not in body:
                break
            progress(*body["progress"])
        else:
            raise ValueError("an answer that was cut off")
        status, body = body.get("status", OK), body.get("answer", body)
    else:
        body = json.loads(response.read())
    if status == OK:
        answer: dict[str, Any] = body
        return answer
    message = str(body.get("error", "")) or f"The daemon answers with status {status}."
    raise {404: NotFoundError, 422: UsageError}.get(status, HarkenError)(message)
