"""What happens while a chat answers, and what has come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harken.assemble.layers import ChatContext
from harken.model import ExchangeStatus
from harken.providers.chat_model import TokenUsage


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The model says some more."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model has called a tool.

    Attributes:
        arguments: as the model wrote them, not checked yet.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool has answered.

    Attributes:
        text: what the model gets to see.
    """

    name: str
    failed: bool
    text: str


TurnEvent = TextPiece | ToolStarted | ToolEnded
Listen = Callable[[TurnEvent], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a chat that has ended.

    Attributes:
        text: the answer, or as much of it as was said.
        error: why it failed, secrets taken out.
        stopped: whether the user stopped it.
        usage: of all calls of the model whose tokens were counted.
        price_usd: of all calls; None where one was broken off or has no known price.
        context: what the first call got to see.
    """

    text: str
    status: ExchangeStatus
    error: str | None
    stopped: bool
    tool_calls: int
    usage: TokenUsage
    price_usd: Decimal | None
    context: ChatContext
