"""The first schema: records, entries, vectors, work."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.columns import Halves
from harken.storage.migrations.shapes import add_index, add_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _big(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def upgrade() -> None:
    """Create everything but what only one engine has (its full text, its vector index)."""
    _record_tables()
    _entry_tables()
    _work_tables()
    _state_tables()


def _record_tables() -> None:
    add_table("projects", _text("key"), _text("name"), unique=("key",))
    add_table("project_aliases", _text("alias"), _big("project_id"), unique=("alias",))
    add_table(
        "conversations",
        _text("uid"),
        _text("channel"),
        _text("external_id"),
        _text("title"),
        _big("project_id", nullable=True),
        _text("parent_uid", nullable=True),
        _big("created_at"),
        _big("updated_at"),
        _text("metadata", nullable=True),
        unique=("uid",),
    )
    add_index("ix_conversations_updated", "conversations", "updated_at")
    add_table("segments", _text("uid"), _big("conversation_id"), _small("number"), _big("started_at"), unique=("uid",))
    add_index("ix_segments_conversation", "segments", "conversation_id", "number")
    add_table(
        "exchanges",
        _text("uid"),
        _big("conversation_id"),
        _big("segment_id"),
        _small("number"),
        _text("status"),
        _big("started_at"),
        _big("completed_at", nullable=True),
        _text("error", nullable=True),
        unique=("uid",),
    )
    add_index("ix_exchanges_conversation", "exchanges", "conversation_id", "number")
    add_table(
        "messages",
        _text("uid"),
        _big("conversation_id"),
        _big("segment_id"),
        _big("exchange_id"),
        _text("role"),
        _text("type"),
        _text("author", nullable=True),
        _text("trust"),
        _text("call_id", nullable=True),
        _text("tool_name", nullable=True),
        _text("external_id"),
        _big("created_at"),
        _text("text"),
        _text("metadata", nullable=True),
        unique=("uid",),
    )
    add_index("ix_messages_conversation", "messages", "conversation_id", "created_at", "id")


def _entry_tables() -> None:
    add_table(
        "entries",
        _text("source"),
        _text("part"),
        _text("ref_uid"),
        _big("conversation_id", nullable=True),
        _big("segment_id", nullable=True),
        _big("exchange_id", nullable=True),
        _big("project_id", nullable=True),
        _text("role", nullable=True),
        _text("author", nullable=True),
        _text("trust"),
        _big("created_at"),
        _text("text"),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("is_turn", sa.Boolean, nullable=False),
        _big("space_id", nullable=True),
        unique=("ref_uid", "part"),
        autoincrement=True,
    )
    add_index("ix_entries_turns", "entries", "conversation_id", "is_turn", "created_at", "id")
    add_index("ix_entries_project", "entries", "project_id", "created_at", where="project_id IS NOT NULL")
    add_index("ix_entries_created", "entries", "created_at")
    add_index("ix_entries_space", "entries", "space_id", "created_at", where="space_id IS NOT NULL")
    add_table(
        "spaces",
        _text("name"),
        _small("dims"),
        sa.Column("threshold", sa.Float, nullable=False),
        _text("spec", nullable=True),
        _text("state"),
        unique=("name",),
    )
    add_table(
        "vectors",
        _big("entry_id"),
        _big("space_id"),
        sa.Column("vector", Halves, nullable=False),
        unique=("entry_id", "space_id"),
        autoincrement=True,
    )
    add_index("ix_vectors_space", "vectors", "space_id", "id")


def _work_tables() -> None:
    add_table(
        "work",
        _text("kind"),
        _big("item_id"),
        _text("claimed_by", nullable=True),
        _big("lease_until", nullable=True),
        _small("attempts"),
        _big("retry_at", nullable=True),
        unique=("kind", "item_id"),
    )
    add_table(
        "failed_work",
        _text("kind"),
        _big("item_id"),
        _small("attempts"),
        _text("error_class"),
        _big("failed_at"),
        unique=("kind", "item_id"),
    )


def _state_tables() -> None:
    add_table("settings", _text("name"), _text("value"), unique=("name",))
    add_table("counters", _text("name"), _big("value"), unique=("name",))
    add_table("tombstones", _text("uid"), _text("conversation_uid"), _text("kind"), _big("at"), unique=("uid",))
    add_table(
        "import_state",
        _text("format"),
        _text("path"),
        _big("size"),
        _big("modified"),
        _big("offset"),
        _text("fingerprint"),
        _small("unreadable"),
        _big("imported_at"),
        unique=("format", "path"),
    )
    add_table("journal_files", _text("path"), _big("applied"), unique=("path",))
