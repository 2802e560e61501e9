"""Stand-ins on 127.0.0.1 for the models of coding agents, so that the real agents run without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harken.testing.local_server import LocalServer, Reply, Request, as_body

ANSWER = "Noted."
_CLAUDE_USAGE = {"input_tokens": 10, "output_tokens": 10}
_CODEX_USAGE = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}


class ClaudeModel(LocalServer):
    """Says the same to every request for a message, in a stream, as Claude Code asks for it."""

    def __init__(self) -> None:
        super().__init__("/messages")

    def answer(self, request: Request) -> Reply:
        """A message; nothing else is known here."""
        if not request.path.startswith("/v1/messages?") or not request.body.get("stream"):
            return Reply(404, as_body({"type": "error", "error": {"type": "not_found_error", "message": "scripted"}}))
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"]}
        start = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": _CLAUDE_USAGE}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        return _streamed(
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": _CLAUDE_USAGE},
            {"type": "message_stop"},
        )


class CodexModel(LocalServer):
    """Says the same to every request for a response, in a stream, as Codex asks for it."""

    def __init__(self) -> None:
        super().__init__("/responses")

    def answer(self, request: Request) -> Reply:
        """A response; nothing else is known here."""
        if not request.path.startswith("/v1/responses"):
            return Reply(404, as_body({"error": {"message": "scripted"}}))
        content = [{"type": "output_text", "text": ANSWER}]
        item = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
        return _streamed(
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": _CODEX_USAGE}},
        )


class GeminiModel(LocalServer):
    """Says the same to every request for content, in a stream, as Gemini CLI asks for it."""

    def __init__(self) -> None:
        super().__init__("beta/models")

    def answer(self, request: Request) -> Reply:
        """Content; nothing else is known here."""
        if "alt=sse" not in request.path:
            return Reply(404, as_body({"error": {"message": "scripted"}}))
        spoken = {"role": "model", "parts": [{"text": ANSWER}]}
        said = {"candidates": [{"content": spoken, "finishReason": "STOP", "index": 0}], "usageMetadata": {}}
        return Reply(pieces=(f"data: {json.dumps(said)}\r\n\r\n".encode(),))


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a request, in its order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def _streamed(*events: dict[str, Any]) -> Reply:
    return Reply(pieces=tuple(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events))
