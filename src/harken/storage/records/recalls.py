"""What was recalled, as rows have it: what was given to which conversation, and what stood around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select

from harken.model.conversations import KEPT_FOLDERS, MessageType, Role
from harken.storage.conversations import resolve_uid
from harken.storage.ports import MESSAGE_SOURCE, Transaction, rows_by
from harken.storage.records.rows import KEPT, TOPIC
from harken.storage.statements import begins
from harken.storage.tables import conversations, entries, exchanges, injections, joined, messages

# A prompt's hook is answered before its transcript says that it was said; clocks of both are the machine's own.
_SOON = timedelta(minutes=1)
_SHORTEST_BEGINNING = 4


@dataclass(frozen=True, slots=True)
class Given:
    """Something that came back by itself in a conversation; rows are numbered in the order in which it did."""

    row: int
    conversation_uid: str
    ref_uid: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AskedMessage:
    """The message at which something came back, and its exchange."""

    uid: str
    exchange_uid: str
    text: str


def given_behind(tx: Transaction, row: int, limit: int) -> list[Given]:
    """What came back after a row, oldest first."""
    wanted = _given(tx).where(injections.c.id > row).order_by(injections.c.id).limit(limit)
    return [Given(*found) for found in tx.connection.execute(wanted)]


def newest_given(tx: Transaction, ref_uid: str, conversation_uid: str = "") -> Given | None:
    """When something came back last, in any conversation or in one."""
    wanted = _given(tx).where(injections.c.ref_uid == ref_uid).order_by(injections.c.id.desc()).limit(1)
    if conversation_uid:
        wanted = wanted.where(injections.c.conversation_uid == conversation_uid)
    row = tx.connection.execute(wanted).first()
    return None if row is None else Given(*row)


def _given(tx: Transaction) -> Select[Any]:
    columns = (injections.c.id, injections.c.conversation_uid, injections.c.ref_uid, injections.c.at)
    return tx.select(*columns)


def asked_at(tx: Transaction, conversation_uid: str, at: datetime) -> AskedMessage | None:
    """What a person had said last in a conversation when something came back; None where no record tells."""
    said = (
        tx.select(messages.c.uid, exchanges.c.uid.label("exchange_uid"), messages.c.text)
        .select_from(joined(messages, conversations, exchanges))
        .where(conversations.c.uid == conversation_uid, messages.c.created_at <= at + _SOON)
        .where(messages.c.role == Role.USER.value, messages.c.type == MessageType.TEXT.value)
        .order_by(messages.c.position.desc(), messages.c.id.desc())
        .limit(1)
    )
    row = tx.connection.execute(said).first()
    return None if row is None else AskedMessage(*row)


def texts_of(tx: Transaction, ref_uids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """(source, text) of what has these ids: of an exchange what was said in it, of a conversation its title."""
    uids = sorted(set(ref_uids))
    found = {row.uid: ("conversation", row.title) for row in rows_by(tx, conversations.c.uid, uids)}
    ids = {row.id: row.uid for row in rows_by(tx, exchanges.c.uid, uids, exchanges.c.id, exchanges.c.uid)}
    said: dict[str, list[Any]] = {}
    for row in rows_by(tx, entries.c.exchange_id, sorted(ids)):
        if row.source == MESSAGE_SOURCE and row.is_turn:
            said.setdefault(ids[row.exchange_id], []).append(row)
    for uid, rows in said.items():
        in_order = sorted(rows, key=lambda row: (row.position, row.id))
        found[uid] = "exchange", "\n".join(row.text for row in in_order)
    for row in rows_by(tx, entries.c.ref_uid, uids, entries.c.ref_uid, entries.c.source, entries.c.text):
        if row.source not in ("exchange", "tools") and (row.source != "conversation" or not found[row.ref_uid][1]):
            known = found.get(row.ref_uid, ("", ""))[1]
            found[row.ref_uid] = row.source, f"{known}\n{row.text}" if known else row.text
    return found


def judged_place(tx: Transaction, beginning: str) -> list[tuple[str, str, str]]:
    """(kind, id, folder of the journal) of all that may be judged and whose id begins like this."""
    if len(beginning) < _SHORTEST_BEGINNING:
        return []
    found = []
    for source, kept in ((source, kept) for source, kept in KEPT.items() if source != TOPIC):
        uid = kept.table.c.uid
        chosen = tx.select(uid).where(begins(uid, beginning, tx.dialect.is_remote)).limit(2)
        found += [(source, each, KEPT_FOLDERS[source]) for each in tx.connection.scalars(chosen)]
    named = resolve_uid(tx, beginning)
    places = {uid: uid for kind, uid in named if kind == "conversation"}
    for table, name in ((messages, "message"), (exchanges, "exchange")):
        uids = [uid for kind, uid in named if kind == name]
        columns = (table.c.uid, conversations.c.uid.label("place"))
        rows = tx.connection.execute(
            tx.select(*columns).select_from(joined(table, conversations)).where(table.c.uid.in_(uids))
        )
        places |= {row.uid: row.place for row in rows}
    found += [(kind, uid, places[uid]) for kind, uid in named]
    exact = [each for each in found if each[1] == beginning]
    return exact or found


def said_by_agent(said: Sequence[Any]) -> str:
    """What an agent said among messages, as one text."""
    return "\n".join(
        message.text for message in said if message.role is Role.ASSISTANT and message.type is MessageType.TEXT
    )
