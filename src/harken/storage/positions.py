"""Positions of messages in their conversation: numbers that ascend in the order of its transcript.

They leave gaps, so that what is found later between two messages gets its place there and nothing else moves. Times say
nothing about the order: an agent that resumes a session writes new ones into the lines that it copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, func, select

from harken.model.conversations import Message, Role
from harken.storage.ports import Transaction, rows_by, rows_in
from harken.storage.tables import conversations, exchanges, joined, messages, refers, segments

# A gap takes twenty halvings; what comes after that stands behind its neighbour by its row.
STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a recorded message, with its segment and exchange."""

    position: int
    segment_uid: str
    exchange_uid: str


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a new message, and the one that it follows, or precedes as the first; None at the end."""

    position: int
    beside: Spot | None = None


def last_position(tx: Transaction, conversation_uid: str) -> int:
    """The position of a conversation's last message; 0 where it has none."""
    last = select(func.max(messages.c.position)).where(*_of_conversation(tx, conversation_uid))
    return tx.connection.execute(last).scalar() or 0


def position_of(tx: Transaction, message_uid: str) -> int | None:
    """The position of a message; None where it is not there."""
    return next((row[0] for row in rows_by(tx, messages.c.uid, [message_uid], messages.c.position)), None)


def find_places(
    tx: Transaction, conversation_uid: str, sequence: Sequence[Message], lacking: set[str], after: str = ""
) -> dict[str, Place]:
    """Places for messages that a conversation lacks (`lacking`), between those that it has.

    A message stands directly behind the one that comes before it in the sequence, whatever else follows that one in the
    rows; a position that it has already is kept where it says the same. The sequence is in the order of the transcript,
    with those that the rows have among them; `after` is the message before its first one.
    """
    present = [uid for uid in (after, *(message.uid for message in sequence)) if uid and uid not in lacking]
    placed = rows_in(tx, _SPOTS.where(messages.c.tenant == tx.tenant), messages.c.uid, present)
    spots = {row[0]: Spot(*row[1:]) for row in placed}
    found: dict[str, Place] = {}
    previous = spots.get(after)
    run: list[Message] = []
    for message in sequence:
        if message.uid in spots:
            found |= _placed(tx, conversation_uid, run, previous, spots[message.uid])
            previous, run = spots[message.uid], []
        elif message.uid in lacking:
            run.append(message)
    return found | _placed(tx, conversation_uid, run, previous, None)


def _placed(
    tx: Transaction, conversation_uid: str, run: Sequence[Message], previous: Spot | None, following: Spot | None
) -> dict[str, Place]:
    if not run:
        return {}
    beside, mine = previous or following, _of_conversation(tx, conversation_uid)
    low, high = last_position(tx, conversation_uid), None
    if previous is not None:
        low = previous.position
        behind = select(func.min(messages.c.position)).where(*mine, messages.c.position > low)
        high = tx.connection.execute(behind).scalar()
    elif following is not None:
        high = following.position
        before = select(func.max(messages.c.position)).where(*mine, messages.c.position < high)
        low = tx.connection.execute(before).scalar() or 0
    positions = _between(low, high, [message.position for message in run])
    at_end = high is None
    return {
        message.uid: Place(position, None if at_end else beside)
        for message, position in zip(run, positions, strict=True)
    }


def _between(low: int, high: int | None, present: Sequence[int]) -> Iterator[int]:
    """Ascending positions in a gap, which is open where it has no end: the present ones, if they are that already."""
    bounds = [low, *present, *([] if high is None else [high])]
    if all(one < other for one, other in pairwise(bounds)):
        yield from present
        return
    for number in range(1, len(present) + 1):
        yield low + (STEP * number if high is None else max(1, (high - low) * number // (len(present) + 1)))


def _of_conversation(tx: Transaction, uid: str) -> tuple[Any, ...]:
    row = select(conversations.c.id).where(conversations.c.tenant == tx.tenant, conversations.c.uid == uid)
    return messages.c.tenant == tx.tenant, messages.c.conversation_id == row.scalar_subquery()


_SPOTS = select(messages.c.uid, messages.c.position, segments.c.uid, exchanges.c.uid).select_from(
    joined(messages, segments, exchanges)
)
# Turns of conversations whose order differs from that of their times, by which their words' neighbours once were found.
TURNS_OUT_OF_TIME = """SELECT id FROM entries WHERE is_turn AND (tenant, conversation_id) IN (
    SELECT tenant, conversation_id FROM (
        SELECT tenant, conversation_id, created_at, id, lag(created_at) OVER places AS earlier,
            lag(id) OVER places AS earlier_id
        FROM entries WHERE is_turn AND conversation_id IS NOT NULL
        WINDOW places AS (PARTITION BY tenant, conversation_id ORDER BY position, id)) turns
    WHERE (earlier, earlier_id) > (created_at, id))"""


def _newest(table: Table, order: Sequence[str], **conditions: Any) -> ColumnElement[bool]:
    """The join to the newest row of a table that meets the conditions."""
    other = table.alias()
    met = [other.c[column] == value for column, value in conditions.items()]
    if table is messages:
        met.append(other.c.role != Role.SYSTEM.value)
    ordered = [other.c[column].desc() for column in order]
    newest = select(other.c.id).where(*met).order_by(*ordered).limit(1).scalar_subquery()
    # A sharded server takes no equality with a row outside for the tenant's.
    return and_(table.c.tenant == conversations.c.tenant, table.c.id == newest)


_OF_CONVERSATION = {"tenant": bindparam("tenant"), "conversation_id": conversations.c.id}
# The conversation is named as well because messages are indexed by it: without it, each record reads the whole table.
_OF_EXCHANGE = {**_OF_CONVERSATION, "exchange_id": exchanges.c.id}
_ALL = messages.alias()
_NEWEST: Select[Any] = (
    select(
        conversations.c.id.label("conversation_id"),
        conversations.c.title,
        conversations.c.project_id,
        conversations.c.label,
        segments.c.id.label("segment_id"),
        segments.c.uid.label("segment_uid"),
        segments.c.number.label("segment_number"),
        segments.c.started_at.label("segment_started_at"),
        exchanges.c.id.label("exchange_id"),
        exchanges.c.uid.label("exchange_uid"),
        exchanges.c.segment_id.label("exchange_segment_id"),
        exchanges.c.number,
        exchanges.c.status,
        exchanges.c.started_at,
        messages.c.role,
        messages.c.type,
        messages.c.created_at.label("said_at"),
        select(func.max(_ALL.c.position))
        .where(_ALL.c.tenant == bindparam("tenant"), _ALL.c.conversation_id == conversations.c.id)
        .scalar_subquery()
        .label("last_position"),
    )
    .select_from(
        conversations.outerjoin(segments, _newest(segments, ["number"], **_OF_CONVERSATION))
        .outerjoin(exchanges, _newest(exchanges, ["number"], **_OF_CONVERSATION))
        .outerjoin(messages, _newest(messages, ["position", "id"], **_OF_EXCHANGE))
    )
    .where(conversations.c.tenant == bindparam("tenant"), conversations.c.uid == bindparam("uid"))
)


class Newest(NamedTuple):
    """The newest segment, exchange and message of a conversation, in one row; moments in microseconds."""

    conversation_id: int
    title: str
    project_id: int | None
    label: str | None
    segment_id: int | None
    segment_uid: str
    segment_number: int
    segment_started_at: int
    exchange_id: int
    exchange_uid: str
    exchange_segment_id: int | None
    number: int | None
    status: str
    started_at: int
    role: str | None
    type: str | None
    said_at: int | None
    last_position: int | None


def newest_of(tx: Transaction, conversation_uid: str) -> Newest | None:
    """The newest of a conversation; None for a new one."""
    found = tx.dialect.bare_rows(tx.connection, _NEWEST, {"tenant": tx.tenant, "uid": conversation_uid})
    return Newest._make(found[0]) if found else None


def conversations_of_messages(tx: Transaction, uids: Sequence[str]) -> dict[str, str]:
    """Those of the messages that are there, with the conversation of each."""
    statement = (
        select(messages.c.uid, conversations.c.uid)
        .select_from(messages.join(conversations, refers(messages.c.conversation_id, conversations)))
        .where(messages.c.tenant == tx.tenant)
    )
    return {row[0]: row[1] for row in rows_in(tx, statement, messages.c.uid, uids)}


def messages_within(tx: Transaction, conversation_uids: Sequence[str]) -> list[str]:
    """The ids of all messages of conversations."""
    within = messages.join(conversations, refers(messages.c.conversation_id, conversations))
    statement = select(messages.c.uid).select_from(within).where(messages.c.tenant == tx.tenant)
    return [row[0] for row in rows_in(tx, statement, conversations.c.uid, conversation_uids)]


def message_counts(tx: Transaction, uids: Sequence[str]) -> dict[str, int]:
    """Those of the conversations that are there, with the number of messages of each."""
    statement = (
        select(conversations.c.uid, func.count(messages.c.id))
        .select_from(conversations.outerjoin(messages, refers(messages.c.conversation_id, conversations)))
        .where(conversations.c.tenant == tx.tenant)
        .group_by(conversations.c.uid)
    )
    return {row[0]: row[1] for row in rows_in(tx, statement, conversations.c.uid, uids)}
