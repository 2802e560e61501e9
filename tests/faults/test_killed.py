"""kill -9 at random moments: the next run completes, all parts agree, nothing is lost or doubled."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from long_talk import texts_in_journal, texts_in_rows, write_long_talk

from command_line import CommandLine, files_holding, rows
from harken.engine import Harken
from harken.storage.vectors import unpack
from harken.testing import EmbeddingServer, hashed_vectors

DIMS = 32
# On a machine under load a process may well end before whoever is to kill it gets its turn.
ATTEMPTS = 20


def kill_when(process: subprocess.Popen[str], reached: Callable[[], bool], delay_seconds: float) -> bool:
    """Kill a process a moment after something is reached; False where it had ended before."""
    while process.poll() is None:
        began = time.process_time()
        if reached():
            break
        # Whoever looks all the time takes as long as what it looks at.
        time.sleep(max(0.002, 4 * (time.process_time() - began)))
    time.sleep(delay_seconds)
    ended = process.poll() is not None
    process.kill()
    process.wait()
    return not ended


def kill_under_way(
    start: Callable[[], subprocess.Popen[str]],
    reached: Callable[[], bool],
    delay_seconds: float,
    undo: Callable[[], None],
) -> None:
    """The same for certain: what a process did that had ended before is undone, and it is started again."""
    for attempt in range(ATTEMPTS):
        if kill_when(start(), reached, 0 if attempt else delay_seconds):
            return
        undo()
    raise AssertionError(f"{ATTEMPTS} processes ended before they could be killed")


def findings(home: Path) -> list[object]:
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        return list(harken.maintenance.doctor())


def journal_bytes(home: Path) -> int:
    return sum(file.stat().st_size for file in home.glob("conversations/*/*.jsonl"))


@pytest.mark.parametrize("command", ["backup", "export", "restore"])
def test_what_a_killed_one_left_goes_with_the_next_opening_or_forgetting(
    cli: CommandLine, tmp_path: Path, command: str
) -> None:
    write_long_talk(tmp_path / "long.jsonl", count=2000, conversations=8)
    cli("import", "claude-code", tmp_path / "long.jsonl", "--no-embed")
    cli("backup", tmp_path / "whole.tar.gz")
    place, other = tmp_path / "out", replace(cli, home=tmp_path / "out")
    killed = other if command == "restore" else cli
    file = tmp_path / "whole.tar.gz" if command == "restore" else place / "file"

    def left() -> list[Path]:
        return [found for found in place.glob(".harken-staged-*/**/*") if found.is_file() and found.stat().st_size]

    for forgets in (False, True):
        with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
            kill_under_way(lambda: killed.start(command, file), lambda: bool(left()), 0, lambda: shutil.rmtree(place))
            assert left()
            if forgets and command != "restore":
                harken.maintenance.forget(harken.maintenance.plan_forget(query="Number 7"))
        if not forgets or command == "restore":
            found = killed("doctor").out
            assert "was left by a backup, an export or a restore that was killed." in found
        assert list(place.glob(".harken-staged*")) == list(cli.home.glob(".harken-staged*")) == []
        assert killed("doctor").out.startswith("All agrees")
        shutil.rmtree(place)


def test_an_import_that_is_killed_again_and_again_is_completed_by_the_next(
    cli: CommandLine, tmp_path: Path, rounds: int
) -> None:
    rng = random.Random(20261122)
    path = tmp_path / "long.jsonl"
    said = write_long_talk(path, count=400 * rounds + 800, conversations=15)
    command = ("import", "claude-code", path, "--no-embed")
    # The journal's final size in bytes, more or less: a line of it holds what a line of the transcript holds and ids.
    whole = path.stat().st_size * 1.9
    for number in range(rounds):
        goal = whole * (number + rng.random()) / (rounds + 1)
        kill_under_way(
            lambda: cli.start(*command),
            lambda goal=goal: journal_bytes(cli.home) >= goal,
            rng.uniform(0, 0.1),
            undo=lambda: shutil.rmtree(cli.home),
        )
        assert findings(cli.home) == []
        with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
            kept = texts_in_rows(harken)
        assert len(dict(kept)) == len(kept)
        assert dict(kept).items() <= said.items()
    cli(*command)
    assert cli("doctor").out.startswith("All agrees")
    assert cli.status()["messages"] == len(said)
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        assert sorted(texts_in_rows(harken)) == sorted(said.items())
    assert sorted(texts_in_journal(cli.home)) == sorted(said.items())
    assert cli(*command, "--json").json()["added"] == 0


def test_an_export_that_is_killed_on_its_way_in_arrives_whole_by_the_next_import(
    cli: CommandLine, tmp_path: Path, rounds: int
) -> None:
    rng = random.Random(20261126)
    path, export = tmp_path / "long.jsonl", tmp_path / "export.jsonl"
    write_long_talk(path, count=400 * rounds + 800, conversations=15)
    cli("import", "claude-code", path, "--no-embed")
    cli("export", export)
    other = replace(cli, home=tmp_path / "elsewhere")
    command = ("import", "jsonl", export, "--no-embed")
    for number in range(rounds):
        goal = journal_bytes(cli.home) * (number + rng.random()) / (rounds + 1)
        kill_under_way(
            lambda: other.start(*command),
            lambda goal=goal: journal_bytes(other.home) >= goal,
            rng.uniform(0, 0.1),
            undo=lambda: shutil.rmtree(other.home),
        )
        assert findings(other.home) == []
    other(*command)
    assert other("doctor").out.startswith("All agrees")
    other("export", tmp_path / "back.jsonl")
    assert (tmp_path / "back.jsonl").read_bytes() == export.read_bytes()


def test_a_task_that_is_killed_while_it_answers_leaves_its_request_and_the_next_run_does_not_see_it(
    tmp_path: Path,
) -> None:
    script = (
        "import os, signal, sys; from harken import Harken\n"
        "harken = Harken(sys.argv[1], settings={'embedder': 'none'}, env={})\n"
        "harken.run_task('daily', 'one', lambda context: 'two')\n"
        "harken.run_task('daily', 'dies', lambda context: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "home"], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}) as harken:
        assert harken.maintenance.doctor() == []
        assert [run.status.value for run in harken.tasks.history("daily")] == ["completed", "in_progress"]
        seen = [message.content for message in harken.tasks.context("daily", "three")]
        assert seen == ["one", "two", "three"]
        harken.run_task("daily", "three", lambda _context: "four")
        assert [run.answer for run in harken.tasks.history("daily", only_complete=True)] == ["two", "four"]


def test_forgetting_that_is_killed_is_finished_by_whoever_comes_next(
    cli: CommandLine, tmp_path: Path, rounds: int
) -> None:
    rng = random.Random(20261125)
    path = tmp_path / "talk.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(2400):
            # A word that full text keeps as it is, and that no other word begins like.
            animal = "heron" if number % 4 else "zqxkarn"
            line = {
                "conversation": f"c{number % 4}",
                "role": "user",
                "content": f"thing {number}, a {animal} on a lake",
            }
            file.write(json.dumps(line) + "\n")
    cli("import", path)
    conversation = cli.search("zqxkarn", "--limit", "1")[0]["conversation_id"]
    for number in range(max(2, rounds // 3)):
        copy = replace(cli, home=tmp_path / f"copy-{number}")
        shutil.copytree(cli.home, copy.home)
        process = copy.start("forget", "--conversation", conversation, "--yes")
        kill_when(process, lambda copy=copy: rows(copy.home, "tombstones") > 0, rng.uniform(0, 0.2))
        assert findings(copy.home) == []
        assert rows(copy.home, "messages") == 1800
        assert files_holding(copy.home, b"zqxkarn") == []


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=DIMS) as running:
        yield running


def vectors_by_text(home: Path, dims: int) -> list[tuple[str, np.ndarray]]:
    """Every stored vector with its entry's text, one line for each vector row."""
    with Harken(home, settings={"embedder": "none"}, env={}) as harken, harken.store.reading() as tx:
        rows = tx.connection.exec_driver_sql(
            "SELECT e.text, v.vector FROM vectors v JOIN entries e ON e.id = v.entry_id AND e.space_id = v.space_id"
        ).all()
    return [(row[0], unpack([row[1]], dims)[0]) for row in rows]


def test_embedding_that_is_killed_again_and_again_is_completed_by_the_next(
    cli: CommandLine, tmp_path: Path, rounds: int, server: EmbeddingServer
) -> None:
    rng = random.Random(20261123)
    path = tmp_path / "long.jsonl"
    said = write_long_talk(path, count=100 * rounds, conversations=6)
    cli("summarizer", "off")
    cli("import", "claude-code", path)
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__DIMS": str(DIMS),
        "HARKEN_WORKER__BATCH_SIZE": "10",
    }
    remote, before = replace(cli, settings=settings), tmp_path / "before"
    shutil.copytree(cli.home, before)

    def undo() -> None:
        shutil.rmtree(cli.home)
        shutil.copytree(before, cli.home)
        server.requests.clear()

    for number in range(rounds):
        goal = len(said) / 10 * (number + rng.random()) / (rounds + 1)
        kill_under_way(
            lambda: remote.start("worker", "run", "--until-idle"),
            lambda goal=goal: len(server.requests) >= goal,
            rng.uniform(0, 0.05),
            undo,
        )
        assert findings(cli.home) == []
        stored = vectors_by_text(cli.home, DIMS)
        assert len(stored) == len(dict(stored))
    remote("worker", "run", "--until-idle")
    status = remote.status()
    assert (status["embedded"], status["queue"], status["failed"]) == (len(said), 0, 0)
    stored = vectors_by_text(cli.home, DIMS)
    assert sorted(text for text, _ in stored) == sorted(said.values())
    expected = hashed_vectors([text for text, _ in stored], DIMS)
    assert np.abs(np.stack([vector for _, vector in stored]) - expected).max() < 0.001
    assert remote("doctor").out.startswith("All agrees")


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")
def test_embedding_with_the_local_model_survives_kills_as_well(cli: CommandLine, tmp_path: Path, rounds: int) -> None:
    if rounds < 20:
        pytest.skip("takes minutes; set HARKEN_TEST_ROUNDS=20")
    rng = random.Random(20261124)
    path = tmp_path / "long.jsonl"
    said = write_long_talk(path, count=6000, conversations=6)
    cli("summarizer", "off")
    cli("import", "claude-code", path)
    local, killed = replace(cli, settings={}), 0
    for _ in range(rounds):
        process = local.start("worker", "run", "--until-idle")
        killed += kill_when(process, lambda: True, rng.uniform(1.0, 6.0))
        assert findings(cli.home) == []
    local("worker", "run", "--until-idle")
    status = local.status()
    assert (status["embedded"], status["queue"], status["failed"]) == (len(said), 0, 0)
    assert local("doctor").out.startswith("All agrees")
    print(f"{killed} of {rounds} kills hit the local model embedding {len(said)} messages")
