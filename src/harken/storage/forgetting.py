"""Taking records out of the rows: what was forgotten, or what is to be made anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Table, and_, func, select, update

from harken.model.conversations import Grave, SavedRecord
from harken.storage.enrichment.segments import drop_orphans, drop_segment_summaries
from harken.storage.enrichment.summaries import drop_summaries_of, drop_summaries_with, drop_summary_work
from harken.storage.ports import Transaction
from harken.storage.records.rows import forget_kept
from harken.storage.source_entries import remove_entries
from harken.storage.state import count_up, drop_given, redaction_counts
from harken.storage.tables import conversations, entries, exchanges, messages, segments, tombstones


def forget_rows(tx: Transaction, event: Grave) -> None:
    """Remove every row of what was forgotten and leave the tombstone."""
    if isinstance(event, SavedRecord):
        forget_kept(tx, event)
        return
    if event.kind == "message":
        said = select(messages.c.created_at).where(messages.c.tenant == tx.tenant, messages.c.uid == event.uid)
        moment = tx.connection.execute(said).scalar()
        drop_summaries_with(tx, event.uid)
        drop_segment_summaries(tx, messages.c.uid == event.uid)
        remove_entries(tx, entries.c.ref_uid == event.uid)
        _delete_messages(tx, messages.c.uid == event.uid)
        if moment is not None:
            _date(tx, event.conversation_uid, moment)
    else:
        drop_summaries_of(tx, event.uid)
        drop_given(tx, event.uid)
        delete_conversation_rows(tx, event.uid)
    row = {"uid": event.uid, "conversation_uid": event.conversation_uid, "kind": event.kind, "at": event.at}
    tx.connection.execute(tx.dialect.upsert(tombstones, {"tenant": tx.tenant, **row}, ("uid",)))


def delete_conversation_rows(tx: Transaction, uid: str) -> None:
    """Remove a conversation with everything in it but its summaries; one that is not there is no error."""
    conversation_id = tx.connection.execute(
        select(conversations.c.id).where(conversations.c.tenant == tx.tenant, conversations.c.uid == uid)
    ).scalar()
    if conversation_id is None:
        return
    remove_entries(tx, entries.c.conversation_id == conversation_id)
    _delete_messages(tx, messages.c.conversation_id == conversation_id)
    drop_summary_work(tx, conversation_id)
    of_it = select(segments.c.id).where(segments.c.tenant == tx.tenant, segments.c.conversation_id == conversation_id)
    drop_orphans(tx, list(tx.connection.scalars(of_it)))
    for table in (exchanges, segments):
        _delete(tx, table, table.c.conversation_id == conversation_id)
    _delete(tx, conversations, conversations.c.id == conversation_id)


def _date(tx: Transaction, conversation_uid: str, moment: datetime) -> None:
    """Say of a conversation what it would say had a message of that moment never been: it is as new as its newest."""
    of_conversation = and_(messages.c.tenant == tx.tenant, messages.c.conversation_id == conversations.c.id)
    row = tx.connection.execute(
        select(conversations.c.id, conversations.c.created_at, func.max(messages.c.created_at).label("newest"))
        .select_from(conversations.outerjoin(messages, of_conversation))
        .where(conversations.c.tenant == tx.tenant, conversations.c.uid == conversation_uid)
        .where(conversations.c.updated_at <= moment)
        .group_by(conversations.c.id, conversations.c.created_at)
    ).first()
    if row is not None:
        newest = max(row.created_at, row.newest or row.created_at)
        tx.connection.execute(
            update(conversations)
            .where(conversations.c.tenant == tx.tenant, conversations.c.id == row.id)
            .values(updated_at=newest)
        )


def _delete_messages(tx: Transaction, condition: Any) -> None:
    facts = tx.connection.scalars(
        select(messages.c.metadata).where(messages.c.tenant == tx.tenant, condition, messages.c.metadata.is_not(None))
    )
    count_up(tx, {name: -amount for name, amount in redaction_counts(facts).items()})
    _delete(tx, messages, condition)


def _delete(tx: Transaction, table: Table, condition: Any) -> None:
    tx.connection.execute(table.delete().where(table.c.tenant == tx.tenant, condition))
