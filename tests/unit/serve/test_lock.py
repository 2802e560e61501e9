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

from harken.serve.daemon.lock import DaemonRunsError, held, holder
from harken.serve.daemon.place import DaemonPaths


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
