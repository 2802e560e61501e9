"""Files that were indexed, their projects, and the parts that they were taken into."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Row, Select, Table, bindparam, delete, insert, select, update

from harken.errors import NotFoundError
from harken.model.conversations import NewEntry, ProjectIdentity, Trust
from harken.storage.columns import Dialect
from harken.storage.ports import Transaction, batches, rows_among, rows_in
from harken.storage.scopes import ensure_project
from harken.storage.source_entries import RecordHead, add_record_entries, drop_record_entries
from harken.storage.tables import project_aliases, projects
from harken.storage.workspace.tables import code_units, indexed_files, passages


def project_of(tx: Transaction, identity: ProjectIdentity | None) -> tuple[int, str]:
    """The row and the key of a project, made if it is new.

    Raises:
        NotFoundError: there is no identity.
    """
    if identity is None:
        raise NotFoundError("A folder without a path belongs to no project.")
    project_id = ensure_project(tx, identity)
    return project_id, key_of(tx, project_id)


def known_project(tx: Transaction, identity: ProjectIdentity | None) -> int | None:
    """The row of a project; None where nothing is known of it."""
    if identity is None:
        return None
    named = project_aliases.c.alias.in_((identity.key, *identity.aliases))
    statement = select(project_aliases.c.project_id).where(project_aliases.c.tenant == tx.tenant, named)
    return tx.connection.scalar(
        statement.order_by(project_aliases.c.alias != identity.key, project_aliases.c.id).limit(1)
    )


def key_of(tx: Transaction, project_id: int) -> str:
    """The key of a project."""
    statement = select(projects.c.key).where(projects.c.tenant == tx.tenant, projects.c.id == project_id)
    return str(tx.connection.execute(statement).scalar_one())


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
    """A record made of a part of a file, and what search sees of it.

    Attributes:
        uid: the same as long as it is the same part.
        row: its own columns.
    """

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
    of_project = (indexed_files.c.tenant == tx.tenant, indexed_files.c.source == source)
    statement = select(indexed_files).where(*of_project, indexed_files.c.project_id == project_id)
    rows: list[Any] = []
    if paths is None:
        rows.extend(tx.connection.execute(statement))
    else:
        rows.extend(rows_in(tx, statement, indexed_files.c.path, paths))
    return {row.path: FileState(row.path, row.size, row.modified, row.digest, row.skipped) for row in rows}


def put_file_states(tx: Transaction, source: str, project_id: int, states: Sequence[FileState]) -> None:
    """Remember how these files stand."""
    for state in states:
        values = {"size": state.size, "modified": state.modified, "digest": state.digest, "skipped": state.skipped}
        row = {"tenant": tx.tenant, "source": source, "project_id": project_id, "path": state.path, **values}
        key = ("source", "project_id", "path")
        tx.connection.execute(tx.dialect.upsert(indexed_files, row, key, values))


def drop_files(tx: Transaction, source: str, project_id: int, paths: Sequence[str]) -> Changes:
    """Forget files that are gone, with their parts."""
    changes = replace_parts(tx, source, project_id, dict.fromkeys(paths, ()))
    for batch in batches(paths):
        tx.connection.execute(
            delete(indexed_files).where(
                indexed_files.c.tenant == tx.tenant,
                indexed_files.c.source == source,
                indexed_files.c.project_id == project_id,
                indexed_files.c.path.in_(batch),
            )
        )
    return changes


def replace_parts(
    tx: Transaction, source: str, project_id: int, files: Mapping[str, Sequence[FilePart]], at: datetime = EPOCH
) -> Changes:
    """Give files these parts in place of those they had.

    Args:
        tx: a writing transaction.
        source: `code` or `document`.
        project_id: whose files.
        files: the parts of each, by path.
        at: the moment that new entries bear.
    """
    table = PARTS[source]
    statement = select(table).where(table.c.tenant == tx.tenant, table.c.project_id == project_id)
    known = {row.uid: row for row in rows_in(tx, statement, table.c.path, files)}
    wanted = {part.uid: (path, part) for path, parts in files.items() for part in parts}
    gone = [uid for uid in known if uid not in wanted]
    new = [(path, part) for uid, (path, part) in wanted.items() if uid not in known]
    other = [part for uid, (_, part) in wanted.items() if uid in known and known[uid].digest != part.digest]
    drop_record_entries(tx, source, [*gone, *(part.uid for part in other)])
    for batch in batches(gone):
        tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, table.c.uid.in_(batch)))
    for uid, (_, part) in wanted.items():
        if uid in known:
            _update(tx, table, known[uid], part)
    shared = {"tenant": tx.tenant, "project_id": project_id}
    rows = [{**shared, "uid": part.uid, "path": path, "digest": part.digest, **part.row} for path, part in new]
    if rows:
        tx.connection.execute(insert(table), rows)
    # Texts of one length are embedded together, which saves padding.
    seen = sorted([*(part for _, part in new), *other], key=lambda part: len(part.entry.text))
    heads = [(RecordHead(source, part.uid, at, project_id, Trust.IMPORTED), [part.entry]) for part in seen]
    add_record_entries(tx, heads)
    return Changes(len(new), len(other), len(gone))


def find_parts(tx: Transaction, source: str, uids: Collection[str]) -> dict[str, Row[Any]]:
    """Parts by id; ids that name nothing are left out."""
    return {row.uid: row for row in rows_among(tx, _named(tx.dialect, source), uids)}


@cache
def _named(dialect: Dialect, source: str) -> Select[Any]:
    table = PARTS[source]
    return select(table).where(table.c.tenant == bindparam("of_tenant"), dialect.among(table.c.uid))


def _update(tx: Transaction, table: Table, known: Row[Any], part: FilePart) -> None:
    """Bring a row to how its part stands now; most often only its lines have moved."""
    values = {"digest": part.digest, **part.row}
    now = known._mapping
    if any(now[name] != value for name, value in values.items()):
        of_part = (table.c.tenant == tx.tenant, table.c.uid == part.uid)
        tx.connection.execute(update(table).where(*of_part).values(**values))
