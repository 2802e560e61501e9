"""Which remembered things a conversation was already given, so that none comes twice: ids alone, never words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache

from sqlalchemy import Insert, bindparam, delete, select

from harken.storage.dialect import Dialect
from harken.storage.store import Transaction
from harken.storage.tables import injections

INJECTIONS = ("injections",)


def given_to(tx: Transaction, conversation_uid: str) -> set[str]:
    """Ids of everything that was given to a conversation."""
    return set(tx.connection.scalars(_GIVEN, {"of_tenant": tx.tenant, "uid": conversation_uid}))


# Made once, as is the one below: somebody waits, and putting them together takes longer than running them.
_GIVEN = select(injections.c.ref_uid).where(
    injections.c.tenant == bindparam("of_tenant"), injections.c.conversation_uid == bindparam("uid")
)


def note_given(tx: Transaction, conversation_uid: str, ref_uids: Iterable[str], now: datetime) -> None:
    """Write down that these were given to a conversation; the first time counts."""
    given = {"tenant": tx.tenant, "conversation_uid": conversation_uid, "at": now}
    if rows := [{**given, "ref_uid": ref_uid} for ref_uid in ref_uids]:
        tx.connection.execute(_noted(tx.dialect), rows)


@cache
def _noted(dialect: Dialect) -> Insert:
    return dialect.upsert(injections, {}, ("conversation_uid", "ref_uid"))


def drop_given(tx: Transaction, conversation_uid: str) -> None:
    """Forget what a conversation was given, with the conversation."""
    tx.connection.execute(
        delete(injections).where(injections.c.tenant == tx.tenant, injections.c.conversation_uid == conversation_uid)
    )
