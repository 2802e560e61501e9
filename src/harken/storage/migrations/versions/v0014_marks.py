"""What people say of records: verdicts, labels of conversations, dates of review, topics; and why it came back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add columns, which costs nothing per row, and tables."""
    from harken.storage.migrations.schema import add_missing

    connection = op.get_bind()
    new = {
        "conversations": [sa.Column("label", sa.Text)],
        "entries": [sa.Column("rated", sa.Float, nullable=False, server_default="1")],
        "injections": [sa.Column("event", sa.Text), sa.Column("why", sa.Text)],
        "memories": [sa.Column("confirmed_at", sa.BigInteger), sa.Column("review_by", sa.BigInteger)],
    }
    for table, columns in new.items():
        # What was never released may have got the table only now, whole.
        present = {column["name"] for column in sa.inspect(connection).get_columns(table)}
        for column in columns:
            if column.name not in present:
                op.add_column(table, column)
    add_missing(connection)
