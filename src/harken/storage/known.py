"""Which records the store has, and which it has forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Table, bindparam, exists, select, update

from harken.model import Message, MessageType, Role, Trust, Trusted
from harken.storage.batches import batches, rows_in
from harken.storage.store import Transaction
from harken.storage.tables import conversations, entries, exchanges, messages, refers, segments, tombstones
from harken.storage.waiting import MESSAGE_SOURCE


def find_known(tx: Transaction, table: Table, uids: Sequence[str]) -> set[str]:
    """Which of the uids the table has."""
    known: set[str] = set()
    for batch in batches(uids):
        known.update(tx.connection.scalars(_BY_UID[table.name], {"of_tenant": tx.tenant, "uids": batch}))
    return known


# Built once: they run with every recorded message.
_BY_UID = {
    table.name: select(table.c.uid).where(
        table.c.tenant == bindparam("of_tenant"), table.c.uid.in_(bindparam("uids", expanding=True))
    )
    for table in (conversations, segments, exchanges, messages, tombstones)
}


def find_tombstones(tx: Transaction, uids: Iterable[str]) -> set[str]:
    """Which of the uids were forgotten."""
    return find_known(tx, tombstones, list(uids))


def own_conversations(tx: Transaction, uids: Iterable[str]) -> set[str]:
    """Which of the conversations hold words of the owner or of their agents."""
    own = exists().where(
        messages.c.tenant == tx.tenant,
        refers(messages.c.conversation_id, conversations),
        messages.c.trust.in_(_OWN),
    )
    statement = select(conversations.c.uid).where(conversations.c.tenant == tx.tenant, own)
    return {row.uid for row in rows_in(tx, statement, conversations.c.uid, list(uids))}


def raised_trust(tx: Transaction, said: Sequence[Message], moment: datetime) -> list[Trusted]:
    """For messages that are here as `imported` and turn out to be the owner's or an agent's own: that they are.

    Only where the words are the same: the id alone may be anybody's.
    """
    wanted = {message.uid: message for message in said if message.trust.value in _OWN}
    columns = (messages.c.uid, messages.c.role, messages.c.type, messages.c.author, messages.c.text)
    statement = select(*columns, conversations.c.uid.label("conversation_uid")).select_from(
        messages.join(conversations, refers(messages.c.conversation_id, conversations))
    )
    imported = statement.where(messages.c.tenant == tx.tenant, messages.c.trust == Trust.IMPORTED.value)
    raised = []
    for row in rows_in(tx, imported, messages.c.uid, wanted):
        new = wanted[row.uid]
        same = (new.conversation_uid, new.role, new.type, new.author, new.text)
        if same == (row.conversation_uid, Role(row.role), MessageType(row.type), row.author, row.text):
            raised.append(Trusted(new.uid, new.conversation_uid, new.trust, moment))
    return raised


def raise_trust(tx: Transaction, events: Sequence[Trusted]) -> None:
    """Give messages that stand as `imported`, and what search sees of them, the trust that they have after all."""
    rows = [{"of_tenant": tx.tenant, "of_uid": event.uid, "new_trust": event.trust.value} for event in events]
    if rows:
        tx.connection.execute(_RAISE_MESSAGES, rows)
        tx.connection.execute(_RAISE_ENTRIES, rows)


_OWN = (Trust.OWNER.value, Trust.AGENT.value)
_RAISE_MESSAGES = (
    update(messages)
    .where(messages.c.tenant == bindparam("of_tenant"), messages.c.uid == bindparam("of_uid"))
    .where(messages.c.trust == Trust.IMPORTED.value)
    .values(trust=bindparam("new_trust"))
)
_RAISE_ENTRIES = (
    update(entries)
    .where(entries.c.tenant == bindparam("of_tenant"), entries.c.ref_uid == bindparam("of_uid"))
    .where(entries.c.source == MESSAGE_SOURCE, entries.c.trust == Trust.IMPORTED.value)
    .values(trust=bindparam("new_trust"))
)
