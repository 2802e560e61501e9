"""The tables, defined once for both engines, and the way between their rows and records.

Keys and indexes are the migrations' matter, since they differ: on PostgreSQL `tenant` leads every one of them,
the embedded store has one tenant. Integer ids are explicit (an implicit rowid moves under REPLACE and VACUUM);
`uid` is what journals, exports and people know a record by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    and_,
)
from sqlalchemy.types import TypeEngine

from harken.storage.columns import Halves, Instant, Json, Listed, Usd

metadata = MetaData()
_Record = TypeVar("_Record")


def refers(reference: ColumnElement[Any], target: Table) -> ColumnElement[bool]:
    """Whether a row's reference is to the target's row; of the same tenant, which a sharded server must be told."""
    return same(reference, target.c.id)


def same(one: Any, other: Any) -> ColumnElement[bool]:
    """Whether columns of two tables are equal in rows of one tenant."""
    return and_(other.table.c.tenant == one.table.c.tenant, other == one)


def reader(
    record: type[_Record], besides: Collection[str] = (), /, **converted: Callable[[Any], Any]
) -> Callable[..., _Record]:
    """Make the function that turns a row into a record, once for a class.

    Args:
        record: a dataclass; the row has a column for each of its fields, by name.
        besides: fields that the row does not have and the caller gives, by name.
        **converted: what turns a column's value into the field's, where they differ.
    """
    names = [field.name for field in fields(record) if field.name not in besides]  # type: ignore[arg-type]
    values_of = attrgetter(*names)

    def read(row: Row[Any], **others: Any) -> _Record:
        values = dict(zip(names, values_of(row), strict=True))
        for name, convert in converted.items():
            values[name] = convert(values[name])
        return record(**values, **others)

    return read


def writer(record: type[_Record], table: Table) -> Callable[[_Record], dict[str, Any]]:
    """Make the function that gives those columns of a row that are fields of a record, once for a class."""
    names = [field.name for field in fields(record) if field.name in table.c]  # type: ignore[arg-type]
    values_of = attrgetter(*names)

    def write(one: _Record) -> dict[str, Any]:
        values = zip(names, values_of(one), strict=True)
        return {name: value.value if isinstance(value, Enum) else value for name, value in values}

    return write


def table(name: str, *own: Column[Any], autoincrement: bool = False) -> Table:
    """A table with the columns that every one has before its own."""
    key = Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    tenant = Column("tenant", Text, nullable=False, server_default="local")
    return Table(name, metadata, key, tenant, *own, sqlite_autoincrement=autoincrement)


def columns(kind: type[TypeEngine[Any]], *names: str, nullable: bool = False) -> list[Column[Any]]:
    """Columns of one type."""
    return [Column(name, kind, nullable=nullable) for name in names]


def saved_table(name: str, *own: Column[Any]) -> Table:
    """A table of saved records, with the columns that all of them have before their own."""
    return table(
        name,
        *columns(Text, "uid"),
        *columns(BigInteger, "project_id", nullable=True),
        *columns(Text, "trust"),
        *columns(Instant, "created_at", "updated_at"),
        *own,
    )


def _position() -> Column[int]:
    """A message's place in its conversation; its entry's likewise, and 0 of entries that are no messages'."""
    return Column("position", BigInteger, nullable=False, server_default="0")


projects = table("projects", *columns(Text, "key", "name"))
project_aliases = table("project_aliases", *columns(Text, "alias"), *columns(BigInteger, "project_id"))

conversations = table(
    "conversations",
    *columns(Text, "uid", "channel", "external_id", "title"),
    *columns(BigInteger, "project_id", nullable=True),
    *columns(Text, "parent_uid", nullable=True),
    *columns(Instant, "created_at", "updated_at"),
    *columns(Json, "metadata", nullable=True),
)

segments = table(
    "segments",
    *columns(Text, "uid"),
    *columns(BigInteger, "conversation_id"),
    *columns(Integer, "number"),
    *columns(Instant, "started_at"),
)

exchanges = table(
    "exchanges",
    *columns(Text, "uid"),
    *columns(BigInteger, "conversation_id", "segment_id"),
    *columns(Integer, "number"),
    *columns(Text, "status"),
    *columns(Instant, "started_at"),
    *columns(Instant, "completed_at", nullable=True),
    *columns(Text, "error", nullable=True),
)

messages = table(
    "messages",
    *columns(Text, "uid"),
    *columns(BigInteger, "conversation_id", "segment_id", "exchange_id"),
    *columns(Text, "role", "type"),
    *columns(Text, "author", nullable=True),
    *columns(Text, "trust"),
    *columns(Text, "call_id", "tool_name", nullable=True),
    *columns(Text, "external_id"),
    *columns(Instant, "created_at"),
    *columns(Text, "text"),
    *columns(Json, "metadata", nullable=True),
    _position(),
)

entries = table(
    "entries",
    *columns(Text, "source", "part", "ref_uid"),
    *columns(BigInteger, "conversation_id", "segment_id", "exchange_id", "project_id", nullable=True),
    *columns(Text, "role", "author", nullable=True),
    *columns(Text, "trust"),
    *columns(Instant, "created_at"),
    *columns(Text, "text"),
    *columns(Float, "weight"),
    *columns(Boolean, "is_turn"),
    # 0 waits for a vector, NULL never gets one, else the space of the newest vector.
    *columns(BigInteger, "space_id", nullable=True),
    _position(),
    autoincrement=True,
)

# Words `name:value` that a search can be limited by.
entry_facets = table("entry_facets", *columns(BigInteger, "entry_id"), *columns(Text, "facet"))

spaces = table(
    "spaces",
    *columns(Text, "name"),
    *columns(Integer, "dims"),
    *columns(Float, "threshold"),
    *columns(Json, "spec", nullable=True),
    # `active` answers queries; `filling` is being embedded and takes over when it is complete.
    *columns(Text, "state"),
)

vectors = table("vectors", *columns(BigInteger, "entry_id", "space_id"), *columns(Halves, "vector"), autoincrement=True)

work = table(
    "work",
    *columns(Text, "kind"),
    *columns(BigInteger, "item_id"),
    *columns(Text, "claimed_by", nullable=True),
    *columns(Instant, "lease_until", nullable=True),
    *columns(Integer, "attempts"),
    *columns(Instant, "retry_at", nullable=True),
)

failed_work = table(
    "failed_work",
    *columns(Text, "kind"),
    *columns(BigInteger, "item_id"),
    *columns(Integer, "attempts"),
    *columns(Text, "error_class"),
    *columns(Instant, "failed_at"),
)

settings = table("settings", *columns(Text, "name", "value"))
counters = table("counters", *columns(Text, "name"), *columns(BigInteger, "value"))
tombstones = table("tombstones", *columns(Text, "uid", "conversation_uid", "kind"), *columns(Instant, "at"))

import_state = table(
    "import_state",
    *columns(Text, "format", "path"),
    *columns(BigInteger, "size", "modified", "offset"),
    *columns(Text, "fingerprint"),
    *columns(Integer, "unreadable"),
    *columns(Instant, "imported_at"),
)

journal_files = table("journal_files", *columns(Text, "path"), *columns(BigInteger, "applied"))

spend = table(
    "spend",
    *columns(Text, "uid", "day", "kind", "item_uid", "model"),
    # `open` until the answer is here; `lost` where it never came and may have been charged.
    *columns(Text, "state"),
    *columns(BigInteger, "input_tokens", "output_tokens", "cached_tokens"),
    *columns(Usd, "estimate_usd", "price_usd", nullable=True),
    *columns(Instant, "started_at"),
    *columns(Instant, "ended_at", nullable=True),
)

summaries = table(
    "summaries",
    *columns(Text, "kind", "item_uid", "conversation_uid", "text", "title", "model"),
    # What was said until then is in it; what comes later makes it stale.
    *columns(Instant, "covers", "created_at"),
)

core_memory = table("core_memory", *columns(Text, "section", "key", "value"), *columns(Instant, "updated_at"))

# What a segment's rolling summary says, and how far its messages have left the window.
segment_summaries = table(
    "segment_summaries",
    # Messages before this place have left the window; both are 0 until the first has.
    *columns(BigInteger, "segment_id", "left_position", "left_id"),
    *columns(Text, "text"),
    *columns(Text, "model", nullable=True),
    *columns(Instant, "updated_at"),
)

summarized_messages = table("summarized_messages", *columns(BigInteger, "segment_id", "message_id"))

# How past conversations were looked for: never what for.
retrievals = table(
    "retrievals",
    *columns(Text, "query_hash"),
    *columns(Integer, "conversations", "exchanges"),
    *columns(Float, "best_conversation", "best_exchange", nullable=True),
    *columns(BigInteger, "duration_microseconds"),
    *columns(Text, "error_class", nullable=True),
    *columns(Instant, "at"),
)

# What hooks gave to conversations: ids, never words.
injections = table("injections", *columns(Text, "conversation_uid", "ref_uid"), *columns(Instant, "at"))

memories = saved_table(
    "memories",
    *columns(Text, "content", "category"),
    *columns(Float, "importance"),
    *columns(Listed, "tags", "supersedes"),
    *columns(Text, "superseded_by", nullable=True),
    *columns(Instant, "accessed_at", nullable=True),
)

experiences = saved_table(
    "experiences",
    *columns(Text, "agent", "session", "status", "domain", "strategy", "goal", "hypothesis", "action", "prediction"),
    *columns(Instant, "attempted_at"),
    *columns(Listed, "history"),
    *columns(Integer, "iteration_count"),
    *columns(Listed, "notes"),
    *columns(Json, "outcome", nullable=True),
    *columns(Text, "surprise", nullable=True),
    *columns(Json, "root_cause", "lesson", nullable=True),
    *columns(Text, "tier", nullable=True),
)

learned_values = saved_table(
    "learned_values",
    *columns(Text, "text", "axis", "cluster_id"),
    *columns(Integer, "cluster_size"),
    *columns(Float, "similarity_to_centroid", "distance", "distance_limit"),
    *columns(Text, "space"),
    *columns(Listed, "members", "domains", "strategies"),
)

# Clusters of experiences: derived, but kept, since values refer to them by id.
clusters = table(
    "clusters",
    *columns(Text, "uid", "axis", "space"),
    *columns(LargeBinary, "centroid"),
    *columns(Float, "mean_distance", "deviation"),
    *columns(Instant, "created_at", "updated_at"),
    # Since when no cluster is found in its place; values may still refer to it.
    *columns(Instant, "retired_at", nullable=True),
)

cluster_members = table("cluster_members", *columns(Text, "cluster_uid", "experience_uid"), *columns(Float, "distance"))

# Tests and builds that were seen to run.
checks = table(
    "checks",
    *columns(Text, "result_uid", "call_uid"),
    # NULL where the command checks nothing, or has not told how it went.
    *columns(Text, "outcome", nullable=True),
    *columns(Instant, "at"),
)

# How each indexed file stood when it was last looked at. What follows can be made again from what lies on the disk.
indexed_files = table(
    "indexed_files",
    *columns(Text, "source"),
    *columns(BigInteger, "project_id"),
    *columns(Text, "path"),
    *columns(BigInteger, "size", "modified"),
    *columns(Text, "digest", "skipped"),
)

code_units = table(
    "code_units",
    *columns(Text, "uid"),
    *columns(BigInteger, "project_id"),
    *columns(Text, "path", "digest", "unit_type", "name", "qualified_name", "language", "signature", "docstring"),
    *columns(Integer, "start_line", "end_line"),
)

passages = table(
    "passages",
    *columns(Text, "uid"),
    *columns(BigInteger, "project_id"),
    *columns(Text, "path", "digest"),
    *columns(Integer, "number"),
    *columns(Listed, "headings"),
    *columns(Text, "text"),
    *columns(Integer, "start_line", "end_line"),
)

commits = table(
    "commits",
    *columns(Text, "uid"),
    *columns(BigInteger, "project_id"),
    *columns(Text, "sha", "author", "email"),
    *columns(Instant, "authored_at", "committed_at"),
    *columns(Text, "message"),
    *columns(BigInteger, "insertions", "deletions"),
)

commit_files = table(
    "commit_files",
    *columns(BigInteger, "commit_id", "project_id"),
    *columns(Integer, "number"),
    *columns(Text, "path"),
    *columns(Text, "old_path", nullable=True),
    *columns(BigInteger, "insertions", "deletions"),
)

# How far each project's history was read, and in which bounds.
histories = table(
    "histories",
    *columns(BigInteger, "project_id"),
    *columns(Text, "head"),
    *columns(Instant, "since"),
    *columns(Integer, "most_commits"),
)
