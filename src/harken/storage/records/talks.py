"""Conversations as topics need them: what persons said first in each, its vector, and what it came to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from harken.model.conversations import TASK_CHANNEL, MessageType, Role, Trust, least_trusted
from harken.storage.enrichment.summaries import CONVERSATION
from harken.storage.overview import read_titles
from harken.storage.ports import StoredSpace, Transaction, rows_by, rows_in
from harken.storage.projects import project_row
from harken.storage.tables import conversations, entries, joined, messages, summaries
from harken.storage.vectors import Float32, read_vectors

# What is said first tells what a talk is about; more of it costs more and says the same.
_TURNS, _CHARS = 12, 600
_LAST_TEXTS = 8


@dataclass(frozen=True, slots=True)
class TopicTalk:
    """A conversation as far as topics go; `text` is the beginning of what a person said in it."""

    row: int
    uid: str
    text: str


def list_talks(tx: Transaction, with_texts: bool = True) -> list[TopicTalk]:
    """Every conversation of a person, oldest first: no subagent's, no scheduled task's."""
    columns = (conversations.c.id, conversations.c.uid, conversations.c.title)
    of_people = conversations.c.parent_uid.is_(None), conversations.c.channel != TASK_CHANNEL
    found = tx.select(*columns).where(*of_people).order_by(conversations.c.created_at, conversations.c.id)
    rows = tx.connection.execute(found).all()
    said: dict[int, list[str]] = {}
    turns = _first_turns(tx, func.substr(entries.c.text, 1, _CHARS).label("text"))
    for row in tx.connection.execute(turns) if with_texts else ():
        said.setdefault(row.conversation_id, []).append(row.text)
    return [TopicTalk(row.id, row.uid, "\n".join([row.title, *said.get(row.id, ())])[: 2 * _CHARS]) for row in rows]


def talk_vectors(tx: Transaction, space: StoredSpace) -> tuple[list[int], Float32]:
    """The rows of conversations that have any vector, and of each the mean of what a person said first: unit length."""
    import numpy as np

    turns = _first_turns(tx, entries.c.id.label("entry_id"), entries.c.space_id == space.id)
    place = {row.entry_id: row.conversation_id for row in tx.connection.execute(turns)}
    ids, matrix = read_vectors(tx, space, list(place))
    rows = sorted({place[entry_id] for entry_id in ids.tolist()})
    number = {row: at for at, row in enumerate(rows)}
    sums = np.zeros((len(rows), space.dims), dtype=np.float32)
    np.add.at(sums, [number[place[entry_id]] for entry_id in ids.tolist()], matrix)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return rows, (sums / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def _first_turns(tx: Transaction, wanted: Any, *conditions: Any) -> Select[Any]:
    """The first turns of a person in each conversation, in order; its row stands beside what is wanted of each."""
    order = (entries.c.position, entries.c.id)
    number = func.row_number().over(partition_by=entries.c.conversation_id, order_by=order).label("number")
    said = (
        tx.select(entries.c.conversation_id, wanted, number)
        .where(entries.c.is_turn, entries.c.role == Role.USER.value, entries.c.conversation_id.is_not(None))
        .where(*conditions)
        .subquery()
    )
    return select(said).where(said.c.number <= _TURNS).order_by(said.c.conversation_id, said.c.number)


@dataclass(frozen=True, slots=True)
class TalkOutcome:
    """What a conversation came to: its summary, where one was made, and its last words with their least trust."""

    title: str
    summary: str
    last: tuple[str, ...]
    trust: Trust


def outcomes(tx: Transaction, uids: Sequence[str]) -> dict[str, TalkOutcome]:
    """The outcome of each conversation; those that are gone are left out."""
    titles = read_titles(tx, uids)
    found = rows_by(tx, summaries.c.item_uid, uids, summaries.c.item_uid, summaries.c.kind, summaries.c.text)
    told = {row.item_uid: row.text for row in found if row.kind == CONVERSATION}
    order = (messages.c.position.desc(), messages.c.id.desc())
    number = func.row_number().over(partition_by=messages.c.conversation_id, order_by=order).label("number")
    said = (
        tx.select(conversations.c.uid, messages.c.text, messages.c.trust, number, of=messages)
        .select_from(joined(messages, conversations))
        .where(messages.c.type == MessageType.TEXT.value, messages.c.role == Role.ASSISTANT.value)
        .where(tx.dialect.one_of(conversations.c.uid, list(uids)))
        .subquery()
    )
    last: dict[str, list[str]] = {}
    trusts: dict[str, set[Trust]] = {}
    for row in tx.connection.execute(select(said).where(said.c.number <= _LAST_TEXTS).order_by(said.c.number.desc())):
        last.setdefault(row.uid, []).append(row.text)
        trusts.setdefault(row.uid, set()).add(Trust(row.trust))
    return {
        uid: TalkOutcome(title, told.get(uid, ""), tuple(last.get(uid, ())), least_trusted(trusts.get(uid, ())))
        for uid, title in titles.items()
    }


def talks_between(
    tx: Transaction, uids: Collection[str], since: datetime | None, project: str | None
) -> dict[str, datetime]:
    """Those of the conversations in which something was said since, in a project where one is named; and when last.

    Raises:
        NotFoundError: there is no such project.
    """
    statement = tx.select(conversations.c.uid, conversations.c.updated_at)
    if since is not None:
        statement = statement.where(conversations.c.updated_at >= since)
    if project is not None:
        statement = statement.where(conversations.c.project_id == project_row(tx, project))
    return {row.uid: row.updated_at for row in rows_in(tx, statement, conversations.c.uid, list(uids))}
