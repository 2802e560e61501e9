"""A saved memory: what it holds, and the record under which it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from harken.model.conversations import ProjectIdentity, SavedRecord, Trust
from harken.model.provenance import Provenance
from harken.model.views import MemoryView, format_moment, parse_moment, view_of
from harken.storage.records.rows import MEMORY as SOURCE

# After how many days a memory is worth another look: what was the case changes sooner than what somebody likes.
REVIEW_DAYS: Mapping[str, int | None] = {
    "context": 90,
    "error": 90,
    "workflow": 180,
    "decision": 180,
    "fact": 365,
    "preference": 365,
    "event": None,
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was saved on purpose.

    Attributes:
        importance: 0 to 1; 0.5 is neutral.
        accessed_at: when it was last shown or searched out on this machine.
        supersedes: ids of the memories that it stands in place of.
        superseded_by: the id of the one that stands in its place.
        confirmed_at: when somebody last said that it still holds, if anybody did.
        review_by: from when on it says that it should be looked at again.
        origin: whose it is, where several people's memory is read; None where it is one's own.
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
    confirmed_at: datetime | None = None
    review_by: datetime | None = None
    origin: Provenance | None = None

    @property
    def held_at(self) -> datetime:
        """When it was last known to hold: as it was written, or confirmed."""
        return self.confirmed_at or self.created_at

    @property
    def suggested_review(self) -> datetime | None:
        """When it should be looked at again by its category; None of what does not grow old."""
        days = REVIEW_DAYS[self.category]
        return None if days is None else self.held_at + timedelta(days=days)

    def view(self) -> MemoryView:
        """The memory as JSON."""
        return view_of(
            MemoryView,
            self,
            project=self.project.key if self.project else None,
            untrusted=self.trust.is_untrusted,
            created_at=format_moment(self.created_at),
            updated_at=format_moment(self.updated_at),
            **{
                name: None if (moment := getattr(self, name)) is None else format_moment(moment)
                for name in ("accessed_at", "confirmed_at", "review_by", "suggested_review")
            },
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
        confirmed_at=_moment(fields.get("confirmed_at")),
        review_by=_moment(fields.get("review_by")),
    )


def _moment(text: str | None) -> datetime | None:
    return parse_moment(text) if text else None


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
        "confirmed_at": memory.confirmed_at and format_moment(memory.confirmed_at),
        "review_by": memory.review_by and format_moment(memory.review_by),
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return SavedRecord(SOURCE, memory.uid, memory.updated_at, present, memory.project)
