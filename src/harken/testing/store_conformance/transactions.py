"""Transactions keep all or nothing, whoever else writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from harken.model import Event
from harken.storage.ingest import Ingest
from harken.storage.reading import count_all, find_message
from harken.storage.state import count_up, get_setting, read_counters, set_setting
from harken.storage.store import Store
from harken.testing.store_conformance.asking import MIN_TOKENS, TOOL_CHARS, apply, found, text_problems
from harken.testing.talk import Talk, talk_of


class TransactionTests:
    """Inherited by `StoreConformance`."""

    def test_what_was_written_is_there_in_the_next_transaction(self, store: Store) -> None:
        with store.writing() as tx:
            set_setting(tx, "colour", "green")
        with store.reading() as tx:
            assert get_setting(tx, "colour") == "green"

    def test_a_transaction_sees_what_it_has_written_itself(self, store: Store) -> None:
        with store.writing() as tx:
            set_setting(tx, "colour", "green")
            assert get_setting(tx, "colour") == "green"

    def test_an_exception_takes_back_rows_and_full_text(self, store: Store) -> None:
        talk = talk_of("kept", "a zebra", "a giraffe")
        apply(store, talk.events)
        lost = talk.say("an antelope")

        def fails() -> None:
            with store.writing() as tx:
                Ingest(tx, MIN_TOKENS, TOOL_CHARS).apply([lost])
                set_setting(tx, "colour", "green")
                raise RuntimeError("stop")

        with pytest.raises(RuntimeError, match="stop"):
            fails()
        with store.reading() as tx:
            assert find_message(tx, lost.uid) is None
            assert get_setting(tx, "colour") is None
        assert found(store, "antelope") == []
        assert len(found(store, "zebra")) == 2
        assert text_problems(store) == []

    def test_the_store_goes_on_after_an_exception(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), store.writing():
            _ = 1 // 0
        with pytest.raises(ZeroDivisionError), store.reading():
            _ = 1 // 0
        assert apply(store, talk_of("after", "still here").events) == 1

    def test_an_interruption_takes_back_what_was_written(self, store: Store) -> None:
        def is_interrupted() -> None:
            with store.writing() as tx:
                set_setting(tx, "colour", "green")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            is_interrupted()
        with store.reading() as tx:
            assert get_setting(tx, "colour") is None

    def test_no_addition_of_threads_that_write_at_once_is_lost(self, store: Store) -> None:
        def add(_number: int) -> None:
            with store.writing() as tx:
                count_up(tx, {"seen": 1})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, range(40)))
        with store.reading() as tx:
            assert read_counters(tx, "seen") == {"": 40}

    def test_conversations_that_threads_record_at_once_are_all_there(self, store: Store) -> None:
        def record(number: int) -> int:
            talk = talk_of(f"thread {number}", "one zebra", "two zebras", "three zebras")
            return sum(apply(store, part) for part in _halves(talk))

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(record, range(12))) == [3] * 12
        with store.reading() as tx:
            counts = count_all(tx, None)
        assert (counts.conversations, counts.messages, counts.entries) == (12, 36, 36)
        assert text_problems(store) == []

    def test_a_sound_store_passes_its_own_check(self, store: Store) -> None:
        apply(store, talk_of("sound", "a zebra", "a giraffe").events)
        assert store.check() == []
        assert text_problems(store) == []


def _halves(talk: Talk) -> tuple[list[Event], list[Event]]:
    return talk.events[:-1], talk.events[-1:]
