"""Commits as rows, what changed in them, and what that says of files and people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, or_

from harken.model.conversations import NewEntry, Trust
from harken.model.workspace import Commit, FileChange
from harken.storage.entries import RecordHead, add_record_entries, drop_record_entries
from harken.storage.ports import Transaction, batches, rows_by, rows_in
from harken.storage.tables import commit_files, commits, histories, joined, reader, writer
from harken.storage.workspace.files import derived_uid

SOURCE = "commit"


@dataclass(frozen=True, slots=True)
class History:
    """How far a project's history was read: from the commit that was checked out, so many, none before `since`."""

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
    row = tx.connection.execute(tx.select(histories).where(histories.c.project_id == project_id)).first()
    return None if row is None else _history(row)


def put_history(tx: Transaction, project_id: int, history: History) -> None:
    """Remember how far the project's history was read."""
    tx.put(histories, {"project_id": project_id}, _history_row(history))


_history, _history_row = reader(History), writer(History, histories)


def known_shas(tx: Transaction, project_id: int, shas: Collection[str] | None = None) -> set[str]:
    """Which of these commits are here, or all that are."""
    statement = tx.select(commits.c.sha).where(commits.c.project_id == project_id)
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
        {"tenant": tx.tenant, "uid": uid, "project_id": project_id, **_commit_row(commit)}
        for uid, (commit, _) in fresh.items()
    ]
    added = tx.connection.execute(insert(commits).returning(commits.c.uid, commits.c.id), rows)
    files = (
        {"commit_id": row.id, "project_id": project_id, "number": number, **_change_row(change)}
        for row in added
        for number, change in enumerate(fresh[row.uid][0].files)
    )
    tx.insert(commit_files, files)
    heads = [
        (RecordHead(SOURCE, uid, commit.authored_at, project_id, Trust.IMPORTED), made)
        for uid, (commit, made) in fresh.items()
    ]
    add_record_entries(tx, heads)
    return len(fresh)


def drop_commits(tx: Transaction, project_id: int, shas: Collection[str]) -> int:
    """Remove commits that are no part of the history any more."""
    statement = tx.select(commits.c.id, commits.c.uid, commits.c.sha).where(commits.c.project_id == project_id)
    rows = list(rows_in(tx, statement, commits.c.sha, shas))
    drop_record_entries(tx, SOURCE, [row.uid for row in rows])
    for batch in batches([row.id for row in rows]):
        tx.delete(commit_files, commit_files.c.commit_id.in_(batch))
        tx.delete(commits, commits.c.id.in_(batch))
    return len(rows)


def find_commits(tx: Transaction, uids: Collection[str]) -> dict[str, Commit]:
    """Commits by id, with their files; ids that name nothing are left out."""
    rows = list(rows_by(tx, commits.c.uid, uids))
    return dict(zip([row.uid for row in rows], _with_files(tx, rows), strict=True))


def file_history(tx: Transaction, project_id: int, path: str, limit: int) -> list[Commit]:
    """The commits that changed a file, newest first, also under the names that it had before."""
    rows: list[Row[Any]] = []
    name, before = path, datetime(9999, 12, 31, tzinfo=UTC)
    names = {path}
    while len(rows) < limit:
        named = (
            tx.select(commits, commit_files.c.old_path)
            .select_from(_CHANGED)
            .where(commits.c.project_id == project_id, commit_files.c.path == name, commits.c.committed_at <= before)
            .order_by(commits.c.committed_at.desc(), commits.c.id)
        )
        found = tx.connection.execute(named.limit(limit - len(rows))).all()
        renamed = next((row for row in found if row.old_path), None)
        rows += found[: found.index(renamed) + 1] if renamed else found
        if renamed is None or renamed.old_path in names:
            break
        name, before = renamed.old_path, renamed.committed_at
        names.add(name)
    return _with_files(tx, rows)


def churn(tx: Transaction, project_id: int, since: datetime, limit: int) -> list[Churn]:
    """The files that changed most often since a moment."""
    changes, last_at = func.count().label("changes"), func.max(commits.c.committed_at).label("last_at")
    people = func.count(func.distinct(commits.c.email)).label("authors")
    statement = (
        tx.select(commit_files.c.path, changes, *_LINES, people, last_at, of=commits)
        .select_from(_CHANGED)
        .where(commits.c.project_id == project_id, commits.c.committed_at >= since)
        .group_by(commit_files.c.path)
        .order_by(changes.desc(), last_at.desc(), commit_files.c.path)
        .limit(limit)
    )
    return list(map(_churn, tx.connection.execute(statement)))


def authors(tx: Transaction, project_id: int, path: str) -> list[Authorship]:
    """Who changed a file or what is in a folder, most commits first; an empty path is the whole project."""
    made = func.count(func.distinct(commits.c.id)).label("commits")
    times = (func.min(commits.c.authored_at).label("first_at"), func.max(commits.c.authored_at).label("last_at"))
    inside = commit_files.c.path.startswith(f"{path}/", autoescape=True)
    below: list[ColumnElement[bool]] = [or_(commit_files.c.path == path, inside)] if path else []
    statement = (
        tx.select(commits.c.email, func.max(commits.c.author).label("author"), made, *_LINES, *times)
        .select_from(_CHANGED)
        .where(commits.c.project_id == project_id, *below)
        .group_by(commits.c.email)
        .order_by(made.desc(), commits.c.email)
    )
    return list(map(_authorship, tx.connection.execute(statement)))


_CHANGED = joined(commit_files, commits)
_LINES = tuple(func.sum(commit_files.c[name]).label(name) for name in ("insertions", "deletions"))
_churn = reader(Churn, insertions=int, deletions=int)
_authorship = reader(Authorship, insertions=int, deletions=int)


def _with_files(tx: Transaction, rows: Sequence[Row[Any]]) -> list[Commit]:
    changes: dict[int, list[FileChange]] = {}
    changed = rows_by(tx, commit_files.c.commit_id, {row.id for row in rows})
    for row in sorted(changed, key=lambda row: (row.commit_id, row.number)):
        changes.setdefault(row.commit_id, []).append(_change(row))
    return [_commit(row, files=tuple(changes.get(row.id, ()))) for row in rows]


_commit, _change = reader(Commit, ("files", "additions")), reader(FileChange)
_commit_row, _change_row = writer(Commit, commits), writer(FileChange, commit_files)
