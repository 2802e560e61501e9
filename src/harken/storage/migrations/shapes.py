"""Tables and indexes as every schema version makes them, in the way of the engine at hand."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def add_table(name: str, *columns: sa.Column[Any], unique: tuple[str, ...] = (), autoincrement: bool = False) -> None:
    """One table; on PostgreSQL the tenant leads its keys, so that a sharded server can distribute by it."""
    leading = ("tenant",) if op.get_bind().dialect.name == "postgresql" else ()
    constraints: list[sa.Constraint] = [sa.PrimaryKeyConstraint(*leading, "id", name=f"pk_{name}")]
    if unique:
        constraints.append(sa.UniqueConstraint(*leading, *unique, name=f"uq_{name}"))
    identity = (sa.Identity(),) if leading else ()
    op.create_table(
        name,
        sa.Column("id", _ID, *identity, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False, server_default="local"),
        *columns,
        *constraints,
        sqlite_autoincrement=autoincrement,
    )


def add_index(name: str, table: str, *columns: str, where: str | None = None) -> None:
    """One index; on PostgreSQL the tenant leads it."""
    leading = ("tenant",) if op.get_bind().dialect.name == "postgresql" else ()
    condition = sa.text(where) if where else None
    op.create_index(name, table, [*leading, *columns], sqlite_where=condition, postgresql_where=condition)
