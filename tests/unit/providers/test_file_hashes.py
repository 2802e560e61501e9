from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from harken.errors import ModelFileError
from harken.providers.model_files import FileHashes


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "verified-models.json"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    return path


def test_the_hash_is_the_files_sha256(cache: Path, file: Path) -> None:
    assert FileHashes(cache).sha256(file) == _digest(b"one")


def test_a_file_that_did_not_change_is_not_read_again(cache: Path, file: Path) -> None:
    FileHashes(cache).sha256(file)
    known = json.loads(cache.read_text())
    known[str(file.resolve())]["sha256"] = "remembered"
    cache.write_text(json.dumps(known))
    assert FileHashes(cache).sha256(file) == "remembered"


def test_a_file_of_another_size_is_read_again(cache: Path, file: Path) -> None:
    FileHashes(cache).sha256(file)
    file.write_bytes(b"three")
    assert FileHashes(cache).sha256(file) == _digest(b"three")


def test_a_file_written_since_is_read_again_though_its_size_is_the_same(cache: Path, file: Path) -> None:
    FileHashes(cache).sha256(file)
    before = file.stat().st_mtime_ns
    file.write_bytes(b"two")
    os.utime(file, ns=(before + 1_000_000, before + 1_000_000))
    assert FileHashes(cache).sha256(file) == _digest(b"two")


@pytest.mark.parametrize("content", ["{", "[]", '{"x": 1}', "null"])
def test_a_damaged_cache_costs_only_time(cache: Path, file: Path, content: str) -> None:
    cache.parent.mkdir()
    cache.write_text(content)
    assert FileHashes(cache).sha256(file) == _digest(b"one")
    assert json.loads(cache.read_text())[str(file.resolve())]["sha256"] == _digest(b"one")


def test_a_line_of_the_cache_that_makes_no_sense_is_ignored(cache: Path, file: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(json.dumps({str(file.resolve()): "yes"}))
    assert FileHashes(cache).sha256(file) == _digest(b"one")


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path, file: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert FileHashes(tmp_path / "cache" / "verified-models.json").sha256(file) == _digest(b"one")


def test_a_cache_that_cannot_be_replaced_leaves_no_temporary_file(tmp_path: Path, file: Path) -> None:
    cache = tmp_path / "cache" / "verified-models.json"
    cache.mkdir(parents=True)
    (cache / "occupied").touch()
    assert FileHashes(cache).sha256(file) == _digest(b"one")
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_a_file_that_cannot_be_read_is_named(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="gone cannot be read"):
        FileHashes(cache).sha256(tmp_path / "gone")
