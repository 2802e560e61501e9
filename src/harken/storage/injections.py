"""Which remembered things a conversation was already given, so that none comes twice: ids alone, never words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select

from harken.storage.store import Transaction
from harken.storage.tables import injections

INJECTIONS = ("injections",)


def given_to(tx: Transaction, conversation_uid: str) -> set[str]:
    """Ids of everything that was given to a conversation."""
    return set(
        tx.connection.scalars(
            select(injections.c.ref_uid).where(
                injections.c.tenant == tx.tenant, injections.c.conversation_uid == conversation_uid
            )
        )
    )


def note_given(tx: Transaction, conversation_uid: str, ref_uids: Iterable[str], now: datetime) -> None:
    """Write down that these were given to a conversation; the first time counts."""
    for ref_uid in ref_uids:
        row = {"tenant": tx.tenant, "conversation_uid": conversation_uid, "ref_uid": ref_uid, "at": now}
        tx.connection.execute(tx.dialect.upsert(injections, row, ("conversation_uid", "ref_uid")))


def drop_given(tx: Transaction, conversation_uid: str) -> None:
    """Forget what a conversation was given, with the conversation."""
    tx.connection.execute(
        delete(injections).where(injections.c.tenant == tx.tenant, injections.c.conversation_uid == conversation_uid)
    )
