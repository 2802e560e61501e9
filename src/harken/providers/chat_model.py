"""The port to language models: messages in, an answer with its tokens and price out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypedDict, Unpack

from harken.model.conversations import EMPTY, Role


class Finish(StrEnum):
    """The reason for which a model stopped."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may call; its parameters are the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool called.

    Attributes:
        arguments: as the model wrote them; not checked against the tool's schema.
        problem: why the arguments cannot be read; empty where they can.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = EMPTY
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt; that of a tool names it, and the call that it answers. See `ChatAnswer.original`."""

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool_name: str = ""
    original: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one call as the endpoint counted them; zeros where it does not say.

    Attributes:
        input_tokens: all of the prompt, cached or not.
        cached_tokens: those of the input that were read from a cache, mostly at a lower price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer of a model, by the name that the endpoint has for it; the price is None where none is known.

    `original` has the thoughts and signatures as well, which some vendors want back with the results of tools.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    model: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    price_usd: Decimal | None = None
    original: object = field(default=None, compare=False, repr=False)


class CallOptions(TypedDict, total=False):
    """Options of a call: the system prompt, where the answer is cut (None: as the settings say), and the tools."""

    instructions: str
    max_tokens: int | None
    tools: Sequence[ToolSpec]


class Completer(Protocol):
    """Answers a prompt at once."""

    @property
    def name(self) -> str:
        """Vendor and model, e.g. `openai:gpt-5-mini`."""

    @property
    def max_tokens(self) -> int:
        """Longest answer where a call does not say."""

    def complete(self, messages: Sequence[ChatMessage], **options: Unpack[CallOptions]) -> ChatAnswer:
        """The whole answer to at least one message, oldest first.

        Raises:
            ProviderError: see `harken.errors`; an `EndpointError` where another call later may succeed.
        """


class ChatModel(Completer, Protocol):
    """A language model; threads may share it. Nothing is tried twice: who calls, tries again."""

    def price(self, usage: TokenUsage) -> Decimal | None:
        """USD for a call of so many tokens; None where no price of the model is known."""

    def stream(
        self, messages: Sequence[ChatMessage], *, stop: threading.Event | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[str | ChatAnswer]:
        """Pieces of the text as they come, and last the whole answer. Closing the iterator ends the call.

        `stop`, set by another thread, ends the call at once, and the iteration without an answer.

        Raises:
            ProviderError: as of `complete`, from the iteration.
        """

    def close(self) -> None:
        """Let go of the connections."""
