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
    """Says the same to every request for a message, in a stream, as Claude Code asks for it.

    Args:
        command: run in a shell before anything is said; empty for none.
    """

    def __init__(self, command: str = "") -> None:
        super().__init__("/messages")
        self.command = command

    def answer(self, request: Request) -> Reply:
        """A message; nothing else is known here."""
        if not request.path.startswith("/v1/messages?") or not request.body.get("stream"):
            return Reply(404, as_body({"type": "error", "error": {"type": "not_found_error", "message": "scripted"}}))
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"]}
        start = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": _CLAUDE_USAGE}
        reason, block, delta = self._said(request)
        return _streamed(
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": _CLAUDE_USAGE},
            {"type": "message_stop"},
        )

    def _said(self, request: Request) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Why it ends, and the one block that is said."""
        can = any(tool.get("name") == "Bash" for tool in request.body.get("tools", []))
        if not self.command or not can or '"tool_result"' in json.dumps(request.body["messages"]):
            return "end_turn", {"type": "text", "text": ""}, {"type": "text_delta", "text": ANSWER}
        given = json.dumps({"command": self.command, "description": "Run it"})
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
        return "tool_use", call, {"type": "input_json_delta", "partial_json": given}


class CodexModel(LocalServer):
    """Says the same to every request for a response, in a stream, as Codex asks for it.

    Args:
        command: run in a shell before anything is said; empty for none.
    """

    def __init__(self, command: str = "") -> None:
        super().__init__("/responses")
        self.command = command

    def answer(self, request: Request) -> Reply:
        """A response; nothing else is known here."""
        if not request.path.startswith("/v1/responses"):
            return Reply(404, as_body({"error": {"message": "scripted"}}))
        content = [{"type": "output_text", "text": ANSWER}]
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "msg_1", "content": content}
        if self.command and '"function_call_output"' not in json.dumps(request.body["input"]):
            given = json.dumps({"cmd": self.command})
            call = {"id": "fc_1", "call_id": "call_1", "name": "exec_command", "arguments": given}
            item = {"type": "function_call", **call}
        return _streamed(
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": _CODEX_USAGE}},
        )


class GeminiModel(LocalServer):
    """Says the same to every request for content, in a stream, as Gemini CLI asks for it.

    Args:
        command: run in a shell before anything is said; empty for none.
    """

    def __init__(self, command: str = "") -> None:
        super().__init__("beta/models")
        self.command = command

    def answer(self, request: Request) -> Reply:
        """Content; nothing else is known here."""
        if "alt=sse" not in request.path:
            return Reply(404, as_body({"error": {"message": "scripted"}}))
        part: dict[str, Any] = {"text": ANSWER}
        if self.command and '"functionResponse"' not in json.dumps(request.body.get("contents")):
            given = {"command": self.command, "description": "Run it"}
            part = {"functionCall": {"name": "run_shell_command", "args": given}}
        spoken = {"role": "model", "parts": [part]}
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
