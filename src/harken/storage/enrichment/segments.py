"""Rolling summaries as rows: what they say, which messages they cover, and which have left the window since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, select, tuple_

from harken.storage.enrichment.consent import is_new_message
from harken.storage.enrichment.jobs import claim, complete, drop_work, is_free, is_given_up
from harken.storage.ports import Transaction, rows_by
from harken.storage.tables import (
    conversations,
    joined,
    messages,
    reader,
    refers,
    same,
    segment_summaries,
    segments,
    summarized_messages,
    work,
)

SEGMENT, SUMMARIZE_SEGMENT = "segment", "summarize_segment"


@dataclass(frozen=True, slots=True)
class Left:
    """A message that has left the window and is in no summary yet."""

    message_id: int
    role: str
    type: str
    author: str | None
    text: str


@dataclass(frozen=True, slots=True)
class DueSegment:
    """A segment whose summary is to go on.

    Attributes:
        left: what it is to take in, oldest first.
        is_new: whether a language model may take it in unasked; what it may not comes apart from the rest.
    """

    segment_id: int
    segment_uid: str
    text: str
    left: tuple[Left, ...]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class RollingSummary:
    """The rolling summary of a segment, apart from the rows of its store.

    Attributes:
        left_uid: the message before which all have left the window; empty where none has.
        covers: ids of the messages that are in it.
    """

    segment_uid: str
    conversation_uid: str
    text: str
    model: str | None
    updated_at: datetime
    left_uid: str
    covers: tuple[str, ...]


def rolling_summaries(tx: Transaction, conversation_uid: str) -> list[RollingSummary]:
    """The rolling summaries of a conversation's segments, in no promised order."""
    mark = and_(same(segment_summaries.c.left_id, messages.c.id), segment_summaries.c.left_id > 0)
    source = joined(segment_summaries, segments).join(conversations, refers(segments.c.conversation_id, conversations))
    columns = (segment_summaries.c.text, segment_summaries.c.model, segment_summaries.c.updated_at)
    rows = tx.connection.execute(
        tx.select(segments.c.uid, *columns, messages.c.uid.label("left_uid"), of=segment_summaries)
        .select_from(source.outerjoin(messages, mark))
        .where(conversations.c.uid == conversation_uid, segment_summaries.c.text != "")
    ).all()
    return [
        RollingSummary(
            row.uid,
            conversation_uid,
            *(row.text, row.model, row.updated_at, row.left_uid or ""),
            tuple(sorted(covered_by(tx, row.uid))),
        )
        for row in rows
    ]


def put_rolling(tx: Transaction, one: RollingSummary) -> bool:
    """Keep a rolling summary; False where one is here, or not every message that it covers."""
    segment = next(iter(rows_by(tx, segments.c.uid, [one.segment_uid], segments.c.id)), None)
    columns = (messages.c.uid, messages.c.id, messages.c.position, messages.c.segment_id)
    found = {row.uid: row for row in rows_by(tx, messages.c.uid, {*one.covers, one.left_uid}, *columns)}
    if segment is None or segment_summary(tx, one.segment_uid) or not one.text:
        return False
    if any(uid not in found or found[uid].segment_id != segment.id for uid in one.covers):
        return False
    mark = found.get(one.left_uid)
    values: dict[str, Any] = {"text": one.text, "model": one.model, "updated_at": one.updated_at}
    values |= {"left_position": mark.position if mark else 0, "left_id": mark.id if mark else 0}
    if not tx.update(segment_summaries, segment_summaries.c.segment_id == segment.id, **values):
        tx.insert(segment_summaries, [{"segment_id": segment.id, **values}])
    tx.delete(summarized_messages, summarized_messages.c.segment_id == segment.id)
    tx.insert(summarized_messages, [{"segment_id": segment.id, "message_id": found[uid].id} for uid in one.covers])
    return True


def segment_summary(tx: Transaction, segment_uid: str) -> tuple[str, datetime] | None:
    """The text of a segment's rolling summary and its time; None where there is none."""
    row = tx.connection.execute(_SUMMARY, {"of_tenant": tx.tenant, "of_segment": segment_uid}).first()
    return None if row is None else (row.text, row.updated_at)


def has_left(tx: Transaction, message_uid: str) -> bool:
    """True where the messages of its segment before this one are known to have left the window."""
    return tx.connection.execute(_LEFT, {"of_tenant": tx.tenant, "of_message": message_uid}).first() is not None


def note_left(tx: Transaction, message_uid: str, now: datetime) -> None:
    """Note that the messages of its segment before this one have left the window."""
    columns = (messages.c.id, messages.c.segment_id, messages.c.position)
    row = tx.connection.execute(tx.select(*columns).where(messages.c.uid == message_uid)).first()
    if row is None or has_left(tx, message_uid):
        return
    values = {"left_position": row.position, "left_id": row.id}
    if not tx.update(segment_summaries, segment_summaries.c.segment_id == row.segment_id, **values):
        tx.insert(segment_summaries, [{"segment_id": row.segment_id, "text": "", "updated_at": now, **values}])


def count_left(tx: Transaction, message_uid: str) -> int:
    """Count the messages of a message's segment that stand before it and are in no summary."""
    mark = messages.alias("mark")
    before = tuple_(messages.c.position, messages.c.id) < tuple_(mark.c.position, mark.c.id)
    beside = same(messages.c.segment_id, mark.c.segment_id)
    statement = tx.select(func.count(), of=messages).select_from(messages.join(mark, beside))
    return int(
        tx.connection.execute(statement.where(mark.c.uid == message_uid, before, ~_covered().exists())).scalar_one()
    )


def claim_due(
    tx: Transaction, owner: str, limit: int, now: datetime, lease_seconds: float, since: datetime | None = None
) -> DueSegment | None:
    """Take a segment with messages that left its window and are in no summary, unless another works on it.

    At most `limit` messages; what was said since the moment a language model may summarize, None: nothing.
    """
    of_work = and_(same(segment_summaries.c.segment_id, work.c.item_id), work.c.kind == SUMMARIZE_SEGMENT)
    row = tx.connection.execute(
        _uncovered(tx, segment_summaries.c.segment_id, segment_summaries.c.text, outer=of_work)
        .where(is_free(now))
        .limit(1)
    ).first()
    if row is None or not claim(tx, {SUMMARIZE_SEGMENT: owner}, [row.segment_id], now, lease_seconds)[0]:
        return None
    uid = tx.connection.execute(tx.select(segments.c.uid).where(segments.c.id == row.segment_id)).scalar_one()
    columns = (messages.c.id.label("message_id"), messages.c.role, messages.c.type, messages.c.author, messages.c.text)
    is_new = is_new_message(tx, since).label("is_new")
    left = tx.connection.execute(
        _uncovered(tx, *columns, is_new)
        .where(segment_summaries.c.segment_id == row.segment_id)
        .order_by(messages.c.position, messages.c.id)
        .limit(limit)
    ).all()
    alike = list(takewhile(lambda message: message.is_new == left[0].is_new, left))
    is_any_new = bool(left and left[0].is_new)
    return DueSegment(row.segment_id, uid, row.text, tuple(map(_left_message, alike)), is_new=is_any_new)


_left_message = reader(Left)


def put_summary(tx: Transaction, due: DueSegment, text: str, now: datetime, model: str | None = None) -> bool:
    """Keep a summary with what it covers now, and who wrote it.

    Returns:
        False where its messages were forgotten meanwhile, or another has taken them in after the lease had ended.
    """
    ids = [message.message_id for message in due.left]
    present = tx.count(messages, messages.c.id.in_(ids))
    taken = tx.count(summarized_messages, summarized_messages.c.message_id.in_(ids))
    mine = segment_summaries.c.segment_id == due.segment_id, segment_summaries.c.text == due.text
    changed = 0
    if present == len(ids) and not taken:
        changed = tx.update(segment_summaries, *mine, text=text, updated_at=now, model=model)
    if changed:
        rows = [{"segment_id": due.segment_id, "message_id": message_id} for message_id in ids]
        tx.insert(summarized_messages, rows)
    complete(tx, SUMMARIZE_SEGMENT, [due.segment_id])
    return bool(changed)


def covered_by(tx: Transaction, segment_uid: str) -> set[str]:
    """Ids of the messages that a segment's summary covers."""
    covered = joined(summarized_messages, messages, segments)
    uids = tx.select(messages.c.uid, of=summarized_messages).select_from(covered).where(segments.c.uid == segment_uid)
    return set(tx.connection.scalars(uids))


def count_due(tx: Transaction) -> int:
    """Count the segments with messages that no summary covers yet, without those that were given up."""
    counted = _uncovered(tx, func.count(segment_summaries.c.segment_id.distinct()))
    return int(tx.connection.execute(counted).scalar_one())


def count_made(tx: Transaction) -> int:
    """Count the segments that have a summary."""
    return tx.count(segment_summaries, segment_summaries.c.text != "")


def drop_segment_summaries(tx: Transaction, condition: ColumnElement[bool]) -> None:
    """Take back the summaries that cover some of these messages: their words may stand in them.

    They are made anew from what is left.
    """
    touched = list(tx.connection.scalars(tx.select(messages.c.segment_id).where(condition).distinct()))
    if touched:
        tx.delete(summarized_messages, summarized_messages.c.segment_id.in_(touched))
        tx.update(segment_summaries, segment_summaries.c.segment_id.in_(touched), text="")
        drop_work(tx, SUMMARIZE_SEGMENT, touched)


def drop_orphans(tx: Transaction, segment_ids: Sequence[int]) -> None:
    """Remove the summaries of segments that are no more."""
    for table in (segment_summaries, summarized_messages):
        tx.delete(table, table.c.segment_id.in_(segment_ids))
    drop_work(tx, SUMMARIZE_SEGMENT, segment_ids)


_PLACE = tuple_(messages.c.position, messages.c.id)
_MARK = tuple_(segment_summaries.c.left_position, segment_summaries.c.left_id)


_OF_SEGMENT = same(segment_summaries.c.segment_id, messages.c.segment_id)
# Made once: these two run with every context.
_SUMMARY = (
    select(segment_summaries.c.text, segment_summaries.c.updated_at)
    .select_from(joined(segment_summaries, segments))
    .where(segment_summaries.c.tenant == bindparam("of_tenant"), segments.c.uid == bindparam("of_segment"))
    .where(segment_summaries.c.text != "")
)
_LEFT = (
    select(segment_summaries.c.id)
    .select_from(segment_summaries.join(messages, _OF_SEGMENT))
    .where(messages.c.tenant == bindparam("of_tenant"), messages.c.uid == bindparam("of_message"), _PLACE <= _MARK)
)


def _covered() -> Select[Any]:
    return select(summarized_messages.c.id).where(same(messages.c.id, summarized_messages.c.message_id))


def _uncovered(tx: Transaction, *columns: Any, outer: ColumnElement[bool] | None = None) -> Select[Any]:
    """Messages before their segment's mark that no summary covers, with work on the segment where that is joined."""
    # By their conversation, for they are indexed by it: without it, each look reads all messages there are.
    of_conversation = messages.c.conversation_id == segments.c.conversation_id
    within = and_(of_conversation, same(segments.c.id, messages.c.segment_id))
    source = joined(segment_summaries, segments).join(messages, within)
    return (
        tx.select(*columns, of=segment_summaries)
        .select_from(source if outer is None else source.outerjoin(work, outer))
        .where(_PLACE < _MARK, ~_covered().exists())
        .where(~is_given_up(tx, SUMMARIZE_SEGMENT, segment_summaries.c.segment_id))
    )
