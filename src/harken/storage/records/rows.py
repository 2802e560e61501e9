"""Saved records in and out of their rows, the same for every source; and the registry of the sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Row, Select, bindparam, delete, select, update

from harken.errors import NotFoundError
from harken.model.conversations import KEPT_FOLDERS, ProjectIdentity, SavedRecord, Trust
from harken.storage.columns import Dialect
from harken.storage.conversations import find_tombstones
from harken.storage.ports import Transaction, batches, rows_among, rows_in
from harken.storage.records.experiences import EXPERIENCES, VALUES
from harken.storage.records.memories import MEMORIES
from harken.storage.records.table import KeptTable
from harken.storage.scopes import ensure_project, project_of_row
from harken.storage.source_entries import RecordHead, add_record_entries, drop_record_entries, remove_entries
from harken.storage.tables import entries, tombstones

KEPT: dict[str, KeptTable] = {one.source: one for one in (MEMORIES, EXPERIENCES, VALUES)}
SOURCE_OF_FOLDER = {KEPT_FOLDERS[source]: source for source in KEPT}


Projects = dict[int, ProjectIdentity]
_SHORTEST_BEGINNING = 4
_SHOWN = 3


def apply_kept(tx: Transaction, kept: SavedRecord) -> None:
    """Bring a record to this state, unless it was forgotten or is in a later one; without fields, forget it."""
    if kept.fields is None:
        forget_kept(tx, kept)
        return
    table = KEPT[kept.source].table
    of_record = (table.c.tenant == tx.tenant, table.c.uid == kept.uid)
    present = tx.connection.execute(select(table).where(*of_record)).first()
    if (present is not None and present.updated_at > kept.at) or find_tombstones(tx, [kept.uid]):
        return
    project_id = None if kept.project is None else ensure_project(tx, kept.project)
    row = {"project_id": project_id, "updated_at": kept.at, **KEPT[kept.source].row(kept)}
    if present is not None:
        if all(present._mapping[name] == value for name, value in row.items()):
            return
        tx.connection.execute(update(table).where(*of_record).values(**row))
    else:
        tx.connection.execute(table.insert().values(tenant=tx.tenant, uid=kept.uid, **row))
    drop_record_entries(tx, kept.source, [kept.uid])
    head = RecordHead(kept.source, kept.uid, row["created_at"], project_id, Trust(row["trust"]))
    add_record_entries(tx, [(head, KEPT[kept.source].entries(kept))])


def forget_kept(tx: Transaction, kept: SavedRecord) -> None:
    """Remove every row of a record and leave its tombstone."""
    table = KEPT[kept.source].table
    drop_record_entries(tx, kept.source, [kept.uid])
    tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, table.c.uid == kept.uid))
    grave = {"uid": kept.uid, "conversation_uid": kept.conversation_uid, "kind": kept.source, "at": kept.at}
    tx.connection.execute(tx.dialect.upsert(tombstones, {"tenant": tx.tenant, **grave}, ("uid",)))


def each_kept(tx: Transaction, source: str) -> Iterator[SavedRecord]:
    """Every record of a source, oldest first."""
    table = KEPT[source].table
    rows = tx.connection.execute(select(table).where(table.c.tenant == tx.tenant)).all()
    known: Projects = {}
    for row in sorted(rows, key=lambda row: (row.created_at, row.uid)):
        yield kept_of(tx, source, row, known)


def find_kept(tx: Transaction, source: str, uids: Sequence[str]) -> dict[str, SavedRecord]:
    """Records by id; ids that name nothing are left out."""
    known: Projects = {}
    return {row.uid: kept_of(tx, source, row, known) for row in rows_among(tx, _named(tx.dialect, source), uids)}


@cache
def _named(dialect: Dialect, source: str) -> Select[Any]:
    table = KEPT[source].table
    return select(table).where(table.c.tenant == bindparam("of_tenant"), dialect.among(table.c.uid))


def kept_times(tx: Transaction, source: str, uids: Sequence[str]) -> dict[str, datetime]:
    """When each record last changed, by id."""
    table = KEPT[source].table
    statement = select(table.c.uid, table.c.updated_at).where(table.c.tenant == tx.tenant)
    return {row.uid: row.updated_at for row in rows_in(tx, statement, table.c.uid, uids)}


def has_kept(tx: Transaction, source: str) -> bool:
    """Whether there is any record of a source."""
    table = KEPT[source].table
    return tx.connection.execute(select(table.c.id).where(table.c.tenant == tx.tenant).limit(1)).first() is not None


def kept_uid(tx: Transaction, source: str, beginning: str) -> str:
    """The id of the one record whose id begins like this.

    Raises:
        NotFoundError: none does, or several do.
    """
    table = KEPT[source].table
    long_enough = len(beginning) >= _SHORTEST_BEGINNING
    statement = select(table.c.uid).where(
        table.c.tenant == tx.tenant, table.c.uid >= beginning, table.c.uid < beginning + "\U0010ffff"
    )
    found = tx.connection.scalars(statement.order_by(table.c.uid).limit(_SHOWN)).all() if long_enough else []
    if len(found) == 1 or beginning in found:
        return beginning if beginning in found else found[0]
    what = f"There is no {source} {beginning}" if not found else f"Several ids of {source} begin with {beginning}"
    raise NotFoundError(f"{what}. Ids are printed by: harken {source} list")


def kept_of(tx: Transaction, source: str, row: Row[Any], known: Projects | None = None) -> SavedRecord:
    """The record that a whole row of its source's table holds.

    Args:
        tx: the transaction.
        source: of the record.
        row: of its table.
        known: projects that were looked up already, by row; it gains what this one needs.
    """
    found: Projects = {} if known is None else known
    if row.project_id is not None and row.project_id not in found:
        found[row.project_id] = project_of_row(tx, row.project_id)
    return SavedRecord(source, row.uid, row.updated_at, KEPT[source].fields(row), found.get(row.project_id))


def drop_kept(tx: Transaction, source: str) -> None:
    """Remove every record of a source, for a rebuild; tombstones stay."""
    table = KEPT[source].table
    remove_entries(tx, entries.c.source == source)
    tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant))


def set_local(tx: Transaction, source: str, uids: Sequence[str], **values: Any) -> None:
    """Set columns that this database alone knows."""
    table = KEPT[source].table
    for batch in batches(uids):
        tx.connection.execute(update(table).where(table.c.tenant == tx.tenant, table.c.uid.in_(batch)).values(**values))
