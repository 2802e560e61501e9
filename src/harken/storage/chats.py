"""What building a chat's context asks of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Select, bindparam, select, true

from harken.storage.batches import rows_among
from harken.storage.dialect import Dialect
from harken.storage.store import Transaction
from harken.storage.tables import conversations, entries, refers, segments

# What is dated further ahead than clocks differ was written by one that is wrong.
AHEAD_AT_MOST = timedelta(days=1)
# Built once: these run before every model call.
_OF_TENANT: BindParameter[str] = bindparam("of_tenant")
_NEWEST_SEGMENT = (
    select(segments.c.uid)
    .select_from(segments.join(conversations, refers(segments.c.conversation_id, conversations)))
    .where(segments.c.tenant == _OF_TENANT, conversations.c.uid == bindparam("of_conversation"))
    .order_by(segments.c.number.desc())
    .limit(1)
)


def newest_segment(tx: Transaction, conversation_uid: str) -> str | None:
    """The id of a conversation's newest segment; None where it has none, or is not there."""
    asked = {"of_tenant": tx.tenant, "of_conversation": conversation_uid}
    found: str | None = tx.connection.execute(_NEWEST_SEGMENT, asked).scalar()
    return found


def newest_conversation(tx: Transaction, now: datetime, channel: str | None = None) -> str | None:
    """The id of the conversation in which something was said last, of a channel or of all; None where none is.

    One that a wrong clock has dated into the future comes after all others.
    """
    of_channel = true() if channel is None else conversations.c.channel == channel
    newest = (
        select(conversations.c.uid)
        .where(conversations.c.tenant == tx.tenant, of_channel)
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
        .limit(1)
    )
    # Two looks at an index rather than a sort of all that there is.
    found: str | None = tx.connection.execute(newest.where(conversations.c.updated_at <= now + AHEAD_AT_MOST)).scalar()
    if found is None:
        found = tx.connection.execute(newest).scalar()
    return found


def entries_of(tx: Transaction, ref_uids: Iterable[str]) -> set[int]:
    """Row ids of the entries that were made from these records."""
    return {row[0] for row in rows_among(tx, _made_from(tx.dialect), ref_uids)}


@cache
def _made_from(dialect: Dialect) -> Select[Any]:
    return select(entries.c.id).where(entries.c.tenant == _OF_TENANT, dialect.among(entries.c.ref_uid))


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
    return {row[0]: row[1] for row in rows_among(tx, _exchanges(tx.dialect), entry_ids)}


@cache
def _exchanges(dialect: Dialect) -> Select[Any]:
    of_one = entries.c.tenant == _OF_TENANT, entries.c.exchange_id.is_not(None)
    return select(entries.c.id, entries.c.exchange_id).where(*of_one, dialect.among(entries.c.id))
