"""Entries of records beside conversations: memories, experiences, values, code, commits, documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_

from harken.model import NewEntry, Trust
from harken.storage.batches import batches
from harken.storage.entries import add_entries
from harken.storage.removing import remove_entries
from harken.storage.store import Transaction
from harken.storage.tables import entries


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What all entries of a record share.

    Attributes:
        source: `memory`, `experience`, `value`, `code`, `commit` or `document`.
        uid: the record's id, unique among all sources.
        project_id: the row of its project.
    """

    source: str
    uid: str
    created_at: datetime
    project_id: int | None = None
    trust: Trust = Trust.AGENT


def add_record_entries(tx: Transaction, records: Sequence[tuple[RecordHead, Sequence[NewEntry]]]) -> None:
    """Have search see records; none of them may have entries yet. Blank texts make none."""
    placed = [(head, new) for head, made in records for new in made if new.text.strip()]
    rows = [_row(head, new) for head, new in placed]
    add_entries(tx, rows, facets=[new.facets for _, new in placed])


def drop_record_entries(tx: Transaction, source: str, uids: Sequence[str]) -> None:
    """Have search no longer see records; those that have no entries are no error."""
    for batch in batches(uids):
        remove_entries(tx, and_(entries.c.source == source, entries.c.ref_uid.in_(batch)))


def _row(head: RecordHead, new: NewEntry) -> dict[str, Any]:
    return {
        "source": head.source,
        "part": new.part,
        "ref_uid": head.uid,
        "conversation_id": None,
        "segment_id": None,
        "exchange_id": None,
        "project_id": head.project_id,
        "role": None,
        "author": None,
        "trust": head.trust.value,
        "created_at": head.created_at,
        "text": new.text,
        "weight": new.weight,
        "is_turn": False,
        "space_id": 0 if new.is_embedded else None,
        "position": 0,
    }
