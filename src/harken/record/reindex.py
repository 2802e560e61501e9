"""Rebuilding the rows from the journal, conversation by conversation, while the store stays open to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import strftime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, select, update

from harken.model import CORE_MEMORY
from harken.record.journal import Journal
from harken.record.replay import FORGETTING, IngestOf, Replayed, replay_conversation
from harken.storage.batches import rows_in
from harken.storage.core import drop_core_facts
from harken.storage.forgetting import delete_conversation_rows
from harken.storage.kept.registry import SOURCE_OF_FOLDER
from harken.storage.kept.rows import drop_kept
from harken.storage.state import journal_offset, put_journal_offset
from harken.storage.store import Store, Transaction
from harken.storage.summaries import restore_summaries
from harken.storage.tables import conversations, entries, refers, vectors


def reindex(store: Store, journal: Journal, ingest: IngestOf, done: Replayed) -> Iterator[tuple[int, int]]:
    """Make every conversation's rows anew from the journal, yielding (conversations done, in all).

    Ids, texts, segments and tombstones come back as they were; vectors are kept where their entry comes back, and
    summaries, which the journal has not, where what they summarize does.
    """
    folders = sorted({path.partition("/")[0] for path, _ in journal.files()})
    for number, folder in enumerate(folders, start=1):
        with store.writing() as tx:
            kept = _vectors_of(tx, folder)
            delete_conversation_rows(tx, folder)
            if folder == CORE_MEMORY:
                drop_core_facts(tx)
            if folder in SOURCE_OF_FOLDER:
                drop_kept(tx, SOURCE_OF_FOLDER[folder])
            for path, _ in journal.files(folder):
                if journal_offset(tx, path) != FORGETTING:
                    put_journal_offset(tx, path, 0)
            replay_conversation(tx, journal, folder, ingest(tx), done)
            restore_summaries(tx, folder)
            _put_back(tx, kept)
        done.conversations = number
        yield number, len(folders)
    store.nearest.discard()


def set_database_aside(database: Path) -> list[Path]:
    """Move a damaged database out of the way; the next opening makes a new one from the journal.

    Returns:
        What was moved, under its new names.
    """
    suffix = strftime("damaged-%Y%m%d-%H%M%S")
    moved = []
    for name in (database.name, f"{database.name}-wal", f"{database.name}-shm"):
        file = database.with_name(name)
        if file.exists():
            moved.append(file.rename(database.with_name(f"{name}.{suffix}")))
    return moved


def drop_set_aside(database: Path) -> int:
    """Remove what `set_database_aside` moved: it still holds what has been forgotten since; how many files."""
    found = list(database.parent.glob(f"{database.name}*.damaged-*"))
    for file in found:
        file.unlink(missing_ok=True)
    return len(found)


def _vectors_of(tx: Transaction, folder: str) -> Sequence[Any]:
    of_folder: ColumnElement[bool] = conversations.c.uid == folder
    if folder in SOURCE_OF_FOLDER:
        of_folder = entries.c.source == SOURCE_OF_FOLDER[folder]
    newest = entries.c.space_id.label("newest")
    rows = tx.connection.execute(
        select(entries.c.ref_uid, entries.c.part, newest, vectors.c.space_id, vectors.c.vector)
        .outerjoin(conversations, refers(entries.c.conversation_id, conversations))
        .join(vectors, refers(vectors.c.entry_id, entries))
        .where(entries.c.tenant == tx.tenant, of_folder)
    )
    return rows.all()


def _put_back(tx: Transaction, kept: Sequence[Any]) -> None:
    statement = select(entries.c.ref_uid, entries.c.part, entries.c.id).where(entries.c.tenant == tx.tenant)
    found = rows_in(tx, statement, entries.c.ref_uid, {row.ref_uid for row in kept})
    ids = {(row.ref_uid, row.part): row.id for row in found}
    back = [(ids[row.ref_uid, row.part], row) for row in kept if (row.ref_uid, row.part) in ids]
    if back:
        tx.connection.execute(
            insert(vectors),
            [
                {"tenant": tx.tenant, "entry_id": entry_id, "space_id": row.space_id, "vector": row.vector}
                for entry_id, row in back
            ],
        )
        tx.connection.execute(
            update(entries)
            .where(entries.c.tenant == tx.tenant, entries.c.id == bindparam("of_entry"))
            .values(space_id=bindparam("newest")),
            [{"of_entry": entry_id, "newest": row.newest} for entry_id, row in back],
        )
