from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harken.errors import JournalError, StoreFullError, StoreReadOnlyError
from harken.journal.journal import Appended, Journal
from harken.model.conversations import Event, Message, MessageType, Role, Tombstone

START = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)


def message(number: int, conversation: str = "c", day: int = 0) -> Message:
    moment = START + timedelta(days=day, seconds=number)
    return Message(f"m{number}", conversation, "s", "e", Role.USER, MessageType.TEXT, f"text {number}", moment)


def append(journal: Journal, *events: Event, expected: dict[str, int] | None = None) -> list[Appended]:
    """Append as somebody who knows how long every file is."""
    sizes = dict(journal.files()) if expected is None else expected
    return journal.append(events, lambda path: sizes.get(path, 0), lambda _path: None)


def events(journal: Journal, path: str, start: int = 0) -> list[Event | None]:
    return [line.event for line in journal.read(path, start)]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "home" / "conversations", tmp_path / "home" / "torn")


def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "conversations"


class TestAppending:
    def test_events_are_read_back_in_order(self, journal: Journal) -> None:
        append(journal, message(1), message(2))
        append(journal, message(3))
        assert events(journal, "c/2023-05-08.jsonl") == [message(1), message(2), message(3)]

    def test_each_conversation_has_a_folder_and_each_day_a_file(self, journal: Journal) -> None:
        append(journal, message(1), message(2, day=1), message(3, "d"))
        assert [path for path, _ in journal.files()] == [
            "c/2023-05-08.jsonl",
            "c/2023-05-09.jsonl",
            "d/2023-05-08.jsonl",
        ]
        assert [path for path, _ in journal.files("d")] == ["d/2023-05-08.jsonl"]
        assert journal.files("nobody") == []

    def test_it_says_where_every_file_grew(self, journal: Journal) -> None:
        (first,) = append(journal, message(1))
        (second,) = append(journal, message(2))
        assert (first.path, first.start) == ("c/2023-05-08.jsonl", 0)
        assert (second.start, second.end) == (first.end, dict(journal.files())[first.path])
        assert events(journal, first.path, second.start) == [message(2)]

    def test_nobody_else_may_read_what_is_kept(self, journal: Journal, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            append(journal, message(1))
            journal.set_aside("c/2023-05-08.jsonl", 0, 10)
            journal.rewrite("c", lambda event: event)
            append(journal, message(2))
        finally:
            os.umask(before)
        for place in (tmp_path / "home").rglob("*"):
            assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600), place

    def test_a_file_that_is_longer_than_known_is_repaired_before_it_grows(self, journal: Journal) -> None:
        append(journal, message(1))
        repaired: list[str] = []
        journal.append([message(2)], lambda _path: 0, repaired.append)
        assert repaired == ["c/2023-05-08.jsonl"]

    def test_what_is_appended_after_a_repair_that_rewrote_the_file_is_in_it(self, journal: Journal) -> None:
        append(journal, message(1), message(2))
        end = dict(journal.files())["c/2023-05-08.jsonl"]

        def repair(path: str) -> None:
            journal.set_aside(path, 0, end // 2)

        (part,) = journal.append([message(3)], lambda _path: 0, repair)
        assert events(journal, part.path, part.start) == [message(3)]
        assert part.start == end - end // 2

    def test_forced_to_the_disk_it_keeps_the_same(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "conversations", tmp_path / "torn", fsync=True)
        append(journal, message(1))
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]


class TestUndoing:
    def test_an_append_is_taken_back(self, journal: Journal) -> None:
        append(journal, message(1))
        journal.undo(append(journal, message(2), message(3, day=1)))
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]
        assert events(journal, "c/2023-05-09.jsonl") == []

    def test_a_file_that_was_rewritten_since_is_left_alone(self, journal: Journal) -> None:
        append(journal, message(1))
        appended = append(journal, message(2))
        journal.rewrite("c", lambda event: event if isinstance(event, Message) and event.uid == "m1" else None)
        journal.undo(appended)
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]

    def test_when_the_second_of_two_files_cannot_be_written_neither_keeps_anything(
        self, journal: Journal, tmp_path: Path
    ) -> None:
        append(journal, message(1))
        (folder(tmp_path) / "d").write_text("in the way")
        with pytest.raises(JournalError):
            append(journal, message(2), message(3, "d"))
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]

    @pytest.mark.parametrize(
        ("number", "expected"),
        [
            (errno.ENOSPC, StoreFullError),
            (errno.EDQUOT, StoreFullError),
            (errno.EROFS, StoreReadOnlyError),
            (errno.EACCES, StoreReadOnlyError),
            (errno.EIO, JournalError),
        ],
    )
    def test_what_the_disk_refuses_is_named_and_leaves_nothing(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
    ) -> None:
        append(journal, message(1))
        whole = os.write

        def half(descriptor: int, content: Any) -> int:
            if len(content) < 20:
                raise OSError(number, os.strerror(number))
            return whole(descriptor, bytes(content)[: len(content) // 2])

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(expected, match="conversations"):
            append(journal, message(2))
        monkeypatch.undo()
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]

    def test_an_interruption_in_the_middle_of_a_line_leaves_nothing(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(journal, message(1))
        whole = os.write

        def interrupted(descriptor: int, content: Any) -> int:
            if len(content) < 50:
                raise KeyboardInterrupt
            return whole(descriptor, bytes(content)[: len(content) // 2])

        monkeypatch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            append(journal, message(2))
        monkeypatch.undo()
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]


class TestReading:
    def test_each_event_comes_with_the_offset_behind_it(self, journal: Journal) -> None:
        append(journal, message(1), message(2))
        ends = [line.end for line in journal.read("c/2023-05-08.jsonl")]
        assert [events(journal, "c/2023-05-08.jsonl", end) for end in ends] == [[message(2)], []]

    def test_a_broken_line_is_none_and_the_rest_is_read(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1), message(2))
        file = folder(tmp_path) / "c" / "2023-05-08.jsonl"
        first, second = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(first + b"\x00\xff{broken\n" + second + first[:-5])
        assert events(journal, "c/2023-05-08.jsonl") == [message(1), None, message(2), None]

    def test_a_whole_line_without_its_end_is_not_whole(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1))
        file = folder(tmp_path) / "c" / "2023-05-08.jsonl"
        file.write_bytes(file.read_bytes().rstrip(b"\n"))
        assert events(journal, "c/2023-05-08.jsonl") == [None]

    def test_a_reader_may_stop_in_the_middle(self, journal: Journal) -> None:
        append(journal, *(message(number) for number in range(3_000)))
        reader = journal.read("c/2023-05-08.jsonl")
        assert next(reader).event == message(0)
        reader.close()  # type: ignore[attr-defined]

    def test_a_file_that_is_gone_is_named(self, journal: Journal) -> None:
        with pytest.raises(JournalError, match=r"nothing\.jsonl"):
            events(journal, "c/nothing.jsonl")

    def test_other_files_are_no_part_of_the_journal(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1))
        (folder(tmp_path) / "README").write_text("hello")
        (folder(tmp_path) / "c" / "notes.txt").write_text("hello")
        assert [path for path, _ in journal.files()] == ["c/2023-05-08.jsonl"]

    def test_a_folder_that_another_user_made_is_named_with_the_fix(
        self, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(journal, message(1))
        whole, theirs = os.scandir, str(folder(tmp_path) / "c")

        def refused(path: str) -> Any:
            if path == theirs:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return whole(path)

        monkeypatch.setattr(os, "scandir", refused)
        fix = f"^{theirs} cannot be used: Permission denied.*sudo chown -R .USER '{folder(tmp_path)}'$"
        with pytest.raises(StoreReadOnlyError, match=fix):
            journal.files()

    def test_a_file_that_vanishes_while_it_is_looked_at_hides_no_other(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1), message(2, day=1))
        known = journal.files()
        for day in ("2000-01-01", "2099-01-01"):
            (folder(tmp_path) / "c" / f"{day}.jsonl").symlink_to(tmp_path / "gone")
        assert journal.files() == known


class TestSettingAside:
    def test_broken_bytes_move_to_a_file_of_their_own(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1), message(2), message(3))
        path = "c/2023-05-08.jsonl"
        first, second = [line.end for line in journal.read(path)][:2]
        torn = journal.set_aside(path, first, second)
        assert events(journal, path) == [message(1), message(3)]
        assert (torn.path, torn.offset, torn.length) == (path, first, second - first)
        assert b"text 2" in torn.kept_in.read_bytes()
        assert journal.torn() == [torn.kept_in]

    def test_a_torn_end_is_cut_off(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1))
        path = "c/2023-05-08.jsonl"
        file = folder(tmp_path) / path
        size = file.stat().st_size
        with file.open("ab") as stream:
            stream.write(b'{"event":"mess')
        torn = journal.set_aside(path, size, size + 14)
        assert (file.stat().st_size, torn.kept_in.read_bytes()) == (size, b'{"event":"mess')


class TestRewriting:
    def test_events_are_changed_and_dropped(self, journal: Journal) -> None:
        append(journal, message(1), message(2), message(3, day=1), message(9, "d"))
        grave = Tombstone("m1", "c", "message", START)

        def change(event: Event) -> Event | None:
            uid = event.uid if isinstance(event, Message) else ""
            return {"m1": grave, "m3": None}.get(uid, event)

        sizes = journal.rewrite("c", change)
        assert events(journal, "c/2023-05-08.jsonl") == [grave, message(2)]
        assert sizes == {**dict(journal.files("c")), "c/2023-05-09.jsonl": 0}
        assert events(journal, "d/2023-05-08.jsonl") == [message(9, "d")]

    def test_nothing_of_what_went_stays_in_any_file(self, journal: Journal, tmp_path: Path) -> None:
        append(journal, message(1), message(2, day=1))
        journal.set_aside("c/2023-05-08.jsonl", 0, 30)
        (folder(tmp_path) / "c" / "2023-05-09.jsonl.part").write_bytes(b"left by one who died: text 2")
        journal.rewrite("c", lambda _event: None)
        assert [file for file in (tmp_path / "home").rglob("*") if file.is_file()] == []

    def test_what_was_set_aside_of_another_conversation_stays(self, journal: Journal) -> None:
        append(journal, message(1), message(2, "d"))
        torn = journal.set_aside("d/2023-05-08.jsonl", 0, 5)
        journal.rewrite("c", lambda _event: None)
        assert journal.torn() == [torn.kept_in]

    def test_a_conversation_without_files_is_rewritten_to_nothing(self, journal: Journal) -> None:
        assert journal.rewrite("nobody", lambda event: event) == {}

    def test_a_disk_that_is_full_leaves_the_old_file(self, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        append(journal, message(1))

        def full(_descriptor: int, _content: Any) -> int:
            raise OSError(errno.ENOSPC, "full")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StoreFullError):
            journal.rewrite("c", lambda _event: message(2))
        monkeypatch.undo()
        assert events(journal, "c/2023-05-08.jsonl") == [message(1)]
