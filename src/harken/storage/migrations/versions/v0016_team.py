"""Teams on a server: principals, keys, groups, spaces, grants, and who has brought what."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Make the tables; the embedded store has one principal, and gets none."""
    from harken.storage.team.tables import make_team_tables

    make_team_tables(op.get_bind())
