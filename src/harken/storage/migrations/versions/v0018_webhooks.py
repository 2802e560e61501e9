"""Webhooks, and the outbox of what they are told."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make the tables."""
    from harken.storage.migrations.schema import add_missing

    add_missing(op.get_bind())
