"""Which of the newest messages fit: whole blocks, so that a tool's result never stands without its call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harken.context.layers import MESSAGE_TOKENS, ContextMessage, chat_message
from harken.model.conversations import Message, MessageType, Role
from harken.text import tokens

_LEAST_TOKENS = 16


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Messages that stand together or not at all: one, or tool calls with their results."""

    messages: tuple[Message, ...]
    tokens: int


def is_shown(message: Message) -> bool:
    """Whether a message belongs into a window: markers, summaries and empty words do not."""
    if message.role is Role.SYSTEM or message.type in (MessageType.MARKER, MessageType.SUMMARY):
        return False
    return message.type is not MessageType.TEXT or bool(message.text.strip())


def blocks_of(messages: Sequence[Message]) -> list[MessageBlock]:
    """The messages, oldest first, in blocks; calls without a result and results without a call are left out."""
    shown = [message for message in messages if is_shown(message)]
    pairs = _pairs(shown)
    whole = {place for places in pairs.values() for place in places}
    begins = {place: first for first, last in _spans(pairs) for place in range(first, last + 1)}
    grouped: dict[int, list[Message]] = {}
    for place, message in enumerate(shown):
        if message.type is MessageType.TEXT or place in whole:
            grouped.setdefault(begins.get(place, place), []).append(message)
    return [_block(group) for group in grouped.values()]


def fit(blocks: Sequence[MessageBlock], room_tokens: int, most_messages: int) -> list[MessageBlock]:
    """The newest blocks that fit, oldest first, without a gap."""
    fitting: list[MessageBlock] = []
    for block in reversed(blocks):
        room_tokens -= block.tokens
        most_messages -= len(block.messages)
        if room_tokens < 0 or most_messages < 0:
            break
        fitting.append(block)
    return fitting[::-1]


def squeezed(block: MessageBlock, room_tokens: int) -> list[ContextMessage]:
    """A block's messages, the longest cut until all fit; none where the room is too small for that."""
    messages = [chat_message(message) for message in block.messages]
    fair = room_tokens // len(messages) - MESSAGE_TOKENS
    if fair < _LEAST_TOKENS:
        return []
    spare = sum(max(0, fair - tokens.estimate(message.content)) for message in messages)
    cut = []
    for message in messages:
        size = tokens.estimate(message.content)
        allowed = min(size, fair + spare)
        spare -= max(0, allowed - fair)
        clipped = message if size <= allowed else replace(message, content=tokens.clip_middle(message.content, allowed))
        cut.append(clipped)
    return cut


def _block(messages: Sequence[Message]) -> MessageBlock:
    return MessageBlock(tuple(messages), sum(chat_message(message).tokens for message in messages))


def _spans(pairs: Mapping[str, set[int]]) -> list[tuple[int, int]]:
    """First and last place of each group of tool calls that overlap."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted((min(places), max(places)) for places in pairs.values()):
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    return spans


def _pairs(shown: Sequence[Message]) -> dict[str, set[int]]:
    """The places of each tool call and its results, by a name of their own."""
    open_calls: dict[str, str] = {}
    pairs: dict[str, set[int]] = {}
    for place, message in enumerate(shown):
        name = message.call_id or ""
        if message.type is MessageType.TOOL_CALL:
            open_calls[name] = message.uid
            pairs[message.uid] = {place}
        elif message.type is MessageType.TOOL_RESULT and name in open_calls:
            pairs[open_calls[name]].add(place)
            if not name:
                del open_calls[name]
    return {uid: places for uid, places in pairs.items() if len(places) > 1}


def messages_in(blocks: Sequence[MessageBlock]) -> Iterator[Message]:
    """Every message of the blocks, in order."""
    for block in blocks:
        yield from block.messages
