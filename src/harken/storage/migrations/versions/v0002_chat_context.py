"""What a chat's context is built from beside messages: core memory, rolling summaries."""

from __future__ import annotations

from harken.storage.migrations.shapes import add_index, add_table
from harken.storage.migrations.versions.v0001_first import _big, _text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    add_table(
        "core_memory", _text("section"), _text("key"), _text("value"), _big("updated_at"), unique=("section", "key")
    )
    add_table(
        "segment_summaries",
        _big("segment_id"),
        _big("left_at"),
        _big("left_id"),
        _text("text"),
        _text("model", nullable=True),
        _big("updated_at"),
        unique=("segment_id",),
    )
    add_table("summarized_messages", _big("segment_id"), _big("message_id"), unique=("message_id",))
    add_index("ix_summarized_messages_segment", "summarized_messages", "segment_id")
