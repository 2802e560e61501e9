"""How far entries may be believed, where that was said otherwise before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ENTRIES = sa.table("entries", sa.column("source", sa.Text), sa.column("trust", sa.Text))


def upgrade() -> None:
    """What its owner had indexed is `imported`; what summarizes tools' results is no more to be trusted than they."""
    indexed = sa.and_(_ENTRIES.c.source.in_(("code", "commit", "document")), _ENTRIES.c.trust == "untrusted")
    op.execute(sa.update(_ENTRIES).where(indexed).values(trust="imported"))
    op.execute(sa.update(_ENTRIES).where(_ENTRIES.c.source == "tools").values(trust="tool"))
