"""Lists of memories and experiences, by what their tables say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_

from harken.model.conversations import SavedRecord
from harken.model.experiences import EXPERIENCE
from harken.storage.conversations import project_in
from harken.storage.ports import Transaction, rows_by
from harken.storage.records.rows import KEPT, MEMORY
from harken.storage.tables import entries, experiences, memories, projects, refers, same


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory that nothing supersedes.

    Attributes:
        entry_id: of its entry, by which it is compared by meaning.
    """

    uid: str
    content: str
    entry_id: int


def standing_memories(tx: Transaction, category: str, project_id: int | None) -> list[MemoryStanding]:
    """Every memory of a category and a project, or of none, that nothing supersedes."""
    of_memory = and_(same(memories.c.uid, entries.c.ref_uid), entries.c.source == MEMORY)
    rows = tx.connection.execute(
        tx.select(memories.c.uid, memories.c.content, entries.c.id)
        .select_from(memories.join(entries, of_memory))
        .where(memories.c.category == category, memories.c.project_id.is_not_distinct_from(project_id))
        .order_by(memories.c.id)
    )
    return [MemoryStanding(*row) for row in rows]


def list_memories(
    tx: Transaction, category: str | None, project_id: int | None, with_superseded: bool
) -> list[tuple[str, Sequence[str]]]:
    """(id, tags) of every memory, newest first; `project_id` None is every project."""
    statement = tx.select(memories.c.uid, memories.c.tags)
    if category is not None:
        statement = statement.where(memories.c.category == category)
    if project_id is not None:
        statement = statement.where(memories.c.project_id == project_id)
    if not with_superseded:
        statement = statement.where(memories.c.superseded_by.is_(None))
    rows = tx.connection.execute(statement.order_by(memories.c.created_at.desc(), memories.c.id.desc()))
    return [(row.uid, row.tags) for row in rows]


def accessed_times(tx: Transaction, uids: Sequence[str]) -> dict[str, datetime]:
    """When each memory was last looked at, of those that were."""
    rows = rows_by(tx, memories.c.uid, uids, memories.c.uid, memories.c.accessed_at)
    return {row.uid: row.accessed_at for row in rows if row.accessed_at is not None}


def list_experiences(
    tx: Transaction,
    limit: int,
    *,
    domain: str | None = None,
    status: str | None = None,
    since: datetime | None = None,
    project: str | None = None,
    project_id: int | None = None,
    agent: str | None = None,
) -> list[SavedRecord]:
    """Experiences, the newest first; None takes all, an empty key those without a project."""
    wanted = {"domain": domain, "status": status, "agent": agent, "project_id": project_id}
    conditions: list[ColumnElement[bool]] = [
        experiences.c[name] == value for name, value in wanted.items() if value is not None
    ]
    if since is not None:
        conditions.append(experiences.c.created_at >= since)
    if project is not None:
        conditions.append(projects.c.key == project if project else experiences.c.project_id.is_(None))
    rows = tx.connection.execute(
        tx.select(experiences, projects.c.key, projects.c.name)
        .outerjoin(projects, refers(experiences.c.project_id, projects))
        .where(*conditions)
        .order_by(experiences.c.created_at.desc(), experiences.c.uid.desc())
        .limit(limit)
    )
    fields_of = KEPT[EXPERIENCE].fields
    return [SavedRecord(EXPERIENCE, row.uid, row.updated_at, fields_of(row), project_in(row)) for row in rows]


def experience_spans(tx: Transaction) -> list[tuple[str, datetime, datetime]]:
    """(project, begun, ended) of every experience; those without a project have an empty one."""
    rows = tx.connection.execute(
        tx.select(experiences.c.status, experiences.c.created_at, experiences.c.updated_at, projects.c.key).outerjoin(
            projects, refers(experiences.c.project_id, projects)
        )
    )
    still = datetime.max.replace(tzinfo=UTC)
    return [(row.key or "", row.created_at, still if row.status == "active" else row.updated_at) for row in rows]
