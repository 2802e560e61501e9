"""What was learned: experiences, values, clusters of experiences, and checks that were seen to run."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None
_WORDS = ("agent", "session", "status", "domain", "strategy", "goal", "hypothesis", "action", "prediction")


def upgrade() -> None:
    """Create the tables."""
    add_table(
        "experiences",
        *_kept_columns(),
        *(sa.Column(name, sa.Text, nullable=False) for name in _WORDS),
        sa.Column("attempted_at", sa.BigInteger, nullable=False),
        sa.Column("history", sa.Text, nullable=False),
        sa.Column("iteration_count", sa.Integer, nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("outcome", "surprise", "root_cause", "lesson", "tier")),
        unique=("uid",),
    )
    add_index("ix_experiences_status", "experiences", "status", "created_at")
    add_table(
        "learned_values",
        *_kept_columns(),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("text", "axis", "cluster_id", "space")),
        sa.Column("cluster_size", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Float, nullable=False) for name in ("similarity_to_centroid", "distance")),
        sa.Column("distance_limit", sa.Float, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("members", "domains", "strategies")),
        unique=("uid",),
    )
    _add_clusters()
    add_table(
        "checks",
        sa.Column("result_uid", sa.Text, nullable=False),
        sa.Column("call_uid", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("at", sa.BigInteger, nullable=False),
        unique=("result_uid",),
    )
    add_index("ix_checks_at", "checks", "at", where="outcome IS NOT NULL")
    add_index("ix_messages_results", "messages", "tool_name", where="type = 'tool_result'")


def _add_clusters() -> None:
    add_table(
        "clusters",
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("axis", sa.Text, nullable=False),
        sa.Column("space", sa.Text, nullable=False),
        sa.Column("centroid", sa.LargeBinary, nullable=False),
        sa.Column("mean_distance", sa.Float, nullable=False),
        sa.Column("deviation", sa.Float, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("retired_at", sa.BigInteger),
        unique=("uid",),
    )
    add_table(
        "cluster_members",
        sa.Column("cluster_uid", sa.Text, nullable=False),
        sa.Column("experience_uid", sa.Text, nullable=False),
        sa.Column("distance", sa.Float, nullable=False),
        unique=("cluster_uid", "experience_uid"),
    )


def _kept_columns() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("trust", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
