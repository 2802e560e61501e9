"""Full text has Russian words without their endings: each engine indexes what an older Harken did anew."""

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """No-op: no table changes."""
