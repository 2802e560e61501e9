"""What calls of language models cost."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of calls."""
    add_table(
        "spend",
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("item_uid", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("estimate_usd", sa.BigInteger, nullable=True),
        sa.Column("price_usd", sa.BigInteger, nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=True),
        unique=("uid",),
    )
    add_index("ix_spend_day", "spend", "day", "kind")
    add_index("ix_spend_item", "spend", "kind", "item_uid")
