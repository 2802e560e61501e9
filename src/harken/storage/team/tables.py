"""The tables of a team, made on a server alone, and the wall between the rows of teams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    Text,
    UniqueConstraint,
    delete,
    insert,
    select,
    update,
)

from harken.storage.tables import Instant, Listed

KEY_SETTING = "harken.key"
_team = MetaData()


def _table(name: str, columns: str, key: str, *others: Column[object] | UniqueConstraint) -> Table:
    """A table with the team before its own columns, which are texts; `?` marks those that may be NULL."""
    texts = [Column(each.removesuffix("?"), Text, nullable=each.endswith("?")) for each in columns.split()]
    primary = PrimaryKeyConstraint("team", *key.split(), name=f"pk_{name}")
    return Table(name, _team, Column("team", Text, nullable=False), *texts, *others, primary)


def _moments(*names: str) -> list[Column[object]]:
    return [Column(name.removesuffix("?"), Instant, nullable=name.endswith("?")) for name in names]


principals = _table(
    "team_principals",
    "id kind name email?",
    "id",
    *_moments("created"),
    UniqueConstraint("team", "name", name="uq_team_principals_name"),
    UniqueConstraint("team", "email", name="uq_team_principals_email"),
)
keys = _table(
    "team_keys",
    "id prefix digest principal",
    "id",
    Column("scopes", Listed, nullable=False),
    Column("spaces", Listed),
    *_moments("created", "expires?", "last_used?", "revoked?"),
)
groups = _table("team_groups", "id name", "id", UniqueConstraint("team", "name", name="uq_team_groups_name"))
members = _table("team_members", "group_id principal", "group_id principal")
spaces = _table(
    "team_spaces",
    "id name owner?",
    "id",
    Column("is_private", Boolean, nullable=False),
    Column("retention_days", Integer),
    *_moments("created"),
)
grants = _table("team_grants", "space grantee access", "space grantee", Column("is_group", Boolean, nullable=False))
# Who has written a record of a shared space, a row for each of them; of a copy, also who shared it and what it copies.
origins = _table(
    "team_origins", "space uid kind principal sharer? source_space? source_uid?", "space uid principal", *_moments("at")
)
# Answers that are given again to whoever repeats a request, by their own name for it; and who asked for what.
requests = _table("team_requests", "principal once digest answer?", "principal once", *_moments("at"))
audit = _table(
    "team_audit",
    "id principal key? space? verb via",
    "id",
    Column("status", Integer, nullable=False),
    Column("ids", Listed, nullable=False),
    *_moments("at"),
)

Index("ix_team_audit_at", audit.c.team, audit.c.at)
Index("ix_team_requests_at", requests.c.team, requests.c.at)
Index("ix_team_keys_digest", keys.c.digest, unique=True)
Index("ix_team_keys_principal", keys.c.team, keys.c.principal)
Index("ix_team_spaces_owner", spaces.c.team, spaces.c.owner)
Index("ix_team_grants_grantee", grants.c.team, grants.c.grantee)
Index("ix_team_members_principal", members.c.team, members.c.principal)
Index("ix_team_origins_principal", origins.c.team, origins.c.principal)
Index("ix_team_origins_source", origins.c.team, origins.c.source_uid)

TEAM_TABLES: dict[str, Table] = dict(_team.tables)

# What a transaction is bound to begins with its team: `TEAM`, or `TEAM/SPACE`.
_OF_TEAM = "team = split_part(current_setting('harken.tenant', true), '/', 1)"
# A key tells its team only to whoever has it.
_OR_OF_KEY = f" OR digest = current_setting('{KEY_SETTING}', true)"


@dataclass(frozen=True, slots=True)
class TeamTransaction:
    """A connection inside a transaction, with the team that every statement is bound to."""

    connection: Connection
    team: str

    def select(self, *wanted: Any) -> Select[Any]:
        """A selection of the team's rows: of the table that the first of the columns is of."""
        table = wanted[0] if isinstance(wanted[0], Table) else wanted[0].table
        return select(*wanted).where(table.c.team == self.team)

    def rows(self, *wanted: Any, where: tuple[Any, ...] = ()) -> list[Any]:
        """The rows of a table, or some of their columns, that meet the conditions."""
        return list(self.connection.execute(self.select(*wanted).where(*where)).all())

    def insert(self, table: Table, **values: Any) -> None:
        """Insert a row."""
        self.connection.execute(insert(table).values(team=self.team, **values))

    def update(self, table: Table, *conditions: Any, **values: Any) -> int:
        """Change the rows that meet the conditions; how many they are."""
        return self.connection.execute(
            update(table).where(table.c.team == self.team, *conditions).values(**values)
        ).rowcount

    def delete(self, table: Table, *conditions: Any) -> int:
        """Delete the rows that meet the conditions; how many they were."""
        return self.connection.execute(delete(table).where(table.c.team == self.team, *conditions)).rowcount


def make_team_tables(connection: Connection) -> None:
    """Make what is missing of the tables; no-op on the embedded engine, whose store has one principal."""
    if connection.dialect.name == "postgresql":
        _team.create_all(connection)


def wall_off_teams(connection: Connection) -> None:
    """Let whoever is not the owner of the tables see the rows of one team alone."""
    for table in TEAM_TABLES:
        extra = _OR_OF_KEY if table == keys.name else ""
        connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"DROP POLICY IF EXISTS of_team ON {table}")
        connection.exec_driver_sql(
            f"CREATE POLICY of_team ON {table} USING ({_OF_TEAM}{extra}) WITH CHECK ({_OF_TEAM})"
        )
