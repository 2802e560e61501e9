"""The port to summarizers: what was said goes in, a few sentences come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from harken.model.conversations import ExchangeStatus, Role

EXTRACTIVE = "extractive"
TOOLS_AT_MOST, TOOLS_AT_LEAST = 10, 3


@dataclass(frozen=True, slots=True)
class Spoken:
    """Some words, and who said them."""

    role: Role
    text: str
    author: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call and what came of it; the result is empty where none came."""

    name: str
    call: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class ExchangeText:
    """The words and tool calls of an exchange, oldest first.

    Attributes:
        spoken: the messages of people and agents, without tools.
        error: how it failed, where it did.
        summary: its own summary where there is one, which then stands for its messages in a larger summary.
    """

    spoken: tuple[Spoken, ...]
    tools: tuple[ToolUse, ...] = ()
    status: ExchangeStatus = ExchangeStatus.COMPLETED
    error: str | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary; empty text where there was nothing to summarize.

    Attributes:
        title: of a conversation, else empty.
        model: who wrote it: `extractive`, or a language model's name.
        fallback: why it was not written by the language model that was asked; empty where none was, or it did.
    """

    text: str
    title: str = ""
    model: str = EXTRACTIVE
    fallback: str = ""


class Summarizer(Protocol):
    """Summarizes texts; stores nothing."""

    @property
    def name(self) -> str:
        """The writer: `extractive`, or the language model's name."""

    def exchange(self, exchange: ExchangeText) -> Summary:
        """One or two sentences: what was asked, what was done, how it ended."""

    def conversation(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """Two or three sentences and a title."""

    def segment(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """Two or three sentences on a part of a conversation."""

    def tools(self, uses: Sequence[ToolUse]) -> list[Summary]:
        """One or two sentences for each of up to ten tool calls, in order.

        Raises:
            ValueError: there are more than ten; see `tool_batches`.
        """


def tool_batches(uses: Sequence[ToolUse]) -> list[Sequence[ToolUse]]:
    """The uses in batches of five to ten, as even as can be; fewer than five make one batch of their own."""
    count = -(-len(uses) // TOOLS_AT_MOST)
    bounds = [len(uses) * number // count for number in range(count + 1)] if count else []
    return [uses[start:end] for start, end in pairwise(bounds)]
