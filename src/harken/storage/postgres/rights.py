"""Who may call our functions: their owner, and the roles that may use the tables; never everybody."""

from __future__ import annotations

from typing import Any

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


# Who may pass over row-level security, or is not held to it: a superuser, a role with BYPASSRLS, the tables' owner.
_PASSES = text("""
    SELECT r.rolsuper AS is_super, r.rolbypassrls AS may_bypass, pg_has_role(current_user, c.relowner, 'USAGE')
        AND NOT c.relforcerowsecurity AS is_owner
    FROM pg_roles r, pg_class c WHERE r.rolname = current_user AND c.oid = 'entries'::regclass""")
_REASONS = {"is_super": "is a superuser", "may_bypass": "may bypass row-level security", "is_owner": "owns the tables"}


def passes_walls(connection: Connection) -> str:
    """Why the login is not held to the rows of its tenant by the server itself; empty where it is."""
    row = connection.execute(_PASSES).one()._mapping
    return next((reason for name, reason in _REASONS.items() if row[name]), "")


def make_role(connection: Connection, role: str, password: str) -> bool:
    """Make a role that may log in and nothing else; False where there is one of that name, which stays as it is.

    The server gets the password's hash, so that no log of it has the password.
    """
    lock_schema(connection)
    known = "SELECT quote_ident(:role), EXISTS (SELECT FROM pg_roles WHERE rolname = :role)"
    quoted, is_there = connection.execute(text(known), {"role": role}).one()
    if not is_there:
        driver: Any = connection.connection.driver_connection
        made = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
        connection.exec_driver_sql(f"CREATE ROLE {quoted} LOGIN PASSWORD '{made}'")
    return not is_there
