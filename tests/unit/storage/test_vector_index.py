from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from harken.storage.ports import StoredSpace
from harken.storage.sqlite import vector_index
from harken.storage.sqlite.store import SqliteStore
from harken.storage.sqlite.vector_index import VectorIndex
from harken.storage.sqlite.vectors import vectors_version
from harken.storage.state import set_setting
from harken.testing.store_conformance.asking import (
    apply,
    embed,
    entry_ids,
    keep,
    space_of,
    spoken_at_length,
    unit_vectors,
)

COUNT = 40


class Town:
    """A store with forty embedded entries, and indexes over its folder as other processes would open them."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.talk = spoken_at_length("c", COUNT)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.matrix = unit_vectors(COUNT)
        self.space: StoredSpace = space_of(store)
        embed(store, self.space, self.ids, self.matrix)

    def index(self) -> VectorIndex:
        """An index of another process."""
        return VectorIndex(self.folder)

    def ask(self, index: VectorIndex, number: int = 3, limit: int = COUNT * 2) -> list[int]:
        """The ids nearest to one of the vectors, as the index sees them."""
        with self.store.reading() as tx:
            version = vectors_version(tx)
            return index.nearest(tx.connection, self.space, version, self.matrix[number], limit).tolist()

    def kept(self) -> VectorIndex:
        """An index that has been asked and saved."""
        index = self.index()
        self.ask(index)
        index.save()
        return index

    def files(self) -> list[Path]:
        """The files kept."""
        return sorted(self.folder.glob("*")) if self.folder.exists() else []


@pytest.fixture
def town(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(vector_index, "_SAVE_FROM_ROWS", 10)
    return Town(store, tmp_path / "cache")


@pytest.fixture
def no_rebuilding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each catching up has read."""
    read: list[int] = []
    whole = vector_index.unpack

    def counting(blobs: list[bytes], dims: int) -> np.ndarray:  # type: ignore[type-arg]
        read.append(len(blobs))
        return whole(blobs, dims)

    monkeypatch.setattr(vector_index, "unpack", counting)
    return read


class TestKeeping:
    def test_a_kept_file_spares_the_next_process_the_rebuilding(self, town: Town, no_rebuilding: list[int]) -> None:
        town.kept()
        assert no_rebuilding == [COUNT]
        assert sorted(town.ask(town.index())) == town.ids
        assert no_rebuilding == [COUNT]

    def test_what_came_after_the_file_is_added(self, town: Town, no_rebuilding: list[int]) -> None:
        town.kept()
        more = spoken_at_length("d", 3)
        keep(town.store, more)
        added = entry_ids(town.store, more.messages)
        embed(town.store, town.space, added, unit_vectors(3, seed=9))
        assert sorted(town.ask(town.index())) == sorted(town.ids + added)
        assert no_rebuilding == [COUNT, 3]

    def test_a_file_of_what_came_after_a_backup_is_not_taken_for_what_comes_after_it_was_restored(
        self, town: Town, tmp_path: Path
    ) -> None:
        town.store.backup(tmp_path / "before.db")
        for number, seed in (("d", 9), ("e", 5)):
            more = spoken_at_length(number, 3)
            keep(town.store, more)
            embed(town.store, town.space, entry_ids(town.store, more.messages), unit_vectors(3, seed=seed))
            town.kept()
            town.store = SqliteStore(tmp_path / "before.db", town.folder)
        town.matrix = unit_vectors(3, seed=5)
        nearest = [town.ask(town.index(), number, 1)[0] for number in range(3)]
        assert nearest == entry_ids(town.store, more.messages)
        town.store.close()

    def test_few_vectors_are_not_worth_a_file(self, town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vector_index, "_SAVE_FROM_ROWS", COUNT + 1)
        town.kept()
        assert town.files() == []

    def test_a_file_is_written_again_only_after_some_growth(self, town: Town) -> None:
        index = town.kept()
        (first,) = town.files()
        index.save()
        assert town.files() == [first]
        for name, count, same in (("d", 1, True), ("e", 3, False)):
            more = spoken_at_length(name, count)
            keep(town.store, more)
            embed(town.store, town.space, entry_ids(town.store, more.messages), unit_vectors(count, seed=count))
            town.ask(index)
            index.save()
            assert (town.files() == [first]) is same
        assert len(town.files()) == 1

    def test_nobody_else_may_read_it(self, town: Town) -> None:
        before = os.umask(0)
        try:
            town.kept()
        finally:
            os.umask(before)
        assert [stat.S_IMODE(file.stat().st_mode) for file in town.files()] == [0o600]
        assert stat.S_IMODE(town.folder.stat().st_mode) == 0o700

    def test_a_folder_that_cannot_be_written_costs_nothing_but_the_file(self, town: Town) -> None:
        town.folder.write_text("in the way")
        index = town.kept()
        assert sorted(town.ask(index)) == town.ids

    def test_discarding_leaves_nothing(self, town: Town) -> None:
        index = town.kept()
        (town.folder / "vectors-left-by-one-who-died.tvim.77.part").write_bytes(b"x")
        index.discard()
        assert town.files() == []
        assert sorted(town.ask(index)) == town.ids

    def test_a_store_in_memory_keeps_no_file(self, town: Town) -> None:
        index = VectorIndex(None)
        assert sorted(town.ask(index)) == town.ids
        index.save()
        index.discard()
        assert town.files() == []


class TestMistrusting:
    def test_a_file_from_before_a_removal_is_not_used(self, town: Town) -> None:
        town.kept()
        (stale,) = town.files()
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert town.ids[3] not in town.ask(town.index())
        assert not stale.exists()

    def test_an_index_in_memory_learns_of_a_removal(self, town: Town) -> None:
        index = town.kept()
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert sorted(town.ask(index)) == [entry_id for entry_id in town.ids if entry_id != town.ids[3]]

    def test_a_file_of_another_database_is_neither_used_nor_removed(self, town: Town) -> None:
        town.kept()
        (foreign,) = town.files()
        with town.store.writing() as tx:
            set_setting(tx, "store.origin", "abcdef")
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert town.ids[3] not in town.ask(town.index())
        assert foreign.exists()

    @pytest.mark.parametrize("damage", ["empty", "cut short", "garbage"])
    def test_a_damaged_file_is_found_and_made_anew(self, town: Town, damage: str) -> None:
        town.kept()
        (file,) = town.files()
        whole = file.read_bytes()
        file.write_bytes({"empty": b"", "cut short": whole[: len(whole) // 2], "garbage": b"\xa5" * len(whole)}[damage])
        assert town.index().problems() == [f"The vector cache {file.name} is damaged."]
        index = town.index()
        assert sorted(town.ask(index)) == town.ids
        assert not file.exists()
        index.save()
        assert index.problems() == []

    def test_a_file_that_another_process_replaces_meanwhile_is_not_damaged(
        self, town: Town, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Replaced:
            @staticmethod
            def load(path: str) -> None:
                Path(path).unlink()
                raise FileNotFoundError(path)

        town.kept()
        monkeypatch.setattr("turbovec.IdMapIndex", Replaced)
        assert town.index().problems() == []
        assert town.files() == []

    def test_what_a_process_left_that_was_killed_while_it_saved_is_removed_in_time(self, town: Town) -> None:
        town.folder.mkdir()
        old, young = town.folder / "vectors-a-1-0-1.tvim.1.part", town.folder / "vectors-a-1-0-1.tvim.2.part"
        for part in (old, young):
            part.write_bytes(b"half")
        os.utime(old, (0, 0))
        town.kept()
        assert (old.exists(), young.exists()) == (False, True)

    def test_a_file_of_another_name_is_left_alone(self, town: Town) -> None:
        town.folder.mkdir()
        (town.folder / "vectors-nonsense.tvim").write_bytes(b"x")
        town.kept()
        assert sorted(town.ask(town.index())) == town.ids
        assert (town.folder / "vectors-nonsense.tvim").exists()


def test_where_turbovec_is_not_installed_no_file_is_used_and_none_complained_of(town: Town) -> None:
    town.kept()
    (file,) = town.files()
    file.write_bytes(b"damaged")
    without = VectorIndex(town.folder, is_wanted=False)
    assert not without.serves(town.space)
    without.save()
    assert town.files() == [file]
    assert without.problems() == []
