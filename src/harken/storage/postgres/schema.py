"""What only a server has beside the tables: words, functions, rights, the second wall between tenants."""

from __future__ import annotations

from importlib import resources

from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from harken.errors import SchemaBehindError, SchemaError, StoreError, UsageError
from harken.storage import migrations
from harken.storage.migrations.schema import ALL_TABLES
from harken.storage.positions import TURNS_OUT_OF_TIME
from harken.storage.postgres.connection import is_cluster, set_local
from harken.storage.postgres.fulltext import TsvectorIndex
from harken.storage.postgres.rights import lock_schema, settle_functions
from harken.storage.team.tables import TEAM_TABLES, wall_off_teams
from harken.text.words import CYRILLIC

WORDS = "entry_words"
_TABLES = (*ALL_TABLES, WORDS)
# What grows with what is said, named in functions.
_COUNTED = ("messages", "entries", WORDS, "entry_facets", "vectors", "exchanges", "conversations")
# The name of the shard of a table that has the rows of a tenant, as a function writes it that has its `name`.
_SHARD = "'{0}_' || get_shard_id_for_distribution_column('{0}', name)"
# What reads or writes words of one tenant: plpgsql, and its first argument tells whose.
_OF_TENANT = text(r"""
    SELECT p.oid::regprocedure::text FROM pg_proc p
    JOIN pg_class c ON c.relnamespace = p.pronamespace AND c.oid = 'entry_words'::regclass
    WHERE p.proname LIKE 'harken\_%' AND (p.prosecdef OR p.proname = 'harken_asked')
        AND p.proargnames[1] = 'of_tenant' ORDER BY 1""")
# Languages that the server stems; words in Latin letters elsewhere are taken for English ones.
_OWN_LETTERS = ("arabic", "armenian", "greek", "hindi", "nepali", "russian", "serbian", "tamil", "yiddish")

# Before them, the words beside a turn were found by times, and Russian words had their endings.
_POSITIONS_SINCE, _STEMS_SINCE = "0011", "0016"
# From then on a role that is not the owner may be allowed to vacuum.
_MAINTAIN_SINCE = (17,)

# How far back Harken can go on with these tables, where an older one finds it.
_SERVES = "serves Harken from schema "
_WALLED = text("""
    SELECT c.relname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relrowsecurity AND p.polname = 'of_tenant'
        AND pg_get_expr(p.polqual, p.polrelid) = '(tenant = current_setting(''harken.tenant''::text, true))'""")


def serves_from(connection: Connection) -> str:
    """The oldest schema whose Harken can go on with these tables; empty where nothing says it."""
    told = connection.execute(text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")).scalar() or ""
    return told.removeprefix(_SERVES) if told.startswith(_SERVES) else ""


def check_version(place: str, version: str | None, oldest: str) -> None:
    """See that this Harken knows the tables, or a newer one has left them as it needs them.

    Raises:
        SchemaBehindError: they are not made yet, or not upgraded.
        SchemaError: they are a newer Harken's.
    """
    if version is None:
        raise SchemaBehindError(f"{place} has no tables of Harken yet. Make them: harken --store URL migrate")
    found = f"{place} has schema {version}, this Harken needs {migrations.HEAD}"
    if version < migrations.HEAD:
        raise SchemaBehindError(f"{found}. Try: harken --store URL migrate")
    if version > migrations.HEAD and not (oldest and oldest <= migrations.HEAD):
        raise SchemaError(f"{found}. Try: pip install -U harken")


def migrate(connection: Connection, language: str | None, role: str | None, distribute: bool) -> tuple[str, ...]:
    """Make or upgrade everything, in the caller's transaction as the owner of the schema; see `migrate_store`.

    Returns:
        The tables that were spread over the machines of a cluster just now.

    Raises:
        StoreError: pgvector is missing, or the role may not create.
        UsageError: there is no such language or role, or tables are to be spread by a server that has no Citus.
        SchemaError: the database was made by a newer Harken.
    """
    lock_schema(connection)
    _ensure_vector(connection)
    on_cluster = is_cluster(connection)
    if distribute and not on_cluster:
        raise UsageError("This server has no Citus. Create it first (CREATE EXTENSION citus), or go without.")
    if on_cluster:
        # Or what changes the rows of all machines side by side could be followed by no change of the schema.
        connection.exec_driver_sql("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    before = migrations.current_version(connection)
    if before is None and (encoding := connection.execute(text("SHOW server_encoding")).scalar()) != "UTF8":
        raise StoreError(f"The database is in {encoding}. Make one in UTF-8: createdb -E UTF8 -T template0 NAME")
    migrations.upgrade(connection)
    schema = _quoted(connection, "SELECT quote_ident(current_schema())")
    _configure_words(connection, language)
    _run(connection, "words.sql", schema=schema)
    connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{_SERVES}{migrations.SERVES_FROM}'")
    walled = set(connection.execute(_WALLED).scalars())
    for table in _TABLES:
        # To wall one anew keeps everybody out of it until all is done, while clients are at work.
        if table in walled:
            continue
        # A second wall: whoever is not the owner sees the rows of the tenant that the transaction was bound to.
        connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"DROP POLICY IF EXISTS of_tenant ON {table}")
        connection.exec_driver_sql(
            f"CREATE POLICY of_tenant ON {table} USING (tenant = current_setting('harken.tenant', true))"
        )
    wall_off_teams(connection)
    is_spread = on_cluster and bool(_spread_tables(connection))
    spread = _spread(connection) if distribute or is_spread else ()
    has_shards = is_spread or bool(spread)
    named = {table: _SHARD.format(table) if has_shards else f"'{table}'" for table in _COUNTED}
    named["named"] = (
        "t.named || '_' || get_shard_id_for_distribution_column(t.named, name)" if has_shards else "t.named"
    )
    _run(connection, "functions.sql", schema=schema, **named)
    if has_shards:
        _send_functions(connection)
    if before is not None and before < _STEMS_SINCE:
        _index_anew(connection, before)
    if role is not None:
        _grant(connection, schema, role)
    # Whatever was made anew above may be called by everybody, and by no role in particular.
    settle_functions(connection)
    return spread


def _run(connection: Connection, file: str, **named: str) -> None:
    statements = resources.files(__package__).joinpath(file).read_text("utf-8")
    for name, written in named.items():
        statements = statements.replace(f"{{{name}}}", written)
    for statement in statements.split("\n;;\n"):
        # Doubled, or the driver would take them for places of values.
        connection.exec_driver_sql(statement.replace("%", "%%"))


def _spread_tables(connection: Connection) -> set[str]:
    return set(connection.execute(text("SELECT logicalrelid::text FROM pg_dist_partition")).scalars())


def _spread(connection: Connection) -> tuple[str, ...]:
    """Spread the tables that are not yet over the machines of the cluster by tenant, all of a tenant on one of them."""
    present = _spread_tables(connection)
    fresh = tuple(name for name in _TABLES if name not in present)
    for name in fresh:
        beside = "none" if name == _TABLES[0] else _TABLES[0]
        connection.execute(
            text("SELECT create_distributed_table(:name, 'tenant', colocate_with => :beside)"),
            {"name": name, "beside": beside},
        )
    return fresh


def _send_functions(connection: Connection) -> None:
    """Have what reads and writes the words run whole on the machine that has the tenant's."""
    for function in connection.execute(_OF_TENANT).scalars().all():
        connection.execute(
            text(
                "SELECT create_distributed_function(CAST(CAST(:name AS text) AS regprocedure), 'of_tenant',"
                " colocate_with => 'entry_words', force_delegation => true)"
            ),
            {"name": function},
        )


def _ensure_vector(connection: Connection) -> None:
    have = "SELECT count(*) FROM pg_extension WHERE extname = 'vector'"
    offered = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
    if connection.execute(text(have)).scalar():
        return
    if not connection.execute(text(offered)).scalar():
        raise StoreError("The server has no pgvector. Install it there (Debian: apt install postgresql-18-pgvector).")
    try:
        connection.execute(text("CREATE EXTENSION vector"))
    except ProgrammingError as error:
        fix = "Let a superuser do it in this database, once: CREATE EXTENSION vector"
        raise StoreError(f"This login may not enable pgvector, which the server has. {fix}") from error


def _configure_words(connection: Connection, language: str | None) -> None:
    made = connection.execute(
        text(
            "SELECT obj_description(c.oid, 'pg_ts_config') FROM pg_ts_config c"
            " JOIN pg_namespace n ON n.oid = c.cfgnamespace WHERE c.cfgname = 'harken' AND n.nspname = current_schema()"
        )
    ).first()
    if made is not None and language in (None, made[0]):
        return
    language = language or "english"
    known = set(
        connection.execute(
            text("SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'pg_catalog'::regnamespace")
        ).scalars()
    )
    if language not in known:
        raise UsageError(f"The server knows no language '{language}'. It knows: {', '.join(sorted(known))}")
    if made is not None:
        raise UsageError(
            f"The full text was made for {made[0]}, and its words would no longer be found."
            " Take everything into a new database: harken export, harken import jsonl --as-mine"
        )
    latin = "english" if language in _OWN_LETTERS else language
    statements = ["CREATE TEXT SEARCH CONFIGURATION harken (COPY = pg_catalog.simple)"]
    # Without stop words: a question has lost them already, and a quotation needs them.
    for kind, spoken in (("asciiword", latin), ("word, numword", language)):
        if spoken != "simple" and not (kind != "asciiword" and language == "english"):
            name = f"harken_{spoken}"
            if not any(f" {name} " in statement for statement in statements):
                statements.append(f"CREATE TEXT SEARCH DICTIONARY {name} (TEMPLATE = snowball, LANGUAGE = {spoken})")
            statements.append(f"ALTER TEXT SEARCH CONFIGURATION harken ALTER MAPPING FOR {kind} WITH {name}")
    statements.append(f"COMMENT ON TEXT SEARCH CONFIGURATION harken IS '{language}'")
    for statement in statements:
        connection.exec_driver_sql(statement)


def _index_anew(connection: Connection, before: str) -> None:
    """Index anew what stands otherwise in an older index.

    Russian words stood there with their endings, also beside other turns; and turns whose times are not in their order
    had not the words of their true neighbours.
    """
    russian = f"SELECT {{}} FROM entries WHERE coalesce(author, '') || text ~ '{CYRILLIC}'"
    beside = f"SELECT id FROM entries WHERE conversation_id IN ({russian.format('conversation_id')})"
    out_of_time = f" OR id IN ({TURNS_OUT_OF_TIME})" if before < _POSITIONS_SINCE else ""
    chosen = f"id IN ({russian.format('id')}) OR id IN ({beside}){out_of_time}"
    turns = f"SELECT tenant, array_agg(id) FROM entries WHERE {chosen} GROUP BY tenant"
    for tenant, entry_ids in connection.execute(text(turns)).all():
        _bind(connection, tenant)
        TsvectorIndex(tenant).add(connection, entry_ids)
    _bind(connection, "")


def _bind(connection: Connection, tenant: str) -> None:
    if is_cluster(connection):
        connection.exec_driver_sql("SET LOCAL citus.propagate_set_commands = 'local'")
    connection.exec_driver_sql(set_local("harken.tenant", tenant).replace("%", "%%"))


def _grant(connection: Connection, schema: str, role: str) -> None:
    if not connection.execute(text("SELECT count(*) FROM pg_roles WHERE rolname = :role"), {"role": role}).scalar():
        raise UsageError(f"The server has no role '{role}'. Create it first: CREATE ROLE … LOGIN PASSWORD …")
    quoted = _quoted(connection, "SELECT quote_ident(:value)", role)
    for statement in (
        f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
        f"GRANT SELECT ON alembic_version TO {quoted}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join((*ALL_TABLES, *TEAM_TABLES))} TO {quoted}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {quoted}",
    ):
        connection.exec_driver_sql(statement)
    version = connection.dialect.server_version_info
    if version is not None and version >= _MAINTAIN_SINCE:
        connection.exec_driver_sql(f"GRANT MAINTAIN ON {', '.join(_COUNTED)} TO {quoted}")


def _quoted(connection: Connection, statement: str, value: str | None = None) -> str:
    return str(connection.execute(text(statement), {} if value is None else {"value": value}).scalar_one())
