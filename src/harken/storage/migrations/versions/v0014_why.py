"""What came back by itself tells at which event it came, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the columns; of what came back before, nothing tells."""
    # Of a database that was never released the table may have been made just now.
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("injections")}
    for name in ("event", "why"):
        if name not in present:
            op.add_column("injections", sa.Column(name, sa.Text, nullable=True))
