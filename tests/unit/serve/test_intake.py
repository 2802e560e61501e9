"""The thread that reads what hooks report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coding_agent import eventually
from harken.errors import StoreError
from harken.serve.daemon import run, spool
from harken.serve.daemon.run import TranscriptWatcher
from harken.serve.daemon.spool import Transcript


class Store:
    """Takes transcripts, except while it is locked."""

    def __init__(self) -> None:
        self.locked = False
        self.refused = 0
        self.taken: list[str] = []

    def bring_in(self, transcript: Transcript) -> None:
        if self.locked:
            self.refused += 1
            raise StoreError("The store is locked.")
        self.taken.append(Path(transcript.path).read_text())


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    return tmp_path / "reports"


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    path = tmp_path / "session.jsonl"
    path.write_text("one")
    return Transcript("jsonl", str(path))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def intake(reports: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[TranscriptWatcher]:
    monkeypatch.setattr(run, "_POLL_SECONDS", 0.1)
    made = TranscriptWatcher(reports, store.bring_in)
    made.start()
    yield made
    made.stop(10)


def test_what_a_locked_store_refused_is_read_later(
    reports: Path, transcript: Transcript, store: Store, intake: TranscriptWatcher
) -> None:
    store.locked = True
    spool.put(str(reports), transcript)
    eventually(lambda: store.refused > 0)
    assert not intake.idle
    store.locked = False
    eventually(lambda: intake.idle)
    assert store.taken == ["one"]


def test_lines_after_the_report_that_a_locked_store_refused_are_read_later(
    reports: Path, transcript: Transcript, store: Store, intake: TranscriptWatcher
) -> None:
    spool.put(str(reports), transcript)
    eventually(lambda: store.taken == ["one"])
    store.locked = True
    Path(transcript.path).write_text("one, two")
    eventually(lambda: store.refused > 0)
    store.locked = False
    eventually(lambda: "one, two" in store.taken)


def test_a_folder_that_cannot_be_used_ends_nothing(
    reports: Path, transcript: Transcript, store: Store, intake: TranscriptWatcher
) -> None:
    spool.put(str(reports), transcript)
    eventually(lambda: store.taken == ["one"])
    # A folder in the way of the report's next name stops whatever rights this user has.
    in_the_way = reports / "damaged.taken"
    in_the_way.mkdir()
    (in_the_way / "file").touch()
    with capture_logs() as logged:
        (reports / "damaged.json").write_text("[]")
        intake.wake()
        eventually(lambda: {"reports_not_read"} == {line["event"] for line in logged})
    (in_the_way / "file").unlink()
    in_the_way.rmdir()
    Path(transcript.path).write_text("one, two")
    spool.put(str(reports), transcript)
    eventually(lambda: "one, two" in store.taken and intake.idle)
