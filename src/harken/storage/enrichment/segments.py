"""Rolling summaries as rows: what they say, which messages they cover, and which have left the window since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, func, insert, select, tuple_, update

from harken.storage.enrichment.consent import is_new_message
from harken.storage.enrichment.jobs import claim, complete, drop_work, is_free
from harken.storage.ports import Transaction
from harken.storage.tables import failed_work, messages, refers, segment_summaries, segments, summarized_messages, work

SUMMARIZE_SEGMENT = "summarize_segment"


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
        text: the summary so far; empty for the first.
        left: what it is to take in, oldest first.
        is_new: whether a language model may take it in unasked; what it may not comes apart from the rest.
    """

    segment_id: int
    segment_uid: str
    text: str
    left: tuple[Left, ...]
    is_new: bool = False


def segment_summary(tx: Transaction, segment_uid: str) -> tuple[str, datetime] | None:
    """What a segment's rolling summary says, and when it was made; None where there is none."""
    row = tx.connection.execute(_SUMMARY, {"of_tenant": tx.tenant, "of_segment": segment_uid}).first()
    return None if row is None else (row.text, row.updated_at)


def has_left(tx: Transaction, message_uid: str) -> bool:
    """Whether it is known already that everything before this message of its segment has left the window."""
    return tx.connection.execute(_LEFT, {"of_tenant": tx.tenant, "of_message": message_uid}).first() is not None


def note_left(tx: Transaction, message_uid: str, now: datetime) -> None:
    """Everything before this message of its segment has left the window."""
    row = tx.connection.execute(
        select(messages.c.id, messages.c.segment_id, messages.c.position).where(
            messages.c.tenant == tx.tenant, messages.c.uid == message_uid
        )
    ).first()
    if row is None or has_left(tx, message_uid):
        return
    values = {"left_position": row.position, "left_id": row.id}
    mine = (segment_summaries.c.tenant == tx.tenant, segment_summaries.c.segment_id == row.segment_id)
    if tx.connection.execute(update(segment_summaries).where(*mine).values(**values)).rowcount == 0:
        fresh = {"tenant": tx.tenant, "segment_id": row.segment_id, "text": "", "updated_at": now, **values}
        tx.connection.execute(insert(segment_summaries).values(**fresh))


def count_left(tx: Transaction, message_uid: str) -> int:
    """How many messages of a message's segment stand before it and are in no summary."""
    mark = messages.alias("mark")
    before = tuple_(messages.c.position, messages.c.id) < tuple_(mark.c.position, mark.c.id)
    same = and_(mark.c.tenant == messages.c.tenant, mark.c.segment_id == messages.c.segment_id)
    statement = (
        select(func.count())
        .select_from(messages.join(mark, same))
        .where(messages.c.tenant == tx.tenant, mark.c.uid == message_uid, before, ~_covered().exists())
    )
    return int(tx.connection.execute(statement).scalar_one())


def claim_due(
    tx: Transaction, owner: str, limit: int, now: datetime, lease_seconds: float, since: datetime | None = None
) -> DueSegment | None:
    """Take a segment with messages that left its window and are in no summary, unless another works on it.

    Args:
        tx: a writing transaction.
        owner: takes the lease.
        limit: of messages.
        now: the present.
        lease_seconds: how long it is its owner's.
        since: what was said from this moment on a language model may summarize; None: nothing.
    """
    of_work = and_(
        work.c.tenant == segment_summaries.c.tenant,
        work.c.kind == SUMMARIZE_SEGMENT,
        work.c.item_id == segment_summaries.c.segment_id,
    )
    row = tx.connection.execute(
        _uncovered(tx, select(segment_summaries.c.segment_id, segment_summaries.c.text), outer=of_work)
        .where(is_free(now))
        .limit(1)
    ).first()
    if row is None:
        return None
    if not claim(tx, SUMMARIZE_SEGMENT, [row.segment_id], owner, now, lease_seconds):
        return None
    of_it = (segments.c.tenant == tx.tenant, segments.c.id == row.segment_id)
    uid = tx.connection.execute(select(segments.c.uid).where(*of_it)).scalar_one()
    columns = (messages.c.id, messages.c.role, messages.c.type, messages.c.author, messages.c.text)
    is_new = is_new_message(since).label("is_new")
    left = tx.connection.execute(
        _uncovered(tx, select(*columns, is_new))
        .where(segment_summaries.c.segment_id == row.segment_id)
        .order_by(messages.c.position, messages.c.id)
        .limit(limit)
    ).all()
    alike = list(takewhile(lambda message: message.is_new == left[0].is_new, left))
    said = tuple(Left(m.id, m.role, m.type, m.author, m.text) for m in alike)
    return DueSegment(row.segment_id, uid, row.text, said, is_new=bool(left and left[0].is_new))


def put_summary(tx: Transaction, due: DueSegment, text: str, now: datetime, model: str | None = None) -> bool:
    """Keep a summary with what it covers now, and who wrote it.

    Returns:
        False where its messages were forgotten meanwhile, or another has taken them in after the lease had ended.
    """
    ids = [message.message_id for message in due.left]
    present = set(
        tx.connection.scalars(select(messages.c.id).where(messages.c.tenant == tx.tenant, messages.c.id.in_(ids)))
    )
    of_them = (summarized_messages.c.tenant == tx.tenant, summarized_messages.c.message_id.in_(ids))
    taken = tx.connection.execute(select(summarized_messages.c.id).where(*of_them).limit(1)).first()
    mine = (segment_summaries.c.tenant == tx.tenant, segment_summaries.c.segment_id == due.segment_id)
    same = (*mine, segment_summaries.c.text == due.text)
    changed = 0
    if len(present) == len(ids) and taken is None:
        statement = update(segment_summaries).where(*same).values(text=text, updated_at=now, model=model)
        changed = tx.connection.execute(statement).rowcount
    if changed:
        rows = [{"tenant": tx.tenant, "segment_id": due.segment_id, "message_id": message_id} for message_id in ids]
        tx.connection.execute(insert(summarized_messages), rows)
    complete(tx, SUMMARIZE_SEGMENT, [due.segment_id])
    return bool(changed)


def covered_by(tx: Transaction, segment_uid: str) -> set[str]:
    """Ids of the messages that a segment's summary covers."""
    found = tx.connection.scalars(
        select(messages.c.uid)
        .select_from(
            summarized_messages.join(
                messages,
                and_(
                    messages.c.tenant == summarized_messages.c.tenant,
                    messages.c.id == summarized_messages.c.message_id,
                ),
            ).join(
                segments,
                and_(
                    segments.c.tenant == summarized_messages.c.tenant,
                    segments.c.id == summarized_messages.c.segment_id,
                ),
            )
        )
        .where(summarized_messages.c.tenant == tx.tenant, segments.c.uid == segment_uid)
    )
    return set(found)


def count_due(tx: Transaction) -> int:
    """How many segments have messages that no summary covers yet; what was given up is not among them."""
    segment_id = segment_summaries.c.segment_id
    return int(tx.connection.execute(_uncovered(tx, select(func.count(segment_id.distinct())))).scalar_one())


def count_made(tx: Transaction) -> int:
    """How many segments have a summary."""
    made = (segment_summaries.c.tenant == tx.tenant, segment_summaries.c.text != "")
    return int(tx.connection.execute(select(func.count()).select_from(segment_summaries).where(*made)).scalar_one())


def drop_segment_summaries(tx: Transaction, condition: ColumnElement[bool]) -> None:
    """Take back the summaries that cover some of these messages: their words may stand in them.

    They are made anew from what is left.
    """
    touched = list(
        tx.connection.scalars(select(messages.c.segment_id).where(messages.c.tenant == tx.tenant, condition).distinct())
    )
    if not touched:
        return
    gone = (summarized_messages.c.tenant == tx.tenant, summarized_messages.c.segment_id.in_(touched))
    tx.connection.execute(delete(summarized_messages).where(*gone))
    mine = (segment_summaries.c.tenant == tx.tenant, segment_summaries.c.segment_id.in_(touched))
    tx.connection.execute(update(segment_summaries).where(*mine).values(text=""))
    drop_work(tx, SUMMARIZE_SEGMENT, touched)


def drop_orphans(tx: Transaction, segment_ids: Sequence[int]) -> None:
    """Remove the summaries of segments that are no more."""
    for table in (segment_summaries, summarized_messages):
        tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, table.c.segment_id.in_(segment_ids)))
    drop_work(tx, SUMMARIZE_SEGMENT, segment_ids)


_PLACE = tuple_(messages.c.position, messages.c.id)
_MARK = tuple_(segment_summaries.c.left_position, segment_summaries.c.left_id)


def _of_segment() -> ColumnElement[bool]:
    return and_(
        messages.c.tenant == segment_summaries.c.tenant, messages.c.segment_id == segment_summaries.c.segment_id
    )


# Made once: these two run with every context.
_SUMMARY = (
    select(segment_summaries.c.text, segment_summaries.c.updated_at)
    .select_from(segment_summaries.join(segments, refers(segment_summaries.c.segment_id, segments)))
    .where(segment_summaries.c.tenant == bindparam("of_tenant"), segments.c.uid == bindparam("of_segment"))
    .where(segment_summaries.c.text != "")
)
_LEFT = (
    select(segment_summaries.c.id)
    .select_from(segment_summaries.join(messages, _of_segment()))
    .where(messages.c.tenant == bindparam("of_tenant"), messages.c.uid == bindparam("of_message"), _PLACE <= _MARK)
)


def _covered() -> Select[Any]:
    return select(summarized_messages.c.id).where(
        summarized_messages.c.tenant == messages.c.tenant, summarized_messages.c.message_id == messages.c.id
    )


def _uncovered(tx: Transaction, columns: Select[Any], outer: ColumnElement[bool] | None = None) -> Select[Any]:
    """Messages before their segment's mark that no summary covers."""
    given_up = select(failed_work.c.id).where(
        failed_work.c.tenant == segment_summaries.c.tenant,
        failed_work.c.kind == SUMMARIZE_SEGMENT,
        failed_work.c.item_id == segment_summaries.c.segment_id,
    )
    joined = segment_summaries.join(messages, _of_segment())
    return (
        columns.select_from(joined if outer is None else joined.outerjoin(work, outer))
        .where(segment_summaries.c.tenant == tx.tenant, _PLACE < _MARK)
        .where(~_covered().exists(), ~given_up.exists())
    )
