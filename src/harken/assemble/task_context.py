"""What a task's model call gets to see: no window, no auto-RAG, but what the task did before.

Source: seed TASK-007b, component 2; design.md section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harken.assemble.history import Run
from harken.model import Message, MessageType, Role


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message as a model gets it.

    Attributes:
        uid: the record it is; None for what is composed.
    """

    role: Role
    content: str
    type: MessageType = MessageType.TEXT
    author: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    uid: str | None = None


def task_context(system: str, core_memory: str, runs: Sequence[Run], request: str) -> list[ChatMessage]:
    """System prompt, core memory, earlier runs, request, in this order; what is empty is left out.

    Args:
        system: the prompt.
        core_memory: as text; the task may read it and no more.
        runs: oldest first.
        request: what the task is asked now.
    """
    composed = [ChatMessage(Role.SYSTEM, text) for text in (system, core_memory) if text.strip()]
    earlier = [_message(message) for run in runs for message in run.messages if message.type in _SHOWN]
    return [*composed, *earlier, ChatMessage(Role.USER, request)]


_SHOWN = (MessageType.TEXT, MessageType.TOOL_CALL, MessageType.TOOL_RESULT)


def _message(message: Message) -> ChatMessage:
    facts = (message.author, message.call_id, message.tool_name, message.uid)
    return ChatMessage(message.role, message.text, message.type, *facts)
