"""The first version; what comes later is a revision on top of it, beside this file.

Versions 0001 to 0010 were never released: `harken.storage.migrations.schema.adopt` brings their databases here.
"""

revision = "0011"
down_revision = None


def upgrade() -> None:
    """No-op: a new database is made whole from the tables, and has the newest version at once."""
