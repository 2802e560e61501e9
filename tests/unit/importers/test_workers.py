"""Big imports are read by processes of their own: what comes in is the same, and whatever ends one loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from command_line import CommandLine, rows
from harken.errors import ImportStoppedError
from harken.importers import workers
from harken.importers.importer import Importer, ImportReport, Progress, _Pace
from harken.importers.jsonl import Jsonl
from recorded import RecordedHome

TEXT = "The walrus pump at the third quay needs a new seal before the November floods. " * 12
DEADLINE_SECONDS = 60


def write_talks(file: Path, messages: int, talk: str = "c") -> Path:
    lines = [
        {
            "conversation": f"{talk}{number // 40}",
            "role": "assistant" if number % 2 else "user",
            "content": f"{number} of {talk}: always use tabs. {TEXT}",
            "ts": f"2026-05-08T09:{number // 60 % 60:02d}:{number % 60:02d}Z",
        }
        for number in range(messages)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def readers_of(pid: int) -> list[int]:
    """The processes that read transcripts for one."""
    listed = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    found = []
    for child in map(int, listed.split()):
        with suppress(OSError):
            found += [child] if b"harken.importers.workers" in Path(f"/proc/{child}/cmdline").read_bytes() else []
    return found


def wait_until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not reached():
        assert time.monotonic() < deadline, "it did not come to it"
        time.sleep(0.01)


@pytest.fixture
def by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small an import is, and however many cores there are."""
    monkeypatch.setattr(workers, "_WORTH_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2}, raising=False)


pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")


def test_what_processes_read_comes_in_as_if_it_was_read_here(
    place: RecordedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write_talks(tmp_path / f"{name}.jsonl", 90, name) for name in "abcdefg"]
    (files[2]).write_text(files[2].read_text() + "no JSON\n" + '{"conversation":"b0","role":"user","content":"late"}\n')
    files.append(write_talks(tmp_path / "secret.jsonl", 1, "AKIAIOSFODNN7EXAMPLE"))
    here = Importer(place.recorder).run(Jsonl(), files)
    written = place.rows()
    shutil.rmtree(place.home / "conversations")
    place.lose_database()
    seen: set[int] = set()
    monkeypatch.setattr(workers, "_WORTH_BYTES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2}, raising=False)
    there = Importer(place.recorder, lambda _at: seen.update(readers_of(os.getpid()))).run(Jsonl(), files)
    assert len(seen) == 3
    assert there == here
    assert there.added == 7 * 90 + 2
    assert len(there.unreadable) == 1
    assert place.rows() == written
    assert place.doctor() == []
    assert readers_of(os.getpid()) == []


def test_a_file_that_cannot_be_read_there_does_not_stop_the_rest(
    place: RecordedHome, tmp_path: Path, by_processes: None
) -> None:
    files = [write_talks(tmp_path / f"{name}.jsonl", 5, name) for name in "abc"]
    gone = tmp_path / "b.jsonl"

    def once(at: Progress) -> None:
        gone.unlink(missing_ok=True)

    # More than a process takes in advance lies before it.
    more = [write_talks(tmp_path / f"x{number}.jsonl", 2, f"x{number}") for number in range(12)]
    report = Importer(place.recorder, once).run(Jsonl(), [files[0], *more, files[1], files[2]])
    assert [path for path, _ in report.failed] == [gone]
    assert report.added == 5 + 24 + 5


def test_a_process_that_dies_is_one_clear_failure_and_the_next_import_completes_it(
    place: RecordedHome, tmp_path: Path, by_processes: None
) -> None:
    count = 2000
    file = write_talks(tmp_path / "talks.jsonl", count)

    def kill(_at: Progress) -> None:
        for reader in readers_of(os.getpid()):
            os.kill(reader, signal.SIGKILL)

    report = ImportReport()
    with pytest.raises(ImportStoppedError, match=r"was killed \(signal 9\).*import again"):
        Importer(place.recorder, kill).run(Jsonl(), [file], report)
    assert 0 < report.added < count
    assert place.doctor() == []
    again = Importer(place.recorder).run(Jsonl(), [file])
    assert (report.added + again.added, again.known) == (count, report.added)
    assert place.doctor() == []


@contextmanager
def under_way(cli: CommandLine, file: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """An import, once its processes read and something of it is here."""
    with cli.running("import", "jsonl", file, "--no-embed") as process:
        wait_until(lambda: (cli.home / "harken.db").exists() and rows(cli.home, "messages"))
        readers = readers_of(process.pid)
        assert process.poll() is None
        yield process, readers


@pytest.mark.parametrize("cores", [len(getattr(os, "sched_getaffinity", lambda _pid: [0])(0))])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_however_an_import_ends_its_processes_end_and_the_next_one_completes_it(
    cli: CommandLine, tmp_path: Path, how: signal.Signals, cores: int
) -> None:
    if cores < 2:
        pytest.skip("with one core nothing is read by another process")
    messages = 3600
    file = write_talks(tmp_path / "talks.jsonl", messages)
    with under_way(cli, file) as (process, readers):
        assert readers
        process.send_signal(how)
        code = process.wait(DEADLINE_SECONDS)
        assert code == (-signal.SIGKILL if how is signal.SIGKILL else 130)
        wait_until(lambda: not any(Path(f"/proc/{reader}/exe").exists() for reader in readers))
    kept = cli.status()["messages"]
    assert 0 < kept < messages
    done = cli("import", "jsonl", file, "--no-embed", "--json").json()
    assert (done["added"], done["known"]) == (messages - kept, kept)
    assert cli("doctor").out.startswith("All agrees")


def test_without_a_python_to_start_it_is_read_here(
    place: RecordedHome, tmp_path: Path, by_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "gone"))
    assert Importer(place.recorder).run(Jsonl(), [write_talks(tmp_path / "talks.jsonl", 10)]).added == 10


@pytest.mark.parametrize("seconds_a_message", [0.0001, 0.001])
def test_transactions_are_as_long_as_others_may_wait(seconds_a_message: float) -> None:
    pace, took = _Pace(), 0.0
    for _ in range(40):
        messages = max(1, int(pace.room / 350))
        took = messages * seconds_a_message
        pace.took(took, took, messages * 350)
    assert 0.01 < took < 0.03
