"""Local servers that speak OpenAI's `/v1/chat/completions` and `/v1/embeddings`, answering or failing as told."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from harken.testing.local_server import LocalServer, Reply, Request, as_body, error_body
from harken.testing.models import hashed_vectors
from harken.text import tokens

_CREATED = 1_700_000_000
_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool that the model wants to have called.

    Attributes:
        arguments: an object, or text that is sent as it is, broken JSON for instance.
        id: None numbers the calls of the server.
    """

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Says:
    """A good answer.

    Attributes:
        refusal: sent in place of the text, as OpenAI's safety filter does.
        finish: None is `tool_calls` where there are calls, else `stop`.
        input_tokens: None estimates the prompt.
        output_tokens: None estimates the answer.
        cached_tokens: how many of the input were read from a cache.
        counted: the usage is sent; small servers leave it out.
        piece_delay_seconds: how long to wait before each piece of a stream.
        breaks_after: hang up after so many pieces of a stream.
        hangs_after: say no more after so many pieces of a stream, and keep the connection; the first has no words.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    refusal: str = ""
    finish: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    counted: bool = True
    delay_seconds: float = 0.0
    piece_delay_seconds: float = 0.0
    breaks_after: int | None = None
    hangs_after: int | None = None


Step = Says | Reply


class ChatServer(LocalServer):
    """Plays a script, on 127.0.0.1 and a free port, while its `with` block lasts.

        with ChatServer(Says(calls=(ScriptedCall("search", {"query": "cats"}),)), Says("Two cats.")) as server:
            ...  # server.url, server.requests

    Args:
        steps: the script; one for each request, whatever is asked.
        otherwise: answers what the script does not reach; None refuses it with status 500.
        api_key: the bearer token to insist on; None takes everyone.
    """

    def __init__(
        self, *steps: Step, otherwise: Callable[[Request], Step] | None = None, api_key: str | None = None
    ) -> None:
        super().__init__("/chat/completions", api_key)
        self._script: deque[Step] = deque(steps)
        self._otherwise = otherwise
        self._calls = 0

    def script(self, *steps: Step) -> None:
        """Add to the script."""
        with self._lock:
            self._script.extend(steps)

    def prompts(self) -> list[str]:
        """What each request said, roles before their texts, one text per request."""
        return [
            "\n".join(f"{message['role']}: {_text_of(message)}" for message in request.body.get("messages", []))
            for request in self.requests
        ]

    def answer(self, request: Request) -> Reply:
        """What to send, body included; a request that cannot be answered takes nothing from the script."""
        status = self.status_of(request)
        if status == 200 and not (request.body.get("model") and request.body.get("messages")):
            status = 400
        if status != 200:
            return Reply(status=status, body=error_body(status))
        with self._lock:
            scripted = self._script.popleft() if self._script else None
        step = scripted or (self._otherwise(request) if self._otherwise else Reply(status=500))
        if isinstance(step, Says):
            return self._spoken(step, request.body)
        whole = step.body is not None or step.hang_up or step.pieces
        return step if whole else Reply(step.status, error_body(step.status), step.delay_seconds, headers=step.headers)

    def _spoken(self, says: Says, body: dict[str, Any]) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": says.text or None}
        if says.refusal:
            message |= {"content": None, "refusal": says.refusal}
        if says.calls:
            message["tool_calls"] = [self._call(call) for call in says.calls]
        finish = says.finish or ("tool_calls" if says.calls else "stop")
        head = {"id": f"chatcmpl-{len(self.requests)}", "created": _CREATED, "model": body["model"]}
        usage = _usage(says, body) if says.counted else None
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            content = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return Reply(body=as_body(content), delay_seconds=says.delay_seconds)
        wants_usage = (body.get("stream_options") or {}).get("include_usage")
        events = _events(head, message, finish, usage if wants_usage else None)
        return Reply(
            pieces=tuple(events[: says.breaks_after][: says.hangs_after]),
            hang_up=says.breaks_after is not None,
            hangs=says.hangs_after is not None,
            delay_seconds=says.delay_seconds,
            piece_delay_seconds=says.piece_delay_seconds,
        )

    def _call(self, call: ScriptedCall) -> dict[str, Any]:
        with self._lock:
            self._calls += 1
            name = call.id or f"call_{self._calls}"
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usage(says: Says, body: dict[str, Any]) -> dict[str, Any]:
    prompt = [_text_of(message) for message in body["messages"]]
    answer = [says.text, says.refusal, *(f"{call.name} {call.arguments}" for call in says.calls)]
    asked = sum(map(tokens.estimate, prompt)) if says.input_tokens is None else says.input_tokens
    said = sum(map(tokens.estimate, answer)) if says.output_tokens is None else says.output_tokens
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": says.cached_tokens},
    }


def _events(head: dict[str, Any], message: dict[str, Any], finish: str, usage: dict[str, Any] | None) -> list[bytes]:
    """The answer as a stream: word by word, the arguments of a call in two halves, the usage last."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _WORDS.findall(message["content"] or "")]
    deltas += [{"refusal": message["refusal"]}] if message.get("refusal") else []
    for index, call in enumerate(message.get("tool_calls", [])):
        written = call["function"]["arguments"]
        half = len(written) // 2
        begun = {**call, "index": index, "function": {**call["function"], "arguments": written[:half]}}
        rest = {"index": index, "function": {"arguments": written[half:]}}
        deltas += [{"tool_calls": [begun]}, {"tool_calls": [rest]}]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        chunks.append({"usage": usage, "choices": []})
    whole = ({**head, "object": "chat.completion.chunk", **chunk} for chunk in chunks)
    return [*(b"data: " + as_body(chunk) + b"\n\n" for chunk in whole), b"data: [DONE]\n\n"]


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict))


class EmbeddingServer(LocalServer):
    """Answers with hashed bags of words, on 127.0.0.1 and a free port, while its `with` block lasts.

        with EmbeddingServer(dims=64) as server:
            server.script(Reply(status=503), Reply(delay_seconds=2))
            ...  # server.url, server.requests

    Args:
        dims: length of a vector unless the request says `dimensions`.
        shuffled: answers list the vectors last to first, as the protocol allows.
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
        status = reply.status if reply.status != 200 else self.status_of(request)
        texts = request.body.get("input")
        is_whole = request.body.get("model") and isinstance(texts, str | list) and texts
        status = 400 if status == 200 and not is_whole else status
        body = as_body(self._embeddings(request.body)) if status == 200 else error_body(status)
        return replace(reply, status=status, body=body)

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = hashed_vectors(texts, int(body.get("dimensions") or self._dims))
        data = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        used = sum(len(text.split()) for text in texts)
        return {
            "object": "list",
            "data": data[::-1] if self._shuffled else data,
            "model": body["model"],
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }
