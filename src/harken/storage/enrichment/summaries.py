"""Summaries as rows: which are missing or stale, what each is made from; each makes an entry that search sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Row, Select, and_, func, literal, null, or_, true

from harken.model.conversations import ExchangeStatus, Trust
from harken.providers.summarizer import EXTRACTIVE
from harken.storage.conversations import AHEAD_AT_MOST
from harken.storage.enrichment.consent import (
    NO_MODEL,
    Consent,
    SummaryBacklog,
    SummarySizes,
    is_new_conversation,
    is_new_exchange,
)
from harken.storage.enrichment.jobs import claim, drop_work, is_free, is_given_up
from harken.storage.entries import BLANK_ENTRY, add_entries, remove_entries
from harken.storage.ports import Transaction, batches, rows_by, rows_in
from harken.storage.records.marks import facets_of, ratings_of, tags_of, weigh_anew
from harken.storage.state import RowCounts
from harken.storage.tables import (
    conversations,
    entries,
    exchanges,
    failed_work,
    joined,
    messages,
    reader,
    same,
    summaries,
    work,
    writer,
)

EXCHANGE = "exchange"
CONVERSATION = "conversation"
# The tool calls of an exchange, told beside the exchange itself: a line for each, with a blank line between batches.
TOOLS = "tools"
# Kinds of work by what they summarize.
SUMMARIZE = {EXCHANGE: "summarize_exchange", CONVERSATION: "summarize_conversation"}


@dataclass(frozen=True, slots=True)
class DueSummary:
    """Something to summarize.

    Attributes:
        ended_at: what was said until then is to be in the summary.
        status: of an exchange; a conversation counts as completed.
        is_new: whether a language model may summarize it unasked.
    """

    item_id: int
    uid: str
    conversation_id: int
    ended_at: datetime
    status: ExchangeStatus = ExchangeStatus.COMPLETED
    error: str | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as it is kept.

    Attributes:
        kind: `exchange`, `conversation`, `segment` or `tools`.
        text: empty where there was nothing to summarize.
        covers: what was said until then is in it.
    """

    kind: str
    item_uid: str
    text: str
    title: str
    model: str
    covers: datetime
    created_at: datetime


def find_due(
    tx: Transaction, kind: str, limit: int, now: datetime, rest_seconds: float, consent: Consent = NO_MODEL
) -> list[int]:
    """Rows of up to `limit` items whose summary is missing or stale and that nobody works on, newest first.

    Any transaction will do: looking may take a while, during which nobody is to be kept from recording. For so many
    seconds nothing must have been said in a conversation, or in that of an exchange that has no end or that a model
    summarizes.
    """
    # In the order of an index, so that only what is returned is looked at while there is much to do.
    newest = exchanges.c.started_at if kind == EXCHANGE else conversations.c.updated_at
    due = _with_work(kind, _due(tx, kind, now, rest_seconds, consent)).where(is_free(now))
    return [row.item_id for row in tx.connection.execute(due.order_by(newest.desc()).limit(limit))]


def claim_due(
    tx: Transaction,
    kind: str,
    item_ids: Sequence[int],
    owner: str,
    now: datetime,
    lease_seconds: float,
    rest_seconds: float,
    wanted: Consent | SummaryBacklog = NO_MODEL,
) -> list[DueSummary]:
    """Take those of the items that are still due and free, in a writing transaction; arguments as of `find_due`.

    With a backlog, those that are still in it.
    """
    if isinstance(wanted, SummaryBacklog):
        due = _backlog(tx, kind, now, rest_seconds, wanted)
    else:
        due = _due(tx, kind, now, rest_seconds, wanted)
    ready = _with_work(kind, due).where(_ITEMS[kind].c.id.in_(item_ids), is_free(now))
    rows = tx.connection.execute(ready.with_for_update(of=_ITEMS[kind], skip_locked=True)).all()
    [mine] = claim(tx, {SUMMARIZE[kind]: owner}, [row.item_id for row in rows], now, lease_seconds)
    found = {row.item_id: _due_summary(row) for row in rows if row.item_id in mine}
    return [found[item_id] for item_id in item_ids if item_id in found]


def count_due(tx: Transaction, kind: str, now: datetime, rest_seconds: float, consent: Consent = NO_MODEL) -> int:
    """How many items wait for a summary; what was given up is not among them."""
    return count_due_and_stale(tx, kind, now, rest_seconds, consent)[0]


def count_due_and_stale(
    tx: Transaction, kind: str, now: datetime, rest_seconds: float, consent: Consent, counted: RowCounts | None = None
) -> tuple[int, int]:
    """How many items wait for a summary, and how many of them have one already, which is stale.

    Where the engine counts what has a summary, those alone are looked at that do not wait all the same: what was given
    up, and what has not rested yet.
    """
    kept = counted.summarized if counted else None
    least = consent.sizes.messages if kind == EXCHANGE else consent.sizes.exchanges
    if counted is None or kept is None or least > 1 or (consent.is_paused and consent.since):
        return _count_both(tx, _due(tx, kind, now, rest_seconds, consent))
    covered, stale = kept[kind]
    waiting = (counted.exchanges if kind == EXCHANGE else tx.count(conversations)) - covered
    given_up = _items(tx, kind, _is_new(tx, kind, None), consent.sizes, given_up=True).where(_is_missing(kind))
    for others in (given_up, _kept_waiting(tx, kind, now, rest_seconds, consent)):
        not_due, of_stale = _count_both(tx, others)
        waiting, stale = waiting - not_due, stale - of_stale
    return waiting, stale


def _count_both(tx: Transaction, items: Select[Any]) -> tuple[int, int]:
    counts = func.count(), func.count(summaries.c.id)
    waiting, stale = tx.connection.execute(items.with_only_columns(*counts, maintain_column_froms=True)).one()
    return int(waiting), int(stale)


def count_backlog(tx: Transaction, kind: str, now: datetime, rest_seconds: float, backlog: SummaryBacklog) -> int:
    """How many items have no summary but an extract, and get no other unless somebody asks for it."""
    items = _backlog(tx, kind, now, rest_seconds, backlog).with_only_columns(func.count(), maintain_column_froms=True)
    return int(tx.connection.execute(items).scalar_one())


def list_backlog(
    tx: Transaction, kind: str, now: datetime, rest_seconds: float, backlog: SummaryBacklog
) -> list[DueSummary]:
    """The items of a backlog, newest first."""
    rows = tx.connection.execute(_backlog(tx, kind, now, rest_seconds, backlog).order_by(_begun(kind).desc()))
    return [_due_summary(row) for row in rows]


def running(tx: Transaction, kind: str, now: datetime) -> str | None:
    """The id of what somebody summarizes at this moment; of several, the one whose turn came last (`jobs.renew`)."""
    item = _ITEMS[kind]
    uid: str | None = tx.connection.scalar(
        tx.select(item.c.uid)
        .select_from(item.join(work, _of_work(kind)))
        .where(work.c.claimed_by.is_not(None), work.c.lease_until >= now)
        .order_by(work.c.lease_until.desc(), work.c.id)
        .limit(1)
    )
    return uid


def put_summaries(tx: Transaction, made: Sequence[tuple[StoredSummary, str]]) -> None:
    """Keep summaries of one kind, each with its conversation's uid; those that are new by one statement for all."""
    known = read_summaries(tx, made[0][0].kind, [found.item_uid for found, _ in made]) if made else {}
    new = [each for each in made if each[0].item_uid not in known]
    for found, conversation_uid in made:
        if found.item_uid in known:
            put_summary(tx, found, conversation_uid)
    if new:
        tx.insert(summaries, ({**_row(found), "conversation_uid": conversation_uid} for found, conversation_uid in new))
        places = _places(tx, new[0][0].kind, [found.item_uid for found, _ in new])
        told = [(found, places[found.item_uid]) for found, _ in new if found.text and found.item_uid in places]
        _add_entries(tx, told)


def put_summary(tx: Transaction, found: StoredSummary, conversation_uid: str) -> None:
    """Keep a summary in place of the one before it, and have search see it."""
    key = {"kind": found.kind, "item_uid": found.item_uid}
    tx.put(summaries, key, {**_row(found), "conversation_uid": conversation_uid})
    remove_entries(tx, and_(entries.c.source == found.kind, entries.c.ref_uid == found.item_uid))
    _add_entry(tx, found)


def read_summaries(tx: Transaction, kind: str, item_uids: Sequence[str]) -> dict[str, StoredSummary]:
    """The summaries that there are, by what they summarize."""
    found: dict[str, StoredSummary] = {}
    for batch in batches(item_uids):
        of_items = and_(summaries.c.kind == kind, tx.dialect.one_of(summaries.c.item_uid, batch))
        found.update({each.item_uid: each for each in _select(tx, of_items)})
    return found


def summaries_of(tx: Transaction, conversation_uid: str) -> list[StoredSummary]:
    """Every summary of a conversation and of its exchanges, in no promised order."""
    return _select(tx, summaries.c.conversation_uid == conversation_uid)


def conversation_uids_of(tx: Transaction, conversation_ids: Collection[int]) -> dict[int, str]:
    """The uids of conversations by their rows; those that are gone are left out."""
    rows = rows_by(tx, conversations.c.id, conversation_ids, conversations.c.id, conversations.c.uid)
    return {row[0]: row[1] for row in rows}


def restore_summaries(tx: Transaction, conversation_uid: str) -> None:
    """Give summaries their entries again, after a conversation was made anew from the journal."""
    for found in summaries_of(tx, conversation_uid):
        _add_entry(tx, found)


def drop_summaries_of(tx: Transaction, conversation_uid: str) -> None:
    """Forget every summary of a conversation and of its parts."""
    _drop(tx, summaries.c.conversation_uid == conversation_uid)


def drop_summaries_with(tx: Transaction, message_uids: Sequence[str]) -> None:
    """Forget the summaries that messages are in: they may quote them; the work to make them anew is found again."""
    of_conversation = (conversations.c.id.label("conversation_id"), conversations.c.uid.label("conversation_uid"))
    selected = tx.select(exchanges.c.id, exchanges.c.uid, *of_conversation, of=messages)
    of_messages = selected.select_from(joined(messages, exchanges, conversations))
    touched: dict[str, list[Row[Any]]] = {}
    for row in rows_in(tx, of_messages, messages.c.uid, message_uids):
        touched.setdefault(row.conversation_uid, []).append(row)
    for uid, rows in touched.items():
        others = and_(summaries.c.kind.in_((EXCHANGE, TOOLS)), summaries.c.item_uid.not_in([row.uid for row in rows]))
        _drop(tx, and_(summaries.c.conversation_uid == uid, ~others))
        # Who is summarizing one at this moment has read the message, and finds that the lease is gone.
        drop_work(tx, SUMMARIZE[EXCHANGE], sorted({row.id for row in rows}))
        drop_work(tx, SUMMARIZE[CONVERSATION], [rows[0].conversation_id])


def drop_summary_work(tx: Transaction, conversation_id: int) -> None:
    """Neither work nor failures remain of a conversation whose rows go: another may get their numbers."""
    of_conversation = tx.select(exchanges.c.id).where(exchanges.c.conversation_id == conversation_id)
    exchange_ids = tx.connection.scalars(of_conversation).all()
    drop_work(tx, SUMMARIZE[EXCHANGE], exchange_ids)
    drop_work(tx, SUMMARIZE[CONVERSATION], [conversation_id])


_ITEMS = {EXCHANGE: exchanges, CONVERSATION: conversations}
_ENDED: dict[str, ColumnElement[datetime]] = {
    EXCHANGE: func.coalesce(exchanges.c.completed_at, conversations.c.updated_at),
    CONVERSATION: conversations.c.updated_at,
}


def _due(tx: Transaction, kind: str, now: datetime, rest_seconds: float, consent: Consent) -> Select[Any]:
    """Items whose summary is missing or stale; what a model is to write waits until its conversation rests."""
    ready = _is_ready(tx, kind, now, rest_seconds, consent), _is_missing(kind)
    return _items(tx, kind, _is_new(tx, kind, consent.since), consent.sizes).where(*ready)


def _is_missing(kind: str) -> ColumnElement[bool]:
    return or_(summaries.c.id.is_(None), summaries.c.covers < _ENDED[kind])


def _is_ready(tx: Transaction, kind: str, now: datetime, rest_seconds: float, consent: Consent) -> ColumnElement[bool]:
    """Whether an item has rested, if it has to, and, if a model is to summarize it, may be given to one."""
    is_new, rests = _is_new(tx, kind, consent.since), _rests(now, rest_seconds)
    for_model: ColumnElement[bool] = true()
    if consent.is_paused:
        for_model = ~is_new
    elif consent.ongoing:
        for_model = or_(~is_new, conversations.c.uid.not_in(consent.ongoing))
    if kind == EXCHANGE:
        rests = or_(and_(exchanges.c.status != ExchangeStatus.IN_PROGRESS.value, ~is_new), rests)
    return and_(rests, for_model)


def _kept_waiting(tx: Transaction, kind: str, now: datetime, rest_seconds: float, consent: Consent) -> Select[Any]:
    """Items without a summary that covers them which are not ready: all of conversations in which something goes on."""
    goes_on: ColumnElement[bool] = and_(
        conversations.c.updated_at > now - timedelta(seconds=rest_seconds),
        conversations.c.updated_at <= now + AHEAD_AT_MOST,
    )
    if consent.ongoing:
        goes_on = or_(goes_on, conversations.c.uid.in_(consent.ongoing))
    items = _items(tx, kind, _is_new(tx, kind, consent.since), consent.sizes)
    return items.where(goes_on, ~_is_ready(tx, kind, now, rest_seconds, consent), _is_missing(kind))


def _backlog(tx: Transaction, kind: str, now: datetime, rest_seconds: float, backlog: SummaryBacklog) -> Select[Any]:
    """Items that no model has summarized, nor will unasked, older or with an extract; none without anything to tell."""
    is_new = _is_new(tx, kind, backlog.said_since)
    by_none = or_(summaries.c.id.is_(None), and_(summaries.c.model == EXTRACTIVE, summaries.c.text != ""))
    unasked = or_(~is_new, summaries.c.covers >= _ENDED[kind])
    found = _items(tx, kind, is_new, backlog.sizes).where(_rests(now, rest_seconds), by_none, unasked)
    if backlog.project_id is not None:
        found = found.where(conversations.c.project_id == backlog.project_id)
    return found if backlog.since is None else found.where(_begun(kind) >= backlog.since)


def _is_new(tx: Transaction, kind: str, since: datetime | None) -> ColumnElement[bool]:
    return is_new_exchange(tx, since) if kind == EXCHANGE else is_new_conversation(tx, since)


def _begun(kind: str) -> ColumnElement[datetime]:
    return exchanges.c.started_at if kind == EXCHANGE else conversations.c.created_at


def _rests(now: datetime, rest_seconds: float) -> ColumnElement[bool]:
    # A clock that was wrong dates words into a future in which nothing would ever rest.
    return or_(
        conversations.c.updated_at <= now - timedelta(seconds=rest_seconds),
        conversations.c.updated_at > now + AHEAD_AT_MOST,
    )


def _items(
    tx: Transaction, kind: str, is_new: ColumnElement[bool], sizes: SummarySizes, given_up: bool = False
) -> Select[Any]:
    """Items with their summary, if there is one, without what was given up, or that alone; none too small for one."""
    item = _ITEMS[kind]
    columns: list[ColumnElement[Any]] = [item.c.id.label("item_id"), item.c.uid, _ENDED[kind].label("ended_at")]
    columns += [conversations.c.id.label("conversation_id"), is_new.label("is_new")]
    source: FromClause = conversations
    if kind == EXCHANGE:
        columns += [exchanges.c.status, exchanges.c.error]
        source = joined(exchanges, conversations)
    else:
        columns += [literal(ExchangeStatus.COMPLETED.value).label("status"), null().label("error")]
    of_summary = and_(same(item.c.uid, summaries.c.item_uid), summaries.c.kind == kind)
    found = tx.select(*columns, of=item).select_from(source.outerjoin(summaries, of_summary))
    failed = tx.select(failed_work.c.item_id).where(failed_work.c.kind == SUMMARIZE[kind])
    found = found.where(item.c.id.in_(failed) if given_up else ~is_given_up(tx, SUMMARIZE[kind], item.c.id))
    part, of_item, least = exchanges, same(conversations.c.id, exchanges.c.conversation_id), sizes.exchanges
    if kind == EXCHANGE:
        # By their conversation as well, for messages are indexed by it.
        beside = messages.c.conversation_id == exchanges.c.conversation_id
        part, of_item, least = messages, and_(same(exchanges.c.id, messages.c.exchange_id), beside), sizes.messages
    if least > 1:
        parts = tx.select(func.count(), of=part).where(of_item).correlate(item).scalar_subquery()
        found = found.where(parts >= least)
    return found


def _with_work(kind: str, items: Select[Any]) -> Select[Any]:
    return items.outerjoin(work, _of_work(kind))


def _of_work(kind: str) -> ColumnElement[bool]:
    return and_(same(_ITEMS[kind].c.id, work.c.item_id), work.c.kind == SUMMARIZE[kind])


_due_summary = reader(DueSummary, status=ExchangeStatus, is_new=bool)


def _select(tx: Transaction, condition: ColumnElement[bool]) -> list[StoredSummary]:
    return list(map(_stored_summary, tx.connection.execute(tx.select(summaries).where(condition))))


_stored_summary, _row = reader(StoredSummary), writer(StoredSummary, summaries)


def _drop(tx: Transaction, condition: ColumnElement[bool]) -> None:
    for found in _select(tx, condition):
        remove_entries(tx, and_(entries.c.source == found.kind, entries.c.ref_uid == found.item_uid))
    tx.delete(summaries, condition)


def _add_entry(tx: Transaction, found: StoredSummary) -> None:
    """Have search see a summary, unless it is empty or what it summarizes is gone."""
    if found.text and found.kind in (*_ITEMS, TOOLS):
        places = _places(tx, found.kind, [found.item_uid])
        _add_entries(tx, [(found, place) for place in places.values()])


def _add_entries(tx: Transaction, told: Sequence[tuple[StoredSummary, Row[Any]]]) -> None:
    """Have search see summaries, each with the tags of its conversation and as much weight as was said of it."""
    made = [(row, place) for found, place in told for row in _entry_rows(found, place)]
    facets = [facets_of(tags_of(place.label)) for _, place in made]
    add_entries(tx, [row for row, _ in made], frozenset(), facets if any(facets) else ())
    weigh_anew(tx, ratings_of(tx, [found.item_uid for found, _ in told]))


def _entry_rows(found: StoredSummary, place: Row[Any]) -> list[dict[str, Any]]:
    row = {
        **BLANK_ENTRY,
        **{name: place._mapping[name] for name in ("conversation_id", "segment_id", "exchange_id", "project_id")},
        "source": found.kind,
        "ref_uid": found.item_uid,
        # Their summaries are made of what tools brought.
        "trust": (Trust.TOOL if found.kind == TOOLS else Trust.AGENT).value,
        "created_at": found.covers,
        "text": f"{found.title}\n{found.text}" if found.title else found.text,
    }
    parts = filter(None, found.text.split("\n") if found.kind == TOOLS else [])
    rows = [{**row, "part": str(number), "text": text} for number, text in enumerate(parts, start=1)]
    return rows or [row]


def _places(tx: Transaction, kind: str, item_uids: Sequence[str]) -> dict[str, Row[Any]]:
    """The places of the entries of summaries, by what is summarized; what is gone is left out."""
    of_it = (conversations.c.id.label("conversation_id"), conversations.c.project_id, conversations.c.label)
    item = _ITEMS.get(kind, exchanges)
    if item is exchanges:
        place: tuple[ColumnElement[Any], ...] = (exchanges.c.segment_id, exchanges.c.id.label("exchange_id"))
        statement = tx.select(exchanges.c.uid, *of_it, *place).select_from(joined(exchanges, conversations))
    else:
        place = (null().label("segment_id"), null().label("exchange_id"))
        statement = tx.select(conversations.c.uid, *of_it, *place)
    return {row.uid: row for row in rows_in(tx, statement, item.c.uid, item_uids)}
