"""Every table with its keys and indexes, in the way of the engine at hand: on a server the tenant leads them all."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Connection,
    Identity,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    inspect,
    text,
)

from harken.storage.enrichment.webhooks import webhooks
from harken.storage.team.tables import make_team_tables

# The oldest version that was released. Those before it, 0001 to 0010, are known to `adopt`.
FIRST = "0011"

# The tables of `webhooks` stand beside their queries, and are known once that module is imported.
ALL_TABLES: dict[str, Table] = dict(webhooks.metadata.tables)

# What no two rows may have in common, of tables whose rows have no `uid`.
_KEYS = {
    "projects": ("key",),
    "project_aliases": ("alias",),
    "entries": ("ref_uid", "part"),
    "entry_facets": ("entry_id", "facet"),
    "spaces": ("name",),
    "vectors": ("entry_id", "space_id"),
    "work": ("kind", "item_id"),
    "failed_work": ("kind", "item_id"),
    "settings": ("name",),
    "counters": ("name",),
    "import_state": ("format", "path"),
    "journal_files": ("path",),
    "core_memory": ("section", "key"),
    "segment_summaries": ("segment_id",),
    "summarized_messages": ("message_id",),
    "summaries": ("kind", "item_uid"),
    "indexed_files": ("source", "project_id", "path"),
    "commit_files": ("commit_id", "number"),
    "histories": ("project_id",),
    "cluster_members": ("cluster_uid", "experience_uid"),
    "checks": ("result_uid",),
    "injections": ("conversation_uid", "ref_uid"),
}
# By name: the table, the columns, and of which rows.
_INDEXES = {
    "ix_conversations_updated": ("conversations", "updated_at", ""),
    "ix_segments_conversation": ("segments", "conversation_id number", ""),
    "ix_exchanges_conversation": ("exchanges", "conversation_id number", ""),
    "ix_exchanges_started": ("exchanges", "started_at", ""),
    "ix_messages_conversation": ("messages", "conversation_id position id", ""),
    "ix_messages_results": ("messages", "tool_name", "type = 'tool_result'"),
    "ix_entries_turns": ("entries", "conversation_id is_turn position id", ""),
    "ix_entries_project": ("entries", "project_id created_at", "project_id IS NOT NULL"),
    "ix_entries_created": ("entries", "created_at", ""),
    "ix_entries_space": ("entries", "space_id created_at", "space_id IS NOT NULL"),
    "ix_entries_source": ("entries", "source created_at", "conversation_id IS NULL"),
    "ix_entry_facets_facet": ("entry_facets", "facet entry_id", ""),
    "ix_vectors_space": ("vectors", "space_id id", ""),
    "ix_summarized_messages_segment": ("summarized_messages", "segment_id", ""),
    "ix_spend_day": ("spend", "day kind", ""),
    "ix_spend_item": ("spend", "kind item_uid", ""),
    "ix_summaries_conversation": ("summaries", "conversation_uid", ""),
    "ix_retrievals_at": ("retrievals", "at", ""),
    "ix_code_units_path": ("code_units", "project_id path", ""),
    "ix_passages_path": ("passages", "project_id path", ""),
    "ix_commits_committed": ("commits", "project_id committed_at", ""),
    "ix_commit_files_path": ("commit_files", "project_id path", ""),
    "ix_experiences_status": ("experiences", "status created_at", ""),
    "ix_ratings_ref": ("ratings", "ref_uid", ""),
    "ix_ratings_conversation": ("ratings", "conversation_uid", ""),
    "ix_checks_at": ("checks", "at", "outcome IS NOT NULL"),
    "ix_deliveries_waiting": ("deliveries", "webhook_id due_at", "state = 'waiting'"),
}

# What `adopt` changes. Exchanges were counted as they were recorded; rows were not always made then: a journal that was
# read anew has a file for each day, and so lost what stood between two days' messages. The step is that of
# `harken.storage.positions`. The message at a summary's mark may have been forgotten since; then the last one before it
# tells.
_POSITIONS = (
    "ALTER TABLE messages ADD COLUMN position BIGINT DEFAULT '0' NOT NULL",
    "ALTER TABLE entries ADD COLUMN position BIGINT DEFAULT '0' NOT NULL",
    "DROP INDEX ix_messages_conversation",
    "DROP INDEX ix_entries_turns",
    """UPDATE messages SET position = places.place * 1048576 FROM (
        SELECT m.tenant, m.id, row_number() OVER (
            PARTITION BY m.tenant, m.conversation_id ORDER BY e.number, e.id, m.id) AS place
        FROM messages m JOIN exchanges e ON e.tenant = m.tenant AND e.id = m.exchange_id) places
    WHERE places.tenant = messages.tenant AND places.id = messages.id""",
    """UPDATE entries SET position = messages.position FROM messages
    WHERE messages.tenant = entries.tenant AND messages.uid = entries.ref_uid AND entries.source = 'message'""",
)
_MARKS = (
    "ALTER TABLE segment_summaries RENAME COLUMN left_at TO left_position",
    """UPDATE segment_summaries SET left_position = coalesce(
        (SELECT m.position FROM messages m
            WHERE m.tenant = segment_summaries.tenant AND m.id = segment_summaries.left_id),
        (SELECT max(m.position) FROM messages m
            WHERE m.tenant = segment_summaries.tenant AND m.segment_id = segment_summaries.segment_id
            AND (m.created_at, m.id) < (segment_summaries.left_position, segment_summaries.left_id)), 0)""",
)
# What its owner had indexed is `imported`; what summarizes tools' results is no more to be trusted than they.
_TRUST = (
    "UPDATE entries SET trust = 'imported' WHERE source IN ('code', 'commit', 'document') AND trust = 'untrusted'",
    "UPDATE entries SET trust = 'tool' WHERE source = 'tools'",
)


def create(connection: Connection, version: str) -> None:
    """Make what is missing of the tables, keys and indexes, and say which version the schema has."""
    stamps = add_missing(connection)
    make_team_tables(connection)
    connection.execute(stamps.delete())
    connection.execute(stamps.insert().values(version_num=version))


def add_missing(connection: Connection) -> Table:
    """Make what is missing of the tables, keys and indexes, for a version that adds some; the table of versions."""
    leading = ("tenant",) if connection.dialect.name == "postgresql" else ()
    made = MetaData()
    tables = {table.name: _shaped(table, made, leading) for table in ALL_TABLES.values()}
    stamps = Table("alembic_version", made, Column("version_num", String(32), nullable=False))
    stamps.append_constraint(PrimaryKeyConstraint("version_num", name="alembic_version_pkc"))
    made.create_all(connection)
    present = {index["name"] for each in inspect(connection).get_multi_indexes().values() for index in each}
    for name, (table, columns, condition) in _INDEXES.items():
        where = text(condition) if condition else None
        indexed = [tables[table].c[column] for column in (*leading, *columns.split())]
        index = Index(name, *indexed, sqlite_where=where, postgresql_where=where)
        if name not in present:
            index.create(connection)
    return stamps


def adopt(connection: Connection, version: str) -> None:
    """Bring a database that was never released to `FIRST`: it lacks tables, and the order of its conversations."""
    marks = _MARKS if inspect(connection).has_table("segment_summaries") else ()
    trust = _TRUST if version < "0010" else ()
    for statement in (*_POSITIONS, *marks, *trust):
        connection.exec_driver_sql(statement)
    create(connection, FIRST)


def _shaped(table: Table, made: MetaData, leading: tuple[str, ...]) -> Table:
    unique = _KEYS.get(table.name, ("uid",) if "uid" in table.c else ())
    return Table(
        table.name,
        made,
        *(
            Column(
                column.name,
                column.type,
                *((Identity(),) if leading and column.name == "id" else ()),
                nullable=column.nullable,
                server_default=column.server_default,
            )
            for column in table.columns
        ),
        PrimaryKeyConstraint(*leading, "id", name=f"pk_{table.name}"),
        *((UniqueConstraint(*leading, *unique, name=f"uq_{table.name}"),) if unique else ()),
        sqlite_autoincrement=table.dialect_options["sqlite"]["autoincrement"],
    )
