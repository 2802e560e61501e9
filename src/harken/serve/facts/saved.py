"""Memories as scripts get them."""

from __future__ import annotations

from typing import Any

from harken.journal.events import format_time
from harken.sources.memories.memories import SavedMemory
from harken.sources.memories.memory import Memory


def memory_facts(found: Memory) -> dict[str, Any]:
    """A memory as scripts get it."""
    return {
        "id": found.uid,
        "content": found.content,
        "category": found.category,
        "importance": found.importance,
        "tags": list(found.tags),
        "project": found.project.key if found.project else None,
        "trust": found.trust.value,
        "untrusted": found.trust.is_untrusted,
        "created_at": format_time(found.created_at),
        "updated_at": format_time(found.updated_at),
        "accessed_at": None if found.accessed_at is None else format_time(found.accessed_at),
        "supersedes": list(found.supersedes),
        "superseded_by": found.superseded_by,
    }


def saved_facts(saved: SavedMemory) -> dict[str, Any]:
    """What saving came to, as scripts get it."""
    alike = [{"id": one.uid, "similarity": round(one.similarity, 4), "why": one.why} for one in saved.alike]
    return {**memory_facts(saved.memory), "outcome": saved.outcome, "alike": alike}
