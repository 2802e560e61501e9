"""What a context is made of: messages for the model, in layers that say what stands there and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from harken.model.conversations import Message, MessageType, Role
from harken.model.views import ContextView, LayerItemView
from harken.text import tokens

# What a chat API adds around each message.
MESSAGE_TOKENS = 4
_REMEMBERED_CHARS = 4000


def count_tokens(text: str) -> int:
    """`tokens.estimate`, remembered: a window's messages are counted again for every context."""
    return _count(text) if len(text) <= _REMEMBERED_CHARS else tokens.estimate(text)


_count = lru_cache(maxsize=1024)(tokens.estimate)


class LayerName(StrEnum):
    """The layers of a context, in their order."""

    SYSTEM = "system"
    CORE = "core"
    SUMMARY = "summary"
    PAST = "past"
    AUTO_RAG = "auto_rag"
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
        return count_tokens(self.content) + MESSAGE_TOKENS

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
    """

    messages: tuple[ContextMessage, ...]
    layers: tuple[Layer, ...]
    tokens: int
    budget_tokens: int
    notes: tuple[str, ...] = ()
    left_before: str | None = None

    def layer(self, name: LayerName | str) -> Layer | None:
        """The layer of that name; None where nothing is in it."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def view(self, conversation_uid: str) -> ContextView:
        """The context as JSON, of the conversation that it was built for."""
        return {
            "conversation_id": conversation_uid,
            "tokens": self.tokens,
            "budget_tokens": self.budget_tokens,
            "messages": [message.as_dict() for message in self.messages],
            "layers": [
                {"name": layer.name.value, "tokens": layer.tokens, "items": [item.view() for item in layer.items]}
                for layer in self.layers
            ],
            "notes": list(self.notes),
        }


def chat_message(message: Message) -> ContextMessage:
    """A recorded message as a model gets it."""
    return ContextMessage(
        role=message.role,
        content=message.text,
        type=message.type,
        author=message.author,
        call_id=message.call_id,
        tool_name=message.tool_name,
        uid=message.uid,
    )
