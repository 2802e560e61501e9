"""Transactions, copies, and small facts beside the records: settings, counters, how far files were read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from harken.errors import UsageError
from harken.model.conversations import CoreFact
from harken.storage import state
from harken.storage.conversations import count_all, find_message
from harken.storage.events import Ingest
from harken.storage.ports import Store
from harken.storage.state import ImportState
from harken.testing.store_conformance.asking import MIN_TOKENS, TOOL_CHARS, apply, found, read, text_problems, write
from harken.testing.talk import START, talk_of


class TransactionTests:
    """Inherited by `StoreConformance`."""

    @pytest.mark.parametrize("value", [True, 0, 0.5, "", "a text", [1, "two"], {"key": {"inner": None}}], ids=repr)
    def test_a_setting_comes_back_as_it_was(self, store: Store, value: object) -> None:
        write(store, state.set_setting, "a.name", value)
        with store.reading() as tx:
            assert state.get_setting(tx, "a.name") == value
            assert state.all_settings(tx)["a.name"] == value

    def test_a_setting_is_replaced_and_taken_back(self, store: Store) -> None:
        with store.writing() as tx:
            state.set_setting(tx, "a.name", 1)
            state.set_setting(tx, "a.name", 2)
            assert state.get_setting(tx, "a.name") == 2
            state.set_setting(tx, "a.name", None)
            state.set_setting(tx, "never.set", None)
        with store.reading() as tx:
            assert state.get_setting(tx, "a.name") is None
            assert "a.name" not in state.all_settings(tx)

    def test_counters_add_up_under_their_prefix(self, store: Store) -> None:
        with store.writing() as tx:
            state.count_up(tx, {"a:x": 1, "a:y": 2, "b:x": 5})
            state.count_up(tx, {"a:x": 10, "a_x": 3, "a%": 4})
            state.count_up(tx, {})
        with store.reading() as tx:
            assert state.read_counters(tx, "a:") == {"x": 11, "y": 2}
            assert state.read_counters(tx, "a_") == {"x": 3}
            assert state.read_counters(tx, "a%") == {"": 4}

    def test_an_import_state_comes_back_and_is_replaced(self, store: Store) -> None:
        known = ImportState("codex", "/a/path", 3 << 40, 1_700_000_000_123_456_789, 1 << 33, "f" * 32, 2, START)
        with store.writing() as tx:
            assert state.get_import_state(tx, "codex", "/a/path") is None
            state.put_import_state(tx, known)
            state.put_import_state(tx, replace(known, path="/other"))
            state.put_import_state(tx, changed := replace(known, offset=7))
        with store.reading() as tx:
            assert state.get_import_state(tx, "codex", "/a/path") == changed
            assert state.get_import_state(tx, "codex", "/other") == replace(known, path="/other")
            assert state.get_import_state(tx, "jsonl", "/a/path") is None

    def test_journal_offsets_are_kept_by_file(self, store: Store) -> None:
        with store.writing() as tx:
            state.put_journal_offset(tx, "c/2023-05-08.jsonl", 10)
            state.put_journal_offset(tx, "c/2023-05-08.jsonl", 20)
            state.put_journal_offset(tx, "c/2023-05-09.jsonl", 5)
            state.drop_journal_offset(tx, "c/2023-05-09.jsonl")
        with store.reading() as tx:
            assert state.journal_offsets(tx) == {"c/2023-05-08.jsonl": 20}
            assert state.journal_offset(tx, "c/2023-05-08.jsonl") == 20
            assert state.journal_offset(tx, "c/2023-05-09.jsonl") == 0

    def test_a_backup_is_a_file_of_its_own_where_the_store_makes_backups(self, store: Store, tmp_path: Path) -> None:
        write(store, state.set_setting, "colour", "green")
        target = tmp_path / "copy"
        with suppress(UsageError):
            store.backup(target)
            assert target.stat().st_size > 0
        write(store, state.set_setting, "colour", "red")
        assert read(store, state.get_setting, "colour") == "red"
        assert store.size_bytes() >= 0

    def test_what_was_written_is_there_at_once_and_in_the_next_transaction(self, store: Store) -> None:
        with store.writing() as tx:
            state.set_setting(tx, "colour", "green")
            assert state.get_setting(tx, "colour") == "green"
        assert read(store, state.get_setting, "colour") == "green"

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_what_stops_it_takes_back_rows_and_full_text(self, store: Store, error: type[BaseException]) -> None:
        talk = talk_of("kept", "a zebra", "a giraffe")
        apply(store, talk.events)
        lost = talk.say("an antelope")

        def fails() -> None:
            with store.writing() as tx:
                Ingest(tx, MIN_TOKENS, TOOL_CHARS).apply([lost])
                state.set_setting(tx, "colour", "green")
                raise error

        with pytest.raises(error):
            fails()
        with store.reading() as tx:
            assert find_message(tx, lost.uid) is None
            assert state.get_setting(tx, "colour") is None
        assert (found(store, "antelope"), len(found(store, "zebra"))) == ([], 2)
        assert text_problems(store) == []

    def test_ctrl_c_in_a_statement_frees_the_write_lock_at_once(self, store: Store) -> None:
        apply(store, talk_of("kept", "a zebra").events)

        class Stopped(str):
            """A value at which the driver is stopped."""

            def __conform__(self, _protocol: object) -> object:
                raise KeyboardInterrupt

            def encode(self, *_how: str) -> bytes:
                raise KeyboardInterrupt

        try:
            write(store, state.set_setting, "colour", "green")
            write(store, state.count_up, {"seen": 1, Stopped("lost"): 1})
        except KeyboardInterrupt:
            # While its traceback still holds the statement.
            assert write(store, state.count_up, {"seen": 1}) is None
        assert read(store, state.read_counters, "seen") == {"": 1}
        assert len(found(store, "zebra")) == 1

    def test_the_store_goes_on_after_an_exception(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError), store.writing():
            _ = 1 // 0
        with pytest.raises(ZeroDivisionError), store.reading():
            _ = 1 // 0
        assert apply(store, talk_of("after", "still here").events) == 1

    def test_no_addition_of_threads_that_write_at_once_is_lost(self, store: Store) -> None:
        def add(_number: int) -> None:
            write(store, state.count_up, {"seen": 1})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, range(40)))
        assert read(store, state.read_counters, "seen") == {"": 40}

    def test_conversations_that_threads_record_at_once_are_all_there(self, store: Store) -> None:
        def record(number: int) -> int:
            talk = talk_of(f"thread {number}", "one zebra", "two zebras", "three zebras")
            return sum(apply(store, part) for part in (talk.events[:-1], talk.events[-1:]))

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(record, range(12))) == [3] * 12
        counts = read(store, count_all, None)
        assert (counts.conversations, counts.messages, counts.entries) == (12, 36, 36)
        assert text_problems(store) == []

    def test_a_sound_store_passes_its_own_check(self, store: Store) -> None:
        apply(store, talk_of("sound", "a zebra", "a giraffe").events)
        assert store.check() == []
        assert text_problems(store) == []

    def test_core_memory_is_set_replaced_and_deleted(self, store: Store) -> None:
        facts = [CoreFact("agent", "tone", "short", START), CoreFact("user", "name", "Maya", START)]
        later = CoreFact("user", "name", "Maya Lin", START + timedelta(days=1))
        with store.writing() as tx:
            ingest = Ingest(tx, MIN_TOKENS, TOOL_CHARS)
            ingest.apply([*facts, later])
            assert state.core_facts(tx) == [later, facts[0]]
            ingest.apply([CoreFact("user", name, None, START) for name in ("name", "never")])
            assert state.core_facts(tx) == [facts[0]]
            state.drop_core_facts(tx)
            assert state.core_facts(tx) == []
