"""The content of a message as the agents' APIs write it: a text, or a list of typed blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harken.model import EMPTY, MessageType, Role
from harken.record.recalled import without_recall
from harken.record.transcripts.fields import call_text, known, listing, spoken, string
from harken.record.transcripts.scaffolding import without_injections

# Anthropic's name for a text block, and OpenAI's two.
_TEXT_KINDS = ("text", "input_text", "output_text")
_ROLES = {
    MessageType.TOOL_CALL: Role.ASSISTANT,
    MessageType.TOOL_RESULT: Role.TOOL,
    MessageType.MARKER: Role.SYSTEM,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, a tool call, a tool result or a marker within one message; facts go into its metadata."""

    type: MessageType
    text: str
    call_id: str | None = None
    tool_name: str | None = None
    facts: Mapping[str, Any] = EMPTY

    def role(self, speaker: Role) -> Role:
        """Whose it is, in a message of this speaker."""
        return _ROLES.get(self.type, speaker)

    def external_id(self, message_id: str | None, number: int) -> str:
        """The id of the message's piece of this number: the message's own for the first, empty where it has none."""
        return f"{message_id}#{number}" if message_id and number > 1 else message_id or ""


@dataclass(frozen=True, slots=True)
class Content:
    """What a message's content holds.

    Attributes:
        pieces: all texts as one, where the first of them stands, and the tool calls and results in their order.
        texts: every text block as it was written.
        faults: why a part of it cannot be read.
    """

    pieces: tuple[Piece, ...] = ()
    texts: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def read_content(content: Any, words: Callable[[str], str]) -> Content:
    """Read a message's content; thinking, images and blocks of unknown types are passed over.

    Args:
        content: the JSON value.
        words: takes the scaffolding out of one text block.
    """
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return Content(faults=("has a message without readable content",))
    texts: list[str] = []
    pieces: list[Piece | None] = []
    faults: list[str] = []
    for block in content:
        read = _piece(block)
        if isinstance(read, _Fault):
            faults.append(read)
        elif isinstance(read, str):
            pieces += [] if texts else [None]
            texts.append(read)
        elif read:
            pieces.append(read)
    said = spoken([words(text) for text in texts])
    text = [Piece(MessageType.TEXT, said)] if said else []
    whole = [piece for place in pieces for piece in ([place] if place else text)]
    return Content(tuple(whole), tuple(texts), tuple(faults))


class _Fault(str):
    """Why a block cannot be read."""

    __slots__ = ()


def _piece(block: Any) -> Piece | str | None:
    """A text, a tool call or result, a fault, or None for what nobody said."""
    if not isinstance(block, dict):
        return _Fault("has a content block that is not an object")
    kind = block.get("type")
    if kind in _TEXT_KINDS:
        text = block.get("text")
        return text if isinstance(text, str) else _Fault("has a text block without a text")
    if isinstance(kind, str) and kind.endswith("tool_use"):
        return _call(block)
    if isinstance(kind, str) and kind.endswith("tool_result"):
        return _result(block)
    return None


def _call(block: dict[str, Any]) -> Piece:
    name = string(block.get("name"))
    text = without_recall(call_text(name, block.get("input")))
    return Piece(MessageType.TOOL_CALL, text, string(block.get("id")), name)


def _result(block: dict[str, Any]) -> Piece | _Fault:
    content = block.get("content")
    if not isinstance(content, (str, list, dict, type(None))):
        return _Fault("has a tool result without readable content")
    return Piece(
        MessageType.TOOL_RESULT,
        without_injections(result_text(content)),
        string(block.get("tool_use_id")),
        string(block.get("name")),
        known(is_error=block.get("is_error") is True),
    )


def result_text(content: Any) -> str:
    """The words of a tool's result: a text, or the texts among its blocks."""
    if isinstance(content, str):
        return content
    blocks = [content] if isinstance(content, dict) else listing(content)
    return spoken([text for block in blocks if isinstance(block, dict) and (text := string(block.get("text")))])
