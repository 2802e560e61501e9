"""Requests to a team's server: answers for whoever repeats one, and the audit."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the tables; the embedded store has one principal, and gets none."""
    from harken.storage.team.tables import make_team_tables

    make_team_tables(op.get_bind())
