"""The order of a conversation: a position for every message, and what was found by time before found by it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from harken.storage.migrations.shapes import add_index

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Exchanges were counted as they were recorded. Rows were not always made then: a journal that was read anew has a file
# for each day, and so lost what stood between two days' messages. The step is that of
# `harken.storage.positions`.
_NUMBERED = """
    UPDATE messages SET position = places.place * 1048576 FROM (
        SELECT m.tenant, m.id, row_number() OVER (
            PARTITION BY m.tenant, m.conversation_id ORDER BY e.number, e.id, m.id) AS place
        FROM messages m JOIN exchanges e ON e.tenant = m.tenant AND e.id = m.exchange_id) places
    WHERE places.tenant = messages.tenant AND places.id = messages.id"""
_ENTRIES = """
    UPDATE entries SET position = messages.position FROM messages
    WHERE messages.tenant = entries.tenant AND messages.uid = entries.ref_uid AND entries.source = 'message'"""
# The message at the mark may have been forgotten since; then the last one before it tells.
_MARKS = """
    UPDATE segment_summaries SET left_position = coalesce(
        (SELECT m.position FROM messages m
            WHERE m.tenant = segment_summaries.tenant AND m.id = segment_summaries.left_id),
        (SELECT max(m.position) FROM messages m
            WHERE m.tenant = segment_summaries.tenant AND m.segment_id = segment_summaries.segment_id
            AND (m.created_at, m.id) < (segment_summaries.left_position, segment_summaries.left_id)), 0)"""


def upgrade() -> None:
    """Add the positions in the order of recording, and let the indexes lead by them."""
    for table in ("messages", "entries"):
        op.add_column(table, sa.Column("position", sa.BigInteger, nullable=False, server_default="0"))
    op.drop_index("ix_messages_conversation", "messages")
    op.drop_index("ix_entries_turns", "entries")
    op.execute(_NUMBERED)
    op.execute(_ENTRIES)
    add_index("ix_messages_conversation", "messages", "conversation_id", "position", "id")
    add_index("ix_entries_turns", "entries", "conversation_id", "is_turn", "position", "id")
    op.execute("ALTER TABLE segment_summaries RENAME COLUMN left_at TO left_position")
    op.execute(_MARKS)
