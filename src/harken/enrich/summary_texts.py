"""From messages to what a summarizer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harken.model import ExchangeStatus, MessageType, Role
from harken.providers.summarizer import ExchangeText, Spoken, ToolUse
from harken.storage.summary_material import Told


def exchange_text(
    told: Sequence[Told], status: ExchangeStatus = ExchangeStatus.COMPLETED, error: str | None = None, summary: str = ""
) -> ExchangeText:
    """One exchange; what was injected as markers, summaries or system messages is no part of it."""
    return ExchangeText(_spoken(told), _tools(told), status, error, summary)


def exchange_texts(told: Sequence[Told], summaries: Mapping[str, str]) -> list[ExchangeText]:
    """The exchanges of a conversation in order.

    Args:
        told: messages of the conversation, oldest first.
        summaries: of its exchanges, where there are some, by their uid.
    """
    grouped: dict[str, list[Told]] = {}
    for message in told:
        grouped.setdefault(message.exchange_uid, []).append(message)
    return [exchange_text(said, summary=summaries.get(uid, "")) for uid, said in grouped.items()]


def _spoken(told: Sequence[Told]) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(each.role, each.text, each.author)
        for each in told
        if each.type is MessageType.TEXT and each.role in (Role.USER, Role.ASSISTANT) and each.text.strip()
    )


def _tools(told: Sequence[Told]) -> tuple[ToolUse, ...]:
    results = {each.call_id: each.text for each in told if each.type is MessageType.TOOL_RESULT and each.call_id}
    calls = [each for each in told if each.type is MessageType.TOOL_CALL]
    return tuple(ToolUse(each.tool_name or "tool", each.text, results.get(each.call_id or "", "")) for each in calls)
