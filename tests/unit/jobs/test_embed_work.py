from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select

from harken.errors import EndpointError, ProviderError
from harken.jobs.embed import EmbedWork, LanguageWork
from harken.jobs.job import run_until_idle
from harken.model.conversations import Role
from harken.providers.embedder import Vectors
from harken.record.recorder import NewMessage
from harken.storage.conversations import count_all
from harken.storage.enrichment.jobs import count_work, list_failed, owned, retry_failed
from harken.storage.ports import RowScope, StoredSpace
from harken.storage.tables import entries, vectors
from harken.storage.vectors import EMBED, EMBED_LANGUAGES, ensure_second, ensure_space, list_spaces, read_vectors
from harken.testing import HashingEmbedder
from recorded import LONG, RecordedHome


class Desk:
    """A home with entries that wait for vectors, and workers over it."""

    def __init__(self, place: RecordedHome, count: int) -> None:
        self.place = place
        self.embedder = HashingEmbedder()
        batch = [NewMessage(Role.USER, f"Number {number}: {LONG}") for number in range(count)]
        for message in batch:
            place.clock.go_on(seconds=1)
            place.record("c", message)

    def space(self, embedder: HashingEmbedder) -> StoredSpace:
        with self.place.store.writing() as tx:
            return ensure_space(tx, embedder.space.id, embedder.space.dims, embedder.space.threshold, {})

    def worker(
        self, embedder: HashingEmbedder | None = None, batch_size: int = 4, owner: str | None = None
    ) -> EmbedWork:
        """A worker as another process would start one."""
        model = embedder or self.embedder
        work = EmbedWork(self.place.store, model, self.space(model), batch_size, 60, self.place.clock)
        work.owner = work.owner if owner is None else owner
        return work

    def worker_of_two(self, second: HashingEmbedder) -> EmbedWork:
        """The same with a second model; everything that waits so far is embedded by both."""
        work, space = self.worker(), second.space
        with self.place.store.writing() as tx:
            spaces = ensure_second(tx, space.id, space.dims, space.threshold, {})
        work.second = LanguageWork(self.place.store, second, spaces, 4, 60, self.place.clock)
        run_until_idle(work)
        return work

    def waiting_for_second(self, work: EmbedWork) -> list[int]:
        """How many wait for the second model, and how many are leased for it."""
        assert work.second is not None
        with self.place.store.reading() as tx:
            return [work.second.waiting(), count_work(tx, EMBED_LANGUAGES, self.place.clock()).leased]

    def embedded(self) -> list[str]:
        """The texts that have a vector, oldest first."""
        with self.place.store.reading() as tx:
            rows = tx.connection.execute(
                select(entries.c.text).join(vectors, vectors.c.entry_id == entries.c.id).order_by(entries.c.created_at)
            )
            return [text.partition(":")[0] for text in rows.scalars()]

    def given_up(self) -> list[str]:
        """Why each entry was given up that was."""
        with self.place.store.reading() as tx:
            return [failure.error_class for failure in list_failed(tx)]


class TestBatches:
    def test_the_newest_are_embedded_first(self, place: RecordedHome) -> None:
        desk = Desk(place, 6)
        worker = desk.worker()
        assert worker.run_once() == 4
        assert desk.embedded() == ["Number 2", "Number 3", "Number 4", "Number 5"]
        assert worker.waiting() == 2
        assert (worker.run_once(), worker.run_once(), worker.waiting()) == (2, 0, 0)
        assert (desk.embedder.calls, worker.stored) == (2, 6)

    def test_a_vector_is_that_of_the_words_with_their_speaker(self, place: RecordedHome) -> None:
        desk = Desk(place, 0)
        place.say("c", LONG, author="Melanie")
        worker = desk.worker()
        worker.run_once()
        with place.store.reading() as tx:
            _, (kept,) = read_vectors(tx, worker.space, [1])
        assert np.allclose(kept, desk.embedder.embed_query(f"Melanie: {LONG}"), atol=0.001)

    def test_what_has_no_vector_at_all_comes_before_what_another_model_has_embedded(self, place: RecordedHome) -> None:
        desk, newer = Desk(place, 3), HashingEmbedder(name="newer")
        before = desk.worker(batch_size=2)
        assert before.run_once() == 2
        worker = desk.worker(newer, batch_size=1)
        order = []
        while worker.run_once():
            with place.store.reading() as tx:
                order.append(set(read_vectors(tx, worker.space, [1, 2, 3])[0].tolist()) - {*itertools.chain(*order)})
        assert order == [{1}, {3}, {2}]

    def test_equal_texts_of_a_batch_are_embedded_once(self, place: RecordedHome) -> None:
        desk = Desk(place, 2)
        for conversation in "abc":
            place.say(conversation, LONG)
        worker = desk.worker(batch_size=8)
        assert (worker.run_once(), desk.embedder.embedded, worker.stored) == (5, 3, 5)
        with place.store.reading() as tx:
            _, kept = read_vectors(tx, worker.space, [3, 4, 5])
        assert np.allclose(kept, desk.embedder.embed_query(LONG), atol=0.001)

    def test_two_workers_share_the_work(self, place: RecordedHome) -> None:
        desk = Desk(place, 8)
        one, other = desk.worker(), desk.worker()
        assert (one.run_once(), other.run_once(), one.run_once(), other.run_once()) == (4, 4, 0, 0)
        assert len(desk.embedded()) == 8
        assert desk.embedder.embedded == 8

    def test_short_words_and_tools_are_left_alone(self, place: RecordedHome) -> None:
        desk = Desk(place, 0)
        place.say("c", "ok")
        assert desk.worker().run_once() == 0
        assert desk.embedder.calls == 0

    def test_what_is_forgotten_while_it_is_embedded_gets_no_vector(self, place: RecordedHome) -> None:
        desk = Desk(place, 0)
        message = place.say("c", LONG)
        embedder = _Meanwhile(lambda: place.forget(message))
        assert desk.worker(embedder).run_once() == 1
        assert desk.embedded() == []


class TestBothModels:
    def test_the_last_that_wait_are_embedded_by_both_models_in_one_turn(self, place: RecordedHome) -> None:
        desk, second = Desk(place, 6), HashingEmbedder(name="other")
        work = desk.worker_of_two(second)
        assert (second.embedded, desk.waiting_for_second(work)) == (6, [0, 0])
        second.calls = 0
        place.record("c", NewMessage(Role.USER, f"One more: {LONG}"))
        # Two items of one turn, behind which nobody looks for more.
        assert (work.run_once(), work.is_drained) == (2, True)
        assert (second.calls, desk.waiting_for_second(work)) == (1, [0, 0])

    def test_what_the_second_model_fails_at_is_kept_by_the_first_and_waits_for_its_own_turn(
        self, place: RecordedHome
    ) -> None:
        desk, second = Desk(place, 1), HashingEmbedder(name="other")
        work = desk.worker_of_two(second)
        second.fail(ProviderError("not now"), ProviderError("not yet"))
        place.record("c", NewMessage(Role.USER, f"One more: {LONG}"))
        work.run_once()
        assert not work.is_drained
        assert desk.embedded().count("One more") == 1
        assert desk.waiting_for_second(work) == [1, 0]
        place.clock.go_on(seconds=2)
        run_until_idle(work)
        assert desk.waiting_for_second(work) == [0, 0]

    def test_what_is_forgotten_meanwhile_gets_no_vector_of_either_and_no_lease_is_left(
        self, place: RecordedHome
    ) -> None:
        desk, second = Desk(place, 1), HashingEmbedder(name="other")
        work = desk.worker_of_two(second)
        doomed = place.record("c", NewMessage(Role.USER, f"One more: {LONG}")).messages[0]
        work.embedder = _Meanwhile(lambda: place.forget(doomed))
        work.run_once()
        assert desk.embedded() == ["Number 0", "Number 0"]
        assert desk.waiting_for_second(work) == [0, 0]

    def test_what_another_embeds_by_the_second_model_is_left_to_it(self, place: RecordedHome) -> None:
        desk, second = Desk(place, 1), HashingEmbedder(name="other")
        work = desk.worker_of_two(second)
        assert work.second is not None
        other = replace(work.second)
        place.record("c", NewMessage(Role.USER, f"One more: {LONG}"))
        other.embedder = _Meanwhile(lambda: work.run_once())
        before = second.embedded
        other.run_once()
        assert (second.embedded, desk.waiting_for_second(work)) == (before, [0, 0])
        assert desk.embedded().count("One more") == 2


class TestFailures:
    def test_a_text_that_the_model_refuses_takes_no_other_with_it(self, place: RecordedHome) -> None:
        desk = Desk(place, 8)
        desk.embedder.refuse("Number 5", ProviderError("too strange"))
        worker = desk.worker(batch_size=8)
        assert worker.run_once() == 8
        assert desk.embedded() == [f"Number {number}" for number in range(8) if number != 5]
        assert worker.waiting() == 1

    def test_an_endpoint_that_fails_is_left_alone_for_a_growing_while(self, place: RecordedHome) -> None:
        desk = Desk(place, 1)
        worker = desk.worker()
        desk.embedder.fail(*[EndpointError("down")] * 6)
        tried = []
        for second in range(70):
            if worker.run_once():
                tried.append(second)
            place.clock.go_on(seconds=1)
        assert tried == [0, 1, 3, 7, 15, 31, 63]
        assert desk.embedded() == ["Number 0"]
        assert desk.given_up() == []

    def test_after_the_seventh_failure_it_is_given_up_until_somebody_asks(self, place: RecordedHome) -> None:
        desk = Desk(place, 1)
        worker = desk.worker()
        desk.embedder.fail(*[EndpointError("down")] * 7)
        for _ in range(140):
            worker.run_once()
            place.clock.go_on(seconds=1)
        assert desk.given_up() == ["EndpointError"]
        assert (desk.embedder.calls, worker.waiting()) == (7, 0)
        with place.store.writing() as tx:
            assert retry_failed(tx) == 1
        assert worker.run_once() == 1
        assert desk.embedded() == ["Number 0"]
        assert desk.given_up() == []

    def test_an_outage_uses_up_the_attempts_of_few(self, place: RecordedHome) -> None:
        desk = Desk(place, 40)
        worker = desk.worker()
        desk.embedder.fail(*[EndpointError("down")] * 8)
        for _ in range(200):
            worker.run_once()
            place.clock.go_on(seconds=1)
        assert desk.given_up() == []
        assert len(desk.embedded()) == 40

    def test_a_text_that_an_endpoint_refuses_is_given_up_alone(self, place: RecordedHome) -> None:
        desk = Desk(place, 16)
        desk.embedder.refuse("Number 9", EndpointError("status 400"))
        worker = desk.worker(batch_size=16)
        for _ in range(300):
            worker.run_once()
            place.clock.go_on(seconds=2)
        assert desk.embedded() == [f"Number {number}" for number in range(16) if number != 9]
        assert desk.given_up() == ["EndpointError"]

    def test_a_worker_told_to_fail_fast_says_so_at_once(self, place: RecordedHome) -> None:
        desk = Desk(place, 8)
        worker = desk.worker()
        worker.fail_fast = True
        desk.embedder.fail(EndpointError("down"))
        with pytest.raises(EndpointError):
            run_until_idle(worker)
        assert desk.embedder.calls == 1
        with place.store.reading() as tx:
            assert owned(tx, EMBED, list(range(1, 9)), worker.owner) == set()

    def test_however_long_an_endpoint_is_down_and_however_often_one_begins_anew_nothing_is_given_up(
        self, place: RecordedHome
    ) -> None:
        desk = Desk(place, 3)
        desk.embedder.refuse("Number", EndpointError("down"))
        tried = []
        for start in range(20):
            worker = desk.worker()
            worker.outage.is_waited_out = True
            for second in range(120):
                before = desk.embedder.calls
                worker.run_once()
                if start == 0 and desk.embedder.calls > before:
                    tried.append(second)
                place.clock.go_on(seconds=1)
            assert "down" in worker.blocked_reason
        assert max(later - sooner for sooner, later in itertools.pairwise(tried)) <= 16
        desk.embedder.refuse("Nobody says this", EndpointError("down"))
        for _ in range(60):
            worker.run_once()
            place.clock.go_on(seconds=1)
        assert (len(desk.embedded()), desk.given_up(), worker.blocked_reason) == (3, [], "")

    def test_a_worker_that_waits_outages_out_gives_up_what_spoils_every_batch(self, place: RecordedHome) -> None:
        desk = Desk(place, 16)
        desk.embedder.refuse("Number 9", EndpointError("status 400"))
        worker = desk.worker(batch_size=16)
        worker.outage.is_waited_out = True
        for number in range(10):
            place.clock.go_on(seconds=120)
            place.record("c", NewMessage(Role.USER, f"Later {number}: {LONG}"))
            for _ in range(60):
                worker.run_once()
                place.clock.go_on(seconds=1)
        assert len(desk.embedded()) == 25
        assert desk.given_up() == ["EndpointError"]

    def test_a_text_at_which_a_model_breaks_is_given_up_alone(self, place: RecordedHome) -> None:
        desk = Desk(place, 4)
        desk.embedder.refuse("Number 2", ValueError("bug"))
        worker = desk.worker(batch_size=4)
        for _ in range(200):
            worker.run_once()
            place.clock.go_on(seconds=1)
        assert desk.embedded() == ["Number 0", "Number 1", "Number 3"]
        assert (desk.given_up(), worker.waiting()) == (["ValueError"], 0)

    def test_whoever_waits_is_told_of_an_error_that_nobody_expected(self, place: RecordedHome) -> None:
        desk = Desk(place, 1)
        desk.embedder.fail(RuntimeError("bug"))
        worker = desk.worker()
        worker.fail_fast = True
        with pytest.raises(RuntimeError):
            run_until_idle(worker)
        place.clock.go_on(seconds=1)
        assert desk.worker().run_once() == 1

    def test_a_failure_of_one_who_was_too_slow_disturbs_nobody(self, place: RecordedHome) -> None:
        desk = Desk(place, 1)
        other = desk.worker()

        def taken_over() -> None:
            place.clock.go_on(seconds=61)
            assert other.run_once() == 1

        slow = desk.worker(_Meanwhile(taken_over, EndpointError("down")))
        assert slow.run_once() == 1
        assert desk.embedded() == ["Number 0"]
        assert desk.given_up() == []
        assert slow.waiting() == 0


class TestLeases:
    def test_a_batch_of_one_who_was_too_slow_is_not_stored_twice(self, place: RecordedHome) -> None:
        desk = Desk(place, 4)
        other = desk.worker()

        def taken_over() -> None:
            place.clock.go_on(seconds=61)
            assert other.run_once() == 4

        slow = desk.worker(_Meanwhile(taken_over))
        assert slow.run_once() == 4
        assert (slow.stored, other.stored, len(desk.embedded())) == (0, 4, 4)

    def test_leases_of_a_process_that_is_gone_are_taken_over_at_once(self, place: RecordedHome) -> None:
        desk = Desk(place, 4)
        gone = _pid_of_nobody()
        dead = desk.worker(owner=f"{socket.gethostname()}:{gone}:abc")
        dead.embedder = _Meanwhile(lambda: None, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            dead.run_once()
        assert desk.worker().run_once() == 4

    @pytest.mark.parametrize(
        "owner",
        ["elsewhere:1:abc", f"{socket.gethostname()}:{os.getpid()}:abc", "a:b", "nobody", ""],
        ids=["elsewhere", "this process", "malformed", "no process", "empty"],
    )
    def test_leases_of_anybody_else_are_waited_for(self, place: RecordedHome, owner: str) -> None:
        desk = Desk(place, 4)
        other = desk.worker(owner=owner)
        other.embedder = _Meanwhile(lambda: None, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            other.run_once()
        assert desk.worker().run_once() == 0
        place.clock.go_on(seconds=61)
        assert desk.worker().run_once() == 4

    def test_what_was_claimed_is_given_back_on_an_interruption(self, place: RecordedHome) -> None:
        desk = Desk(place, 4)
        worker = desk.worker(_Meanwhile(lambda: None, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run_until_idle(worker)
        assert desk.worker().run_once() == 4


class TestChangingTheModel:
    def test_the_old_space_answers_until_the_new_one_is_full(self, place: RecordedHome) -> None:
        desk = Desk(place, 6)
        run_until_idle(desk.worker())
        new = HashingEmbedder(name="new")
        worker = desk.worker(new)
        worker.run_once()
        assert _active(place) == desk.embedder.space.id
        run_until_idle(worker)
        assert _active(place) == new.space.id
        with place.store.reading() as tx:
            assert count_all(tx, worker.space.id).embedded == 6
            assert len(tx.connection.execute(select(vectors.c.id)).all()) == 6

    def test_messages_that_come_meanwhile_are_embedded_with_the_rest(self, place: RecordedHome) -> None:
        desk = Desk(place, 6)
        run_until_idle(desk.worker())
        worker = desk.worker(HashingEmbedder(name="new"))
        worker.run_once()
        place.say("c", f"Number 6: {LONG}")
        run_until_idle(worker)
        assert len(desk.embedded()) == 7

    def test_once_it_has_taken_over_it_lets_the_index_be(self, place: RecordedHome) -> None:
        desk = Desk(place, 4)
        run_until_idle(desk.worker())
        worker = desk.worker(HashingEmbedder(name="new"))
        run_until_idle(worker)
        assert worker.space.state == "active"
        with place.store.reading() as tx:
            place.store.nearest.nearest(tx, worker.space, worker.embedder.embed_query("x"), RowScope(), 5)
        held = place.store.nearest._matrices[worker.space.id]  # type: ignore[attr-defined]
        worker.run_once()
        assert place.store.nearest._matrices[worker.space.id] is held  # type: ignore[attr-defined]

    def test_once_all_is_embedded_the_index_of_words_is_merged_too(self, place: RecordedHome) -> None:
        def pieces() -> int:
            with place.store.reading() as tx:
                counted = tx.connection.exec_driver_sql("SELECT count(DISTINCT segid) FROM entry_index_idx")
                return int(counted.scalar_one())

        desk = Desk(place, 30)
        worker, before = desk.worker(), pieces()
        worker.run_once()
        assert pieces() == before
        run_until_idle(worker)
        merged = pieces()
        assert merged < 4 < before
        for number in range(4):
            place.say("c", f"Late {number}: {LONG}")
        run_until_idle(worker)
        # Not behind every message, but once in a while.
        assert pieces() == merged + 4
        place.clock.go_on(minutes=2)
        place.say("c", f"Last of all: {LONG}")
        run_until_idle(worker)
        assert pieces() < merged + 4

    def test_going_back_half_way_embeds_nothing_twice(self, place: RecordedHome) -> None:
        desk = Desk(place, 6)
        run_until_idle(desk.worker())
        desk.worker(HashingEmbedder(name="new")).run_once()
        back = desk.worker()
        assert back.waiting() == 0
        run_until_idle(back)
        assert desk.embedder.embedded == 6
        with place.store.reading() as tx:
            assert {space.name: space.state for space in list_spaces(tx)}[desk.embedder.space.id] == "active"

    def test_what_was_given_up_does_not_hold_the_new_space_back(self, place: RecordedHome) -> None:
        desk = Desk(place, 6)
        run_until_idle(desk.worker())
        new = HashingEmbedder(name="new")
        new.refuse("Number 2", ProviderError("too strange"))
        worker = desk.worker(new)
        for _ in range(200):
            worker.run_once()
            place.clock.go_on(seconds=1)
        assert _active(place) == new.space.id
        assert place.doctor() == []
        new.refuse("nothing", ProviderError(""))
        with place.store.writing() as tx:
            retry_failed(tx)
        run_until_idle(worker)
        assert len(desk.embedded()) == 6


def _active(place: RecordedHome) -> str:
    with place.store.reading() as tx:
        return next(space.name for space in list_spaces(tx) if space.state == "active")


def _pid_of_nobody() -> int:
    """The id of a process that was here and is gone."""
    child = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(child, 0)
    return child


class _Meanwhile(HashingEmbedder):
    """Something happens while it embeds; then it answers, or raises."""

    def __init__(self, happens: Callable[[], object], error: BaseException | None = None) -> None:
        super().__init__()
        self._happens = happens
        self._error = error

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self._happens()
        if self._error is not None:
            raise self._error
        return super().embed_passages(texts)
