"""A context as scripts get it."""

from __future__ import annotations

from typing import Any

from harken.context.layers import ChatContext, LayerItem


def context_facts(context: ChatContext, conversation_uid: str) -> dict[str, Any]:
    """A context as scripts get it."""
    return {
        "conversation_id": conversation_uid,
        "tokens": context.tokens,
        "budget_tokens": context.budget_tokens,
        "messages": [message.as_dict() for message in context.messages],
        "layers": [
            {"name": layer.name.value, "tokens": layer.tokens, "items": [_item_facts(item) for item in layer.items]}
            for layer in context.layers
        ],
        "notes": list(context.notes),
    }


def _item_facts(item: LayerItem) -> dict[str, Any]:
    return {"id": item.uid, "tokens": item.tokens, "text": item.text, "why": item.why, **item.facts}
