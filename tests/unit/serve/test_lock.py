"""One daemon for each home."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("no Unix sockets", allow_module_level=True)

import fcntl

from harken.errors import HarkenError
from harken.serve.daemon.lock import DaemonRunsError, held, holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.starting import answered, claim


@pytest.fixture
def place(tmp_path: Path) -> DaemonPaths:
    return DaemonPaths(str(tmp_path / "home"))


def test_who_only_looks_keeps_nobody_from_serving(place: DaemonPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(place):
        pass
    looking = os.open(place.lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    # The look ends as soon as anybody waits for that.
    monkeypatch.setattr(time, "sleep", lambda _seconds: fcntl.flock(looking, fcntl.LOCK_UN))
    with held(place):
        found = holder(place)
    os.close(looking)
    assert found is not None
    assert found.pid == os.getpid()


def test_who_has_taken_it_and_not_yet_said_so_is_named(place: DaemonPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(place):
        content = Path(place.lock).read_bytes()
        Path(place.lock).write_bytes(b"")
        monkeypatch.setattr(time, "sleep", lambda _seconds: Path(place.lock).write_bytes(content))
        with pytest.raises(DaemonRunsError, match=f"served by process {os.getpid()}"), held(place):
            raise AssertionError("two hold it")


@pytest.mark.parametrize("name", ["daemon.lock", "starting.lock"])
def test_a_lock_that_is_a_link_is_neither_followed_nor_emptied(place: DaemonPaths, tmp_path: Path, name: str) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    Path(place.folder).mkdir(parents=True)
    (Path(place.folder) / name).symlink_to(diary)
    with pytest.raises(OSError, match="symbolic links"):
        claim(place)
    if name == "daemon.lock":
        with pytest.raises(HarkenError, match="is a link"), held(place):
            raise AssertionError("it is held")
        with pytest.raises(HarkenError, match="is a link"):
            holder(place)
    assert diary.read_text() == "dear diary"


@pytest.mark.parametrize("name", ["daemon.lock", "starting.lock"])
def test_a_lock_that_is_another_file_by_a_second_name_is_not_written(
    place: DaemonPaths, tmp_path: Path, name: str
) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    Path(place.folder).mkdir(parents=True)
    os.link(diary, Path(place.folder) / name)
    if name == "daemon.lock":
        with pytest.raises(HarkenError, match="no file of this user's"), held(place):
            raise AssertionError("it is held")
    else:
        with pytest.raises(PermissionError):
            claim(place)
    assert diary.read_text() == "dear diary"


def test_a_lock_is_written_over_and_never_truncated(place: DaemonPaths) -> None:
    with held(place):
        inside = holder(place)
        size = Path(place.lock).stat().st_size
    assert inside is not None
    assert inside.pid == os.getpid()
    assert Path(place.lock).read_text() == " " * size
    assert holder(place) is None
    claimed = claim(place)
    assert claimed is not None
    answered(claimed)
    assert Path(place.starting).stat().st_size == len("starting")
    again = claim(place)
    assert again is not None, "what answered has not failed"
    os.close(again)
    assert claim(place) is None, "it ended before it answered"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("name", ["daemon.lock", "starting.lock"])
def test_a_lock_of_another_users_is_neither_read_nor_emptied(place: DaemonPaths, name: str) -> None:
    Path(place.folder).mkdir(parents=True)
    lock = Path(place.folder) / name
    lock.write_text('{"pid": 1, "version": "1"}')
    os.chown(lock, 65534, 65534)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(PermissionError):
            claim(place)
        if name == "daemon.lock":
            with pytest.raises(HarkenError, match="Remove it: rm"):
                holder(place)
            with pytest.raises(HarkenError, match="Remove it: rm"), held(place):
                raise AssertionError("it is held")
    assert lock.read_text() == '{"pid": 1, "version": "1"}'


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(place: DaemonPaths) -> None:
    Path(place.folder).mkdir(parents=True)
    os.mkfifo(place.lock)
    with pytest.raises(HarkenError, match="no file of this user's"):
        holder(place)
