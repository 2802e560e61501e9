"""What each conversation was already given by hooks."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_table

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the ledger of what was given to conversations."""
    add_table(
        "injections",
        sa.Column("conversation_uid", sa.Text, nullable=False),
        sa.Column("ref_uid", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        unique=("conversation_uid", "ref_uid"),
    )
