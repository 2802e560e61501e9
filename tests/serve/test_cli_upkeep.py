"""`harken doctor`, `forget`, `reindex`, `backup` and `restore`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, files_holding

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]


def journal_with(home: Path, words: str) -> Path:
    [file] = files_holding(home / "conversations", words.encode())
    return file


def test_the_doctor_finds_and_repairs_what_the_journal_and_the_rows_have_lost(filled: CommandLine) -> None:
    assert filled("doctor").out == "All agrees: database, journal, full text, vectors, leases.\n"
    before = filled.search("tomato")
    taxes = journal_with(filled.home, "ten years")
    kept = [line for line in taxes.read_bytes().splitlines(keepends=True) if b"ten years" not in line]
    taxes.write_bytes(b"".join(kept))
    found = filled("doctor", code=1)
    assert "problem: The journal of conversation" in found.out
    assert found.err == "Repair with: harken doctor --fix\n"
    facts = filled("doctor", "--json", code=1).json()
    assert facts["ok"] is False
    assert {finding["check"] for finding in facts["findings"]} == {"journal"}
    fixed = filled("doctor", "--fix")
    assert "fixed: The journal of conversation" in fixed.out
    assert filled("doctor", "--json").json() == {"ok": True, "findings": []}
    filled("reindex", "--from-journal")
    assert filled.search("tomato") == before


def test_forgetting_asks_first_and_takes_no_for_an_answer(filled: CommandLine) -> None:
    [hit] = filled.search("ten years", "--limit", "1")
    refused = filled("forget", hit["id"], stdin="n\n", code=1)
    assert refused.err == "Forget 1 message for good? [y/N]: harken: Nothing was forgotten.\n"
    unanswered = filled("forget", hit["id"], code=2)
    assert "nobody can answer here. To do it all the same, add --yes." in unanswered.err
    assert refused.out + unanswered.out == ""
    assert filled.status()["forgotten"] == 0
    agreed = filled("forget", hit["id"], stdin="y\n")
    assert agreed.out == "Forgot 1 message. Backups made earlier still hold them.\n"
    assert files_holding(filled.home, b"ten years") == []
    assert "names nothing" in filled.fails("show", hit["id"])
    assert filled("doctor").out.startswith("All agrees")


def test_a_message_is_forgotten_by_as_much_of_its_id_as_a_terminal_shows(filled: CommandLine) -> None:
    [hit] = filled.search("ten years", "--limit", "1")
    assert "There is no message" in filled.fails("forget", hit["id"][:6], "--yes")
    said = filled("forget", hit["id"][:18], hit["id"], "--yes").out
    assert said == "Forgot 1 message. Backups made earlier still hold them.\n"
    assert files_holding(filled.home, b"ten years") == []


def test_what_is_no_message_is_refused_with_the_command_that_forgets_it(cli: CommandLine) -> None:
    uid = cli("memory", "add", "The boiler is descaled in May.", "--json").json()["id"]
    told = cli.fails("forget", uid[:18], "--yes")
    assert f"{uid[:18]} is no message but a memory. Try: harken memory forget {uid[:18]}" in told


@pytest.mark.parametrize(
    ("option", "count", "words"),
    [
        (["--conversation", "{conversation}"], 4, b"frost"),
        (["--conversation", "{conversation:.8}"], 4, b"frost"),
        (["--conversation", "garden"], 4, b"frost"),
        (["--project", "greenhouse"], 4, b"frost"),
        (["--query", "TOMATO seedlings"], 2, b"seedlings"),
    ],
)
def test_what_is_named_is_forgotten_whole_and_no_import_brings_it_back(
    filled: CommandLine, talk_home: Path, tmp_path: Path, option: list[str], count: int, words: bytes
) -> None:
    conversation = filled.search("frost")[0]["conversation_id"]
    named = [part.format(conversation=conversation) for part in option]
    facts = filled("forget", *named, "--yes", "--json").json()
    assert facts["messages"] == count
    assert facts["conversations"] == (0 if "--query" in option else 1)
    assert files_holding(filled.home, words) == []
    talk = tmp_path / "talk.jsonl"
    shutil.copy(talk_home.parent / "talk.jsonl", talk)
    again = filled("import", "jsonl", talk, "--json").json()
    assert (again["added"], again["forgotten"], again["known"]) == (0, count, 6 - count)
    assert files_holding(filled.home, words) == []
    assert filled("doctor").out.startswith("All agrees")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Name one of: ids of messages, conversations, a project, a query."),
        (["--project", "greenhouse", "--query", "tomato"], 2, "Name one of"),
        (["--query", "zeppelin", "--yes"], 2, "No message holds all of these words."),
        (["--project", "nowhere", "--yes"], 1, "There is no project nowhere. List them: harken status --projects"),
        (
            ["--conversation", "nowhere", "--yes"],
            1,
            "There is no conversation nowhere. Ids are printed by: harken list",
        ),
        (["nothing", "--yes"], 1, "There is no message nothing. Ids are printed by: harken search QUERY"),
    ],
)
def test_forgetting_what_is_not_there_forgets_nothing(
    stocked: CommandLine, arguments: list[str], code: int, words: str
) -> None:
    assert words in stocked.fails("forget", *arguments, code=code)


def test_of_a_project_in_which_nothing_was_said_nothing_is_forgotten_and_it_is_said_why(cli: CommandLine) -> None:
    (cli.home.parent / "port").mkdir()
    cli("memory", "add", "The quay is free.", "--directory", str(cli.home.parent / "port"))
    assert "The project has no conversations." in cli.fails("forget", "--project", "port", "--yes", code=2)
    assert "The quay is free." in cli("memory", "list").out


def test_a_title_made_of_words_that_are_forgotten_goes_with_them_and_no_import_brings_it_back(
    cli: CommandLine, write: Write
) -> None:
    lines = [
        {"conversation": name, "title": title, "role": "user", "content": text, "ts": f"2026-05-08T09:0{number}:00Z"}
        for number, (name, title, text) in enumerate(
            [
                ("a", "The zeppelinflight for grandm…", "The zeppelinflight for grandmother is a surprise."),
                ("a", "The zeppelinflight for grandm…", "And who books it?"),
                ("b", "Of an old marmalade", "Who has the recipe?"),
                ("c", "Plans for the orchard", "Where do the cherry trees go?"),
                ("c", "Plans for the orchard", "Beside the zeppelinflight hangar."),
            ]
        )
    ]
    talk = write("talk.jsonl", lines)
    cli("import", "jsonl", talk)
    cli("forget", "--query", "zeppelinflight", "--yes")
    cli("forget", "--query", "recipe", "--yes")
    talk.write_text(talk.read_text() + "\n")
    cli("import", "jsonl", talk)
    for command in (["doctor"], ["reindex", "--from-journal"], ["doctor"]):
        cli(*command)
        assert files_holding(cli.home, b"zeppelinflight") == files_holding(cli.home, b"marmalade") == []
    assert len(files_holding(cli.home / "conversations", b"Plans for the orchard")) == 1


def test_the_old_words_of_an_edited_memory_leave_the_journal(cli: CommandLine) -> None:
    uid = cli("memory", "add", "The gate code is zeppelinflight", "--category", "fact", "--json").json()["id"]
    cli("memory", "add", "The hedge is cut in June", "--category", "fact")
    cli("memory", "edit", uid, "The gate code is with the porter")
    assert files_holding(cli.home / "conversations", b"zeppelinflight") == []
    assert cli("doctor").out.startswith("All agrees")
    cli("reindex", "--from-journal")
    listed = cli("memory", "list").out
    assert "porter" in listed
    assert "hedge" in listed


def test_a_backup_restores_everything_elsewhere(filled: CommandLine, tmp_path: Path) -> None:
    hits = filled.search("tomato")
    filled("forget", hits[0]["id"], "--yes")
    file = tmp_path / "backups" / "harken.tar.gz"
    assert filled("backup", file).out.startswith(f"{file}: ")
    assert "exists. Name a file that does not." in filled.fails("backup", file, code=2)
    assert "has a store already. Restore into another home" in filled.fails("restore", file, code=2)
    other = CommandLine(tmp_path / "elsewhere", filled.person, filled.settings)
    assert other("restore", file).out == f"{other.home} holds 5 messages.\n"
    again = tmp_path / "again.tar.gz"
    assert other("backup", again, "--json").json() == {"file": str(again), "bytes": again.stat().st_size}
    third = CommandLine(tmp_path / "third", filled.person, filled.settings)
    assert third("restore", again, "--json").json() == {"home": str(third.home), "messages": 5}
    assert other.search("tomato") == filled.search("tomato")
    assert other("doctor").out.startswith("All agrees")
    assert other.status()["forgotten"] == 1


def test_what_is_restored_beside_a_store_that_the_settings_name_elsewhere_is_not_said_to_be_in_use(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.home.mkdir(exist_ok=True)
    (cli.home / "harken.toml").write_text(f"store = 'sqlite:///{tmp_path}/plain.db'\n")
    cli("memory", "add", "The key hangs by the door", "--category", "fact")
    cli("backup", tmp_path / "harken.tar.gz")
    (tmp_path / "plain.db").unlink()
    other = CommandLine(tmp_path / "elsewhere", cli.person, cli.settings)
    said = other.fails("restore", tmp_path / "harken.tar.gz")
    assert said.startswith(f"{other.home}/harken.db is what was restored, but the settings name another store")
    (other.home / "harken.db").rename(tmp_path / "plain.db")
    assert "The key hangs by the door" in other("memory", "list").out


@pytest.mark.parametrize("content", [b"", b"no archive", b"cut short"])
def test_a_file_that_is_no_whole_backup_is_refused_and_leaves_no_store(
    filled: CommandLine, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "harken.tar.gz"
    if content == b"cut short":
        filled("backup", file)
        content = file.read_bytes()[:-2000]
    file.write_bytes(content)
    other = CommandLine(tmp_path / "elsewhere", filled.person, filled.settings)
    assert "is not a backup of Harken" in other.fails("restore", file, code=2)
    assert list(other.home.iterdir()) == []


def test_reindexing_makes_the_same_store_again(filled: CommandLine) -> None:
    assert "name no embedding model" in filled.fails("reindex", code=2)
    before = filled.search("tomato"), filled.status()
    assert filled("reindex", "--from-journal").out == "The database holds 6 messages of the journal.\n"
    after = filled.search("tomato"), filled.status()
    assert after[0] == before[0]
    assert {**after[1], "bytes": None} == {**before[1], "bytes": None}


def test_a_store_without_a_journal_says_that_there_is_nothing_to_reindex_from(
    cli: CommandLine, tmp_path: Path, write: Write
) -> None:
    store = f"sqlite:///{tmp_path / 'plain.db'}"
    path = write("one.jsonl", [{"conversation": "x", "role": "user", "content": "An ocelot."}])
    assert cli("--store", store, "import", path, "--json").json()["added"] == 1
    assert json.loads(cli("--store", store, "doctor", "--json").out)["ok"] is True
    assert "keeps no journal" in cli.fails("--store", store, "reindex", "--from-journal", code=2)
    assert not (cli.home / "conversations").exists()


def test_a_file_is_spread_over_no_cluster(cli: CommandLine) -> None:
    assert "this store is an embedded file" in cli.fails("migrate", "--distribute", code=2)
