"""Full text is told its tenant, by which a cluster finds its shard: each upgrade makes the functions anew."""

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """No-op: no table changes."""
