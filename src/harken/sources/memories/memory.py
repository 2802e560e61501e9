"""A saved memory: what it holds, its limits, and how a context shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from harken.errors import UsageError
from harken.model.arguments import CATEGORIES, MAX_CONTENT_CHARS, MAX_TAGS
from harken.model.conversations import ContextItem, Hit, NewEntry, ProjectIdentity, SavedRecord, Trust
from harken.model.views import MemoryView, format_moment, parse_moment, view_of
from harken.sources.source import relevance_of
from harken.storage.ports import Transaction
from harken.storage.records.rows import KEPT, find_kept
from harken.storage.records.rows import MEMORY as SOURCE

MAX_TAG_CHARS = 50
DEFAULT_IMPORTANCE = 0.5


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was saved on purpose.

    Attributes:
        importance: 0 to 1; 0.5 is neutral.
        accessed_at: when it was last shown or searched out on this machine.
        supersedes: ids of the memories that it stands in place of.
        superseded_by: the id of the one that stands in its place.
    """

    uid: str
    content: str
    category: str
    importance: float
    tags: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    project: ProjectIdentity | None = None
    trust: Trust = Trust.OWNER
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    accessed_at: datetime | None = None

    def view(self) -> MemoryView:
        """The memory as JSON."""
        return view_of(
            MemoryView,
            self,
            project=self.project.key if self.project else None,
            untrusted=self.trust.is_untrusted,
            created_at=format_moment(self.created_at),
            updated_at=format_moment(self.updated_at),
            accessed_at=None if self.accessed_at is None else format_moment(self.accessed_at),
        )


def memory_of(kept: SavedRecord, accessed_at: datetime | None = None) -> Memory:
    """The memory that a kept record is; one with fields."""
    fields = kept.fields or {}
    return Memory(
        uid=kept.uid,
        content=fields["content"],
        category=fields["category"],
        importance=float(fields["importance"]),
        tags=tuple(fields["tags"]),
        created_at=parse_moment(fields["created_at"]),
        updated_at=kept.at,
        project=kept.project,
        trust=Trust(fields["trust"]),
        supersedes=tuple(fields["supersedes"]),
        superseded_by=fields.get("superseded_by"),
        accessed_at=accessed_at,
    )


def kept_memory(memory: Memory) -> SavedRecord:
    """The record under which a memory is kept."""
    fields = {
        "content": memory.content,
        "category": memory.category,
        "importance": memory.importance,
        "tags": list(memory.tags),
        "supersedes": list(memory.supersedes),
        "superseded_by": memory.superseded_by,
        "trust": memory.trust.value,
        "created_at": format_moment(memory.created_at),
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return SavedRecord(SOURCE, memory.uid, memory.updated_at, present, memory.project)


class MemorySource:
    """A `Source` of saved memories."""

    name = SOURCE

    def entries(self, record: Memory) -> Sequence[NewEntry]:
        """Its content, weighed by its importance; nothing for one that was superseded."""
        return KEPT[SOURCE].entries(kept_memory(record))

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The memories among what was found."""
        mine = [hit for hit in hits if hit.entry.source == SOURCE]
        known = find_kept(tx, SOURCE, [hit.entry.ref_uid for hit in mine])
        return [_item(memory_of(known[hit.entry.ref_uid]), hit) for hit in mine if hit.entry.ref_uid in known]


def _item(memory: Memory, hit: Hit) -> ContextItem:
    content = f"**Memory**: {memory.content}\n*Category: {memory.category}, Importance: {memory.importance:g}*"
    metadata = {
        "id": memory.uid,
        "category": memory.category,
        "importance": memory.importance,
        "created_at": format_moment(memory.created_at),
    }
    return ContextItem(SOURCE, content, relevance_of(hit), metadata)


def checked_content(content: str) -> str:
    """The content without blanks around it.

    Raises:
        UsageError: it is empty or too long.
    """
    text = content.strip()
    if not text:
        raise UsageError("A memory needs words. Nothing was saved.")
    if len(text) > MAX_CONTENT_CHARS:
        raise UsageError(f"A memory has at most {MAX_CONTENT_CHARS:,} characters, not {len(text):,}. Shorten it.")
    return text


def checked_category(category: str) -> str:
    """The category in small letters.

    Raises:
        UsageError: there is no such category.
    """
    small = category.strip().lower()
    if small not in CATEGORIES:
        raise UsageError(f"There is no category '{category}'. Categories: {', '.join(CATEGORIES)}.")
    return small


def checked_importance(importance: float) -> float:
    """The importance.

    Raises:
        UsageError: it is not within 0 and 1.
    """
    if not math.isfinite(importance) or not 0 <= importance <= 1:
        raise UsageError(f"importance must be from 0 to 1, not {importance:g}.")
    return float(importance)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags on one line each, without blanks around them, each once.

    Raises:
        UsageError: there are too many, or one is too long.
    """
    clean = tuple(dict.fromkeys(flat for tag in tags if (flat := " ".join(tag.split()))))
    if len(clean) > MAX_TAGS:
        raise UsageError(f"A memory has at most {MAX_TAGS} tags, not {len(clean)}.")
    longest = max(clean, key=len, default="")
    if len(longest) > MAX_TAG_CHARS:
        raise UsageError(f"A tag has at most {MAX_TAG_CHARS} characters; '{longest[:20]}…' has {len(longest)}.")
    return clean
