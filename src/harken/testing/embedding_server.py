"""A local server that speaks OpenAI's `/v1/embeddings`, and fails as it is told."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from harken.testing.hashing_embedder import hashed_vectors


@dataclass(frozen=True, slots=True)
class Reply:
    """How the next request is answered instead of well.

    Attributes:
        status: HTTP status.
        body: sent as it is; None sends what a good answer would hold, or an error object when the status is one.
        delay_seconds: how long to wait first.
        hang_up: close the connection without an answer.
    """

    status: int = 200
    body: bytes | None = None
    delay_seconds: float = 0.0
    hang_up: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent.

    Attributes:
        authorization: the header, empty where there was none.
        body: the JSON object; empty where there was none.
    """

    path: str
    authorization: str
    body: dict[str, Any]


class EmbeddingServer:
    """Answers with hashed bags of words, on 127.0.0.1 and a free port, while its `with` block lasts.

        with EmbeddingServer(dims=64) as server:
            server.script(Reply(status=503), Reply(delay_seconds=2))
            ...  # server.url, server.requests

    Args:
        dims: length of a vector unless the request says `dimensions`.
        shuffled: whether answers list the vectors last to first, as the protocol allows.
        api_key: the bearer token to insist on; None takes everyone.
    """

    def __init__(self, dims: int = 64, shuffled: bool = False, api_key: str | None = None) -> None:
        self.requests: list[Request] = []
        self._dims = dims
        self._shuffled = shuffled
        self._api_key = api_key
        self._script: deque[Reply] = deque()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base that clients are given, ending in `/v1`.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._server is None:
            raise RuntimeError("the embedding server is not running")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, *replies: Reply) -> None:
        """Answer the next requests like this, one each; after them, well again."""
        with self._lock:
            self._script.extend(replies)

    def start(self) -> Self:
        """Listen; without this, a connection is refused."""
        self._closing.clear()
        self._server = _Server(self)
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

    def answer(self, request: Request) -> Reply:
        """What to send, body included; the request is noted."""
        with self._lock:
            self.requests.append(request)
            reply = self._script.popleft() if self._script else Reply()
        if reply.delay_seconds:
            self._closing.wait(reply.delay_seconds)
        status = reply.status
        if status == 200:
            status = self._status(request)
        if reply.body is not None or reply.hang_up:
            return reply
        content = (
            self._embeddings(request.body) if status == 200 else {"error": {"message": "scripted", "code": status}}
        )
        return Reply(status=status, body=json.dumps(content).encode())

    def _status(self, request: Request) -> int:
        if request.path != "/v1/embeddings":
            return 404
        if self._api_key is not None and request.authorization != f"Bearer {self._api_key}":
            return 401
        texts = request.body.get("input")
        return 200 if request.body.get("model") and isinstance(texts, str | list) and texts else 400

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = hashed_vectors(texts, int(body.get("dimensions") or self._dims))
        data = [
            {"object": "embedding", "index": index, "embedding": [float(value) for value in vector]}
            for index, vector in enumerate(vectors)
        ]
        used = sum(len(text.split()) for text in texts)
        return {
            "object": "list",
            "data": data[::-1] if self._shuffled else data,
            "model": body["model"],
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }


class _Server(ThreadingHTTPServer):
    def __init__(self, owner: EmbeddingServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that died; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # An idle connection gives its thread back, so that stopping never waits for a client.
    timeout = 5

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        request = Request(self.path, self.headers.get("Authorization") or "", body if isinstance(body, dict) else {})
        reply = self.server.owner.answer(request)
        if reply.hang_up:
            self.close_connection = True
            return
        content = reply.body or b""
        try:
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            # The client gave up first, which is what a delay is for.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: stderr belongs to the test."""
