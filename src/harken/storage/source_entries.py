"""Entries of records beside conversations; which entries get a vector; removing entries with all that hangs on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, select, true, update

from harken.model.conversations import NewEntry, Role, Trust
from harken.storage.enrichment.jobs import EMBED, drop_work
from harken.storage.entries import add_entries, delete_entries
from harken.storage.ports import Transaction, batches
from harken.storage.tables import entries, failed_work, vectors, work
from harken.storage.vectors import delete_vectors, delete_vectors_where
from harken.text import tokens


def remove_entries(tx: Transaction, condition: Any) -> None:
    """Remove the entries that a condition on their table names: rows, full text, vectors, work."""
    entry_ids = list(tx.connection.scalars(select(entries.c.id).where(entries.c.tenant == tx.tenant, condition)))
    delete_vectors(tx, entry_ids)
    drop_work(tx, EMBED, entry_ids)
    delete_entries(tx, entry_ids)


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What all entries of a record share.

    Attributes:
        source: `memory`, `experience`, `value`, `code`, `commit` or `document`.
        uid: the record's id, unique among all sources.
        project_id: the row of its project.
    """

    source: str
    uid: str
    created_at: datetime
    project_id: int | None = None
    trust: Trust = Trust.AGENT


def add_record_entries(tx: Transaction, records: Sequence[tuple[RecordHead, Sequence[NewEntry]]]) -> None:
    """Have search see records; none of them may have entries yet. Blank texts make none."""
    placed = [(head, new) for head, made in records for new in made if new.text.strip()]
    rows = [_row(head, new) for head, new in placed]
    add_entries(tx, rows, facets=[new.facets for _, new in placed])


def drop_record_entries(tx: Transaction, source: str, uids: Sequence[str]) -> None:
    """Have search no longer see records; those that have no entries are no error."""
    for batch in batches(uids):
        remove_entries(tx, and_(entries.c.source == source, entries.c.ref_uid.in_(batch)))


def _row(head: RecordHead, new: NewEntry) -> dict[str, Any]:
    return {
        "source": head.source,
        "part": new.part,
        "ref_uid": head.uid,
        "conversation_id": None,
        "segment_id": None,
        "exchange_id": None,
        "project_id": head.project_id,
        "role": None,
        "author": None,
        "trust": head.trust.value,
        "created_at": head.created_at,
        "text": new.text,
        "weight": new.weight,
        "is_turn": False,
        "space_id": 0 if new.is_embedded else None,
        "position": 0,
    }


MESSAGE_SOURCE = "message"
_EMBEDDED_ROLES = (Role.USER, Role.ASSISTANT)


def is_long_enough(text: str, min_tokens: int) -> bool:
    """Whether a text has so many tokens."""
    # A word is half a token or more, which settles it for most messages without counting.
    return len(text.split(maxsplit=2 * min_tokens)) > 2 * min_tokens or tokens.estimate(text) >= min_tokens


def gets_vector(is_text: bool, role: Role, text: str, min_tokens: int) -> bool:
    """Whether a message is embedded: words of a person or an agent, enough of them; never a tool's or a marker's."""
    return is_text and role in _EMBEDDED_ROLES and is_long_enough(text, min_tokens)


def wait_again(
    tx: Transaction,
    min_tokens: int,
    progress: Callable[[int], None] = lambda _done: None,
    sources: Sequence[str] = (),
) -> int:
    """Remove vectors, and let every entry that may have one wait for it; what was given up is tried again.

    Args:
        tx: a writing transaction that keeps every other writer out.
        min_tokens: of a message that is to be found by meaning.
        progress: called with the number of entries looked at.
        sources: only entries of these; all where none is named.
    Returns:
        How many wait.
    """
    of_sources = entries.c.source.in_(sources) if sources else true()
    chosen_ids = select(entries.c.id).where(entries.c.tenant == tx.tenant, of_sources)
    delete_vectors_where(tx, vectors.c.entry_id.in_(chosen_ids) if sources else true())
    for table in (work, failed_work):
        of_chosen = table.c.item_id.in_(chosen_ids) if sources else true()
        tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, table.c.kind == EMBED, of_chosen))
    columns = (entries.c.id, entries.c.source, entries.c.is_turn, entries.c.role, entries.c.text, entries.c.space_id)
    every = select(*columns).where(entries.c.tenant == tx.tenant, of_sources).order_by(entries.c.id)
    rows = tx.connection.execute(every)
    waiting: list[int] = []
    never: list[int] = []
    for done, row in enumerate(rows, start=1):
        wanted = row.space_id is not None
        if row.source == MESSAGE_SOURCE:
            wanted = row.role is not None and gets_vector(row.is_turn, Role(row.role), row.text, min_tokens)
        (waiting if wanted else never).append(row.id)
        if done % 1000 == 0:
            progress(done)
    for ids, value in ((waiting, 0), (never, None)):
        for batch in batches(ids):
            chosen = (entries.c.tenant == tx.tenant, tx.dialect.one_of(entries.c.id, batch))
            tx.connection.execute(update(entries).where(*chosen).values(space_id=value))
    return len(waiting)
