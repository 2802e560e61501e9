from __future__ import annotations

import _thread
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from harken.errors import (
    ConfigError,
    SchemaError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from harken.model.conversations import Role
from harken.storage import migrations
from harken.storage.events import forget_rows
from harken.storage.open import open_store
from harken.storage.ports import Transaction
from harken.storage.sqlite import store as sqlite_store
from harken.storage.sqlite.fulltext import Fts5Index
from harken.storage.sqlite.store import SqliteStore, translated
from harken.storage.state import get_setting, set_setting
from harken.testing.store_conformance.asking import apply, keep
from harken.testing.talk import talk_of
from harken.text.words import as_indexed, day_in_words

_OPEN = "import sys; from pathlib import Path; from harken.storage.open import open_store; input(); \
open_store(Path(sys.argv[1]), Path(sys.argv[1]).parent / 'cache').close(); print('opened')"


@contextmanager
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else holds the write lock."""
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def freed_while_waiting(other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a writer sleeps between its tries; the other gives its lock back in the third sleep."""
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            other.execute("ROLLBACK")

    monkeypatch.setattr(sqlite_store, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return naps


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C stops this process, as it does a command; whoever runs tests in the background may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestFunctions:
    """Functions of ours that statements call, of whose failures SQLite says nothing."""

    @pytest.mark.usefixtures("heard")
    def test_ctrl_c_before_the_first_line_of_one_is_ctrl_c(self, store: SqliteStore) -> None:
        with store.reading() as tx:
            # Of C, it does not look for signals itself.
            driver_of(tx).create_function("strike", 0, _thread.interrupt_main)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt), store.reading() as tx:
                tx.connection.exec_driver_sql("SELECT harken_words(coalesce(strike(), 'quay'))").all()

    def test_one_that_fails_is_no_ctrl_c_and_goes_on_afterwards(self, store: SqliteStore) -> None:
        for _ in range(2):
            with pytest.raises(StoreError), store.reading() as tx:
                tx.connection.exec_driver_sql("SELECT harken_words(1)").all()
        with store.reading() as tx:
            assert tx.connection.exec_driver_sql("SELECT harken_words('quay')").scalar() == "quay"


def driver_of(tx: Transaction) -> sqlite3.Connection:
    driver = tx.connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


class TestOpening:
    def test_a_new_store_is_made_with_its_folders(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "a" / "b" / "harken.db", tmp_path / "cache")
        with store.writing() as tx:
            set_setting(tx, "colour", "green")
        store.close()
        again = open_store(tmp_path / "a" / "b" / "harken.db", tmp_path / "cache")
        with again.reading() as tx:
            assert get_setting(tx, "colour") == "green"
        again.close()

    def test_one_that_another_process_makes_meanwhile_may_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file, access = tmp_path / "harken.db", os.access

        def made_after_the_first_look(path: Path, mode: int) -> bool:
            found = access(path, mode)
            if path == file:
                file.touch()
            return found

        monkeypatch.setattr(sqlite_store.os, "access", made_after_the_first_look)
        store = open_store(file, tmp_path / "cache")
        assert not store.is_read_only
        store.close()

    @pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a b", "Grüße", "q'q", 'q"q'])
    def test_a_path_may_hold_what_means_something_in_a_url(self, tmp_path: Path, name: str) -> None:
        open_store(tmp_path / name / "harken.db", tmp_path / "cache").close()
        assert [file.name for file in (tmp_path / name).iterdir()] == ["harken.db"]
        assert [folder.name for folder in tmp_path.iterdir()] == [name]

    def test_a_url_names_a_file_or_none(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path / 'harken.db'}", tmp_path / "cache")
        memory = open_store("sqlite://", tmp_path / "cache")
        assert (store.url, memory.url) == (f"sqlite:///{tmp_path / 'harken.db'}", "sqlite://")
        assert (store.size_bytes() > 0, memory.size_bytes()) == (True, 0)
        store.close()
        memory.close()

    @pytest.mark.parametrize("url", ["mysql://host/name", "nothing at all", ""])
    def test_a_url_of_another_engine_or_of_none_is_refused(self, tmp_path: Path, url: str) -> None:
        with pytest.raises(ConfigError, match="sqlite:///PATH"):
            open_store(url, tmp_path / "cache")

    def test_nobody_else_may_read_its_files(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            store = open_store(tmp_path / "home" / "harken.db", tmp_path / "cache")
            keep(store, talk_of("c", "a zebra"))
            found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "home").iterdir()}
            store.close()
        finally:
            os.umask(before)
        assert set(found.values()) == {0o600}
        assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700

    def test_closing_leaves_one_file(self, store: SqliteStore, database: Path) -> None:
        keep(store, talk_of("c", "a zebra"))
        threads = [threading.Thread(target=keep, args=(store, talk_of(f"c{n}", "a zebra"))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
        assert [file.name for file in database.parent.iterdir()] == ["harken.db"]

    def test_processes_that_open_a_new_home_at_the_same_moment_make_it_once(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", _OPEN, str(tmp_path / "home" / "harken.db")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        openers = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]
        for opener in openers:
            assert opener.stdin is not None
            opener.stdin.write("now\n")
            opener.stdin.flush()
        outcomes = [opener.communicate() for opener in openers]
        assert [out for out, _ in outcomes] == ["opened\n"] * 2, outcomes
        store = open_store(tmp_path / "home" / "harken.db", tmp_path / "cache")
        assert store.check() == []
        store.close()

    def test_threads_that_make_stores_at_once_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        outcomes: Counter[str] = Counter()

        def make(number: int) -> None:
            try:
                open_store(tmp_path / str(number) / "harken.db", tmp_path / "cache").close()
                outcomes["made"] += 1
            except Exception as error:  # noqa: BLE001 - the test shows whatever it was
                outcomes[repr(error)] += 1

        threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == {"made": 4}


class TestRefusals:
    def test_what_another_process_has_upgraded_meanwhile_is_not_upgraded_again(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = iter(["0001"])
        current = migrations.current_version
        monkeypatch.setattr(migrations, "current_version", lambda tx: next(seen, None) or current(tx))
        # It writes much of the index anew, while everybody else waits.
        monkeypatch.setattr(Fts5Index, "renew", lambda *_: pytest.fail("indexed anew"))
        open_store(database, database.parent / "cache").close()

    def test_a_store_of_a_later_version_is_left_alone(self, database: Path) -> None:
        _execute(database, "UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(SchemaError, match="pip install -U harken"):
            SqliteStore(database, database.parent / "cache")

    def test_a_file_that_is_no_database_is_named(self, database: Path) -> None:
        database.write_bytes(b"hello, I am a letter to my aunt" * 100)
        with pytest.raises(StoreCorruptError, match=r"harken\.db is damaged.*reindex --from-journal"):
            SqliteStore(database, database.parent / "cache")

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreReadOnlyError, match="another home"):
            open_store(tmp_path / "file" / "home" / "harken.db", tmp_path / "cache")

    def test_a_lock_that_is_held_too_long_is_named(self, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite_store, "WRITER_TIMEOUT_SECONDS", 0.05)
        store = SqliteStore(database, database.parent / "cache")
        with locked(database), pytest.raises(StoreBusyError, match="locked by another process"):
            _set(store, "green")
        _set(store, "green")
        store.close()

    def test_a_writer_takes_the_lock_in_the_first_moment_that_it_is_free(
        self, store: SqliteStore, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with locked(database) as other:
            naps = freed_while_waiting(other, monkeypatch)
            _set(store, "green")
        assert len(naps) == 3
        assert sum(naps) < 0.05

    def test_threads_of_one_process_wake_each_other_and_poll_nothing(
        self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        naps: list[float] = []
        monkeypatch.setattr(sqlite_store, "WRITER_TIMEOUT_SECONDS", 0.05)
        monkeypatch.setattr(sqlite_store, "time", SimpleNamespace(sleep=naps.append, monotonic=time.monotonic))
        with ThreadPoolExecutor(1) as pool:
            with store.writing():
                waiting = pool.submit(_set, store, "green")
                with pytest.raises(StoreBusyError, match="locked by another"):
                    waiting.result()
            pool.submit(_set, store, "blue").result()
        assert naps == []
        with store.reading() as tx:
            assert get_setting(tx, "colour") == "blue"

    def test_a_new_database_that_another_still_makes_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = sqlite3.connect(tmp_path / "harken.db", isolation_level=None)
        other.execute("CREATE TABLE begun (id)")
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM begun").fetchone()
        naps = freed_while_waiting(other, monkeypatch)
        open_store(tmp_path / "harken.db", tmp_path / "cache").close()
        other.close()
        assert len(naps) == 3

    def test_a_connection_serves_on_unless_its_transaction_failed(self, store: SqliteStore) -> None:
        with store.reading() as tx:
            first = tx.connection

        def fail() -> None:
            with store.writing() as tx:
                assert tx.connection is first
                set_setting(tx, "colour", "green")
                raise LookupError("none")

        with pytest.raises(LookupError):
            fail()
        with store.reading() as tx:
            assert tx.connection is not first
            assert get_setting(tx, "colour") is None

    def test_a_connection_that_is_used_while_the_store_is_closed_is_closed_at_its_end(self, store: SqliteStore) -> None:
        with store.reading() as tx:
            store.close()
            assert not tx.connection.closed
            driver = driver_of(tx)
        assert tx.connection.closed
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            driver.execute("SELECT 1")

    def test_a_reader_waits_for_no_writer(self, store: SqliteStore, database: Path) -> None:
        _set(store, "green")
        with locked(database) as other:
            other.execute("UPDATE settings SET value = '\"red\"' WHERE name = 'colour'")
            with store.reading() as tx:
                assert get_setting(tx, "colour") == "green"

    def test_a_reader_sees_one_moment(self, store: SqliteStore) -> None:
        _set(store, "green")
        with store.reading() as tx:
            assert get_setting(tx, "colour") == "green"
            _set(store, "red")
            assert get_setting(tx, "colour") == "green"

    def test_the_log_is_copied_into_the_database_in_large_steps(self, store: SqliteStore, tmp_path: Path) -> None:
        database, written = tmp_path / "harken.db", 0
        size = database.stat().st_size
        while database.stat().st_size == size and written < 40:
            written += 1
            _set(store, chr(ord("a") + written) * 1_000_000)
        # Each copying waits for the disk twice; a log that grows for ever slows all readers.
        assert 8 <= written <= 20

    def test_a_full_disk_is_named_and_leaves_the_store_whole(self, store: SqliteStore) -> None:
        keep(store, talk_of("c", "a zebra"))
        with store.reading() as tx:
            pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar()

        def fill() -> None:
            with store.writing() as tx:
                tx.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
                set_setting(tx, "long", "x" * 200_000)

        with pytest.raises(StoreFullError, match="Free some space"):
            fill()
        with store.writing() as tx:
            tx.connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        keep(store, talk_of("d", "another zebra"))
        assert store.check() == []

    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("database is locked", StoreBusyError),
            ("database is busy", StoreBusyError),
            ("database or disk is full", StoreFullError),
            ("disk I/O error", StoreFullError),
            ("attempt to write a readonly database", StoreReadOnlyError),
            ("unable to open database file", StoreReadOnlyError),
            ("database disk image is malformed", StoreCorruptError),
            ("file is not a database", StoreCorruptError),
            ("something new", StoreError),
        ],
    )
    def test_what_the_driver_says_is_translated_with_the_place(self, reason: str, expected: type[StoreError]) -> None:
        with pytest.raises(expected, match="The place") as caught, translated("The place"):
            raise sqlite3.OperationalError(reason)
        assert type(caught.value) is expected
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)


class TestKeepingInOrder:
    def test_damage_is_found(self, store: SqliteStore, database: Path) -> None:
        keep(store, talk_of("c", *(f"text {number} {'x' * 200}" for number in range(1500))))
        store.close()
        content = bytearray(database.read_bytes())
        middle = len(content) // 2 // 4096 * 4096
        content[middle : middle + 8 * 4096] = b"\xa5" * (8 * 4096)
        database.write_bytes(bytes(content))
        damaged = SqliteStore(database, database.parent / "cache")
        problems = damaged.check()
        damaged.close()
        assert problems
        assert all("damaged" in problem for problem in problems)

    def test_scrubbing_leaves_no_deleted_text_in_any_file(self, store: SqliteStore, database: Path) -> None:
        talk = talk_of("c", "a quetzalcoatl", "a giraffe")
        keep(store, talk)
        with store.writing() as tx:
            forget_rows(tx, [talk.forget(talk.messages[0])])
        assert _holding(database.parent, b"quetzalc")
        assert store.scrub() is True
        assert not _holding(database.parent, b"quetzalc")

    def test_idle_connections_of_this_process_do_not_prevent_scrubbing(self, store: SqliteStore) -> None:
        with store.reading() as one, store.reading() as two:
            assert get_setting(one, "colour") == get_setting(two, "colour")
        assert store.scrub() is True

    def test_a_reader_elsewhere_prevents_scrubbing_which_says_so(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_SECONDS", 0.05)
        store = SqliteStore(database, database.parent / "cache")
        reader = sqlite3.connect(database, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM settings").fetchone()
        _set(store, "green")
        assert store.scrub() is False
        reader.close()
        assert store.scrub() is True
        store.close()

    def test_scrubbing_waits_in_short_steps_that_others_are_not_always_quicker_than(
        self, store: SqliteStore, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = sqlite3.connect(database, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM settings").fetchone()
        _set(store, "green")
        steps: list[float] = []

        def step(seconds: float) -> None:
            steps.append(seconds)
            reader.close()

        monkeypatch.setattr(time, "sleep", step)
        assert store.scrub() is True
        assert len(steps) == 1
        assert steps[0] <= 0.01

    def test_a_backup_made_while_others_write_is_whole(self, store: SqliteStore, tmp_path: Path) -> None:
        keep(store, talk_of("c", "a zebra"))
        with locked(tmp_path / "harken.db"):
            store.backup(tmp_path / "copy.db")
        copy = SqliteStore(tmp_path / "copy.db", tmp_path / "cache")
        assert copy.check() == []
        copy.close()


class TestFunctionsOfTheSchema:
    @pytest.mark.parametrize(
        ("microseconds", "expected"),
        [
            (0, "1 January 1970"),
            (-1, "31 December 1969"),
            (1_683_547_200_000_000, "8 May 2023"),
            (-62135596800000000, "1 January 1"),
        ],
    )
    def test_a_day_in_words(self, microseconds: int, expected: str) -> None:
        assert day_in_words(microseconds) == expected

    def test_scripts_without_spaces_are_taken_apart(self) -> None:
        assert as_indexed("plain text") == "plain text"
        assert as_indexed("Grüße") == "Grüße"
        assert as_indexed("去北京x").split() == ["去", "北", "京", "x"]

    @pytest.mark.parametrize(
        "forms",
        [
            "гавань гавани гаванью гаваней ГАВАНИ",
            "машина машину машине машинами машин",
            "делать делает делаю делали",
            "написать написал написала написано написали",
            "встречаться встречался встречаются",
            "весёлый весело веселая весёлых",
            "ошибка ошибки ошибку",
        ],
    )
    def test_russian_words_lose_their_endings(self, forms: str) -> None:
        assert len(set(as_indexed(forms).split())) == 1

    def test_what_is_left_of_a_russian_word_has_three_letters(self) -> None:
        assert as_indexed("кот я и v2-бета").split() == ["кот", "я", "и", "v2-бет"]


def _set(store: SqliteStore, colour: str) -> None:
    with store.writing() as tx:
        set_setting(tx, "colour", colour)


def _execute(database: Path, statement: str) -> None:
    raw = sqlite3.connect(database)
    raw.execute(statement)
    raw.commit()
    raw.close()


def _holding(folder: Path, text: bytes) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and text in file.read_bytes()]


def test_ctrl_c_in_a_function_of_ours_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_text: str) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(sqlite_store, "as_indexed", stopped)
        store = open_store(tmp_path / "harken.db", tmp_path / "cache")
        talk = keep(store, talk_of("kept", "a zebra"))
        said = talk.say("a giraffe", Role.ASSISTANT)
        # The words that it comes to stand beside are read through the view.
        with pytest.raises(KeyboardInterrupt):
            apply(store, [said])
        store.close()
    store = open_store(tmp_path / "harken.db", tmp_path / "cache")
    assert apply(store, [said]) == 1
    assert store.check() == []
    store.close()
