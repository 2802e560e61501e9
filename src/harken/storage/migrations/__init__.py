"""Schema versions: on open for the embedded store, by `harken migrate` elsewhere.

A new database is made from the tables; one of a released version is upgraded by Alembic.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from sqlalchemy import Connection, inspect, text

from harken.errors import SchemaError

HEAD = "0016"
# The oldest schema whose Harken may go on with the tables of `HEAD`: since then versions have only added what may be
# left out. A server's processes are upgraded one after the other, with clients at work; see docs/operating.md.
SERVES_FROM = "0014"
# Alembic keeps what it works on in module globals, so two stores cannot be upgraded in two threads at once.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Migrated:
    """What bringing a schema up to date did.

    Attributes:
        before: the schema version that was there; None for an empty database.
        schema: the version that is there now.
        distributed: tables that were spread over the machines of a cluster just now.
    """

    before: str | None
    schema: str
    distributed: tuple[str, ...] = ()


def current_version(connection: Connection) -> str | None:
    """The schema version of the database; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(connection: Connection) -> None:
    """Bring the schema to `HEAD`, in the caller's transaction.

    Raises:
        SchemaError: the database was made by a newer Harken.
    """
    version = current_version(connection)
    if version == HEAD:
        return
    if version is not None and version > HEAD:
        raise SchemaError(f"The store has schema {version}, this Harken knows {HEAD}. Try: pip install -U harken")
    # Imported late, like Alembic: an up-to-date store needs neither.
    from harken.storage.migrations import schema

    if version is None:
        schema.create(connection, HEAD)
        return
    if version < schema.FIRST:
        schema.adopt(connection, version)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "harken.storage:migrations")
    config.attributes["connection"] = connection
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head")
