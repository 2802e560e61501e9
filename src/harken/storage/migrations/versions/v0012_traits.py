"""Entries tell what their texts are like, so that ranking need not read them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_AT_ONCE = 1_000


def upgrade() -> None:
    """Add the column, and look at every text once."""
    from harken.storage.entries import rule_facets
    from harken.text.rules import rules_in
    from harken.text.traits import traits_of

    op.add_column("entries", sa.Column("traits", sa.BigInteger, nullable=False, server_default="0"))
    connection = op.get_bind()
    behind = sa.text("SELECT id, tenant, role, is_turn, text FROM entries WHERE id > :last ORDER BY id LIMIT :most")
    kept = sa.text("UPDATE entries SET traits = :traits WHERE tenant = :tenant AND id = :id")
    noted = sa.text("INSERT INTO entry_facets (tenant, entry_id, facet) VALUES (:tenant, :entry, :facet)")
    last = 0
    while rows := connection.execute(behind, {"last": last, "most": _AT_ONCE}).all():
        rules = [rules_in(row.text) if row.role == "user" and row.is_turn else [] for row in rows]
        values = [
            {"traits": traits_of(row.text, len(found)), "tenant": row.tenant, "id": row.id}
            for row, found in zip(rows, rules, strict=True)
        ]
        connection.execute(kept, values)
        facets = [
            {"tenant": row.tenant, "entry": row.id, "facet": facet}
            for row, found in zip(rows, rules, strict=True)
            for facet in rule_facets(found)
        ]
        if facets:
            connection.execute(noted, facets)
        last = rows[-1].id
