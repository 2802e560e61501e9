"""The embedded engine keeps counts of its rows: `storage/sqlite/counts.py` makes them after each upgrade."""

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """No-op: no table of both engines changes."""
