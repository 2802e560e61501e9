"""Webhooks as rows, and their outbox: a delivery is written in the transaction of what it tells of.

A delivery holds ids, kinds and times, never words, so that nothing in it is to be forgotten.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Text, and_, bindparam, case, func, or_, select

from harken.model.conversations import Grave, Message, SavedRecord
from harken.model.views import format_moment
from harken.model.webhooks import FORGOTTEN, RECORDED, REMEMBERED, REVIEW_DUE, Delivery, Told, Webhook
from harken.storage.enrichment.jobs import claim, is_free
from harken.storage.ports import Transaction, batches, rows_by
from harken.storage.state import get_setting, set_setting
from harken.storage.tables import (
    Listed,
    columns,
    from_microseconds,
    ids,
    interpret,
    memories,
    moments,
    numbers,
    projects,
    reader,
    same,
    table,
    texts,
    to_microseconds,
    work,
)

DELIVER = "deliver"
WAITING, DELIVERED, FAILED = "waiting", "delivered", "failed"
# From one attempt to the next, after the first, the second, and so on; after the last one it is given up.
RETRY_SECONDS = (5, 300, 1_800, 7_200, 18_000)
# A payload stays far below what endpoints take.
_MOST_IDS = 500
_KEPT_DAYS, _WAITED_DAYS = 7, 30
_REVIEWED = "webhooks.reviewed_until"
# What topics are made of was told already; what is distilled of it is no news.
_REMEMBERED_SOURCES = frozenset({"memory", "experience", "value"})

webhooks = table(
    "webhooks",
    *texts("uid", "url", "secret"),
    *columns(Listed, "events"),
    *moments("created_at", "paused_until?"),
    *texts("halted?"),
)

deliveries = table(
    "deliveries",
    *texts("uid"),
    *ids("webhook_id"),
    *texts("event", "payload", "state"),
    *numbers("attempts"),
    *moments("created_at", "due_at", "ended_at?"),
    *numbers("status?"),
    *texts("error?"),
)

# Made once: it is asked with everything that is recorded.
_SUBSCRIBED = select(webhooks.c.id, webhooks.c.events).where(webhooks.c.tenant == bindparam("of_tenant", type_=Text))


def foresee_webhooks(tx: Transaction) -> None:
    """Be told that something is about to be told of; no-op without a server."""
    if tx.dialect.is_remote:
        tx.dialect.foresee(tx.connection, (_SUBSCRIBED, {"of_tenant": tx.tenant}))


def _subscribed(tx: Transaction) -> list[tuple[int, frozenset[str]]]:
    """The row and the events of each webhook."""
    rows = tx.dialect.bare_rows(tx.connection, _SUBSCRIBED, {"of_tenant": tx.tenant})
    return [(row[0], frozenset(interpret(json.loads, row[1]))) for row in rows] if rows else []


def tell(
    tx: Transaction,
    now: datetime,
    said: Sequence[Message] = (),
    saved: Sequence[tuple[SavedRecord, bool]] = (),
    forgotten: Sequence[Grave] = (),
    project_of: Callable[[str], int | None] = lambda _uid: None,
) -> None:
    """Write what webhooks are to be told of; without any webhook, a look at an empty table.

    Args:
        tx: the transaction that writes what is told of.
        now: the moment.
        said: new messages.
        saved: records that are new, or were changed; whether each is new.
        forgotten: what was forgotten.
        project_of: gives the row of a conversation's project.
    """
    if not (said or saved or forgotten):
        return
    subscribed = _subscribed(tx)
    if not subscribed:
        return
    wanted = frozenset[str]().union(*(events for _, events in subscribed))
    told: list[Told] = []
    if RECORDED in wanted:
        told += _recorded(tx, said, project_of)
    if REMEMBERED in wanted:
        told += _remembered(saved)
    if FORGOTTEN in wanted:
        told += _forgotten(forgotten)
    _put(tx, now, told, subscribed)


def _recorded(tx: Transaction, said: Sequence[Message], project_of: Callable[[str], int | None]) -> Iterable[Told]:
    """An event for each conversation; several where it has many new messages."""
    of_conversation: dict[str, list[Message]] = defaultdict(list)
    for message in said:
        of_conversation[message.conversation_uid].append(message)
    rows = {uid: project_of(uid) or 0 for uid in of_conversation}
    keys = {row.id: row.key for row in rows_by(tx, projects.c.id, set(rows.values()), projects.c.id, projects.c.key)}
    for uid, all_of_it in of_conversation.items():
        for some in batches(all_of_it, _MOST_IDS):
            messages = [
                {"id": one.uid, "role": one.role.value, "type": one.type.value, "at": format_moment(one.created_at)}
                for one in some
            ]
            data = {"project": keys.get(rows[uid]), "conversation": uid, "messages": messages}
            yield Told(RECORDED, some[-1].created_at, data)


def _remembered(saved: Sequence[tuple[SavedRecord, bool]]) -> Iterable[Told]:
    for one, is_new in saved:
        if one.source in _REMEMBERED_SOURCES:
            project = one.project.key if one.project else None
            yield Told(REMEMBERED, one.at, {"project": project, "kind": one.source, "id": one.uid, "new": is_new})


def _forgotten(graves: Sequence[Grave]) -> Iterable[Told]:
    for some in batches(graves, _MOST_IDS):
        items = [
            {"kind": grave.source if isinstance(grave, SavedRecord) else grave.kind, "id": grave.uid} for grave in some
        ]
        yield Told(FORGOTTEN, some[-1].at, {"items": items})


def _put(
    tx: Transaction, now: datetime, told: Sequence[Told], subscribed: Sequence[tuple[int, frozenset[str]]]
) -> None:
    rows = []
    for one in told:
        body = {"type": one.event, "timestamp": format_moment(one.at), "data": {"space": tx.tenant, **one.data}}
        payload = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        rows += [_delivery_row(row_id, one.event, payload, now) for row_id, events in subscribed if one.event in events]
    tx.insert(deliveries, rows)


def _delivery_row(webhook_id: int, event: str, payload: str, now: datetime) -> dict[str, Any]:
    made = {"uid": f"msg_{uuid4().hex}", "webhook_id": webhook_id, "event": event, "payload": payload}
    return {**made, "state": WAITING, "attempts": 0, "created_at": now, "due_at": now}


def has_webhooks(tx: Transaction) -> bool:
    """Whether there is anybody to be told anything."""
    return bool(_subscribed(tx))


def reviews_due(tx: Transaction, now: datetime) -> bool:
    """Whether memories have become due for review of which no webhook that wants to know was told."""
    wanted = any(REVIEW_DUE in events for _, events in _subscribed(tx))
    return wanted and bool(_due_since(tx, now))


def tell_reviews(tx: Transaction, now: datetime) -> None:
    """Write what webhooks are to be told of memories that have become due for review."""
    due = _due_since(tx, now)
    told = [Told(REVIEW_DUE, review_by, {"project": key, "kind": "memory", "id": uid}) for uid, review_by, key in due]
    _put(tx, now, told, _subscribed(tx))
    set_setting(tx, _REVIEWED, to_microseconds(now))


def _due_since(tx: Transaction, now: datetime) -> list[tuple[str, datetime, str | None]]:
    """(id, since when, project's key) of memories that became due since they were last told of."""
    mark = get_setting(tx, _REVIEWED)
    since = (
        from_microseconds(mark)
        if mark
        else tx.connection.scalar(tx.select(func.min(webhooks.c.created_at), of=webhooks))
    )
    due = (
        tx.select(memories.c.uid, memories.c.review_by, projects.c.key)
        .select_from(memories.outerjoin(projects, same(memories.c.project_id, projects.c.id)))
        .where(memories.c.review_by > since, memories.c.review_by <= now, memories.c.superseded_by.is_(None))
        .order_by(memories.c.review_by, memories.c.uid)
    )
    return [(row.uid, row.review_by, row.key) for row in tx.connection.execute(due)]


def add_webhook(tx: Transaction, webhook: Webhook, secret: str) -> None:
    """Add one, with the secret that its deliveries are signed by."""
    row = {"uid": webhook.uid, "url": webhook.url, "secret": secret, "events": webhook.events}
    tx.insert(webhooks, [{**row, "created_at": webhook.created_at}])


def list_webhooks(tx: Transaction) -> list[Webhook]:
    """All of them, oldest first, each with the number of its deliveries that wait or were given up."""
    number = {state: func.sum(case((deliveries.c.state == state, 1), else_=0)) for state in (WAITING, FAILED)}
    counted = tx.select(
        deliveries.c.webhook_id, number[WAITING].label("waiting"), number[FAILED].label("failed")
    ).group_by(deliveries.c.webhook_id)
    counts = {row.webhook_id: row for row in tx.connection.execute(counted)}
    found = []
    for row in tx.connection.execute(tx.select(webhooks).order_by(webhooks.c.id)):
        of_it = counts.get(row.id)
        waiting, failed = (int(of_it.waiting), int(of_it.failed)) if of_it else (0, 0)
        times = row.created_at, waiting, failed, row.paused_until, row.halted
        found.append(Webhook(row.uid, row.url, tuple(row.events), *times))
    return found


def secret_of(tx: Transaction, uid: str) -> str:
    """The secret of a webhook that there is."""
    return str(tx.connection.execute(tx.select(webhooks.c.secret).where(webhooks.c.uid == uid)).scalar_one())


def remove_webhook(tx: Transaction, uid: str) -> None:
    """Remove one, with everything that was to be sent to it."""
    row_id = tx.connection.scalar(tx.select(webhooks.c.id).where(webhooks.c.uid == uid))
    if row_id is not None:
        tx.delete(deliveries, deliveries.c.webhook_id == row_id)
        tx.delete(work, work.c.kind == DELIVER, work.c.item_id == row_id)
        tx.delete(webhooks, webhooks.c.id == row_id)


def resume_webhook(tx: Transaction, uid: str, now: datetime) -> int:
    """Let one go on, with what was given up; how many deliveries wait now."""
    tx.update(webhooks, webhooks.c.uid == uid, halted=None, paused_until=None)
    row_id = tx.connection.execute(tx.select(webhooks.c.id).where(webhooks.c.uid == uid)).scalar_one()
    mine = deliveries.c.webhook_id == row_id
    tx.update(deliveries, mine, deliveries.c.state == FAILED, state=WAITING, attempts=0, ended_at=None)
    return tx.update(deliveries, mine, deliveries.c.state == WAITING, due_at=now)


def list_deliveries(tx: Transaction, webhook_uid: str | None, state: str | None, limit: int) -> list[Delivery]:
    """Deliveries, newest first: of one webhook or all, in one state or any."""
    chosen = tx.select(deliveries, webhooks.c.uid.label("webhook_uid")).select_from(
        deliveries.join(webhooks, same(deliveries.c.webhook_id, webhooks.c.id))
    )
    if webhook_uid is not None:
        chosen = chosen.where(webhooks.c.uid == webhook_uid)
    if state is not None:
        chosen = chosen.where(deliveries.c.state == state)
    return list(map(_delivery, tx.connection.execute(chosen.order_by(deliveries.c.id.desc()).limit(limit))))


_delivery = reader(Delivery)


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery to be tried now: its row, its id, its body, and how often it was tried before."""

    row_id: int
    uid: str
    payload: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is to be sent to one webhook now, in the order in which it was written."""

    webhook_id: int
    url: str
    secret: str
    deliveries: tuple[DueDelivery, ...]


def _is_due(now: datetime) -> tuple[Any, ...]:
    ready = or_(webhooks.c.paused_until.is_(None), webhooks.c.paused_until <= now)
    return deliveries.c.state == WAITING, deliveries.c.due_at <= now, webhooks.c.halted.is_(None), ready


_OF_WEBHOOK = same(deliveries.c.webhook_id, webhooks.c.id)


def has_due(tx: Transaction, now: datetime) -> bool:
    """Whether anything can be sent now."""
    due = tx.select(deliveries.c.id).select_from(deliveries.join(webhooks, _OF_WEBHOOK)).where(*_is_due(now))
    return tx.connection.execute(due.limit(1)).first() is not None


def count_waiting(tx: Transaction) -> int:
    """How many deliveries wait to be sent to webhooks that are not halted."""
    waiting = tx.select(func.count(), of=deliveries).select_from(deliveries.join(webhooks, _OF_WEBHOOK))
    mine = deliveries.c.state == WAITING, webhooks.c.halted.is_(None)
    return int(tx.connection.execute(waiting.where(*mine)).scalar_one())


def claim_outgoing(tx: Transaction, owner: str, now: datetime, lease_seconds: float, limit: int) -> list[Outgoing]:
    """Take webhooks that something can be sent to, each with up to `limit` of its deliveries, oldest first.

    A webhook is one worker's at a time, so that its deliveries are sent in their order.
    """
    of_work = and_(same(webhooks.c.id, work.c.item_id), work.c.kind == DELIVER)
    due = select(deliveries.c.id).where(_OF_WEBHOOK, *_is_due(now)).correlate(webhooks).exists()
    ready = (
        tx.select(webhooks.c.id, webhooks.c.url, webhooks.c.secret)
        .select_from(webhooks.outerjoin(work, of_work))
        .where(due, is_free(now))
        .order_by(webhooks.c.id)
        .with_for_update(of=webhooks, skip_locked=True)
    )
    rows = tx.connection.execute(ready).all()
    [mine] = claim(tx, {DELIVER: owner}, [row.id for row in rows], now, lease_seconds)
    found = []
    for row in rows:
        if row.id in mine:
            waiting = deliveries.c.webhook_id == row.id, deliveries.c.state == WAITING, deliveries.c.due_at <= now
            wanted = (deliveries.c.id, deliveries.c.uid, deliveries.c.payload, deliveries.c.attempts)
            oldest = tx.connection.execute(tx.select(*wanted).where(*waiting).order_by(deliveries.c.id).limit(limit))
            found.append(Outgoing(row.id, row.url, row.secret, tuple(DueDelivery(*each) for each in oldest)))
    return found


def put_delivered(tx: Transaction, row_id: int, attempts: int, status: int, now: datetime) -> None:
    """It has arrived."""
    done = {"state": DELIVERED, "attempts": attempts, "status": status, "error": None, "ended_at": now}
    tx.update(deliveries, deliveries.c.id == row_id, **done)


def put_failed(
    tx: Transaction, row_id: int, attempts: int, status: int | None, error: str, now: datetime, due_at: datetime | None
) -> None:
    """An attempt failed: it is tried again then, or without a moment given up."""
    tried = {"attempts": attempts, "status": status, "error": error}
    end = {"state": FAILED, "ended_at": now} if due_at is None else {"due_at": due_at}
    tx.update(deliveries, deliveries.c.id == row_id, **tried, **end)


def pause_webhook(tx: Transaction, webhook_id: int, until: datetime | None) -> None:
    """Send nothing to it before a moment, since it does not answer; None: it does."""
    tx.update(webhooks, webhooks.c.id == webhook_id, paused_until=until)


def halt_webhook(tx: Transaction, webhook_id: int, why: str) -> None:
    """Send nothing to it until its owner says so."""
    tx.update(webhooks, webhooks.c.id == webhook_id, halted=why, paused_until=None)


def drop_old(tx: Transaction, now: datetime) -> int:
    """Remove deliveries that arrived a week ago, and others that were written a month ago; how many."""
    ended = and_(deliveries.c.state == DELIVERED, deliveries.c.ended_at < now - timedelta(days=_KEPT_DAYS))
    waited = deliveries.c.created_at < now - timedelta(days=_WAITED_DAYS)
    return tx.delete(deliveries, or_(ended, waited))
