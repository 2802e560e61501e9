"""Chats that tests hold, and what a model would get to see of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from harken.context.layers import ChatContext
from harken.engine import Harken
from harken.storage.ports import Transaction
from quotations import unmarked

TALK = "talk"


def say(harken: Harken, *texts: str, conversation: str = TALK) -> list[str]:
    """User and assistant say these texts in turn; the ids."""
    roles = ("user", "assistant")
    return [harken.record_message(conversation, roles[n % 2], text).uid for n, text in enumerate(texts)]


def call_tool(harken: Harken, call_id: str, call: str, result: str) -> tuple[str, str]:
    """The agent calls a tool and gets its result; both ids."""
    asked = harken.record_message(TALK, "assistant", call, type="tool_call", call_id=call_id, tool_name="shell")
    got = harken.record_message(TALK, "tool", result, type="tool_result", call_id=call_id, tool_name="shell")
    return asked.uid, got.uid


def prompt(context: ChatContext) -> list[dict[str, Any]]:
    """Exactly what the model gets, but for the mark of this very context."""
    return [{**message.as_dict(), "content": unmarked(message.content)} for message in context.messages]


def spoken(context: ChatContext) -> list[tuple[str, str]]:
    """Role and words of what the model gets, composed layers left out."""
    composed = ("system",)
    return [(m["role"], m["content"]) for m in prompt(context) if m["role"] not in composed]


def recalled(context: ChatContext) -> list[str]:
    """The words that came back from earlier in the conversation."""
    layer = context.layer("auto_rag")
    return [item.text for item in layer.items] if layer else []


def filler(count: int, subjects: Sequence[str] = ("tomatoes", "whales", "bicycles", "lemons")) -> list[str]:
    """So many messages about other things, none like another."""
    return [f"Note {n} on {subjects[n % len(subjects)]}: batch {n * 7} looked fine this week." for n in range(count)]


def break_vectors(tx: Transaction) -> None:
    """Leave vectors that cannot be compared."""
    halved = "x'00'" if tx.connection.dialect.name == "sqlite" else "'[1]'"
    tx.connection.execute(text(f"UPDATE vectors SET vector = {halved}"))


def break_full_text(tx: Transaction) -> None:
    """Take the index away."""
    index = "entry_index" if tx.connection.dialect.name == "sqlite" else "entry_words"
    tx.connection.execute(text(f"DROP TABLE {index}"))
