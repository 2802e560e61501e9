from __future__ import annotations

import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from harken.errors import StoreError, UsageError
from harken.journal.backup import backup, restore
from harken.journal.staging import remove_staged, staging
from recorded import RecordedHome


def other_home(place: RecordedHome, tmp_path: Path) -> RecordedHome:
    """What was restored to `tmp_path / "other"`, opened."""
    other = RecordedHome.__new__(RecordedHome)
    other.home, other.clock, other.woken = tmp_path / "other", place.clock, 0
    other.open()
    return other


class TestRoundTrip:
    def test_everything_comes_back(self, place: RecordedHome, tmp_path: Path) -> None:
        place.talk("c", "one", "two")
        place.forget(place.say("c", "zebra"))
        (place.home / "harken.toml").write_text('embedder = "none"\n')
        size = backup(place.store, place.home, tmp_path / "a" / "backup.tar.gz")
        assert size == (tmp_path / "a" / "backup.tar.gz").stat().st_size
        restore(tmp_path / "a" / "backup.tar.gz", tmp_path / "other")
        other = other_home(place, tmp_path)
        assert other.rows() == place.rows()
        assert other.lines("c") == place.lines("c")
        assert other.doctor() == []
        assert (other.home / "harken.toml").read_text() == 'embedder = "none"\n'
        other.close()

    def test_what_is_said_after_the_backup_is_not_in_it(self, place: RecordedHome, tmp_path: Path) -> None:
        place.say("c", "one")
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        place.say("c", "two")
        restore(tmp_path / "backup.tar.gz", tmp_path / "other")
        other = other_home(place, tmp_path)
        assert other.texts("c") == ["one"]
        other.close()

    def test_what_a_deleted_store_has_left_in_the_home_is_not_taken_for_what_was_restored(
        self, place: RecordedHome, tmp_path: Path
    ) -> None:
        place.say("c", "one")
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        place.say("c", "two")
        (tmp_path / "other").mkdir()
        for left in ("harken.db-wal", "harken.db-shm"):
            shutil.copy(place.home / left, tmp_path / "other" / left)
        restore(tmp_path / "backup.tar.gz", tmp_path / "other")
        other = other_home(place, tmp_path)
        assert (other.texts("c"), other.doctor()) == (["one"], [])
        other.close()

    @pytest.mark.parametrize("own", ["harken.toml", "harken.yaml"])
    def test_settings_that_are_there_stay(self, place: RecordedHome, tmp_path: Path, own: str) -> None:
        (place.home / "harken.toml").write_text('embedder = "none"\n')
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        settings = tmp_path / "other" / own
        settings.parent.mkdir()
        settings.write_text("# mine")
        assert restore(tmp_path / "backup.tar.gz", tmp_path / "other") == settings
        assert settings.read_text() == "# mine"
        assert [file.name for file in settings.parent.glob("harken.[ty]*")] == [own]

    def test_nobody_else_may_read_it(self, place: RecordedHome, tmp_path: Path) -> None:
        place.say("c", "one")
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        assert stat.S_IMODE((tmp_path / "backup.tar.gz").stat().st_mode) == 0o600
        restore(tmp_path / "backup.tar.gz", tmp_path / "other")
        for found in [tmp_path / "other", *(tmp_path / "other").rglob("*")]:
            assert stat.S_IMODE(found.stat().st_mode) & 0o077 == 0, found

    def test_nothing_else_is_left_beside_it(self, place: RecordedHome, tmp_path: Path) -> None:
        place.say("c", "one")
        (tmp_path / "backups").mkdir()
        backup(place.store, place.home, tmp_path / "backups" / "b.tar.gz")
        assert [file.name for file in (tmp_path / "backups").iterdir()] == ["b.tar.gz"]

    def test_what_a_killed_one_left_is_removed_and_nothing_that_another_is_at_work_on(
        self, place: RecordedHome, tmp_path: Path
    ) -> None:
        place.say("c", "one")
        left = tmp_path / ".harken-backup-old"
        (left / "conversations").mkdir(parents=True)
        (left / "conversations" / "talk.jsonl").write_text("said")
        with staging(tmp_path, place.home) as running:
            backup(place.store, place.home, tmp_path / "backup.tar.gz")
            assert (left.exists(), running.exists()) == (False, True)
        assert not running.exists()

    def test_nothing_but_what_is_ours_is_removed_whatever_a_note_in_the_home_says(
        self, place: RecordedHome, tmp_path: Path
    ) -> None:
        precious, link = tmp_path / "precious", place.home / ".harken-staged-link"
        precious.mkdir()
        link.symlink_to(precious)
        (place.home / ".harken-staged-in-x").write_text(str(precious))
        assert remove_staged(place.home) == []
        assert precious.is_dir()

    def test_an_empty_home_can_be_backed_up(self, place: RecordedHome, tmp_path: Path) -> None:
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        restore(tmp_path / "backup.tar.gz", tmp_path / "other")
        other = other_home(place, tmp_path)
        assert other.count() == 0
        other.close()


class TestRefusals:
    def test_a_file_that_is_there_is_not_overwritten(self, place: RecordedHome, tmp_path: Path) -> None:
        (tmp_path / "backup.tar.gz").write_text("precious")
        with pytest.raises(UsageError, match="exists"):
            backup(place.store, place.home, tmp_path / "backup.tar.gz")
        assert (tmp_path / "backup.tar.gz").read_text() == "precious"

    def test_a_place_that_cannot_be_written_is_named(self, place: RecordedHome, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreError, match="cannot be written"):
            backup(place.store, place.home, tmp_path / "file" / "backup.tar.gz")

    def test_a_home_with_a_store_is_not_overwritten(self, place: RecordedHome, tmp_path: Path) -> None:
        place.say("c", "one")
        backup(place.store, place.home, tmp_path / "backup.tar.gz")
        with pytest.raises(UsageError, match="has a store already"):
            restore(tmp_path / "backup.tar.gz", place.home)
        assert place.texts("c") == ["one"]

    @pytest.mark.parametrize("damage", ["no archive", "cut short", "flipped", "another archive", "empty"])
    def test_a_file_that_is_no_backup_is_refused_and_leaves_nothing(
        self, place: RecordedHome, tmp_path: Path, damage: str
    ) -> None:
        place.say("c", "one" * 1000)
        file = tmp_path / "backup.tar.gz"
        backup(place.store, place.home, file)
        whole = file.read_bytes()
        if damage == "another archive":
            file.unlink()
            with tarfile.open(file, "w:gz") as archive:
                archive.add(place.home / "conversations", arcname="photos")
        else:
            flipped = whole[:200] + bytes(byte ^ 0xFF for byte in whole[200:260]) + whole[260:]
            contents = {"no archive": b"hello", "cut short": whole[: len(whole) // 2], "flipped": flipped, "empty": b""}
            file.write_bytes(contents[damage])
        with pytest.raises(UsageError, match="not a backup"):
            restore(file, tmp_path / "other")
        assert not list((tmp_path / "other").iterdir())

    def test_a_backup_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"nothing\.tar\.gz"):
            restore(tmp_path / "nothing.tar.gz", tmp_path / "other")

    def test_a_member_that_points_outside_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "evil").write_text("evil")
        with tarfile.open(tmp_path / "backup.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "evil", arcname="../../evil")
        with pytest.raises(UsageError, match="not a backup"):
            restore(tmp_path / "backup.tar.gz", tmp_path / "a" / "b")
        assert not (tmp_path / "a" / "evil").exists()


def test_a_store_that_a_daemon_makes_while_the_backup_is_unpacked_is_left_alone(
    place: RecordedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.say("c", "one")
    backup(place.store, place.home, tmp_path / "backup.tar.gz")
    other, unpack = tmp_path / "other", tarfile.TarFile.extractall

    def unpack_slowly(archive: tarfile.TarFile, *args: Any, **named: Any) -> None:
        unpack(archive, *args, **named)
        shutil.copy(place.empty_database, other / "harken.db")

    monkeypatch.setattr(tarfile.TarFile, "extractall", unpack_slowly)
    with pytest.raises(UsageError, match="has a store already"):
        restore(tmp_path / "backup.tar.gz", other)
    assert [found.name for found in other.iterdir()] == ["harken.db"]
    assert (other / "harken.db").read_bytes() == place.empty_database.read_bytes()
