"""The tables, defined once for both engines.

Keys and indexes are the migrations' matter, since they differ: on PostgreSQL `tenant` leads every one of them,
the embedded store has one tenant. Integer ids are explicit (an implicit rowid moves under REPLACE and VACUUM);
`uid` is what journals, exports and people know a record by.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    and_,
)
from sqlalchemy.types import TypeEngine

from harken.storage.columns import Halves, Instant, Json, Usd

metadata = MetaData()


def refers(reference: Column[Any], target: Table) -> ColumnElement[bool]:
    """Whether a row's reference is to the target's row; of the same tenant, which a sharded server must be told."""
    return and_(target.c.tenant == reference.table.c.tenant, target.c.id == reference)


def _key() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _uid() -> Column[str]:
    return Column("uid", Text, nullable=False)


def _tenant() -> Column[str]:
    return Column("tenant", Text, nullable=False, server_default="local")


def _reference(name: str, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _moment(name: str, nullable: bool = False) -> Column[datetime]:
    kind: TypeEngine[datetime] = Instant()
    return Column(name, kind, nullable=nullable)


def _position() -> Column[int]:
    """A message's place in its conversation; its entry's likewise, and 0 of entries that are no messages'."""
    return Column("position", BigInteger, nullable=False, server_default="0")


projects = Table(
    "projects",
    metadata,
    _key(),
    _tenant(),
    Column("key", Text, nullable=False),
    Column("name", Text, nullable=False),
)

project_aliases = Table(
    "project_aliases",
    metadata,
    _key(),
    _tenant(),
    Column("alias", Text, nullable=False),
    _reference("project_id"),
)

conversations = Table(
    "conversations",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("channel", Text, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    _reference("project_id", nullable=True),
    Column("parent_uid", Text),
    _moment("created_at"),
    _moment("updated_at"),
    Column("metadata", Json),
)

segments = Table(
    "segments",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    Column("number", Integer, nullable=False),
    _moment("started_at"),
)

exchanges = Table(
    "exchanges",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    _reference("segment_id"),
    Column("number", Integer, nullable=False),
    Column("status", Text, nullable=False),
    _moment("started_at"),
    _moment("completed_at", nullable=True),
    Column("error", Text),
)

messages = Table(
    "messages",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    _reference("segment_id"),
    _reference("exchange_id"),
    Column("role", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("author", Text),
    Column("trust", Text, nullable=False),
    Column("call_id", Text),
    Column("tool_name", Text),
    Column("external_id", Text, nullable=False),
    _moment("created_at"),
    Column("text", Text, nullable=False),
    Column("metadata", Json),
    _position(),
)

entries = Table(
    "entries",
    metadata,
    _key(),
    _tenant(),
    Column("source", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("ref_uid", Text, nullable=False),
    _reference("conversation_id", nullable=True),
    _reference("segment_id", nullable=True),
    _reference("exchange_id", nullable=True),
    _reference("project_id", nullable=True),
    Column("role", Text),
    Column("author", Text),
    Column("trust", Text, nullable=False),
    _moment("created_at"),
    Column("text", Text, nullable=False),
    Column("weight", Float, nullable=False),
    Column("is_turn", Boolean, nullable=False),
    # 0 waits for a vector, NULL never gets one, else the space of the newest vector.
    Column("space_id", BigInteger, nullable=True),
    _position(),
    sqlite_autoincrement=True,
)

# Words `name:value` that a search can be limited by.
entry_facets = Table(
    "entry_facets",
    metadata,
    _key(),
    _tenant(),
    _reference("entry_id"),
    Column("facet", Text, nullable=False),
)

spaces = Table(
    "spaces",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("threshold", Float, nullable=False),
    Column("spec", Json),
    # `active` answers queries; `filling` is being embedded and takes over when it is complete.
    Column("state", Text, nullable=False),
)

vectors = Table(
    "vectors",
    metadata,
    _key(),
    _tenant(),
    _reference("entry_id"),
    _reference("space_id"),
    Column("vector", Halves, nullable=False),
    sqlite_autoincrement=True,
)

work = Table(
    "work",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    _reference("item_id"),
    Column("claimed_by", Text),
    _moment("lease_until", nullable=True),
    Column("attempts", Integer, nullable=False),
    _moment("retry_at", nullable=True),
)

failed_work = Table(
    "failed_work",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    _reference("item_id"),
    Column("attempts", Integer, nullable=False),
    Column("error_class", Text, nullable=False),
    _moment("failed_at"),
)

settings = Table(
    "settings",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("value", BigInteger, nullable=False),
)

tombstones = Table(
    "tombstones",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("conversation_uid", Text, nullable=False),
    Column("kind", Text, nullable=False),
    _moment("at"),
)

import_state = Table(
    "import_state",
    metadata,
    _key(),
    _tenant(),
    Column("format", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("unreadable", Integer, nullable=False),
    _moment("imported_at"),
)

journal_files = Table(
    "journal_files",
    metadata,
    _key(),
    _tenant(),
    Column("path", Text, nullable=False),
    Column("applied", BigInteger, nullable=False),
)

spend = Table(
    "spend",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("day", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("item_uid", Text, nullable=False),
    Column("model", Text, nullable=False),
    # `open` until the answer is here; `lost` where it never came and may have been charged.
    Column("state", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("estimate_usd", Usd),
    Column("price_usd", Usd),
    _moment("started_at"),
    _moment("ended_at", nullable=True),
)

summaries = Table(
    "summaries",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    Column("item_uid", Text, nullable=False),
    Column("conversation_uid", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("model", Text, nullable=False),
    # What was said until then is in it; what comes later makes it outlived.
    _moment("covers"),
    _moment("created_at"),
)

core_memory = Table(
    "core_memory",
    metadata,
    _key(),
    _tenant(),
    Column("section", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    _moment("updated_at"),
)

# What a segment's rolling summary says, and how far its messages have left the window.
segment_summaries = Table(
    "segment_summaries",
    metadata,
    _key(),
    _tenant(),
    _reference("segment_id"),
    # Messages before this place have left the window; both are 0 until the first has.
    Column("left_position", BigInteger, nullable=False),
    _reference("left_id"),
    Column("text", Text, nullable=False),
    Column("model", Text),
    _moment("updated_at"),
)

summarized_messages = Table(
    "summarized_messages",
    metadata,
    _key(),
    _tenant(),
    _reference("segment_id"),
    _reference("message_id"),
)

# How past conversations were looked for: never what for.
retrievals = Table(
    "retrievals",
    metadata,
    _key(),
    _tenant(),
    Column("query_hash", Text, nullable=False),
    Column("conversations", Integer, nullable=False),
    Column("exchanges", Integer, nullable=False),
    Column("best_conversation", Float),
    Column("best_exchange", Float),
    Column("duration_microseconds", BigInteger, nullable=False),
    Column("error_class", Text),
    _moment("at"),
)

# What hooks gave to conversations: ids, never words.
injections = Table(
    "injections",
    metadata,
    _key(),
    _tenant(),
    Column("conversation_uid", Text, nullable=False),
    Column("ref_uid", Text, nullable=False),
    _moment("at"),
)
