"""What is indexed: units of code, passages of documents, commits."""

from __future__ import annotations

import sqlalchemy as sa

from harken.storage.migrations.shapes import add_index, add_table

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _number(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _lines() -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in ("start_line", "end_line")]


def upgrade() -> None:
    """Create the tables, and the ways into them: by project and path, by commit and by moment."""
    add_table(
        "indexed_files",
        *_text("source"),
        *_number("project_id"),
        *_text("path"),
        *_number("size", "modified"),
        *_text("digest", "skipped"),
        unique=("source", "project_id", "path"),
    )
    add_table(
        "code_units",
        *_text("uid"),
        *_number("project_id"),
        *_text("path", "digest", "unit_type", "name", "qualified_name", "language", "signature", "docstring"),
        *_lines(),
        unique=("uid",),
    )
    add_index("ix_code_units_path", "code_units", "project_id", "path")
    add_table(
        "passages",
        *_text("uid"),
        *_number("project_id"),
        *_text("path", "digest"),
        sa.Column("number", sa.Integer, nullable=False),
        *_text("headings", "text"),
        *_lines(),
        unique=("uid",),
    )
    add_index("ix_passages_path", "passages", "project_id", "path")
    _create_commits()


def _create_commits() -> None:
    add_table(
        "commits",
        *_text("uid"),
        *_number("project_id"),
        *_text("sha", "author", "email"),
        *_number("authored_at", "committed_at"),
        *_text("message"),
        *_number("insertions", "deletions"),
        unique=("uid",),
    )
    add_index("ix_commits_committed", "commits", "project_id", "committed_at")
    add_table(
        "commit_files",
        *_number("commit_id", "project_id"),
        sa.Column("number", sa.Integer, nullable=False),
        *_text("path"),
        sa.Column("old_path", sa.Text, nullable=True),
        *_number("insertions", "deletions"),
        unique=("commit_id", "number"),
    )
    add_index("ix_commit_files_path", "commit_files", "project_id", "path")
    add_table(
        "histories",
        *_number("project_id"),
        *_text("head"),
        *_number("since"),
        sa.Column("most_commits", sa.Integer, nullable=False),
        unique=("project_id",),
    )
