"""Files that were indexed, and the parts that they were taken into."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Table, func

from harken.model.conversations import NewEntry, Trust
from harken.storage.entries import RecordHead, add_record_entries, drop_record_entries
from harken.storage.ports import Transaction, batches, rows_by, rows_in
from harken.storage.tables import code_units, commits, indexed_files, passages, projects, reader, writer

PARTS: Mapping[str, Table] = {"code": code_units, "document": passages}
_UID_DIGITS = 32
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FileState:
    """How a file stood when it was last looked at.

    Attributes:
        modified: in nanoseconds.
        digest: of its bytes, with the version of what made its parts; empty where they were not read.
        skipped: why it has no parts; empty where it was indexed.
    """

    path: str
    size: int
    modified: int
    digest: str
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A record made of a part of a file, with its own columns; the id is the same as long as it is the same part."""

    uid: str
    row: Mapping[str, Any]
    entry: NewEntry

    @property
    def digest(self) -> str:
        """Of all that search sees: while it is the same, entry and vector stay."""
        return hashlib.sha256("\0".join((self.entry.text, *self.entry.facets)).encode()).hexdigest()


@dataclass(slots=True)
class Changes:
    """How many parts came, became others, and went."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def add(self, other: Changes) -> None:
        """Count these as well."""
        self.added += other.added
        self.changed += other.changed
        self.removed += other.removed


def derived_uid(*names: str) -> str:
    """The id of a record that is made again from what lies on the disk: the same names give the same id."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:_UID_DIGITS]


def file_states(
    tx: Transaction, source: str, project_id: int, paths: Collection[str] | None = None
) -> dict[str, FileState]:
    """How files stood when they were last looked at, by path: these, or all of the project's."""
    statement = tx.select(indexed_files).where(*_of_project(source, project_id))
    if paths is None:
        return {row.path: _file_state(row) for row in tx.connection.execute(statement)}
    return {row.path: _file_state(row) for row in rows_in(tx, statement, indexed_files.c.path, paths)}


def count_parts(tx: Transaction) -> list[tuple[str, str, int]]:
    """(project's key, source, parts that search sees) of everything that was indexed, by project."""
    found: list[tuple[int, str, int]] = []
    for source, table in (*PARTS.items(), ("commit", commits)):
        counted = tx.select(table.c.project_id, func.count()).group_by(table.c.project_id)
        found += [(row[0], source, int(row[1])) for row in tx.connection.execute(counted)]
    ids = {project_id for project_id, _, _ in found}
    keys = {row.id: row.key for row in rows_by(tx, projects.c.id, ids, projects.c.id, projects.c.key)}
    return sorted((keys[project_id], source, count) for project_id, source, count in found)


def put_file_states(tx: Transaction, source: str, project_id: int, states: Sequence[FileState]) -> None:
    """Remember how these files stand."""
    for state in states:
        key = {"source": source, "project_id": project_id, "path": state.path}
        tx.put(indexed_files, key, _file_row(state))


_file_state, _file_row = reader(FileState), writer(FileState, indexed_files)


def _of_project(source: str, project_id: int) -> tuple[Any, ...]:
    return indexed_files.c.source == source, indexed_files.c.project_id == project_id


def drop_files(tx: Transaction, source: str, project_id: int, paths: Sequence[str]) -> Changes:
    """Forget files that are gone, with their parts."""
    changes = replace_parts(tx, source, project_id, dict.fromkeys(paths, ()))
    for batch in batches(paths):
        tx.delete(indexed_files, *_of_project(source, project_id), indexed_files.c.path.in_(batch))
    return changes


def replace_parts(
    tx: Transaction, source: str, project_id: int, files: Mapping[str, Sequence[FilePart]], at: datetime = EPOCH
) -> Changes:
    """Give files of a project (by path) these parts in place of those they had; new entries bear the moment."""
    table = PARTS[source]
    statement = tx.select(table).where(table.c.project_id == project_id)
    known = {row.uid: row for row in rows_in(tx, statement, table.c.path, files)}
    wanted = {part.uid: (path, part) for path, parts in files.items() for part in parts}
    gone = [uid for uid in known if uid not in wanted]
    new = [(path, part) for uid, (path, part) in wanted.items() if uid not in known]
    other = [part for uid, (_, part) in wanted.items() if uid in known and known[uid].digest != part.digest]
    drop_record_entries(tx, source, [*gone, *(part.uid for part in other)])
    for batch in batches(gone):
        tx.delete(table, table.c.uid.in_(batch))
    for uid, (_, part) in wanted.items():
        values = {"digest": part.digest, **part.row}
        # Most often only its lines have moved.
        if uid in known and any(known[uid]._mapping[name] != value for name, value in values.items()):
            tx.update(table, table.c.uid == uid, **values)
    shared = {"project_id": project_id}
    tx.insert(
        table, ({**shared, "uid": part.uid, "path": path, "digest": part.digest, **part.row} for path, part in new)
    )
    # Texts of one length are embedded together, which saves padding.
    seen = sorted([*(part for _, part in new), *other], key=lambda part: len(part.entry.text))
    heads = [(RecordHead(source, part.uid, at, project_id, Trust.IMPORTED), [part.entry]) for part in seen]
    add_record_entries(tx, heads)
    return Changes(len(new), len(other), len(gone))


def find_parts(tx: Transaction, source: str, uids: Collection[str]) -> dict[str, Row[Any]]:
    """Parts by id; ids that name nothing are left out."""
    return {row.uid: row for row in rows_by(tx, PARTS[source].c.uid, uids)}
