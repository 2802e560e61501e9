"""`harken export`, and importing what it wrote."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import PYTHON, TIMEOUT_SECONDS, CommandLine, rows
from harken.engine import Harken
from harken.testing import EmbeddingServer

# Ten and more batches of an import, a few of them before anything shows on the disk.
MANY = 3000


@pytest.fixture
def other(filled: CommandLine, tmp_path: Path) -> CommandLine:
    """An empty home elsewhere."""
    return CommandLine(tmp_path / "elsewhere", filled.person, filled.settings)


def test_everything_moves_to_another_home(filled: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "everything.jsonl"
    [gone] = filled.search("ten years", "--limit", "1")
    filled("forget", gone["id"], "--yes")
    facts = filled("export", file, "--json").json()
    assert facts == {
        **{"file": str(file), "conversations": 2, "messages": 5, "kept": 0, "forgotten": 1},
        **{"summaries": 0, "vectors": 0},
        "bytes": file.stat().st_size,
    }
    assert (
        other("import", "jsonl", file, "--as-mine").out
        == "5 new messages in 2 conversations from 1 file (0 known already, 0 files unchanged).\n"
    )
    assert other.search("tomato") == filled.search("tomato")
    assert other.status()["forgotten"] == 1
    assert other("doctor").out.startswith("All agrees")
    again = other("import", "jsonl", file, "--as-mine", "--json").json()
    assert (again["added"], again["known"], again["erased"]) == (0, 5, 0)
    other("export", tmp_path / "back.jsonl")
    assert (tmp_path / "back.jsonl").read_bytes() == file.read_bytes()


def test_core_memories_alone_are_counted_and_told_once(cli: CommandLine, tmp_path: Path) -> None:
    cli("core", "set", "user", "name", "Ada")
    cli("export", tmp_path / "core.jsonl")
    there = CommandLine(tmp_path / "elsewhere", cli.person, cli.settings)
    for told in (["1 other record new or changed: memories and the like."], []):
        brought = there("import", "jsonl", tmp_path / "core.jsonl", "--as-mine")
        assert brought.out.splitlines()[1:] == told
        assert "of this format" not in brought.err


def test_the_file_tells_that_it_is_an_export(filled: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    filled("export", tmp_path / "everything.jsonl")
    outcome = other("import", tmp_path / "everything.jsonl", "--json")
    assert outcome.err == "Found jsonl: 1 file\n"
    assert outcome.json()["added"] == 6


def test_stdout_holds_the_export_and_nothing_else(filled: CommandLine, tmp_path: Path) -> None:
    filled("export", tmp_path / "everything.jsonl")
    piped = subprocess.run(
        [*PYTHON, "export", "-"], env=filled.environment(), capture_output=True, timeout=120, check=True
    )
    assert piped.stdout == (tmp_path / "everything.jsonl").read_bytes()
    assert piped.stderr.decode().startswith("stdout: 6 messages in 2 conversations, ")


def test_a_file_that_is_there_is_not_written_over(filled: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "everything.jsonl"
    file.write_text("mine")
    assert "exists. Name a file that does not." in filled.fails("export", file, code=2)
    assert file.read_text() == "mine"


def cut(content: bytes) -> bytes:
    return content[:-300]


def newer(content: bytes) -> bytes:
    return content.replace(b'"version":3', b'"version":7', 1)


@pytest.mark.parametrize(
    ("damage", "added", "words"),
    [(cut, 6, "is no whole line of an export. What came before it was imported."), (newer, 0, "by a newer Harken")],
)
def test_a_damaged_export_says_what_is_wrong_and_ends_with_1(
    filled: CommandLine, other: CommandLine, tmp_path: Path, damage: Any, added: int, words: str
) -> None:
    file = tmp_path / "everything.jsonl"
    filled("export", file)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert words in other.fails("import", "jsonl", file, "--json")
    assert 0 < other.status()["messages"] <= added or added == 0
    file.write_bytes(whole)
    other("import", "jsonl", file)
    assert other.status()["messages"] == 6


def test_a_plain_transcript_is_imported_as_ever(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "plain.jsonl"
    file.write_text(json.dumps({"conversation": "x", "role": "user", "content": "An ocelot.", "format": "mine"}) + "\n")
    assert cli("import", "jsonl", file, "--json").json()["added"] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_what_was_imported_and_the_next_run_brings_the_rest(cli: CommandLine, tmp_path: Path) -> None:
    lines = (
        {"conversation": f"c{n % 40}", "role": "user", "content": f"number {n} of the ocelots"} for n in range(MANY)
    )
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", "jsonl", tmp_path / "talk.jsonl", "--no-embed")
    cli("export", tmp_path / "everything.jsonl")
    other = CommandLine(tmp_path / "elsewhere", cli.person, cli.settings)
    other("status")
    for _ in range(20):
        with other.running("import", "jsonl", tmp_path / "everything.jsonl", stderr=subprocess.PIPE) as process:
            # Some batches of a few conversations each; what the one in the middle has written is taken back.
            while process.poll() is None and len(list(other.home.glob("conversations/*"))) < 12:
                time.sleep(0.005)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=TIMEOUT_SECONDS)
        if rows(other.home, "messages") < MANY:
            break
        # On a machine under load it may be done before this process has its turn.
        shutil.rmtree(other.home)
    assert process.returncode == 130
    assert "stopped; what was done is kept" in err
    before = other.status()["messages"]
    assert 0 < before < MANY
    assert other("import", "jsonl", tmp_path / "everything.jsonl", "--json").json()["added"] == MANY - before
    other("export", tmp_path / "back.jsonl")
    assert (tmp_path / "back.jsonl").read_bytes() == (tmp_path / "everything.jsonl").read_bytes()


def test_two_processes_that_write_the_same_file_at_once_leave_a_whole_one(filled: CommandLine, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    others: list[bytes] = []

    def another_process_is_quicker(_done: int, _all: int) -> None:
        filled("export", target)
        others.append(target.read_bytes())

    with Harken(filled.home, settings={"embedder": "none"}, env={}) as harken:
        harken.maintenance.export(target, another_process_is_quicker)
    assert [target.read_bytes()] == others
    assert list(tmp_path.glob("*.part")) == []


def embedded_by(cli: CommandLine, server: EmbeddingServer, home: Path, model: str = "words") -> CommandLine:
    """The command line on a home, with a model that may cost."""
    settings = {"HARKEN_EMBEDDER": "openai-compatible", "HARKEN_EMBEDDING__URL": server.url}
    return CommandLine(home, cli.person, {**settings, "HARKEN_EMBEDDING__MODEL": model})


def test_vectors_go_along_on_request_and_are_not_made_again(filled: CommandLine, tmp_path: Path) -> None:
    with EmbeddingServer() as server:
        first = embedded_by(filled, server, filled.home)
        first("memory", "add", "The tomato seedlings want the window of the kitchen")
        first("worker", "run", "--until-idle")
        count = first.status()["embedded"]
        assert first("export", tmp_path / "without.jsonl", "--json").json()["vectors"] == 0
        facts = first("export", tmp_path / "with.jsonl", "--with-vectors", "--json").json()
        assert facts["vectors"] == count > 3
        asked = len(server.requests)
        second = embedded_by(filled, server, tmp_path / "second")
        told = second("import", tmp_path / "with.jsonl", "--as-mine").out
        assert f"{count} vectors taken as they were made." in told
        assert second.status()["embedded"] == count
        assert second.search("tomato seedlings") == first.search("tomato seedlings")
        sent = [text for request in server.requests[asked:] for text in request.body["input"]]
        assert not [text for text in sent if "frost" in text]
        # Another model cannot read them; nor is anybody's word for a vector taken but one's own.
        third = embedded_by(filled, server, tmp_path / "third", "other")
        assert third("import", tmp_path / "with.jsonl", "--as-mine", "--json").json()["vectors"] == 0
        assert third.status()["embedded"] == count
        stranger = embedded_by(filled, server, tmp_path / "stranger")
        assert stranger("import", tmp_path / "with.jsonl", "--json").json()["vectors"] == 0


def test_a_vector_of_other_words_is_made_anew(filled: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "with.jsonl"
    with EmbeddingServer() as server:
        first = embedded_by(filled, server, filled.home)
        first("worker", "run", "--until-idle")
        count = first("export", file, "--with-vectors", "--json").json()["vectors"]
        file.write_text(file.read_text().replace("around the middle of May", "around the end of May", 1))
        second = embedded_by(filled, server, tmp_path / "second")
        assert second("import", file, "--as-mine", "--json").json()["vectors"] == count - 1
        assert second.status()["embedded"] == count
