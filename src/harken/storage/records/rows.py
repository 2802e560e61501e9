"""Saved records: what each source keeps, the way between a record's fields, its row and its entries, and lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from itertools import starmap
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Row, Select, Table, and_, bindparam, func, select
from sqlalchemy.types import Float, Integer

from harken.errors import NotFoundError
from harken.model.conversations import KEPT_FOLDERS, NewEntry, ProjectIdentity, SavedRecord, Trust
from harken.model.experience_texts import experience_entries, value_entries
from harken.model.experiences import EXPERIENCE, VALUE, read_experience, read_value
from harken.model.views import format_moment, parse_moment
from harken.storage.conversations import find_tombstones, project_in
from harken.storage.entries import RecordHead, add_record_entries, drop_record_entries, remove_entries
from harken.storage.ports import AMONG, Dialect, Question, Transaction, batches, named_rows, rows_by
from harken.storage.projects import ensure_project, project_identity
from harken.storage.records.marks import ratings_of, weigh_anew
from harken.storage.statements import begins
from harken.storage.tables import (
    Instant,
    Json,
    Listed,
    entries,
    experiences,
    learned_values,
    memories,
    projects,
    refers,
    same,
    to_microseconds,
    tombstones,
    topics,
)

MEMORY, TOPIC = "memory", "topic"
# Of the event itself; all other columns are fields of the record.
_OF_THE_EVENT = frozenset({"id", "tenant", "uid", "project_id", "updated_at"})
_NESTED = frozenset({"history", "notes", "members"})
_MOST = 2**63
# A memory of the middle importance weighs as much as anything else, the extremes a fifth less and more: enough to
# order what is equally alike, too little to bring up what was not asked for.
_WEIGHT_SPAN = 0.4


@dataclass(frozen=True, slots=True)
class SavedSource:
    """The table and the entries of the records of one source.

    Attributes:
        entries: what search sees of a record; nothing where it is not to be found.
        local: columns that this database alone knows and no journal has; they must be nullable.
    """

    table: Table
    entries: Callable[[SavedRecord], Sequence[NewEntry]]
    local: frozenset[str] = frozenset()

    def row(self, kept: SavedRecord) -> dict[str, Any]:
        """The record's columns, without those of the event.

        Raises:
            ValueError: a field is missing, or of another kind.
        """
        fields = kept.fields or {}
        columns = _columns(self.table, self.local)
        row = {column.name: _column_value(column, fields.get(column.name)) for column in columns}
        Trust(row["trust"])
        return row

    def fields(self, row: Row[Any]) -> dict[str, Any]:
        """The record that a row holds; what it has no value for is left out."""
        values = {column.name: row._mapping[column.name] for column in _columns(self.table, self.local)}
        return {
            name: format_moment(value) if isinstance(value, datetime) else value
            for name, value in values.items()
            if value is not None
        }


@cache
def _columns(table: Table, local: frozenset[str]) -> tuple[Column[Any], ...]:
    return tuple(column for column in table.columns if column.name not in _OF_THE_EVENT | local)


def _column_value(column: Column[Any], value: Any) -> Any:
    if value is None:
        if not column.nullable:
            raise ValueError(f"{column.name} is missing")
        return None
    if isinstance(column.type, Instant):
        return parse_moment(value)
    if not _fits(column, value):
        raise ValueError(f"{column.name} is of another kind")
    return value


def _fits(column: Column[Any], value: Any) -> bool:
    kind = column.type
    if isinstance(kind, Json):
        return isinstance(value, Mapping)
    if isinstance(kind, Listed):
        return isinstance(value, list | tuple) and (column.name in _NESTED or all(isinstance(x, str) for x in value))
    if isinstance(kind, BigInteger | Integer):
        return isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST
    if isinstance(kind, Float):
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind.python_type)


def _memory_entries(kept: SavedRecord) -> Sequence[NewEntry]:
    fields = kept.fields or {}
    if fields.get("superseded_by"):
        return []
    facets = (f"category:{fields['category']}", *(f"tag:{tag}" for tag in fields["tags"]))
    return [NewEntry("", fields["content"], facets, 1.0 + _WEIGHT_SPAN * (fields["importance"] - 0.5))]


KEPT: dict[str, SavedSource] = {
    MEMORY: SavedSource(memories, _memory_entries, local=frozenset({"accessed_at"})),
    EXPERIENCE: SavedSource(experiences, lambda kept: experience_entries(read_experience(kept))),
    VALUE: SavedSource(learned_values, lambda kept: value_entries(read_value(kept))),
    TOPIC: SavedSource(topics, lambda _kept: []),
}
SOURCE_OF_FOLDER = {KEPT_FOLDERS[source]: source for source in KEPT}


_SHORTEST_BEGINNING = 4


class KeptChange(Enum):
    """What `apply_kept` did to a record that is there afterwards."""

    NEW = "new"
    CHANGED = "changed"


def apply_kept(tx: Transaction, kept: SavedRecord) -> KeptChange | None:
    """Bring a record to this state, unless it was forgotten or is in a later one; without fields, forget it.

    None where it is not there afterwards, or was in this state before.
    """
    if kept.fields is None:
        forget_kept(tx, kept)
        return None
    source = KEPT[kept.source]
    table = source.table
    present = tx.connection.execute(tx.select(table).where(table.c.uid == kept.uid)).first()
    if (present is not None and present.updated_at > kept.at) or find_tombstones(tx, [kept.uid]):
        return None
    project_id = None if kept.project is None else ensure_project(tx, kept.project)
    row = {"project_id": project_id, "updated_at": kept.at, **source.row(kept)}
    if present is None:
        tx.insert(table, [{"uid": kept.uid, **row}])
    elif all(present._mapping[name] == value for name, value in row.items()):
        return None
    else:
        tx.update(table, table.c.uid == kept.uid, **row)
    change = KeptChange.NEW if present is None else KeptChange.CHANGED
    seen = source.entries(kept)
    if present is not None:
        shared = ("project_id", "trust", "created_at")
        before = source.entries(replace(kept, fields=source.fields(present)))
        if before == seen and all(present._mapping[name] == row[name] for name in shared):
            # Made anew they would wait for their vectors.
            return change
    if present is not None:
        drop_record_entries(tx, kept.source, [kept.uid])
    head = RecordHead(kept.source, kept.uid, row["created_at"], project_id, Trust(row["trust"]))
    add_record_entries(tx, [(head, seen)])
    weigh_anew(tx, ratings_of(tx, [kept.uid]))
    return change


def forget_kept(tx: Transaction, kept: SavedRecord) -> None:
    """Remove every row of a record and leave its tombstone."""
    table = KEPT[kept.source].table
    drop_record_entries(tx, kept.source, [kept.uid])
    tx.delete(table, table.c.uid == kept.uid)
    tombstone = {"uid": kept.uid, "conversation_uid": kept.conversation_uid, "kind": kept.source, "at": kept.at}
    tx.connection.execute(tx.dialect.upsert(tombstones, {"tenant": tx.tenant, **tombstone}, ("uid",)))


def each_kept(tx: Transaction, source: str) -> Iterator[SavedRecord]:
    """Every record of a source, oldest first."""
    rows = tx.connection.execute(tx.select(KEPT[source].table)).all()
    known: dict[int, ProjectIdentity] = {}
    for row in sorted(rows, key=lambda row: (row.created_at, row.uid)):
        yield _kept_of(tx, source, row, known)


def find_kept(tx: Transaction, source: str, uids: Sequence[str]) -> dict[str, SavedRecord]:
    """Records by id; ids that name nothing are left out."""
    known: dict[int, ProjectIdentity] = {}
    return {row.uid: _kept_of(tx, source, row, known) for row in rows_by(tx, KEPT[source].table.c.uid, uids)}


def kept_times(tx: Transaction, source: str, uids: Sequence[str]) -> dict[str, datetime]:
    """The time of each record's last change, by id."""
    table = KEPT[source].table
    return {row.uid: row.updated_at for row in rows_by(tx, table.c.uid, uids, table.c.uid, table.c.updated_at)}


def has_kept(tx: Transaction, source: str) -> bool:
    """True where there is any record of a source."""
    return tx.connection.execute(tx.select(KEPT[source].table.c.id).limit(1)).first() is not None


def kept_uid(tx: Transaction, source: str, beginning: str) -> str:
    """The id of the one record whose id begins like this.

    Raises:
        NotFoundError: none does, or several do.
    """
    uid = KEPT[source].table.c.uid
    statement = tx.select(uid).where(begins(uid, beginning, tx.dialect.is_remote)).order_by(uid).limit(3)
    found = tx.connection.scalars(statement).all() if len(beginning) >= _SHORTEST_BEGINNING else []
    if len(found) == 1 or beginning in found:
        return beginning if beginning in found else found[0]
    what = f"There is no {source} {beginning}" if not found else f"Several ids of {source} begin with {beginning}"
    command = {"value": "values list", TOPIC: "topics"}.get(source, f"{source} list")
    raise NotFoundError(f"{what}. Ids are printed by: harken {command}")


def kept_before(tx: Transaction, source: str, moment: datetime) -> list[str]:
    """The ids of the records of a source that were not changed since a moment."""
    kept = KEPT[source].table
    return list(tx.connection.scalars(tx.select(kept.c.uid).where(kept.c.updated_at < moment)))


def _kept_of(tx: Transaction, source: str, row: Row[Any], known: dict[int, ProjectIdentity]) -> SavedRecord:
    """The record that a whole row of its source's table holds; `known` gains the project that it needs."""
    if row.project_id is not None and row.project_id not in known:
        known[row.project_id] = project_identity(tx, row.project_id)
    return SavedRecord(source, row.uid, row.updated_at, KEPT[source].fields(row), known.get(row.project_id))


def drop_kept(tx: Transaction, source: str) -> None:
    """Remove every record of a source, for a rebuild; tombstones stay."""
    remove_entries(tx, entries.c.source == source)
    tx.delete(KEPT[source].table)


def set_local(tx: Transaction, source: str, uids: Sequence[str], **values: Any) -> None:
    """Set columns that this database alone knows."""
    table = KEPT[source].table
    for batch in batches(uids):
        tx.update(table, table.c.uid.in_(batch), **values)


@dataclass(frozen=True, slots=True)
class MemoryStanding:
    """A memory that nothing supersedes, and its entry, by which it is compared by meaning."""

    uid: str
    content: str
    entry_id: int


def standing_memories(tx: Transaction, category: str, project_id: int | None) -> list[MemoryStanding]:
    """Every memory of a category and a project, or of none, that nothing supersedes."""
    rows = tx.dialect.bare_rows(tx.connection, *standing_question(tx, category, project_id))
    return list(starmap(MemoryStanding, rows))


def standing_question(tx: Transaction, category: str, project_id: int | None) -> Question:
    """What `standing_memories` asks."""
    return _STANDING, {"of_tenant": tx.tenant, "of_category": category, "of_project": project_id}


# Built once: it runs twice with every memory that is saved.
_STANDING = (
    select(memories.c.uid, memories.c.content, entries.c.id)
    .select_from(memories.join(entries, and_(same(memories.c.uid, entries.c.ref_uid), entries.c.source == MEMORY)))
    .where(memories.c.tenant == bindparam("of_tenant"), memories.c.category == bindparam("of_category"))
    .where(memories.c.project_id.is_not_distinct_from(bindparam("of_project")))
    .order_by(memories.c.id)
)


def list_memories(
    tx: Transaction, category: str | None, project_id: int | None, superseded: bool
) -> list[tuple[str, Sequence[str]]]:
    """(id, tags) of every memory that stands, or was superseded, newest first; `project_id` None is every project."""
    wanted = {"category": category, "project_id": project_id}
    conditions = [memories.c[name] == value for name, value in wanted.items() if value is not None]
    stands = memories.c.superseded_by.is_(None)
    conditions.append(~stands if superseded else stands)
    newest = (memories.c.created_at.desc(), memories.c.id.desc())
    rows = tx.connection.execute(tx.select(memories.c.uid, memories.c.tags).where(*conditions).order_by(*newest))
    return [(row.uid, row.tags) for row in rows]


def due_memories(tx: Transaction, at: datetime, uids: Sequence[str] | None = None) -> list[tuple[str, datetime]]:
    """(id, since when it was last known to hold) of memories that are due by a moment: of all, or of some.

    Of some it is the last that a transaction asks which reads.
    """
    named = {"of_tenant": tx.tenant, "by": to_microseconds(at), AMONG: tx.dialect.listing(uids or ())}
    asked = _due(tx.dialect, uids is not None), named
    if uids:
        tx.dialect.end_with(tx.connection, asked)
    return [(row.uid, row.held) for row in named_rows(tx, *asked)]


@cache
def _due(dialect: Dialect, of_some: bool) -> Select[Any]:
    held = func.coalesce(memories.c.confirmed_at, memories.c.created_at, type_=Instant())
    mine = memories.c.tenant == bindparam("of_tenant"), memories.c.superseded_by.is_(None)
    due = select(memories.c.uid, held.label("held")).where(*mine, memories.c.review_by <= bindparam("by"))
    due = due.where(dialect.among(memories.c.uid)) if of_some else due
    return due.order_by(memories.c.review_by, memories.c.uid)


def topics_with(tx: Transaction, conversation_uids: Collection[str]) -> list[str]:
    """The ids of topics that have any of these conversations, whose words may be theirs."""
    rows = tx.connection.execute(tx.select(topics.c.uid, topics.c.name, topics.c.members)) if conversation_uids else ()
    return [
        row.uid for row in rows if row.name and not set(conversation_uids).isdisjoint(each[0] for each in row.members)
    ]


def accessed_times(tx: Transaction, uids: Sequence[str]) -> dict[str, datetime]:
    """The time at which each memory was last looked at, of those that were."""
    rows = rows_by(tx, memories.c.uid, uids, memories.c.uid, memories.c.accessed_at)
    return {row.uid: row.accessed_at for row in rows if row.accessed_at is not None}


def list_experiences(
    tx: Transaction,
    limit: int,
    *,
    domain: str | None = None,
    status: str | None = None,
    since: datetime | None = None,
    project_id: int | None = None,
    agent: str | None = None,
) -> list[SavedRecord]:
    """Experiences, the newest first; None takes all, 0 those without a project."""
    wanted = {"domain": domain, "status": status, "agent": agent, "project_id": project_id or None}
    conditions: list[ColumnElement[bool]] = [
        experiences.c[name] == value for name, value in wanted.items() if value is not None
    ]
    if since is not None:
        conditions.append(experiences.c.created_at >= since)
    if project_id == 0:
        conditions.append(experiences.c.project_id.is_(None))
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
    """(project, begun, ended) of every experience but strangers'; those without a project have an empty one."""
    rows = tx.connection.execute(
        tx.select(experiences.c.status, experiences.c.created_at, experiences.c.updated_at, projects.c.key)
        .outerjoin(projects, refers(experiences.c.project_id, projects))
        .where(experiences.c.trust != Trust.IMPORTED.value)
    )
    still = datetime.max.replace(tzinfo=UTC)
    return [(row.key or "", row.created_at, still if row.status == "active" else row.updated_at) for row in rows]
