"""What building a chat's context asks of the rows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select, true

from harken.storage.batches import rows_in
from harken.storage.entries import scope_conditions
from harken.storage.store import RowScope, Transaction
from harken.storage.tables import conversations, entries, segments


def newest_segment(tx: Transaction, conversation_uid: str) -> str | None:
    """The id of a conversation's newest segment; None where it has none, or is not there."""
    found: str | None = tx.connection.execute(
        select(segments.c.uid)
        .select_from(
            segments.join(
                conversations,
                (conversations.c.tenant == segments.c.tenant) & (conversations.c.id == segments.c.conversation_id),
            )
        )
        .where(segments.c.tenant == tx.tenant, conversations.c.uid == conversation_uid)
        .order_by(segments.c.number.desc())
        .limit(1)
    ).scalar()
    return found


def newest_conversation(tx: Transaction, channel: str | None = None) -> str | None:
    """The id of the conversation in which something was said last, of a channel or of all; None where none is."""
    of_channel = true() if channel is None else conversations.c.channel == channel
    found: str | None = tx.connection.execute(
        select(conversations.c.uid)
        .where(conversations.c.tenant == tx.tenant, of_channel)
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
        .limit(1)
    ).scalar()
    return found


def entries_of(tx: Transaction, ref_uids: Iterable[str]) -> set[int]:
    """Row ids of the entries that were made from these records."""
    statement = select(entries.c.id).where(entries.c.tenant == tx.tenant)
    return {row.id for row in rows_in(tx, statement, entries.c.ref_uid, ref_uids)}


def count_entries(tx: Transaction, scope: RowScope) -> int:
    """How many entries a scope has."""
    statement = select(func.count()).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))
    return int(tx.connection.execute(statement).scalar_one())


def begins_with(tx: Transaction, beginning: str) -> list[str]:
    """Ids of conversations whose id begins like this, or whose own name is this; two at most."""
    return list(
        tx.connection.scalars(
            select(conversations.c.uid)
            .where(
                conversations.c.tenant == tx.tenant,
                conversations.c.uid.startswith(beginning, autoescape=True) | (conversations.c.external_id == beginning),
            )
            .limit(2)
        )
    )


def exchanges_of(tx: Transaction, entry_ids: Iterable[int]) -> dict[int, int]:
    """The exchange of each entry that is in one, both as row ids."""
    statement = select(entries.c.id, entries.c.exchange_id).where(
        entries.c.tenant == tx.tenant, entries.c.exchange_id.is_not(None)
    )
    return {row.id: row.exchange_id for row in rows_in(tx, statement, entries.c.id, entry_ids)}
