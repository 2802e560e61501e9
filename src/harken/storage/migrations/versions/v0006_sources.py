"""What is remembered beside conversations: facets of entries, and saved memories."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and the order in which entries of no conversation are listed."""
    add_table(
        "entry_facets",
        sa.Column("entry_id", sa.BigInteger, nullable=False),
        sa.Column("facet", sa.Text, nullable=False),
        unique=("entry_id", "facet"),
    )
    add_index("ix_entry_facets_facet", "entry_facets", "facet", "entry_id")
    add_index("ix_entries_source", "entries", "source", "created_at", where="conversation_id IS NULL")
    add_table(
        "memories",
        *kept_columns(),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("importance", sa.Float, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("supersedes", sa.Text, nullable=False),
        sa.Column("superseded_by", sa.Text, nullable=True),
        sa.Column("accessed_at", sa.BigInteger, nullable=True),
        unique=("uid",),
    )


def kept_columns() -> tuple[sa.Column[object], ...]:
    """What every table of kept records begins with."""
    return (
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=True),
        sa.Column("trust", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
