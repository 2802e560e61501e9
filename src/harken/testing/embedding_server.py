"""A local server that speaks OpenAI's `/v1/embeddings`, and fails as it is told."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

from harken.testing.hashing_embedder import hashed_vectors
from harken.testing.local_server import LocalServer, Reply, Request, as_body, error_body


class EmbeddingServer(LocalServer):
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
        super().__init__("/embeddings", api_key)
        self._dims = dims
        self._shuffled = shuffled
        self._script: deque[Reply] = deque()

    def script(self, *replies: Reply) -> None:
        """Answer the next requests like this, one each; after them, well again."""
        self._script.extend(replies)

    def answer(self, request: Request) -> Reply:
        """What to send, body included."""
        with self._lock:
            reply = self._script.popleft() if self._script else Reply()
        if reply.body is not None or reply.hang_up:
            return reply
        status = self._status(request) if reply.status == 200 else reply.status
        body = as_body(self._embeddings(request.body)) if status == 200 else error_body(status)
        return replace(reply, status=status, body=body)

    def _status(self, request: Request) -> int:
        texts = request.body.get("input")
        is_whole = request.body.get("model") and isinstance(texts, str | list) and texts
        return self.status_of(request) if self.status_of(request) != 200 or is_whole else 400

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
