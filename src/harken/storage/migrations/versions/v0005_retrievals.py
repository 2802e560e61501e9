"""How past conversations were looked for."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of retrievals."""
    add_table(
        "retrievals",
        sa.Column("query_hash", sa.Text, nullable=False),
        sa.Column("conversations", sa.Integer, nullable=False),
        sa.Column("exchanges", sa.Integer, nullable=False),
        sa.Column("best_conversation", sa.Float, nullable=True),
        sa.Column("best_exchange", sa.Float, nullable=True),
        sa.Column("duration_microseconds", sa.BigInteger, nullable=False),
        sa.Column("error_class", sa.Text, nullable=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    add_index("ix_retrievals_at", "retrievals", "at")
