"""Work on entries, claimed by one at a time; and model calls on the books: none twice, none lost, sums exact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from harken.storage.enrichment import jobs, spend
from harken.storage.enrichment.jobs import BACKOFF_SECONDS, Claimed
from harken.storage.enrichment.spend import CallState, ModelCall, Settlement, Spent
from harken.storage.ports import Store, StoredSpace
from harken.storage.vectors import EMBED
from harken.testing.store_conformance.asking import (
    embed,
    entry_ids,
    keep,
    read,
    space_of,
    spoken_at_length,
    unit_vectors,
    write,
)
from harken.testing.talk import START as NOW

NOON = datetime(2026, 5, 8, 12, 0, tzinfo=UTC)
TODAY, TOMORROW = "2026-05-08", "2026-05-09"
ESTIMATE = Decimal("0.004")


def _book(store: Store, uid: str, kind: str = "exchange", days: int = 0) -> None:
    call = ModelCall(uid, kind, "e1", "openai:gpt-5-mini", NOON + timedelta(days=days), ESTIMATE)
    write(store, spend.book_call, call)


def _settle(store: Store, uid: str, price: str | None, state: CallState = CallState.DONE) -> bool:
    usd = None if price is None else Decimal(price)
    return write(store, spend.settle_call, uid, Settlement(state, NOON, 100, 10, 5, usd))


LEASE = 60.0


class Queue:
    """Entries that wait for a vector, and those who work on them; `after` is in seconds from the beginning."""

    def __init__(self, store: Store, count: int) -> None:
        self.store = store
        self.talk = spoken_at_length("row", count)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.space: StoredSpace = space_of(store)

    def claim(self, owner: str, limit: int = 100, after: float = 0.0) -> list[Claimed]:
        """Claim entries for an owner."""
        return write(self.store, jobs.claim_unembedded, self.space, owner, limit, NOW + timedelta(seconds=after), LEASE)

    def claimed_ids(self, owner: str, limit: int = 100, after: float = 0.0) -> list[int]:
        """Claim entries for an owner; their ids alone."""
        return [item.entry_id for item in self.claim(owner, limit, after)]

    def fail(self, ids: list[int], after: float = 0.0) -> None:
        """Note a failed attempt on entries."""
        write(self.store, jobs.fail, EMBED, ids, "EndpointError", NOW + timedelta(seconds=after))

    def waiting(self) -> int:
        """Count the entries that still wait."""
        return read(self.store, jobs.count_unembedded, self.space)


class WorkTests:
    """Inherited by `StoreConformance`."""

    def test_empty_books_are_zero(self, store: Store) -> None:
        with store.reading() as tx:
            assert spend.spent_in_all(tx) == Spent()
            assert spend.spent_by_kind(tx) == {}

    def test_a_call_under_way_counts_against_a_limit_and_is_not_spent(self, store: Store) -> None:
        _book(store, "c1")
        spent = read(store, spend.spent_on_day, TODAY)
        assert (spent.usd, spent.unsettled) == (Decimal(0), 1)
        assert spent.unsettled_usd == spent.at_most_usd == ESTIMATE

    def test_a_call_is_settled_once(self, store: Store) -> None:
        _book(store, "c1")
        assert _settle(store, "c1", "0.001")
        assert not _settle(store, "c1", "0.001")
        assert not _settle(store, "c1", None, CallState.LOST)
        assert read(store, spend.spent_in_all) == Spent(1, 100, 10, Decimal("0.001"))

    def test_a_second_summary_adds_to_the_first(self, store: Store) -> None:
        for uid in ("c1", "c2"):
            _book(store, uid)
            _settle(store, uid, "0.001")
        with store.reading() as tx:
            assert spend.spent_on_item(tx, "exchange", "e1") == Spent(2, 200, 20, Decimal("0.002"))
            assert spend.spent_on_item(tx, "conversation", "e1") == Spent()

    def test_days_and_kinds_are_summed_apart(self, store: Store) -> None:
        for uid, kind, days in (("c1", "exchange", 0), ("c2", "tools", 0), ("c3", "exchange", 1)):
            _book(store, uid, kind=kind, days=days)
            _settle(store, uid, "0.5")
        with store.reading() as tx:
            assert {day: spend.spent_on_day(tx, day).calls for day in (TODAY, TOMORROW)} == {TODAY: 2, TOMORROW: 1}
            assert {kind: spent.calls for kind, spent in spend.spent_by_kind(tx).items()} == {"exchange": 2, "tools": 1}
            assert {kind: spent.calls for kind, spent in spend.spent_by_kind(tx, TOMORROW).items()} == {"exchange": 1}

    def test_what_was_refused_cost_nothing_and_what_was_lost_may_have(self, store: Store) -> None:
        for uid in ("c1", "c2"):
            _book(store, uid)
        _settle(store, "c1", "0", CallState.FAILED)
        _settle(store, "c2", None, CallState.LOST)
        spent = read(store, spend.spent_in_all)
        assert (spent.calls, spent.usd, spent.unsettled, spent.unsettled_usd) == (0, Decimal(0), 1, ESTIMATE)

    def test_a_call_without_a_price_is_counted_as_one(self, store: Store) -> None:
        _book(store, "c1")
        _settle(store, "c1", None)
        spent = read(store, spend.spent_in_all)
        assert (spent.calls, spent.unpriced, spent.usd) == (1, 1, Decimal(0))

    def test_small_prices_add_up_exactly(self, store: Store) -> None:
        for number in range(10):
            _book(store, f"c{number}")
            _settle(store, f"c{number}", "0.000000001")
        assert read(store, spend.spent_in_all).usd == Decimal("0.00000001")

    def test_days_are_those_of_utc(self, store: Store) -> None:
        assert spend.day_of(datetime.fromisoformat("2026-05-09T01:00:00+03:00")) == TODAY

    def test_the_newest_are_claimed_first_with_their_words(self, store: Store) -> None:
        queue = Queue(store, 5)
        claimed = queue.claim("me", 2)
        assert [item.entry_id for item in claimed] == [queue.ids[4], queue.ids[3]]
        assert claimed[0].text == queue.talk.messages[4].text

    def test_nothing_is_claimed_by_two(self, store: Store) -> None:
        queue = Queue(store, 5)
        mine, theirs = queue.claimed_ids("me", 3), queue.claimed_ids("you", 3)
        assert (len(mine), len(theirs)) == (3, 2)
        assert not set(mine) & set(theirs)
        assert queue.claim("somebody else") == []

    def test_a_lease_that_has_ended_is_work_again(self, store: Store) -> None:
        queue = Queue(store, 2)
        queue.claim("me")
        assert queue.claim("you", after=LEASE - 1) == []
        assert queue.claimed_ids("you", after=LEASE + 1) == queue.ids[::-1]
        with store.reading() as tx:
            assert jobs.owned(tx, EMBED, queue.ids, "me") == set()
            assert jobs.owned(tx, EMBED, queue.ids, "you") == set(queue.ids)

    def test_what_is_given_back_is_work_at_once(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me", 2)
        queue.claim("you", 1)
        write(store, jobs.release, EMBED, "me")
        assert len(queue.claim("somebody else")) == 2

    def test_what_is_done_is_no_work_any_more(self, store: Store) -> None:
        queue = Queue(store, 3)
        done = queue.claimed_ids("me", 2)
        embed(store, queue.space, done, unit_vectors(2))
        write(store, jobs.complete, EMBED, done)
        assert queue.waiting() == 1
        assert queue.claimed_ids("me", after=LEASE + 1) == [queue.ids[0]]

    def test_a_failed_attempt_is_repeated_after_a_growing_while(self, store: Store) -> None:
        queue = Queue(store, 1)
        after = 0.0
        for seconds in BACKOFF_SECONDS:
            assert queue.claimed_ids("me", after=after) == queue.ids
            queue.fail(queue.ids, after)
            assert queue.claim("me", after=after + seconds - 0.5) == []
            after += seconds
        assert BACKOFF_SECONDS == (1, 2, 4, 8, 16, 32)
        assert queue.waiting() == 1

    def test_after_the_last_attempt_it_is_given_up(self, store: Store) -> None:
        queue = Queue(store, 2)
        last = queue.ids[:1]
        queue.claim("me")
        for attempt in range(len(BACKOFF_SECONDS) + 1):
            queue.fail(last, after=100.0 * attempt)
        (failure,) = read(store, jobs.list_failed)
        assert (failure.kind, failure.item_id, failure.attempts) == (EMBED, last[0], 7)
        assert (failure.error_class, failure.failed_at) == ("EndpointError", NOW + timedelta(seconds=600))
        assert queue.waiting() == 1
        assert queue.claimed_ids("me", after=10_000) == queue.ids[1:]

    def test_what_was_given_up_can_be_tried_from_the_beginning(self, store: Store) -> None:
        queue = Queue(store, 1)
        queue.claim("me")
        for _ in range(len(BACKOFF_SECONDS) + 1):
            queue.fail(queue.ids)
        with store.writing() as tx:
            assert jobs.retry_failed(tx) == 1
            assert jobs.list_failed(tx) == []
        assert queue.claimed_ids("me") == queue.ids
        queue.fail(queue.ids)
        with store.reading() as tx:
            assert jobs.list_failed(tx) == []

    def test_the_newest_failures_are_listed_first(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me")
        for number, entry_id in enumerate(queue.ids):
            for _ in range(len(BACKOFF_SECONDS) + 1):
                queue.fail([entry_id], after=number)
        assert [failure.item_id for failure in read(store, jobs.list_failed, 2)] == queue.ids[:0:-1]

    def test_leases_without_an_owner_at_work_are_counted_and_dropped(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me", 2)
        queue.claim("you", 1, after=LEASE)
        now = NOW + timedelta(seconds=LEASE + 1)
        with store.writing() as tx:
            assert sorted(jobs.lease_owners(tx, EMBED)) == ["me", "you"]
            assert jobs.stale_leases(tx, NOW) == 0
            assert jobs.stale_leases(tx, now) == 2
            jobs.stale_leases(tx, now, fix=True)
            assert jobs.stale_leases(tx, now) == 0
            assert jobs.lease_owners(tx, EMBED) == ["you"]

    def test_a_claim_of_nothing_claims_nothing(self, store: Store) -> None:
        queue = Queue(store, 0)
        assert queue.claim("me") == []
        with store.writing() as tx:
            jobs.complete(tx, EMBED, [])
            jobs.release(tx, EMBED, "me")
            jobs.fail(tx, EMBED, [], "EndpointError", NOW)
            assert jobs.list_failed(tx) == []
