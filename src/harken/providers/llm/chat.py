"""Language models of vendors, whose asynchronous clients run in an event loop in a thread of its own.

Our messages go out in the client library's terms, and its answers and errors come back in ours. An error says what
happened, where, and what to do; never the words of a prompt or an answer.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from decimal import Decimal
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, Unpack

import httpx2
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as parts
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from harken import errors
from harken.model.conversations import Role
from harken.providers.chat_model import CallOptions, ChatAnswer, ChatMessage, Finish, TokenUsage, ToolCall
from harken.providers.llm.vendors import open_client
from harken.providers.options import ChatOptions
from harken.text.characters import valid_utf8

_T = TypeVar("_T")
_PATIENCE_SECONDS = 5.0
# A queue and an event cannot be waited for together; nobody notices so little.
_STOP_POLL_SECONDS = 0.05
# A stream may go on for longer than an answer is waited for, as long as something comes.
_STREAM_TIMEOUTS = 10
_FINISHES: Mapping[str | None, Finish] = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.REFUSED,
    None: Finish.STOP,
}
_CLIENT_ERRORS = (
    failures.ModelAPIError,
    failures.UnexpectedModelBehavior,
    failures.UserError,
    CancelledError,
    httpx2.HTTPError,
    # What the client's own code raises at an answer that has its form and not its parts, as without any choice.
    *(AttributeError, IndexError, TypeError),
)
# In the words of Ollama, vLLM, llama.cpp, LM Studio and OpenRouter, which the client does not tell apart.
_TAKES_NO_TOOLS = re.compile(r"not support tools|support tool use|tool choice requires|tools param requires", re.I)
_IS_TOO_LONG = re.compile(r"context.size|context length of only|prompt is too long|input token count", re.I)
# With status 400, as if the prompt were at fault: Gemini's compatible endpoint and xAI, and Anthropic.
_IS_NO_KEY, _IS_SPENT = re.compile(r"api key not valid|incorrect api key", re.I), re.compile(r"api usage limits", re.I)
# Anthropic and the templates of many local models take no prompt that begins with an answer, as a window may.
_LEFT_OUT = "(What was said before is left out.)"
# Nor do those of Gemma and Mistral take two questions with no words between them, which a turn that failed leaves.
_UNANSWERED = "(No answer was given.)"
# Gemini, xAI and Perplexity count what there is so far with each piece; nobody is asked to, which OpenAI would refuse.
_WHOLE_COUNTS = {"openai_continuous_usage_stats": True, "extra_body": {"stream_options": {"include_usage": True}}}
# Thoughts that a local model writes into its answer, as DeepSeek's and Qwen's do; where the prompt has begun them, the
# answer has their end alone, which then begins a line.
_THOUGHTS = re.compile(r"\A(?:\s*<think>.*?(?:</think>\s*|\Z)|(?:(?!<think>).)*?^\s*</think>\s*)", re.DOTALL | re.M)
_NO_ANSWER = "answers with something that is no chat completion"


class LoopThread:
    """Runs coroutines for any thread, with or without a loop of its own.

    One loop for all calls keeps the connections of an asynchronous client usable: they belong to the loop in which
    they were opened.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result; it is cancelled when the waiting thread is interrupted."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            return future.result()
        finally:
            future.cancel()

    def iterate(self, source: Callable[[], AsyncIterator[_T]], stop: threading.Event | None = None) -> Iterator[_T]:
        """The items as they come; closing the iterator, or setting `stop`, cancels the source and ends it."""
        arrived: SimpleQueue[tuple[_T] | None] = SimpleQueue()

        async def pump() -> None:
            async for item in source():
                arrived.put((item,))

        future = asyncio.run_coroutine_threadsafe(pump(), self._started())
        # Not at the end of the pump: one that is cancelled before it begins never gets there.
        future.add_done_callback(lambda _done: arrived.put(None))
        try:
            while (item := _next(arrived, stop)) is not None:
                yield item[0]
            if stop is None or not stop.is_set():
                future.result()
        finally:
            future.cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what is still running, run `last` in the loop, end the thread. A second time does nothing."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        if thread is threading.current_thread():
            # Its owner was collected while the loop ran: waiting here would be waiting for oneself.
            loop.stop()
            return
        try:
            asyncio.run_coroutine_threadsafe(_finish(last), loop).result(_PATIENCE_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE_SECONDS)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A process that was forked has the object without its thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _next(arrived: SimpleQueue[tuple[_T] | None], stop: threading.Event | None) -> tuple[_T] | None:
    """The item that arrives next; None at the end, and once it is stopped."""
    if stop is None:
        return arrived.get()
    while not stop.is_set():
        try:
            return arrived.get(timeout=_STOP_POLL_SECONDS)
        except Empty:
            continue
    return None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()


class VendorChatModel:
    """A model of OpenAI, Anthropic, Google or Ollama, or behind any URL that speaks OpenAI's chat completions.

    Raises:
        ConfigError: there is no such vendor, or the URL or the key cannot be used.
    """

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._model, self._connections = open_client(options)
        self._loop = LoopThread(f"harken-llm-{options.vendor}")
        weakref.finalize(self, self._loop.close, self._connections.aclose)

    @property
    def name(self) -> str:
        """Vendor and model."""
        return f"{self._options.vendor}:{self._options.model}"

    @property
    def max_tokens(self) -> int:
        """Longest answer where a call does not say."""
        return self._options.max_tokens

    def price(self, usage: TokenUsage) -> Decimal | None:
        """USD for a call of so many tokens; None where no price of the model is known."""
        return self._options.price(usage)

    def complete(self, messages: Sequence[ChatMessage], **options: Unpack[CallOptions]) -> ChatAnswer:
        """The whole answer; see `ChatModel.complete`."""
        request = model_request(self._model, **self._request(messages, options, self._options.timeout_seconds))
        try:
            return self._answer(self._loop.run(request))
        except _CLIENT_ERRORS as error:
            raise _translated(error, self._options) from None

    def stream(
        self, messages: Sequence[ChatMessage], *, stop: threading.Event | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[str | ChatAnswer]:
        """Pieces of the text as they come, and last the whole answer; see `ChatModel.stream`."""
        request = self._request(messages, options, self._options.timeout_seconds * _STREAM_TIMEOUTS)
        request["model_settings"]["first_event_timeout"] = self._options.timeout_seconds
        request["model_settings"] |= _WHOLE_COUNTS if self._options.vendor in ("openai", "ollama") else {}
        try:
            for piece in self._loop.iterate(lambda: self._pieces(request), stop):
                yield piece if isinstance(piece, str) else self._answer(piece)
        except _CLIENT_ERRORS as error:
            raise _translated(error, self._options) from None

    def close(self) -> None:
        """End what is under way and let go of the connections."""
        self._loop.close(self._connections.aclose)

    def _request(self, messages: Sequence[ChatMessage], given: CallOptions, whole_seconds: float) -> dict[str, Any]:
        """The arguments of a request; it may take so many seconds in all."""
        settings = ModelSettings(
            max_tokens=given.get("max_tokens") or self._options.max_tokens,
            timeout=self._options.timeout_seconds,
            request_timeout=whole_seconds,
            # A second try of the client's own would be paid for and never booked.
            max_retries=0,
        )
        functions = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters), strict=False
            )
            for tool in given.get("tools", ())
        ]
        return {
            "messages": _prompt(messages, given.get("instructions", "")),
            "model_settings": settings,
            "model_request_parameters": ModelRequestParameters(function_tools=functions),
            "instrument": False,
        }

    async def _pieces(self, request: Mapping[str, Any]) -> AsyncIterator[str | parts.ModelResponse]:
        async with model_request_stream(self._model, **request) as stream:
            held: str | None = ""
            async for event in stream:
                if isinstance(event, parts.PartStartEvent) and isinstance(event.part, parts.TextPart):
                    text = event.part.content
                elif isinstance(event, parts.PartDeltaEvent) and isinstance(event.delta, parts.TextPartDelta):
                    text = event.delta.content_delta
                else:
                    continue
                if held is not None:
                    held += text
                    text = "" if "<think>".startswith(held.lstrip()[:7]) else held
                    text = _THOUGHTS.sub("", held) if "</think>" in held else text
                    held = None if text else held
                if text:
                    yield text
            whole = stream.get()
            # This alone tells of a connection that is closed in good order before the answer ends.
            ends = whole.finish_reason not in ("stop", None) or (whole.provider_details or {}).get("finish_reason")
            yield whole if ends else replace(whole, finish_reason="error")

    def _answer(self, response: parts.ModelResponse) -> ChatAnswer:
        calls = tuple(_tool_call(part) for part in response.parts if isinstance(part, parts.ToolCallPart))
        words = "".join(p.content for p in response.parts if isinstance(p, parts.TextPart | parts.ThinkingPart))
        counted = response.usage
        # xAI counts thoughts beside the answer, all others as a part of it.
        beside = counted.output_reasoning_tokens if counted.output_reasoning_tokens > counted.output_tokens else 0
        usage = TokenUsage(counted.input_tokens, counted.output_tokens + beside, counted.cache_read_tokens)
        return ChatAnswer(
            text=_THOUGHTS.sub("", valid_utf8(response.text or "")),
            tool_calls=calls,
            # Calls, where the answer has any, whatever the endpoint says.
            finish=Finish.TOOL_CALLS if calls else _FINISHES.get(response.finish_reason, Finish.OTHER),
            model=response.model_name or self._options.model,
            usage=usage,
            price_usd=self.price(usage),
            original=response if valid_utf8(words) == words else None,
        )


def _prompt(messages: Sequence[ChatMessage], instructions: str) -> list[parts.ModelMessage]:
    """The prompt; what stands between two answers goes as one request.

    The instructions go as the first message: the library's own way puts them behind other system messages.
    """
    if not messages or messages[-1].role is Role.ASSISTANT:
        raise errors.UsageError("A prompt needs a last message that is to be answered.")
    found: list[parts.ModelMessage] = []
    waiting: list[parts.ModelRequestPart] = [parts.SystemPromptPart(instructions)] if instructions else []
    for message in messages:
        if message.role is Role.ASSISTANT:
            if not found and not any(isinstance(part, parts.UserPromptPart) for part in waiting):
                waiting.append(parts.UserPromptPart(_LEFT_OUT))
            if waiting:
                found.append(parts.ModelRequest(parts=waiting))
                waiting = []
            found.append(_response(message))
        elif message.role is Role.USER and waiting and isinstance(waiting[-1], parts.UserPromptPart):
            waiting[-1] = parts.UserPromptPart(f"{waiting[-1].content}\n\n{message.text}")
        else:
            if message.role is Role.USER and waiting and isinstance(waiting[-1], parts.ToolReturnPart):
                found += [parts.ModelRequest(parts=waiting), parts.ModelResponse(parts=[parts.TextPart(_UNANSWERED)])]
                waiting = []
            waiting.append(_request_part(message))
    return [*found, parts.ModelRequest(parts=waiting)]


def _response(message: ChatMessage) -> parts.ModelResponse:
    """An answer; as it came, but for arguments that are no JSON, which no server reads back."""
    calls = [parts.ToolCallPart(call.name, dict(call.arguments), tool_call_id=call.id) for call in message.tool_calls]
    if not isinstance(message.original, parts.ModelResponse):
        return parts.ModelResponse(parts=[*([parts.TextPart(message.text)] if message.text else []), *calls])
    read, came = (json.dumps(call.args) for call in calls), message.original.parts
    kept = [replace(part, args=next(read)) if isinstance(part, parts.ToolCallPart) else part for part in came]
    return replace(message.original, parts=kept)


def _request_part(message: ChatMessage) -> parts.ModelRequestPart:
    if message.role is Role.TOOL:
        return parts.ToolReturnPart(tool_name=message.tool_name, content=message.text, tool_call_id=message.call_id)
    if message.role is Role.SYSTEM:
        return parts.SystemPromptPart(message.text)
    return parts.UserPromptPart(message.text)


def _tool_call(part: parts.ToolCallPart) -> ToolCall:
    given: Any = part.args
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return ToolCall(part.tool_call_id, part.tool_name, problem="the arguments are not JSON")
    if given is None:
        given = {}
    if not isinstance(given, dict):
        return ToolCall(part.tool_call_id, part.tool_name, problem="the arguments are no JSON object")
    return ToolCall(part.tool_call_id, part.tool_name, given)


def _translated(error: BaseException, options: ChatOptions) -> errors.HarkenError:
    """The error of our tree that says the same, to be raised without its cause.

    A cause is printed with it, and a vendor's message quotes the endpoint's answer, which may quote the prompt.
    """
    place = f"{options.vendor}:{options.model}" + (f" at {options.url}" if options.url else "")
    if isinstance(error, failures.ModelRequestTimeout | failures.ModelTimeoutError):
        late = f"{place} did not answer within {options.timeout_seconds:g} s: raise llm.timeout_seconds"
        return errors.EndpointTimeoutError(late, may_cost=True)
    if isinstance(error, failures.ModelConnectionError | httpx2.HTTPError):
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, httpx2.HTTPError):
            cause = cause.__cause__
        said = f"cannot be reached ({type(cause).__name__}): check llm.url, and that the endpoint runs"
        return errors.EndpointError(f"{place} {said}", isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError))
    if isinstance(error, failures.ModelAPIError):
        return _refused(error, place, options)
    if isinstance(error, CancelledError):
        return errors.EndpointError(f"{place} was closed during the call", may_cost=True)
    if isinstance(error, failures.UserError):
        return errors.PromptError(f"{place} cannot be asked this")
    return errors.EndpointError(f"{place} {_NO_ANSWER} ({type(error).__name__})", may_cost=True)


def _refused(error: failures.ModelAPIError, place: str, options: ChatOptions) -> errors.HarkenError:
    status = f" with status {error.status_code}" if isinstance(error, failures.ModelHTTPError) else ""
    said = str(error.body or "") if isinstance(error, failures.ModelHTTPError) else ""
    if _TAKES_NO_TOOLS.search(said):
        fix = "name a model that does, or start its server so that it does"
        return errors.PromptError(f"{place} takes no tools{status}, which a chat gives it: {fix}")
    if isinstance(error, failures.ModelContextWindowExceededError) or _IS_TOO_LONG.search(said):
        fix = "say less, or lower context.default_budget_tokens; for summaries, llm.max_input_tokens"
        return errors.PromptError(f"{place} finds the prompt too long{status}: {fix}")
    if isinstance(error, failures.ModelQuotaExceededError) or _IS_SPENT.search(said):
        return errors.CredentialError(f"{place} refuses{status}: the account has no credit left")
    if isinstance(error, failures.ModelRateLimitError):
        wait = "" if error.retry_after is None else f", for {error.retry_after:g} s"
        return errors.RateLimitError(f"{place} wants fewer requests{wait}{status}", error.retry_after)
    if isinstance(error, failures.ModelAuthenticationError) or _IS_NO_KEY.search(said):
        return errors.CredentialError(f"{place} does not accept the API key{status}: set {options.key_hint}")
    if isinstance(error, failures.ModelNotFoundError):
        return errors.UnknownModelError(f"{place} has no such model{status}: check llm.model and llm.url")
    if isinstance(error, failures.ModelRequestRejectedError) or status.endswith("413"):
        return errors.PromptError(f"{place} rejects the request{status}")
    return errors.EndpointError(f"{place} answers{status}" if status else f"{place} {_NO_ANSWER}")
