"""A full disk and a read-only one: one clear message, nothing lost, nothing doubled when it is tried again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import CommandLine
from disks import Disk
from harken.engine import Harken
from harken.errors import StoreFullError

COUNT = 4000
NOT_ALLOWED = "Make it and its folder writable, or choose another home: harken --home PATH, or HARKEN_HOME"


def write_talk(path: Path) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number in range(COUNT):
            text = f"Barrel {number} holds {number * 7 % 100} litres of cider and stands in cellar {number % 9}"
            file.write(json.dumps({"conversation": f"c{number % 20}", "role": "user", "content": text}) + "\n")
    return path


def test_an_import_onto_a_full_disk_is_completed_when_there_is_room(
    cli: CommandLine, disk: Callable[[str], Disk], tmp_path: Path
) -> None:
    small = disk("3m")
    on_disk = replace(cli, home=small.path / "home")
    path = write_talk(tmp_path / "talk.jsonl")
    full = on_disk("import", path, code=1)
    assert full.err.splitlines()[-1].startswith("harken: ")
    assert "cannot grow" in full.err.splitlines()[-1]
    assert "Free some" in full.err.splitlines()[-1]
    small.remount("size=200m")
    before = on_disk.status()["messages"]
    assert 0 < before < COUNT
    facts = on_disk("import", path, "--json").json()
    assert (facts["added"], facts["known"]) == (COUNT - before, before)
    assert on_disk.status()["messages"] == COUNT
    assert on_disk("doctor").out.startswith("All agrees")


def test_a_message_that_a_full_disk_refused_is_there_once_when_it_is_repeated(disk: Callable[[str], Disk]) -> None:
    small = disk("3m")
    home = small.path / "home"
    refused: list[int] = []
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        for number in range(2000):
            try:
                harken.record_message(f"c{number % 3}", "user", f"Barrel {number} " + "cider " * 40)
            except StoreFullError:
                refused.append(number)
                if len(refused) == 5:
                    break
        last = refused[-1]
        assert 0 < len(refused) <= last
        small.remount("size=100m")
        for number in refused:
            harken.record_message(f"c{number % 3}", "user", f"Barrel {number} " + "cider " * 40)
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        assert harken.replayed.messages == 0
        assert harken.maintenance.doctor() == []
        with harken.store.reading() as tx:
            kept = sorted(
                int(text.split()[1]) for text in tx.connection.exec_driver_sql("SELECT text FROM messages").scalars()
            )
    assert kept == list(range(last + 1))


@pytest.mark.parametrize("size", ["300k", "1m"])
def test_a_backup_that_finds_no_room_names_its_own_file_and_leaves_nothing(
    cli: CommandLine, disk: Callable[[str], Disk], tmp_path: Path, size: str
) -> None:
    """At the first size the copy of the database finds none, at the second the journal's."""
    small = disk(size)
    (tmp_path / "one.jsonl").write_text(json.dumps({"conversation": "c", "role": "user", "content": "cider"}))
    cli("import", tmp_path / "one.jsonl")
    (cli.home / "conversations/c").mkdir()
    (cli.home / "conversations/c/note").write_bytes(b"x" * 2**20)
    said = cli.fails("backup", small.path / "backup.tar.gz")
    assert said.startswith(f"{small.path / 'backup.tar.gz'} cannot be written: ")
    assert re.search("disk is full|No space left on device", said)
    assert list(small.path.iterdir()) == []


def test_a_read_only_home_is_searched_and_whatever_writes_is_refused(
    cli: CommandLine, disk: Callable[[str], Disk], tmp_path: Path
) -> None:
    small = disk("40m")
    on_disk = replace(cli, home=small.path / "home")
    line = {"conversation": "c", "role": "user", "content": "The cider is in the cellar"}
    (tmp_path / "one.jsonl").write_text(json.dumps(line))
    on_disk("import", tmp_path / "one.jsonl")
    on_disk("memory", "add", "We press the cider in October", "--category", "fact")
    on_disk("list")
    small.remount("ro")
    assert "by the id that stands beside it" in on_disk.fails("show", "1"), "it was another list's"
    assert {hit["source"] for hit in on_disk.search("cider")} == {"message", "memory"}
    assert on_disk.status()["messages"] == 1
    assert "We press the cider" in on_disk("memory", "search", "cider").out
    assert "The cider is in the cellar" in on_disk("context", "cider").out
    for command in (
        ("forget", "--query", "cider", "--yes"),
        ("config", "set", "search.limit", "3"),
        ("core", "set", "user", "name", "Ada"),
        ("doctor",),
    ):
        message = on_disk.fails(*command)
        assert f"{on_disk.home / 'harken.db'} cannot be written: " in message
        assert NOT_ALLOWED in message
    assert NOT_ALLOWED in on_disk.fails("--home", small.path / "new", "search", "cider")
    on_disk("backup", tmp_path / "backup.tar.gz")
    assert on_disk("export", tmp_path / "all.jsonl").out.startswith(f"{tmp_path / 'all.jsonl'}: 1 message")
    restored = replace(cli, home=tmp_path / "restored")
    assert restored("restore", tmp_path / "backup.tar.gz").out.endswith("holds 1 message.\n")
    small.remount("rw")
    assert {hit["text"] for hit in on_disk.search("cellar")} == {"The cider is in the cellar"}
    assert on_disk("doctor").out.startswith("All agrees")
