"""Experiences and values as rows, and what search sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Column, ColumnElement, Float, Integer, Text, select

from harken.model.conversations import NewEntry, ProjectIdentity, SavedRecord
from harken.model.experience_texts import experience_entries, value_entries
from harken.model.experiences import EXPERIENCE, VALUE, read_experience, read_value
from harken.storage.columns import Instant, Json, Listed
from harken.storage.ports import Transaction
from harken.storage.records.table import KeptTable, kept_table
from harken.storage.tables import projects, refers

experiences = kept_table(
    "experiences",
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("goal", Text, nullable=False),
    Column("hypothesis", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("prediction", Text, nullable=False),
    Column("attempted_at", Instant, nullable=False),
    Column("history", Listed, nullable=False),
    Column("iteration_count", Integer, nullable=False),
    Column("notes", Listed, nullable=False),
    Column("outcome", Json),
    Column("surprise", Text),
    Column("root_cause", Json),
    Column("lesson", Json),
    Column("tier", Text),
)


def _experience_entries(kept: SavedRecord) -> Sequence[NewEntry]:
    return experience_entries(read_experience(kept))


EXPERIENCES = KeptTable(EXPERIENCE, experiences, _experience_entries)


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
    conditions: list[ColumnElement[bool]] = [experiences.c.tenant == tx.tenant]
    wanted = {"domain": domain, "status": status, "agent": agent}
    conditions += [experiences.c[name] == value for name, value in wanted.items() if value is not None]
    if since is not None:
        conditions.append(experiences.c.created_at >= since)
    if project_id is not None:
        conditions.append(experiences.c.project_id == project_id)
    if project is not None:
        conditions.append(projects.c.key == project if project else experiences.c.project_id.is_(None))
    rows = tx.connection.execute(
        select(experiences, projects.c.key, projects.c.name)
        .outerjoin(projects, refers(experiences.c.project_id, projects))
        .where(*conditions)
        .order_by(experiences.c.created_at.desc(), experiences.c.uid.desc())
        .limit(limit)
    )
    return [
        SavedRecord(
            EXPERIENCE,
            row.uid,
            row.updated_at,
            EXPERIENCES.fields(row),
            None if row.key is None else ProjectIdentity(row.key, row.name),
        )
        for row in rows
    ]


def experience_spans(tx: Transaction) -> list[tuple[str, datetime, datetime]]:
    """(project, begun, ended) of every experience; those without a project have an empty one."""
    rows = tx.connection.execute(
        select(experiences.c.status, experiences.c.created_at, experiences.c.updated_at, projects.c.key)
        .outerjoin(projects, refers(experiences.c.project_id, projects))
        .where(experiences.c.tenant == tx.tenant)
    )
    still = datetime.max.replace(tzinfo=UTC)
    return [(row.key or "", row.created_at, still if row.status == "active" else row.updated_at) for row in rows]


learned_values = kept_table(
    "learned_values",
    Column("text", Text, nullable=False),
    Column("axis", Text, nullable=False),
    Column("cluster_id", Text, nullable=False),
    Column("cluster_size", Integer, nullable=False),
    Column("similarity_to_centroid", Float, nullable=False),
    Column("distance", Float, nullable=False),
    Column("distance_limit", Float, nullable=False),
    Column("space", Text, nullable=False),
    Column("members", Listed, nullable=False),
    Column("domains", Listed, nullable=False),
    Column("strategies", Listed, nullable=False),
)


def _value_entries(kept: SavedRecord) -> Sequence[NewEntry]:
    return value_entries(read_value(kept))


VALUES = KeptTable(VALUE, learned_values, _value_entries)
