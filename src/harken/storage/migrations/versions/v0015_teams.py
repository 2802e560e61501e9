"""Teams on a server, their requests, webhooks; functions and the embedded engine's counts, which each upgrade remakes.

Full text is told its tenant, by which a cluster finds its shard, and most messages run no trigger of the counts.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the tables of webhooks and, on a server, of teams; the embedded store has one principal."""
    from harken.storage.migrations.schema import add_missing
    from harken.storage.team.tables import make_team_tables

    add_missing(op.get_bind())
    make_team_tables(op.get_bind())
