"""Background work: claimed by one at a time, tried again after a while, given up in the end."""

from __future__ import annotations

from datetime import timedelta

from harken.storage.store import Store, StoredSpace
from harken.storage.work import (
    BACKOFF_SECONDS,
    EMBED,
    Claimed,
    claim_unembedded,
    complete,
    count_unembedded,
    drop_stale_leases,
    fail,
    lease_owners,
    list_failed,
    next_retry,
    owned,
    release,
    retry_failed,
    stale_leases,
)
from harken.testing.store_conformance.asking import embed, entry_ids, keep, space_of, spoken_at_length, unit_vectors
from harken.testing.talk import START as NOW

LEASE = 60.0


class Queue:
    """Entries that wait for a vector, and those who work on them."""

    def __init__(self, store: Store, count: int) -> None:
        self.store = store
        self.talk = spoken_at_length("row", count)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.space: StoredSpace = space_of(store)

    def claim(self, owner: str, limit: int = 100, after: float = 0.0) -> list[Claimed]:
        """What the owner gets, so many seconds from the beginning."""
        with self.store.writing() as tx:
            now = NOW + timedelta(seconds=after)
            return claim_unembedded(tx, self.space, owner, limit, now, LEASE)

    def claimed_ids(self, owner: str, limit: int = 100, after: float = 0.0) -> list[int]:
        """The same, ids alone."""
        return [item.entry_id for item in self.claim(owner, limit, after)]

    def fail(self, ids: list[int], after: float = 0.0) -> None:
        """An attempt on these ends badly."""
        with self.store.writing() as tx:
            fail(tx, EMBED, ids, "EndpointError", NOW + timedelta(seconds=after))

    def waiting(self) -> int:
        """How many still wait."""
        with self.store.reading() as tx:
            return count_unembedded(tx, self.space)


class WorkTests:
    """Inherited by `StoreConformance`."""

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
            assert owned(tx, EMBED, queue.ids, "me") == set()
            assert owned(tx, EMBED, queue.ids, "you") == set(queue.ids)

    def test_what_is_given_back_is_work_at_once(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me", 2)
        queue.claim("you", 1)
        with store.writing() as tx:
            release(tx, EMBED, "me")
        assert len(queue.claim("somebody else")) == 2

    def test_what_is_done_is_no_work_any_more(self, store: Store) -> None:
        queue = Queue(store, 3)
        done = queue.claimed_ids("me", 2)
        embed(store, queue.space, done, unit_vectors(2))
        with store.writing() as tx:
            complete(tx, EMBED, done)
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
        with store.reading() as tx:
            (failure,) = list_failed(tx)
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
            assert retry_failed(tx) == 1
            assert list_failed(tx) == []
        assert queue.claimed_ids("me") == queue.ids
        queue.fail(queue.ids)
        with store.reading() as tx:
            assert next_retry(tx) == NOW + timedelta(seconds=1)
            assert list_failed(tx) == []

    def test_the_newest_failures_are_listed_first(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me")
        for number, entry_id in enumerate(queue.ids):
            for _ in range(len(BACKOFF_SECONDS) + 1):
                queue.fail([entry_id], after=number)
        with store.reading() as tx:
            assert [failure.item_id for failure in list_failed(tx, 2)] == queue.ids[:0:-1]

    def test_leases_without_an_owner_at_work_are_counted_and_dropped(self, store: Store) -> None:
        queue = Queue(store, 3)
        queue.claim("me", 2)
        queue.claim("you", 1, after=LEASE)
        now = NOW + timedelta(seconds=LEASE + 1)
        with store.writing() as tx:
            assert sorted(lease_owners(tx, EMBED)) == ["me", "you"]
            assert stale_leases(tx, NOW) == 0
            assert stale_leases(tx, now) == 2
            drop_stale_leases(tx, now)
            assert stale_leases(tx, now) == 0
            assert lease_owners(tx, EMBED) == ["you"]

    def test_a_claim_of_nothing_claims_nothing(self, store: Store) -> None:
        queue = Queue(store, 0)
        assert queue.claim("me") == []
        with store.writing() as tx:
            complete(tx, EMBED, [])
            release(tx, EMBED, "me")
            fail(tx, EMBED, [], "EndpointError", NOW)
            assert next_retry(tx) is None
