"""Webhooks: added and looked after by their owner, and the job that sends what they are told, at least once, in order.

What is told is written beside what it tells of (`harken.storage.enrichment.webhooks`); here it is sent. An endpoint
that does not answer is left alone for longer each time, with all that waits for it; a delivery that it refuses is put
off alone. After the last attempt the one is halted, the other given up, until somebody says `harken webhook resume`.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from harken.config.sections import WebhooksConfig
from harken.errors import NotFoundError, UsageError
from harken.jobs.job import Job, run_until_idle
from harken.jobs.post import SECRET_PREFIX, Answer, PostTarget, parse_target, post
from harken.model.views import format_moment
from harken.model.webhooks import TEST_EVENT, WEBHOOK_EVENTS, Delivery, Webhook
from harken.storage.enrichment import webhooks as rows
from harken.storage.enrichment.webhooks import DELIVER, RETRY_SECONDS, DueDelivery, Outgoing
from harken.storage.ports import Store, Transaction

# Together within a lease, even where each takes as long as it may.
_AT_ONCE, _LEASE_SECONDS, _TURN_SECONDS = 20, 180.0, 60.0
_MOST_WEBHOOKS = 20
_LONGEST_WAIT_SECONDS = RETRY_SECONDS[-1]
# How soon a store without webhooks is looked at again, however often its worker is woken.
_REST_SECONDS, _PRUNE_SECONDS = 2.0, 3_600.0


@dataclass(slots=True)
class DeliveryAttempt:
    """A delivery that was tried, and how that went."""

    delivery: DueDelivery
    answer: Answer
    at: datetime


@dataclass
class DeliverWork(Job[Outgoing, list[DeliveryAttempt]]):
    """Sends what webhooks are told.

    Args:
        allow_hosts: hosts that may be private, and without TLS.
    """

    store: Store
    allow_hosts: Callable[[], Sequence[str]]
    now: Callable[[], datetime]
    _resting_until: float = field(default=0.0, init=False)
    _pruned_at: float = field(default=0.0, init=False)

    name = DELIVER
    row = "webhook_id"
    locks = ()

    def _count(self, tx: Transaction) -> int:
        return rows.count_waiting(tx)

    def _candidates(self) -> Iterator[Sequence[int]]:
        """Nothing where nothing is due, so that nobody waits for a lock that is taken for nothing."""
        if time.monotonic() < self._resting_until:
            return
        now = self.now()
        with self.store.reading() as tx:
            if not rows.has_webhooks(tx):
                self._resting_until = time.monotonic() + _REST_SECONDS
                return
            is_due, is_review_due = rows.has_due(tx, now), rows.reviews_due(tx, now)
        if is_review_due:
            with self.store.writing() as tx:
                rows.tell_reviews(tx, now)
        if is_due or is_review_due:
            yield ()

    def _claim(self, tx: Transaction, _rows: Sequence[int]) -> list[list[Outgoing]]:
        claimed = rows.claim_outgoing(tx, self.owner, self.now(), _LEASE_SECONDS, _AT_ONCE)
        return [[each] for each in claimed]

    def _make(self, items: list[Outgoing]) -> Sequence[list[DeliveryAttempt]]:
        mine = self._begun(items, _LEASE_SECONDS)
        return [self._sent(item) if item.webhook_id in mine else [] for item in items]

    def _sent(self, item: Outgoing) -> list[DeliveryAttempt]:
        """Send deliveries in order, until the endpoint takes none or others have waited for long enough."""
        attempts: list[DeliveryAttempt] = []
        until = time.monotonic() + _TURN_SECONDS
        target = _target_of(item.url, self.allow_hosts())
        for delivery in item.deliveries:
            answer = target if isinstance(target, Answer) else _post(target, item.secret, delivery, self.now())
            attempts.append(DeliveryAttempt(delivery, answer, self.now()))
            if answer.is_outage or answer.is_gone or time.monotonic() > until:
                break
        return attempts

    def _keep(self, tx: Transaction, made: Sequence[tuple[Outgoing, list[DeliveryAttempt]]]) -> int:
        return sum(self._settle(tx, item.webhook_id, attempt) for item, attempts in made for attempt in attempts)

    def _settle(self, tx: Transaction, webhook_id: int, attempt: DeliveryAttempt) -> int:
        """Write down how an attempt went; 1 where it arrived."""
        delivery, answer, at = attempt.delivery, attempt.answer, attempt.at
        tried = delivery.attempts + 1
        if not answer.error:
            rows.put_delivered(tx, delivery.row_id, tried, answer.status or 0, at)
            rows.pause_webhook(tx, webhook_id, None)
            return 1
        is_last = tried > len(RETRY_SECONDS)
        wait = 0.0 if is_last else max(RETRY_SECONDS[tried - 1], answer.retry_after_seconds or 0.0)
        due_at = None if is_last else at + timedelta(seconds=min(wait, _LONGEST_WAIT_SECONDS))
        rows.put_failed(tx, delivery.row_id, tried, answer.status, answer.error, at, due_at)
        if answer.is_gone:
            rows.halt_webhook(tx, webhook_id, "the endpoint is gone (410)")
        elif is_last and answer.is_outage:
            rows.halt_webhook(tx, webhook_id, f"{tried} attempts failed, the last one: {answer.error}")
        elif answer.is_outage:
            rows.pause_webhook(tx, webhook_id, due_at)
        return 0

    def _idle(self) -> None:
        if time.monotonic() >= self._resting_until and time.monotonic() - self._pruned_at > _PRUNE_SECONDS:
            self._pruned_at = time.monotonic()
            with self.store.writing(of=()) as tx:
                rows.drop_old(tx, self.now())


def _target_of(url: str, allow_hosts: Sequence[str]) -> PostTarget | Answer:
    """Where to post to; that it may be without TLS was agreed to when it was added."""
    try:
        return parse_target(url, allow_hosts, allow_http=True)
    except UsageError as error:
        return Answer(None, str(error).removeprefix("url: "))


def _post(target: PostTarget, secret: str, delivery: DueDelivery, now: datetime) -> Answer:
    return post(target, secret, delivery.uid, int(now.timestamp()), delivery.payload.encode())


@dataclass(slots=True)
class Webhooks:
    """Who is told of what happens in this store; reached as `Harken.webhooks`."""

    store: Store
    config: Callable[[], WebhooksConfig]
    new_uid: Callable[[], str]
    now: Callable[[], datetime]

    def add(self, url: str, events: Sequence[str] = (), allow_http: bool = False) -> tuple[Webhook, str]:
        """Have an address told of events, of all without any named; with the secret, which is never shown again.

        Raises:
            UsageError: there is no such event, the address may not be posted to, or there are too many.
        """
        if unknown := [each for each in events if each not in WEBHOOK_EVENTS]:
            raise UsageError(f"There is no event '{unknown[0]}'. Events: {', '.join(WEBHOOK_EVENTS)}")
        target = parse_target(url, self.config().allow_hosts, allow_http)
        wanted = tuple(each for each in WEBHOOK_EVENTS if each in events or not events)
        made = Webhook(self.new_uid(), target.url, wanted, self.now())
        secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        with self.store.writing() as tx:
            if len(rows.list_webhooks(tx)) >= _MOST_WEBHOOKS:
                raise UsageError(f"There are {_MOST_WEBHOOKS} webhooks already. Remove one: harken webhook remove ID")
            rows.add_webhook(tx, made, secret)
        return made, secret

    def all(self) -> list[Webhook]:
        """All of them, oldest first."""
        with self.store.reading() as tx:
            return rows.list_webhooks(tx)

    def find(self, beginning: str) -> Webhook:
        """The one whose id begins like this.

        Raises:
            NotFoundError: none does, or several do.
        """
        found = [each for each in self.all() if each.uid.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        what = f"Several webhooks begin with {beginning}" if found else f"There is no webhook {beginning}"
        raise NotFoundError(f"{what}. Ids are printed by: harken webhook list")

    def remove(self, beginning: str) -> str:
        """Tell one nothing any more, not even what waits; its whole id.

        Raises:
            NotFoundError: there is none.
        """
        uid = self.find(beginning).uid
        with self.store.writing() as tx:
            rows.remove_webhook(tx, uid)
        return uid

    def resume(self, beginning: str) -> tuple[Webhook, int]:
        """Let one go on that was halted or paused, with what was given up; and how many deliveries wait.

        Raises:
            NotFoundError: there is none.
        """
        uid = self.find(beginning).uid
        with self.store.writing() as tx:
            waiting = rows.resume_webhook(tx, uid, self.now())
        return self.find(uid), waiting

    def test(self, beginning: str) -> tuple[Webhook, Answer]:
        """Post an event `test` now, once; and how that went.

        Raises:
            NotFoundError: there is none.
        """
        found = self.find(beginning)
        with self.store.reading() as tx:
            secret = rows.secret_of(tx, found.uid)
        now = self.now()
        body = f'{{"type":"{TEST_EVENT}","timestamp":"{format_moment(now)}","data":{{"space":"{self.store.tenant}"}}}}'
        target = _target_of(found.url, self.config().allow_hosts)
        sent = DueDelivery(0, f"msg_{secrets.token_hex(16)}", body, 0)
        return found, target if isinstance(target, Answer) else _post(target, secret, sent, now)

    def deliveries(self, beginning: str | None = None, state: str | None = None, limit: int = 20) -> list[Delivery]:
        """What was, or is to be, sent, newest first: to one webhook or all, in one state or any.

        Raises:
            NotFoundError: there is no such webhook.
        """
        uid = None if beginning is None else self.find(beginning).uid
        with self.store.reading() as tx:
            return rows.list_deliveries(tx, uid, state, limit)

    def work(self) -> DeliverWork:
        """The job that sends."""
        return DeliverWork(self.store, lambda: self.config().allow_hosts, self.now)

    def deliver(self) -> int:
        """Send everything that is due now, in this thread; how many deliveries arrived."""
        work = self.work()
        run_until_idle(work)
        return work.stored
