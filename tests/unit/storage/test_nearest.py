from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from harken.storage.ports import StoredSpace
from harken.storage.sqlite import nearest
from harken.storage.sqlite.nearest import VectorCache
from harken.storage.sqlite.store import SqliteStore
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
    """A store with forty embedded entries, and caches over its folder as other processes would open them."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.talk = spoken_at_length("c", COUNT)
        keep(store, self.talk)
        self.ids = entry_ids(store, self.talk.messages)
        self.matrix = unit_vectors(COUNT)
        self.space: StoredSpace = space_of(store)
        embed(store, self.space, self.ids, self.matrix)

    def cache(self, turbovec: bool = True) -> VectorCache:
        """A cache of another process."""
        return VectorCache(self.folder, prefer_turbovec=turbovec)

    def ask(self, cache: VectorCache, number: int = 3, limit: int = COUNT * 2) -> list[int]:
        """The ids nearest to one of the vectors, as the cache sees them."""
        with self.store.reading() as tx:
            return [int(i) for i in cache.nearest(tx.connection, self.space, self.matrix[number], limit)]

    def kept(self) -> VectorCache:
        """A cache that has been asked and saved."""
        cache = self.cache()
        self.ask(cache)
        cache.save()
        return cache

    def files(self) -> list[Path]:
        """The cache's files."""
        return sorted(self.folder.glob("*")) if self.folder.exists() else []

    def problems(self, cache: VectorCache) -> list[str]:
        """What the cache says is wrong with its files."""
        with self.store.reading() as tx:
            return cache.problems(tx.connection)


@pytest.fixture
def town(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setattr(nearest, "_SAVE_FROM_ROWS", 10)
    return Town(store, tmp_path / "cache")


@pytest.fixture
def no_rebuilding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each catching up has read."""
    read: list[int] = []
    whole = nearest.unpack

    def counting(blobs: list[bytes], dims: int) -> np.ndarray:  # type: ignore[type-arg]
        read.append(len(blobs))
        return whole(blobs, dims)

    monkeypatch.setattr(nearest, "unpack", counting)
    return read


class TestKeeping:
    def test_a_kept_file_spares_the_next_process_the_rebuilding(self, town: Town, no_rebuilding: list[int]) -> None:
        town.kept()
        assert no_rebuilding == [COUNT]
        assert sorted(town.ask(town.cache())) == town.ids
        assert no_rebuilding == [COUNT]

    def test_what_came_after_the_file_is_added(self, town: Town, no_rebuilding: list[int]) -> None:
        town.kept()
        more = spoken_at_length("d", 3)
        keep(town.store, more)
        added = entry_ids(town.store, more.messages)
        embed(town.store, town.space, added, unit_vectors(3, seed=9))
        assert sorted(town.ask(town.cache())) == sorted(town.ids + added)
        assert no_rebuilding == [COUNT, 3]

    def test_few_vectors_are_not_worth_a_file(self, town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nearest, "_SAVE_FROM_ROWS", COUNT + 1)
        town.kept()
        assert town.files() == []

    def test_a_file_is_written_again_only_after_some_growth(self, town: Town) -> None:
        cache = town.kept()
        (first,) = town.files()
        cache.save()
        assert town.files() == [first]
        for name, count, same in (("d", 1, True), ("e", 3, False)):
            more = spoken_at_length(name, count)
            keep(town.store, more)
            embed(town.store, town.space, entry_ids(town.store, more.messages), unit_vectors(count, seed=count))
            town.ask(cache)
            cache.save()
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
        cache = town.kept()
        assert sorted(town.ask(cache)) == town.ids

    def test_discarding_leaves_nothing(self, town: Town) -> None:
        cache = town.kept()
        (town.folder / "vectors-left-by-one-who-died.tvim.77.part").write_bytes(b"x")
        cache.discard()
        assert town.files() == []
        assert sorted(town.ask(cache)) == town.ids

    def test_a_store_in_memory_keeps_no_file(self, town: Town) -> None:
        cache = VectorCache(None)
        assert sorted(town.ask(cache)) == town.ids
        cache.save()
        cache.discard()
        assert town.files() == []


class TestMistrusting:
    def test_a_file_from_before_a_removal_is_not_used(self, town: Town) -> None:
        town.kept()
        (stale,) = town.files()
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert town.ids[3] not in town.ask(town.cache())
        assert not stale.exists()

    def test_a_cache_in_memory_learns_of_a_removal(self, town: Town) -> None:
        cache = town.kept()
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert sorted(town.ask(cache)) == [entry_id for entry_id in town.ids if entry_id != town.ids[3]]

    def test_a_file_of_another_database_is_neither_used_nor_removed(self, town: Town) -> None:
        town.kept()
        (foreign,) = town.files()
        with town.store.writing() as tx:
            set_setting(tx, "store.origin", "abcdef")
        apply(town.store, [town.talk.forget(town.talk.messages[3])])
        assert town.ids[3] not in town.ask(town.cache())
        assert foreign.exists()

    @pytest.mark.parametrize("damage", ["empty", "cut short", "garbage"])
    def test_a_damaged_file_is_found_and_made_anew(self, town: Town, damage: str) -> None:
        town.kept()
        (file,) = town.files()
        whole = file.read_bytes()
        file.write_bytes({"empty": b"", "cut short": whole[: len(whole) // 2], "garbage": b"\xa5" * len(whole)}[damage])
        assert town.problems(town.cache()) == [f"The vector cache {file.name} is damaged."]
        cache = town.cache()
        assert sorted(town.ask(cache)) == town.ids
        assert not file.exists()
        cache.save()
        assert town.problems(cache) == []

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
        assert town.problems(town.cache()) == []
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
        assert sorted(town.ask(town.cache())) == town.ids
        assert (town.folder / "vectors-nonsense.tvim").exists()


class TestWithoutTurbovec:
    def test_the_same_are_nearest(self, town: Town) -> None:
        assert town.ask(town.cache(turbovec=False), limit=1) == [town.ids[3]]
        assert sorted(town.ask(town.cache(turbovec=False))) == town.ids

    def test_no_file_is_kept_and_none_complained_of(self, town: Town) -> None:
        town.kept()
        (file,) = town.files()
        file.write_bytes(b"damaged")
        cache = town.cache(turbovec=False)
        town.ask(cache)
        cache.save()
        assert town.files() == [file]
        assert town.problems(cache) == []

    def test_it_follows_additions_and_removals(self, town: Town) -> None:
        cache = town.cache(turbovec=False)
        town.ask(cache)
        apply(town.store, [town.talk.forget(town.talk.messages[0])])
        more = spoken_at_length("d", 1)
        keep(town.store, more)
        (added,) = entry_ids(town.store, more.messages)
        embed(town.store, town.space, [added], unit_vectors(1, seed=9))
        assert sorted(town.ask(cache)) == sorted([*town.ids[1:], added])
