"""Conversations as people look through them: listed, called by a title, their ids shortened, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, and_, bindparam, case, exists, func, select, type_coerce

from harken.errors import NotFoundError
from harken.model.conversations import MessageType, Role
from harken.model.lookups import NO_PROJECT, UNKNOWN, Activity, ConversationFilter, ListedConversation
from harken.model.marks import Verdict
from harken.storage.conversations import project_in, read_conversation, resolve_uid
from harken.storage.enrichment.spend import spent_by_item
from harken.storage.enrichment.summaries import CONVERSATION
from harken.storage.ports import Dialect, Transaction, asked_by, rows_among, rows_by
from harken.storage.positions import STEP
from harken.storage.projects import project_row
from harken.storage.records.marks import all_ratings, tagged, tags_of
from harken.storage.state import recalls_by_day, week_of
from harken.storage.tables import (
    conversations,
    exchanges,
    from_microseconds,
    messages,
    projects,
    refers,
    segments,
    summaries,
)
from harken.text.shown import one_line
from harken.text.words import content_terms, split_sentences

_TITLE_CHARS, _LEAST_TERMS, _MOST_MESSAGES, _READ_CHARS = 70, 2, 16, 2_000
_DAY_MICROSECONDS, _HALF_HOUR_MICROSECONDS = 86_400_000_000, 1_800_000_000
_SHORT_CHARS, _MOST_ALIKE, _MONTH_CHARS = 8, 9, 7


def list_conversations(tx: Transaction, asked: ConversationFilter) -> tuple[list[ListedConversation], int]:
    """Conversations that have messages, those first in which something was said last, and how many there are in all.

    Raises:
        NotFoundError: there is no such project, or no conversation in the channel.
    """
    # Of some all messages were forgotten.
    wanted: list[ColumnElement[bool]] = [exists().where(refers(messages.c.conversation_id, conversations))]
    wanted += [] if asked.with_subagents or asked.parent else [conversations.c.parent_uid.is_(None)]
    if asked.project is not None:
        wanted.append(conversations.c.project_id == project_row(tx, asked.project))
    if asked.channel is not None:
        wanted.append(conversations.c.channel == _known_channel(tx, asked.channel))
    if asked.tags:
        wanted.append(tx.dialect.one_of(conversations.c.id, tagged(tx, asked.tags)))
    wanted += [] if asked.parent is None else [conversations.c.parent_uid == asked.parent]
    wanted += [] if asked.since is None else [conversations.c.updated_at >= asked.since]
    wanted += [] if asked.until is None else [conversations.c.updated_at < asked.until]
    newest = (
        tx.select(conversations, projects.c.key, projects.c.name)
        .select_from(conversations.outerjoin(projects, refers(conversations.c.project_id, projects)))
        .where(*wanted)
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
    )
    rows = tx.connection.execute(newest.limit(asked.limit).offset(asked.offset)).all()
    of_each = func.count(), func.coalesce(func.sum(func.length(messages.c.text)), 0)
    mine = messages.c.conversation_id.in_([row.id for row in rows])
    sizes = tx.select(messages.c.conversation_id, *of_each).where(mine).group_by(messages.c.conversation_id)
    held = {row[0]: (int(row[1]), int(row[2])) for row in tx.connection.execute(sizes)}
    titles = read_titles(tx, [row.uid for row in rows])
    listed = [
        ListedConversation(
            replace(read_conversation(row, project=project_in(row)), title=titles[row.uid]),
            short_id(tx, row.uid),
            *held.get(row.id, (0, 0)),
            tags_of(row.label),
        )
        for row in rows
    ]
    return listed, tx.count(conversations, *wanted)


def count_exchanges(tx: Transaction, since: datetime | None = None) -> list[tuple[datetime, int]]:
    """How many exchanges were begun in each half hour in which any was, since a moment, oldest first."""
    # In half hours every clock of the world has its days; of an index alone.
    half = (type_coerce(exchanges.c.started_at, BigInteger) // _HALF_HOUR_MICROSECONDS).label("half")
    counted = tx.select(half, func.count(), of=exchanges).group_by(half).order_by(half)
    counted = counted if since is None else counted.where(exchanges.c.started_at >= since)
    return [
        (from_microseconds(int(n) * _HALF_HOUR_MICROSECONDS), int(count)) for n, count in tx.connection.execute(counted)
    ]


def _known_channel(tx: Transaction, name: str) -> str:
    known = sorted(tx.connection.scalars(tx.select(conversations.c.channel).distinct()))
    if name not in known:
        raise NotFoundError(f"Nothing of an agent {name} is recorded. There is: {', '.join(known) or 'nothing yet'}.")
    return name


def short_id(tx: Transaction, uid: str) -> str:
    """The shortest beginning of an id, of eight characters or more, that is no other id's."""
    others = [other for _kind, other in resolve_uid(tx, uid[:_SHORT_CHARS]) if other != uid]
    # Of many, not all were read.
    lengths = range(_SHORT_CHARS, len(uid)) if len(others) < _MOST_ALIKE else ()
    return uid[: next((n for n in lengths if not any(it.startswith(uid[:n]) for it in others)), len(uid))]


def read_activity(tx: Transaction) -> list[Activity]:
    """What was said, what came back and what models cost, by conversation and day; to be added up."""
    heads = tx.select(conversations.c.id, conversations.c.uid, conversations.c.channel, projects.c.name)
    of_project = conversations.outerjoin(projects, refers(conversations.c.project_id, projects))
    known = {row.id: row for row in tx.connection.execute(heads.select_from(of_project))}
    ids = {row.uid: row.id for row in known.values()}

    def line(row_id: int | None, day: str, **amounts: Any) -> Activity:
        head = known.get(row_id) if row_id is not None else None
        uid, channel, project = (head.uid, head.channel, head.name) if head else ("", UNKNOWN, UNKNOWN)
        week = week_of(date.fromisoformat(day)) if len(day) > _MONTH_CHARS else ""
        return Activity(uid, channel, project or NO_PROJECT, day[:_MONTH_CHARS], week, **amounts)

    day = (type_coerce(messages.c.created_at, BigInteger) // _DAY_MICROSECONDS).label("day")
    asks = and_(messages.c.role == Role.USER.value, messages.c.type == MessageType.TEXT.value)
    counts = func.count(), func.sum(case((asks, 1), else_=0))
    said = tx.select(messages.c.conversation_id, day, *counts).group_by(messages.c.conversation_id, day)
    lines = [
        line(
            row_id,
            f"{from_microseconds(int(number) * _DAY_MICROSECONDS):%Y-%m-%d}",
            messages=int(count),
            prompts=int(prompts),
        )
        for row_id, number, count, prompts in tx.connection.execute(said)
    ]
    for of_day, uid, times, tokens in recalls_by_day(tx):
        lines.append(line(ids.get(uid), of_day, recalls=times, recall_tokens=tokens))
    for one in all_ratings(tx):
        amounts = {"used": 1} if one.is_answer else {"judged": 1, "useful": int(one.verdict is Verdict.USEFUL)}
        lines.append(line(ids.get(one.given_to), f"{one.at.astimezone(UTC):%Y-%m-%d}", **amounts))
    spent = spent_by_item(tx)
    for table in (exchanges, segments):
        found = rows_by(tx, table.c.uid, {uid for _, uid, _ in spent}, table.c.uid, table.c.conversation_id)
        ids |= {row.uid: row.conversation_id for row in found}
    return lines + [line(ids.get(uid), month, usd=usd) for month, uid, usd in spent]


def read_titles(tx: Transaction, uids: Sequence[str]) -> dict[str, str]:
    """A line for people per conversation: its title, else that of its summary, else its first telling words."""
    columns = (conversations.c.uid, conversations.c.id, conversations.c.title)
    of_summary = summaries.c.item_uid, summaries.c.kind, summaries.c.title
    if tx.dialect.is_remote:
        # By one message, whether all of them have titles of their own or not.
        heads = asked_by(tx, conversations.c.uid, list(uids), *columns)
        tx.dialect.end_with(tx.connection, heads, asked_by(tx, summaries.c.item_uid, list(uids), *of_summary))
    rows = list(rows_by(tx, conversations.c.uid, uids, *columns))
    bare = uids if tx.dialect.is_remote else [row.uid for row in rows if not row.title]
    of_summaries = rows_by(tx, summaries.c.item_uid, bare, *of_summary)
    made = {row.item_uid: row.title for row in of_summaries if row.kind == CONVERSATION}
    said = first_words(tx, [row.id for row in rows if not row.title and not made.get(row.uid)])
    return {row.uid: row.title or made.get(row.uid) or said.get(row.id, "") for row in rows}


def first_words(tx: Transaction, conversation_ids: Sequence[int]) -> dict[int, str]:
    """Of each conversation the first sentence of a person that says something, cut short; else its first words.

    Rows of conversations of which nothing is left are not among them.
    """
    said: dict[int, list[Row[Any]]] = {}
    # One statement for all of them: it runs with every search of past conversations.
    for row in rows_among(tx, _beginnings(tx.dialect), conversation_ids) if conversation_ids else ():
        said.setdefault(row.conversation_id, []).append(row)
    return {conversation_id: _telling(rows) for conversation_id, rows in said.items()}


@cache
def _beginnings(dialect: Dialect) -> Select[Any]:
    first = messages.alias()
    begins_at = select(func.min(first.c.position)).where(
        first.c.tenant == bindparam("of_tenant"),
        first.c.conversation_id == conversations.c.id,
        first.c.type == MessageType.TEXT.value,
    )
    return (
        select(messages.c.conversation_id, messages.c.role, func.substr(messages.c.text, 1, _READ_CHARS).label("text"))
        .select_from(conversations.join(messages, refers(messages.c.conversation_id, conversations)))
        .where(conversations.c.tenant == bindparam("of_tenant"), dialect.among(conversations.c.id))
        .where(messages.c.position < begins_at.scalar_subquery() + _MOST_MESSAGES * STEP)
        .where(messages.c.type == MessageType.TEXT.value)
        .order_by(messages.c.position, messages.c.id)
    )


def _telling(said: Sequence[Row[Any]]) -> str:
    asked = [row.text for row in said if row.role == Role.USER.value]
    for text in asked:
        for sentence in split_sentences(text):
            if len(set(content_terms(sentence))) >= _LEAST_TERMS:
                return one_line(sentence, _TITLE_CHARS)
    return one_line(said[0].text, _TITLE_CHARS)
