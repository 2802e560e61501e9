"""A server on 127.0.0.1 for stand-ins of endpoints: it notes requests, and fails as it is told."""

from __future__ import annotations

import json
import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

_FOR_EVER_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Reply:
    """How the next request is answered instead of well.

    Attributes:
        body: sent as it is; None sends what a good answer would hold, or an error object when the status is one.
        delay_seconds: how long to wait first.
        hang_up: close the connection without an answer, or, where there are pieces, after them.
        headers: sent beside those of every answer.
        pieces: sent one by one as a stream of events, in place of the body.
        hangs: say no more after the pieces, and keep the connection, until the server is stopped.
    """

    status: int = 200
    body: bytes | None = None
    delay_seconds: float = 0.0
    hang_up: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[bytes, ...] = ()
    piece_delay_seconds: float = 0.0
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a client sent it: its JSON object, and all headers with names in lower case; empty without any."""

    path: str
    authorization: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


class LocalServer(ABC):
    """Listens on 127.0.0.1 and a free port while its `with` block lasts; a subclass says what a good answer is.

    Args:
        path: the only one it knows, below `/v1`.
        api_key: the bearer token to insist on; None takes everyone.

    Attributes:
        ailing: how every request is answered for as long as it is set, in place of well or by a script.
    """

    def __init__(self, path: str, api_key: str | None = None) -> None:
        self.requests: list[Request] = []
        self.ailing: Reply | None = None
        self._port = 0
        self._path = f"/v1{path}"
        self._api_key = api_key
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: _StandInServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base that clients are given, ending in `/v1`.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._server is None:
            raise RuntimeError("the server is not running")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def is_running(self) -> bool:
        """True while it listens."""
        return self._server is not None

    def start(self) -> Self:
        """Listen, again on the same port after a stop; without this, a connection is refused."""
        self._closing.clear()
        self._server = _StandInServer(self, self._port)
        # A client that is told of may be gone again before it is taken, and nothing would end the wait for another.
        self._server.socket.settimeout(1.0)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening; a second time does nothing."""
        if self._server is not None and self._thread is not None:
            self._closing.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the server's end."""
        self._closing.wait(seconds)

    @abstractmethod
    def answer(self, request: Request) -> Reply:
        """Return what to send, body included."""

    def status_of(self, request: Request) -> int:
        """Return the status of what is wrong with the request before its body is read; 200 where nothing is."""
        if request.path != self._path:
            return 404
        if self._api_key is not None and request.authorization != f"Bearer {self._api_key}":
            return 401
        return 200


def as_body(content: dict[str, Any]) -> bytes:
    """Return a JSON object as it is sent."""
    return json.dumps(content).encode()


def error_body(status: int) -> bytes:
    """Return the body of an endpoint's error."""
    return as_body({"error": {"message": "scripted", "code": status}})


class _StandInServer(ThreadingHTTPServer):
    def __init__(self, owner: LocalServer, port: int) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that died; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _StandInServer
    protocol_version = "HTTP/1.1"
    # An idle connection gives its thread back, so that stopping never waits for a client.
    timeout = 5

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers.get("authorization", ""), body if isinstance(body, dict) else {}, headers)
        self.server.owner.requests.append(request)
        reply = self.server.owner.ailing or self.server.owner.answer(request)
        self.server.owner.pause(reply.delay_seconds)
        if reply.hang_up and not reply.pieces:
            self.close_connection = True
            return
        try:
            self._stream(reply) if reply.pieces else self._send(reply)
        except (BrokenPipeError, ConnectionResetError):
            # The client gave up first, which is what a delay is for.
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        content = reply.body or b""
        self._head(reply, ("Content-Type", "application/json"), ("Content-Length", str(len(content))))
        self.wfile.write(content)

    def _stream(self, reply: Reply) -> None:
        self._head(reply, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
        for piece in reply.pieces:
            self.server.owner.pause(reply.piece_delay_seconds)
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if reply.hangs:
            self.server.owner.pause(_FOR_EVER_SECONDS)
        if reply.hangs or reply.hang_up:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, reply: Reply, *headers: tuple[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in (*headers, *reply.headers):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: stderr belongs to the test."""
