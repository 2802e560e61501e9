"""Commits as rows, what changed in them, and what that says of files and people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Column, ColumnElement, Row, Select, Table, bindparam, delete, func, insert, or_, select

from harken.model.conversations import NewEntry, Trust
from harken.model.workspace import Commit, FileChange
from harken.storage.columns import Dialect
from harken.storage.ports import Transaction, batches, rows_among, rows_in
from harken.storage.source_entries import RecordHead, add_record_entries, drop_record_entries
from harken.storage.tables import refers
from harken.storage.workspace.files import derived_uid
from harken.storage.workspace.tables import commit_files, commits, histories

SOURCE = "commit"


@dataclass(frozen=True, slots=True)
class History:
    """How far a project's history was read.

    Attributes:
        head: the commit that was checked out.
        since: commits before it were left out.
        most_commits: no more were read.
    """

    head: str
    since: datetime
    most_commits: int


@dataclass(frozen=True, slots=True)
class Churn:
    """How often a file changed in a time."""

    path: str
    changes: int
    insertions: int
    deletions: int
    authors: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Authorship:
    """What one person did to a file or a folder."""

    author: str
    email: str
    commits: int
    insertions: int
    deletions: int
    first_at: datetime
    last_at: datetime


def history_of(tx: Transaction, project_id: int) -> History | None:
    """How far the project's history was read; None where it was not."""
    of_project = (histories.c.tenant == tx.tenant, histories.c.project_id == project_id)
    row = tx.connection.execute(select(histories).where(*of_project)).first()
    return None if row is None else History(row.head, row.since, row.most_commits)


def put_history(tx: Transaction, project_id: int, history: History) -> None:
    """Remember how far the project's history was read."""
    values = {"head": history.head, "since": history.since, "most_commits": history.most_commits}
    row = {"tenant": tx.tenant, "project_id": project_id, **values}
    tx.connection.execute(tx.dialect.upsert(histories, row, ("project_id",), values))


def known_shas(tx: Transaction, project_id: int, shas: Collection[str] | None = None) -> set[str]:
    """Which of these commits are here, or all that are."""
    statement = select(commits.c.sha).where(commits.c.tenant == tx.tenant, commits.c.project_id == project_id)
    if shas is None:
        return set(tx.connection.scalars(statement))
    return {row.sha for row in rows_in(tx, statement, commits.c.sha, shas)}


def add_commits(
    tx: Transaction, project_id: int, project: str, new: Sequence[tuple[Commit, Sequence[NewEntry]]]
) -> int:
    """Add commits with what search sees of each; those that are here already are left alone.

    Returns:
        How many were new.
    """
    known = known_shas(tx, project_id, [commit.sha for commit, _ in new])
    fresh = {
        derived_uid(SOURCE, project, commit.sha): (commit, made) for commit, made in new if commit.sha not in known
    }
    if not fresh:
        return 0
    rows = [
        {"tenant": tx.tenant, "uid": uid, "project_id": project_id, **_row(commit)}
        for uid, (commit, _) in fresh.items()
    ]
    added = tx.connection.execute(insert(commits).returning(commits.c.uid, commits.c.id), rows)
    files = [
        {"tenant": tx.tenant, "commit_id": row.id, "project_id": project_id, "number": number, **_file_row(change)}
        for row in added
        for number, change in enumerate(fresh[row.uid][0].files)
    ]
    if files:
        tx.connection.execute(insert(commit_files), files)
    heads = [
        (RecordHead(SOURCE, uid, commit.authored_at, project_id, Trust.IMPORTED), made)
        for uid, (commit, made) in fresh.items()
    ]
    add_record_entries(tx, heads)
    return len(fresh)


def drop_commits(tx: Transaction, project_id: int, shas: Collection[str]) -> int:
    """Remove commits that are no part of the history any more."""
    statement = select(commits.c.id, commits.c.uid, commits.c.sha).where(
        commits.c.tenant == tx.tenant, commits.c.project_id == project_id
    )
    rows = list(rows_in(tx, statement, commits.c.sha, shas))
    drop_record_entries(tx, SOURCE, [row.uid for row in rows])
    for batch in batches([row.id for row in rows]):
        for table, column in ((commit_files, commit_files.c.commit_id), (commits, commits.c.id)):
            tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, column.in_(batch)))
    return len(rows)


def find_commits(tx: Transaction, uids: Collection[str]) -> dict[str, Commit]:
    """Commits by id, with their files; ids that name nothing are left out."""
    rows = list(rows_among(tx, _among(tx.dialect, commits, commits.c.uid), uids))
    return dict(zip([row.uid for row in rows], _with_files(tx, rows), strict=True))


def file_history(tx: Transaction, project_id: int, path: str, limit: int) -> list[Commit]:
    """The commits that changed a file, newest first, also under the names that it had before."""
    rows: list[Row[Any]] = []
    name, before = path, datetime(9999, 12, 31, tzinfo=UTC)
    names = {path}
    while len(rows) < limit:
        joined = commit_files.join(commits, refers(commit_files.c.commit_id, commits))
        named = (
            select(commits, commit_files.c.old_path)
            .select_from(joined)
            .where(
                commits.c.tenant == tx.tenant,
                commits.c.project_id == project_id,
                commit_files.c.path == name,
                commits.c.committed_at <= before,
            )
        )
        found = tx.connection.execute(
            named.order_by(commits.c.committed_at.desc(), commits.c.id).limit(limit - len(rows))
        ).all()
        renamed = next((row for row in found if row.old_path), None)
        rows += found[: found.index(renamed) + 1] if renamed else found
        if renamed is None or renamed.old_path in names:
            break
        name, before = renamed.old_path, renamed.committed_at
        names.add(name)
    return _with_files(tx, rows)


def churn(tx: Transaction, project_id: int, since: datetime, limit: int) -> list[Churn]:
    """The files that changed most often since a moment."""
    joined = commit_files.join(commits, refers(commit_files.c.commit_id, commits))
    changes = func.count().label("changes")
    statement = (
        select(
            commit_files.c.path,
            changes,
            func.sum(commit_files.c.insertions).label("insertions"),
            func.sum(commit_files.c.deletions).label("deletions"),
            func.count(func.distinct(commits.c.email)).label("authors"),
            func.max(commits.c.committed_at).label("last_at"),
        )
        .select_from(joined)
        .where(commits.c.tenant == tx.tenant, commits.c.project_id == project_id, commits.c.committed_at >= since)
        .group_by(commit_files.c.path)
        .order_by(changes.desc(), func.max(commits.c.committed_at).desc(), commit_files.c.path)
        .limit(limit)
    )
    return [
        Churn(row.path, row.changes, int(row.insertions), int(row.deletions), row.authors, row.last_at)
        for row in tx.connection.execute(statement)
    ]


def authors(tx: Transaction, project_id: int, path: str) -> list[Authorship]:
    """Who changed a file or what is in a folder, most commits first; an empty path is the whole project."""
    joined = commit_files.join(commits, refers(commit_files.c.commit_id, commits))
    made = func.count(func.distinct(commits.c.id)).label("commits")
    statement = (
        select(
            commits.c.email,
            func.max(commits.c.author).label("author"),
            made,
            func.sum(commit_files.c.insertions).label("insertions"),
            func.sum(commit_files.c.deletions).label("deletions"),
            func.min(commits.c.authored_at).label("first_at"),
            func.max(commits.c.authored_at).label("last_at"),
        )
        .select_from(joined)
        .where(commits.c.tenant == tx.tenant, commits.c.project_id == project_id, *_below(path))
        .group_by(commits.c.email)
        .order_by(made.desc(), commits.c.email)
    )
    return [
        Authorship(
            row.author, row.email, row.commits, int(row.insertions), int(row.deletions), row.first_at, row.last_at
        )
        for row in tx.connection.execute(statement)
    ]


def _below(path: str) -> list[ColumnElement[bool]]:
    inside = commit_files.c.path.startswith(f"{path}/", autoescape=True)
    return [or_(commit_files.c.path == path, inside)] if path else []


def _row(commit: Commit) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "author": commit.author,
        "email": commit.email,
        "authored_at": commit.authored_at,
        "committed_at": commit.committed_at,
        "message": commit.message,
        "insertions": commit.insertions,
        "deletions": commit.deletions,
    }


def _file_row(change: FileChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "old_path": change.old_path,
        "insertions": change.insertions,
        "deletions": change.deletions,
    }


def _with_files(tx: Transaction, rows: Sequence[Row[Any]]) -> list[Commit]:
    statement = _among(tx.dialect, commit_files, commit_files.c.commit_id)
    changes: dict[int, list[FileChange]] = {}
    for row in _in_order(rows_among(tx, statement, {row.id for row in rows})):
        change = FileChange(row.path, row.insertions, row.deletions, row.old_path)
        changes.setdefault(row.commit_id, []).append(change)
    return [
        Commit(
            row.sha,
            row.author,
            row.email,
            row.authored_at,
            row.committed_at,
            row.message,
            tuple(changes.get(row.id, ())),
        )
        for row in rows
    ]


@cache
def _among(dialect: Dialect, table: Table, column: Column[Any]) -> Select[Any]:
    return select(table).where(table.c.tenant == bindparam("of_tenant"), dialect.among(column))


def _in_order(rows: Iterator[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.commit_id, row.number))
