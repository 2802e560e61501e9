"""Entries tell what their texts are like, so that ranking need not read them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_AT_ONCE = 1_000


def upgrade() -> None:
    """Add the column, and look at every text once."""
    from harken.text.traits import traits_of

    op.add_column("entries", sa.Column("traits", sa.BigInteger, nullable=False, server_default="0"))
    connection = op.get_bind()
    behind = sa.text("SELECT id, tenant, text FROM entries WHERE id > :last ORDER BY id LIMIT :most")
    kept = sa.text("UPDATE entries SET traits = :traits WHERE tenant = :tenant AND id = :id")
    last = 0
    while rows := connection.execute(behind, {"last": last, "most": _AT_ONCE}).all():
        values = [{"traits": traits_of(row.text), "tenant": row.tenant, "id": row.id} for row in rows]
        connection.execute(kept, values)
        last = rows[-1].id
