"""Who may call our functions: their owner, and the roles that may use the tables; never everybody."""

from __future__ import annotations

from sqlalchemy import Connection, text

from harken.storage.ports import Right

# Functions of ours run as the owner of the tables, and PostgreSQL lets everybody call what is new. Who may read the
# entries may call what reads (STABLE, IMMUTABLE), who may add to them the rest; a row is a role that it is not so for.
_DIFFERENCES = text(r"""
    WITH ours AS (
        SELECT p.oid, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)) AS rights,
            CASE p.provolatile WHEN 'v' THEN 'INSERT' ELSE 'SELECT' END AS needed
        FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace AND c.oid = 'entry_words'::regclass
        WHERE p.proname LIKE 'harken\_%'
    ), given AS (
        SELECT o.oid, r.grantee FROM ours o, aclexplode(o.rights) r WHERE r.grantee <> o.proowner
    ), due AS (
        SELECT o.oid, r.grantee
        FROM ours o, pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) r
        WHERE c.oid = 'entries'::regclass AND r.privilege_type = o.needed AND r.grantee NOT IN (0, o.proowner)
    )
    SELECT p.oid::regprocedure::text AS function, p.proname AS name, given.oid IS NOT NULL AS is_excess,
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role,
        pg_has_role(current_user, p.proowner, 'USAGE') AS is_mine
    FROM given FULL JOIN due USING (oid, grantee) JOIN pg_proc p USING (oid)
    WHERE given.oid IS NULL OR due.oid IS NULL
    ORDER BY 4, 3, 2""")
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('harken migrate', 0))")


def lock_schema(connection: Connection) -> None:
    """Keep every other change of schema or rights out until the transaction ends."""
    connection.execute(_LOCK)


def settle_functions(connection: Connection) -> None:
    """Let those roles call our functions that may use the entries, and nobody else, as their owner."""
    for row in connection.execute(_DIFFERENCES).all():
        change, whose = ("REVOKE", "FROM") if row.is_excess else ("GRANT", "TO")
        connection.exec_driver_sql(f"{change} EXECUTE ON FUNCTION {row.function} {whose} {row.role}")


def check_functions(connection: Connection, fix: bool) -> list[Right]:
    """Each role that may call functions of ours and should not, or should and may not; repaired if this login may."""
    if fix:
        lock_schema(connection)
    found = left = connection.execute(_DIFFERENCES).all()
    if fix and all(row.is_mine for row in found):
        settle_functions(connection)
        left = connection.execute(_DIFFERENCES).all()
    wrong = {(row.function, row.role) for row in left}
    told = []
    for role, is_excess in dict.fromkeys((row.role, row.is_excess) for row in found):
        rows = [row for row in found if (row.role, row.is_excess) == (role, is_excess)]
        names = ", ".join(sorted({row.name for row in rows}))
        if not is_excess:
            said = f"The role {role} may use the tables and not call {names}."
        elif role == "PUBLIC":
            said = (
                f"Every login of the server may call {names}, and so search and change the full text of every tenant."
            )
        else:
            said = f"The role {role}, which has no such rights to the tables, may call {names}."
        is_fixed = not any((row.function, row.role) in wrong for row in rows)
        told.append(Right(said if is_fixed else f"{said} As their owner: harken --store URL migrate", is_fixed))
    return told
