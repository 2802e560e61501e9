"""A stand-in for Anthropic's endpoint, so that the real Claude Code can be driven without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from harken.testing.local_server import LocalServer, Reply, Request, as_body

_USAGE = {"input_tokens": 10, "output_tokens": 10}


class AnthropicServer(LocalServer):
    """Answers each request for a message with a text.

    Args:
        say: makes the answer to what was last asked.
    """

    def __init__(self, say: Callable[[str], str] = lambda _asked: "Noted.") -> None:
        super().__init__("/messages")
        self._say = say

    @property
    def base(self) -> str:
        """What `ANTHROPIC_BASE_URL` is set to."""
        return self.url.removesuffix("/v1")

    def answer(self, request: Request) -> Reply:
        """A message, streamed where that was asked for."""
        if not request.path.startswith("/v1/messages"):
            return Reply(404, as_body({"type": "error", "error": {"type": "not_found_error", "message": "scripted"}}))
        if request.path.startswith("/v1/messages/count_tokens"):
            return Reply(body=as_body({"input_tokens": 10}))
        said = self._say(_last_asked(request.body))
        message = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": request.body.get("model", "scripted"),
            "stop_sequence": None,
            "usage": _USAGE,
        }
        if not request.body.get("stream"):
            content = [{"type": "text", "text": said}]
            return Reply(body=as_body({**message, "content": content, "stop_reason": "end_turn"}))
        return Reply(pieces=tuple(_stream(message, said)))


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """Every text of a request, in order: of the system prompt, then of the messages."""
    system = body.get("system", [])
    found = [system] if isinstance(system, str) else [block.get("text", "") for block in system]
    for message in body.get("messages", []):
        content = message.get("content", "")
        blocks = [{"text": content}] if isinstance(content, str) else content
        found.extend(block["text"] for block in blocks if isinstance(block.get("text"), str))
    return found


def _last_asked(body: Mapping[str, Any]) -> str:
    texts = texts_of(body)
    return texts[-1] if texts else ""


def _stream(message: Mapping[str, Any], said: str) -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
