"""What the user says now: recognized where it is recorded already, so that it never stands twice in one prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harken.context.layers import ContextMessage, chat_message
from harken.errors import UsageError
from harken.model.conversations import Message, MessageType, Role

Pending = str | Message


def recognize(
    pending: Sequence[Pending], tail: Sequence[Message], recorded: Callable[[str], str]
) -> list[ContextMessage]:
    """The pending messages for the model, with the ids of those that are recorded.

    Args:
        pending: oldest first, text or recorded message.
        tail: the segment's newest messages, oldest first.
        recorded: what recording makes of a text.
    Raises:
        UsageError: a tool's call or result is given as pending.
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
        elif message.type is MessageType.TEXT:
            uid = message.uid
            said.insert(0, chat_message(message))
        else:
            raise UsageError("Only words can be pending. Record calls and results of tools: the window shows them.")
        known |= {uid} if uid else set()
    return said


def last_asked(tail: Sequence[Message]) -> str:
    """The newest words of the user; empty where there are none."""
    return next((message.text for message in reversed(tail) if _is_asked(message)), "")


def _unanswered(tail: Sequence[Message]) -> list[Message]:
    """The user's words at the segment's end, which nothing has replied to yet, newest first."""
    found: list[Message] = []
    for message in reversed(tail):
        if message.role in (Role.ASSISTANT, Role.TOOL):
            break
        if _is_asked(message):
            found.append(message)
    return found


def _is_asked(message: Message) -> bool:
    return message.role is Role.USER and message.type is MessageType.TEXT
