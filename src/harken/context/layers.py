"""The parts of a context: messages for the model, the pending ones too, in layers that say why they are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Any

from harken.errors import UsageError
from harken.model.conversations import Message, MessageType, Role
from harken.model.views import ContextView, LayerItemView, LayerView, view_of
from harken.text import tokens

# What a chat API adds around each message.
MESSAGE_TOKENS = 4
_REMEMBERED_CHARS = 4000

Pending = str | Message


# Remembered: a window's messages are counted again for every context.
_count = lru_cache(maxsize=1024)(tokens.estimate)


class LayerName(StrEnum):
    """The layers of a context, in their order."""

    SYSTEM = "system"
    CORE = "core"
    RULES = "rules"
    SUMMARY = "summary"
    PAST = "past"
    KNOWN = "known"
    AUTO_RAG = "auto_rag"
    ELSEWHERE = "elsewhere"
    HISTORY = "history"
    WINDOW = "window"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message as a model gets it.

    Attributes:
        uid: the record it is; None for what is composed, or not recorded yet.
    """

    role: Role
    content: str
    type: MessageType = MessageType.TEXT
    author: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    uid: str | None = None

    @property
    def tokens(self) -> int:
        """About what it takes of a context, with what a chat API adds around it."""
        count = _count if len(self.content) <= _REMEMBERED_CHARS else tokens.estimate
        return count(self.content) + MESSAGE_TOKENS

    def as_dict(self) -> dict[str, Any]:
        """`role` and `content`; for tool calls and results also `type`, `call_id` and `tool_name`."""
        plain: dict[str, Any] = {"role": self.role.value, "content": self.content}
        if self.type is not MessageType.TEXT:
            plain |= {"type": self.type.value, "call_id": self.call_id, "tool_name": self.tool_name}
        return plain


@dataclass(frozen=True, slots=True)
class LayerItem:
    """One thing in a layer.

    Attributes:
        uid: its id; None for what has none.
        why: why it is there, for people.
        facts: more of that, for scripts.
    """

    uid: str | None
    text: str
    tokens: int
    why: str
    facts: Mapping[str, Any]

    def view(self) -> LayerItemView:
        """The item as JSON, with its facts."""
        return {"id": self.uid, "tokens": self.tokens, "text": self.text, "why": self.why, **self.facts}  # type: ignore[typeddict-item]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer with something in it."""

    name: LayerName
    tokens: int
    items: tuple[LayerItem, ...]


@dataclass(frozen=True, slots=True)
class ChatContext:
    """The whole context of one model call.

    Attributes:
        messages: exactly what the model gets, in order.
        layers: the same, layer by layer, with reasons; layers without anything are left out.
        tokens: what all of it takes.
        notes: one sentence for each thing that did not fit or could not be looked at.
        left_before: id of the oldest message in the window when earlier ones are outside of it; else None.
        failures: those of the notes that tell of a search that failed.
    """

    messages: tuple[ContextMessage, ...]
    layers: tuple[Layer, ...]
    tokens: int
    budget_tokens: int
    notes: tuple[str, ...] = ()
    left_before: str | None = None
    failures: tuple[str, ...] = ()

    def layer(self, name: LayerName | str) -> Layer | None:
        """The layer of that name; None where nothing is in it."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def view(self, conversation_uid: str) -> ContextView:
        """The context as JSON, of the conversation that it was built for."""
        layers = [view_of(LayerView, layer, items=[item.view() for item in layer.items]) for layer in self.layers]
        messages = [message.as_dict() for message in self.messages]
        return view_of(ContextView, self, conversation_id=conversation_uid, messages=messages, layers=layers)


def chat_message(message: Message) -> ContextMessage:
    """A recorded message as a model gets it."""
    said = message.author, message.call_id, message.tool_name, message.uid
    return ContextMessage(message.role, message.text, message.type, *said)


def recognize(
    pending: Sequence[Pending], tail: Sequence[Message], recorded: Callable[[str], str]
) -> list[ContextMessage]:
    """The pending messages for the model, with the ids of those that are recorded; all lists oldest first.

    `tail` is the end of the segment; `recorded` tells what recording makes of a text.

    Raises:
        UsageError: a tool's call or result is given as pending, or what is no text and no recorded message.
    """
    said: list[ContextMessage] = []
    known: set[str] = set()
    waiting = _unanswered(tail)
    # From the newest on: where not all fit, the newest are kept, and they must be the ones that are recognized.
    for message in reversed(pending):
        if isinstance(message, str):
            kept = recorded(message)
            same = next((found for found in waiting if found.text == kept and found.uid not in known), None)
            author, uid = (same.author, same.uid) if same else (None, None)
            said.insert(0, ContextMessage(Role.USER, message, author=author, uid=uid))
        elif not isinstance(message, Message):
            raise UsageError(f"Pending is the user's words, a str or a recorded Message, not {type(message).__name__}.")
        elif message.type is MessageType.TEXT:
            uid = message.uid
            said.insert(0, chat_message(message))
        else:
            raise UsageError("Only words can be pending. Record calls and results of tools: the window shows them.")
        known |= {uid} if uid else set()
    return said


def last_asked(tail: Sequence[Message]) -> Message | None:
    """The newest words of the user; None where there are none."""
    return next((message for message in reversed(tail) if _is_asked(message)), None)


def _unanswered(tail: Sequence[Message]) -> list[Message]:
    """The user's words at the segment's end, which nothing has replied to yet, newest first."""
    unanswered = takewhile(lambda message: message.role not in (Role.ASSISTANT, Role.TOOL), reversed(tail))
    return [message for message in unanswered if _is_asked(message)]


def _is_asked(message: Message) -> bool:
    return message.role is Role.USER and message.type is MessageType.TEXT
