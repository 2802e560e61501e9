"""Language models of vendors, whose asynchronous clients run in an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from decimal import Decimal
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, Unpack

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.settings import ModelSettings

from harken.providers.chat_model import CallOptions, ChatAnswer, ChatMessage, TokenUsage
from harken.providers.llm import wire
from harken.providers.llm.prices import price_of
from harken.providers.llm.vendors import open_client
from harken.providers.options import ChatOptions

_T = TypeVar("_T")
_PATIENCE_SECONDS = 5.0
# A queue and an event cannot be waited for together; nobody notices so little.
_STOP_POLL_SECONDS = 0.05


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


# A stream may go on for longer than an answer is waited for, as long as something comes.
_STREAM_TIMEOUTS = 10


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
        return price_of(self._options, usage)

    def complete(self, messages: Sequence[ChatMessage], **options: Unpack[CallOptions]) -> ChatAnswer:
        """The whole answer; see `ChatModel.complete`."""
        request = model_request(self._model, **self._request(messages, options, self._options.timeout_seconds))
        try:
            return self._answer(self._loop.run(request))
        except wire.CLIENT_ERRORS as error:
            raise wire.translated(error, self._options) from None

    def stream(
        self, messages: Sequence[ChatMessage], *, stop: threading.Event | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[str | ChatAnswer]:
        """Pieces of the text as they come, and last the whole answer; see `ChatModel.stream`."""
        request = self._request(messages, options, self._options.timeout_seconds * _STREAM_TIMEOUTS)
        request["model_settings"]["first_event_timeout"] = self._options.timeout_seconds
        try:
            for piece in self._loop.iterate(lambda: self._pieces(request), stop):
                yield piece if isinstance(piece, str) else self._answer(piece)
        except wire.CLIENT_ERRORS as error:
            raise wire.translated(error, self._options) from None

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
        return {
            "messages": wire.to_wire(messages, given.get("instructions", "")),
            "model_settings": settings,
            "model_request_parameters": wire.to_parameters(given.get("tools", ())),
            "instrument": False,
        }

    async def _pieces(self, request: Mapping[str, Any]) -> AsyncIterator[str | ModelResponse]:
        async with model_request_stream(self._model, **request) as stream:
            async for event in stream:
                if text := wire.text_of(event):
                    yield text
            yield stream.get()

    def _answer(self, response: ModelResponse) -> ChatAnswer:
        usage = wire.usage(response)
        return ChatAnswer(
            text=response.text or "",
            tool_calls=wire.tool_calls(response),
            finish=wire.finish(response),
            model=response.model_name or self._options.model,
            usage=usage,
            price_usd=self.price(usage),
        )
