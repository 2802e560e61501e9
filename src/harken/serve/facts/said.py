"""Hits and messages as scripts get them."""

from __future__ import annotations

from typing import Any

from harken.model.conversations import Hit, Message
from harken.storage.conversations import Surroundings


def hit_facts(hit: Hit) -> dict[str, Any]:
    """A hit as scripts get it."""
    entry = hit.entry
    return {
        "id": entry.ref_uid,
        "source": entry.source,
        "part": entry.part,
        "conversation_id": entry.conversation_uid,
        "exchange_id": entry.exchange_uid,
        "project": entry.project,
        "role": entry.role,
        "author": entry.author,
        "trust": entry.trust.value,
        "untrusted": entry.trust.is_untrusted,
        "created_at": entry.created_at.isoformat(),
        "text": entry.text,
        "score": round(hit.score, 6),
        "similarity": None if hit.similarity is None else round(hit.similarity, 4),
        "keyword_rank": hit.keyword_rank,
        "vector_rank": hit.vector_rank,
        "fused": round(hit.fused, 6),
        "reasons": [{"name": r.name, "value": round(r.value, 4), "note": r.note} for r in hit.reasons],
    }


def message_facts(message: Message) -> dict[str, Any]:
    """A message as scripts get it."""
    return {
        "id": message.uid,
        "conversation_id": message.conversation_uid,
        "exchange_id": message.exchange_uid,
        "role": message.role.value,
        "type": message.type.value,
        "author": message.author,
        "tool_name": message.tool_name,
        "call_id": message.call_id,
        "trust": message.trust.value,
        "untrusted": message.trust.is_untrusted,
        "created_at": message.created_at.isoformat(),
        "text": message.text,
    }


def surroundings_facts(found: Surroundings) -> dict[str, Any]:
    """Messages and the conversation that they are of, as scripts get them."""
    head = found.conversation
    return {
        "conversation": {
            "id": head.uid,
            "channel": head.channel,
            "title": head.title,
            "project": head.project.key if head.project else None,
            "created_at": head.created_at.isoformat(),
        },
        "before": found.before,
        "messages": [message_facts(message) for message in found.messages],
        "after": found.after,
    }
