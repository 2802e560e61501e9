"""Who answers an MCP server on stdin and stdout: the daemon, and the server itself where there is none."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import httpx
from anyio.to_thread import run_sync

from harken import __version__
from harken.engine import Harken
from harken.errors import HarkenError, NotFoundError, UsageError
from harken.serve.daemon.place import DaemonPaths, settings_mark
from harken.serve.daemon.starting import start
from harken.serve.daemon.wire import (
    DIRECTORY_HEADER,
    LINES,
    OK,
    OTHER_SETTINGS,
    SETTINGS_HEADER,
    VERSION_HEADER,
    StrangerError,
    check_folder,
    check_peer,
)
from harken.serve.operations.operation import LOST, AnyOperation, Caller, Effect

_PING_SECONDS, _ANSWER_SECONDS = 2.0, 600.0
_START_AGAIN_SECONDS = 30.0


class DaemonClient:
    """Answers verbs for an agent that works in a directory.

    Args:
        place: of the home's daemon; None where only this process knows the settings.
        env: the settings of this process.
        directory: what the agent works in.
        engine: opens the store in this process.
    """

    def __init__(
        self,
        place: DaemonPaths | None,
        env: Mapping[str, str],
        directory: Path,
        engine: Callable[[], AbstractContextManager[Harken]],
    ) -> None:
        self._place = place
        self._env = env
        self._directory = directory
        self._engine = engine
        self._own = ExitStack()
        self._opened: Harken | None = None
        self._opening = Lock()
        self._started_at = -_START_AGAIN_SECONDS

    async def answer(
        self, operation: AnyOperation, given: Mapping[str, Any], _context: Any, progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """Return the answer, as JSON has it.

        Raises:
            HarkenError: what went wrong; also that another user listens where the daemon would, who was sent nothing.
        """
        if self._place is not None and await self.is_served():
            # What JSON cannot carry is no argument either: seen here, it is not taken for a daemon that ended.
            operation.check(given)
            try:
                return await self._ask(self._place, operation, given, progress)
            except StrangerError as error:
                raise HarkenError(str(error)) from error
            except (httpx.HTTPError, ValueError) as error:
                if operation.effect is not Effect.READS and not operation.is_idempotent:
                    raise HarkenError(LOST) from error
        caller = Caller(self._directory, is_limited=True, progress=progress)
        return await run_sync(self._alone, operation, given, caller)

    def close(self) -> None:
        """Close the store, if this process opened it."""
        self._own.close()

    async def is_served(self) -> bool:
        """Whether the daemon answers, and will answer this process; start it where none runs.

        Raises:
            HarkenError: another user listens where it would, or could.
        """
        if self._place is None:
            return False
        try:
            async with self._client(self._place, _PING_SECONDS) as client:
                status = (await client.get("/v1/ping")).status_code
        except httpx.HTTPError:
            status = 0
        except StrangerError as error:
            # Where the folder is only open to others, the daemon closes it.
            self._start(self._place)
            raise HarkenError(str(error)) from error
        if status not in (OK, OTHER_SETTINGS):
            self._start(self._place)
        return status == OK

    def _start(self, place: DaemonPaths) -> None:
        if time.monotonic() - self._started_at >= _START_AGAIN_SECONDS:
            self._started_at = time.monotonic()
            # Else this process goes on alone.
            with suppress(OSError):
                start(place, self._env)

    async def _ask(
        self,
        place: DaemonPaths,
        operation: AnyOperation,
        given: Mapping[str, Any],
        progress: Callable[[int, int], None],
    ) -> dict[str, Any]:
        headers = {"accept": LINES} if operation.is_long else {}
        async with (
            self._client(place, _ANSWER_SECONDS) as client,
            client.stream("POST", f"/v1/{operation.name}", json=dict(given), headers=headers) as response,
        ):
            if response.headers.get("content-type", "").startswith(LINES):
                return await _last(response, progress)
            body = json.loads(await response.aread())
        return _answered(response.status_code, body)

    def _client(self, place: DaemonPaths, seconds: float) -> httpx.AsyncClient:
        headers = {
            VERSION_HEADER: __version__,
            SETTINGS_HEADER: settings_mark(self._env),
            DIRECTORY_HEADER: quote(str(self._directory)),
        }
        timeout = httpx.Timeout(seconds, connect=_PING_SECONDS)
        transport = _DaemonTransport(place.socket)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=timeout)

    def _alone(self, operation: AnyOperation, given: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        with self._opening:
            if self._opened is None:
                self._opened = self._own.enter_context(self._engine())
        return operation.call(self._opened, given, caller)


class _DaemonTransport(httpx.AsyncHTTPTransport):
    """Connects to the daemon's socket, and sends nothing before it has seen that it is this user's."""

    def __init__(self, listening: str) -> None:
        # There is no TLS on the socket, and reading the certificates of all authorities takes 20 ms each time.
        super().__init__(uds=listening, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._listening = listening
        self._is_checked = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request.

        Raises:
            StrangerError: another user listens there, or could; nothing was sent.
        """
        request.extensions = {**request.extensions, "trace": self._check}
        try:
            check_folder(self._listening)
            response = await super().handle_async_request(request)
        except OSError as error:
            raise httpx.ConnectError(type(error).__name__, request=request) from error
        if not self._is_checked:
            # A later httpx may name its events otherwise; the first request is a ping.
            await response.aclose()
            raise StrangerError(f"It was not seen whose {self._listening} is. Please report it.")
        return response

    async def _check(self, event: str, told: dict[str, Any]) -> None:
        if event != "connection.connect_unix_socket.complete":
            return
        stream = told["return_value"]
        try:
            check_peer(stream.get_extra_info("socket"), self._listening)
        except BaseException:
            await stream.aclose()
            raise
        self._is_checked = True


async def _last(response: httpx.Response, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Return the answer behind the lines that tell of progress."""
    async for line in response.aiter_lines():
        facts = json.loads(line)
        if "progress" in facts:
            # It speaks to the client from a worker thread, as verbs do.
            await run_sync(progress, *facts["progress"])
        elif "answer" in facts:
            return _answered(OK, facts["answer"])
        else:
            return _answered(facts["status"], facts)
    raise ValueError("an answer that was cut off")


def _answered(status: int, body: Any) -> dict[str, Any]:
    if status == OK:
        answer: dict[str, Any] = body
        return answer
    message = str(body.get("error", "")) or f"The daemon answers with status {status}."
    raise {404: NotFoundError, 422: UsageError}.get(status, HarkenError)(message)
