"""Summaries of exchanges, conversations, segments and tool calls."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of summaries, and the order in which exchanges are looked at for one."""
    add_table(
        "summaries",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("item_uid", sa.Text, nullable=False),
        sa.Column("conversation_uid", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("covers", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        unique=("kind", "item_uid"),
    )
    add_index("ix_summaries_conversation", "summaries", "conversation_uid")
    add_index("ix_exchanges_started", "exchanges", "started_at")
