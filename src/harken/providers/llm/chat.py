"""A language model of any vendor, through one client library."""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from decimal import Decimal
from typing import Self

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from harken.providers.chat_model import ChatAnswer, ChatMessage, TokenUsage, ToolSpec
from harken.providers.llm import wire
from harken.providers.llm.failures import CLIENT_ERRORS, translated
from harken.providers.llm.loop_thread import LoopThread
from harken.providers.llm.prices import price_of
from harken.providers.llm.vendors import open_client
from harken.providers.options import ChatOptions

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

    @classmethod
    def open(cls, options: ChatOptions) -> Self:
        """The model for these options; nothing is sent yet."""
        return cls(options)

    @property
    def name(self) -> str:
        """Vendor and model."""
        return f"{self._options.vendor}:{self._options.model}"

    @property
    def max_tokens(self) -> int:
        """Longest answer where a call does not say."""
        return self._options.max_tokens

    def price(self, usage: TokenUsage) -> Decimal | None:
        """What a call of so many tokens costs in USD; None where no price of the model is known."""
        return price_of(self._options, usage)

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        instructions: str = "",
        max_tokens: int | None = None,
        tools: Sequence[ToolSpec] = (),
    ) -> ChatAnswer:
        """The whole answer; see `ChatModel.complete`."""
        prompt, parameters = wire.to_wire(messages, instructions), wire.to_parameters(tools)
        settings = self._settings(max_tokens, self._options.timeout_seconds)
        request = model_request(
            self._model, prompt, model_settings=settings, model_request_parameters=parameters, instrument=False
        )
        try:
            return self._answer(self._loop.run(request))
        except CLIENT_ERRORS as error:
            raise translated(error, self._options) from None

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        instructions: str = "",
        max_tokens: int | None = None,
        tools: Sequence[ToolSpec] = (),
        stop: threading.Event | None = None,
    ) -> Iterator[str | ChatAnswer]:
        """Pieces of the text as they come, and last the whole answer; see `ChatModel.stream`."""
        prompt, parameters = wire.to_wire(messages, instructions), wire.to_parameters(tools)
        settings = self._settings(max_tokens, self._options.timeout_seconds * _STREAM_TIMEOUTS)
        settings["first_event_timeout"] = self._options.timeout_seconds
        try:
            for piece in self._loop.iterate(lambda: self._pieces(prompt, settings, parameters), stop):
                yield piece if isinstance(piece, str) else self._answer(piece)
        except CLIENT_ERRORS as error:
            raise translated(error, self._options) from None

    def close(self) -> None:
        """End what is under way and let go of the connections."""
        self._loop.close(self._connections.aclose)

    def _settings(self, max_tokens: int | None, whole_seconds: float) -> ModelSettings:
        return ModelSettings(
            max_tokens=max_tokens or self._options.max_tokens,
            timeout=self._options.timeout_seconds,
            request_timeout=whole_seconds,
            # A second try of the client's own would be paid for and never booked.
            max_retries=0,
        )

    async def _pieces(
        self, prompt: list[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
    ) -> AsyncIterator[str | ModelResponse]:
        request = model_request_stream(
            self._model, prompt, model_settings=settings, model_request_parameters=parameters, instrument=False
        )
        async with request as stream:
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
