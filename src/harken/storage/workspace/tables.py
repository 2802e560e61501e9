"""The tables of what was indexed; every row can be made again from what lies on the disk."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from harken.storage.columns import Listed
from harken.storage.tables import _key, _moment, _reference, _tenant, _uid, metadata

# How each file stood when it was last looked at.
indexed_files = Table(
    "indexed_files",
    metadata,
    _key(),
    _tenant(),
    Column("source", Text, nullable=False),
    _reference("project_id"),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("skipped", Text, nullable=False),
)

code_units = Table(
    "code_units",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("project_id"),
    Column("path", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("unit_type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("qualified_name", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("docstring", Text, nullable=False),
    Column("start_line", Integer, nullable=False),
    Column("end_line", Integer, nullable=False),
)

passages = Table(
    "passages",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("project_id"),
    Column("path", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("headings", Listed, nullable=False),
    Column("text", Text, nullable=False),
    Column("start_line", Integer, nullable=False),
    Column("end_line", Integer, nullable=False),
)

commits = Table(
    "commits",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("project_id"),
    Column("sha", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("email", Text, nullable=False),
    _moment("authored_at"),
    _moment("committed_at"),
    Column("message", Text, nullable=False),
    Column("insertions", BigInteger, nullable=False),
    Column("deletions", BigInteger, nullable=False),
)

commit_files = Table(
    "commit_files",
    metadata,
    _key(),
    _tenant(),
    _reference("commit_id"),
    _reference("project_id"),
    Column("number", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("old_path", Text),
    Column("insertions", BigInteger, nullable=False),
    Column("deletions", BigInteger, nullable=False),
)

# How far each project's history was read, and in which bounds.
histories = Table(
    "histories",
    metadata,
    _key(),
    _tenant(),
    _reference("project_id"),
    Column("head", Text, nullable=False),
    _moment("since"),
    Column("most_commits", Integer, nullable=False),
)

INDEXED = (indexed_files, code_units, passages, commits, commit_files, histories)
