"""`harken import` in all its forms."""

from __future__ import annotations

import json
import shutil
import signal
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine, rows

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]

CLAUDE_CODE = (
    {
        "type": "user",
        "sessionId": "s-1",
        "uuid": "u-1",
        "parentUuid": None,
        "timestamp": "2026-05-08T09:00:00Z",
        "cwd": "/nowhere/project",
        "message": {"role": "user", "content": "Where does the marmalade live?"},
    },
    {
        "type": "assistant",
        "sessionId": "s-1",
        "uuid": "u-2",
        "parentUuid": "u-1",
        "timestamp": "2026-05-08T09:00:05Z",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "In the cupboard on the left."}]},
    },
)
CODEX = (
    {
        "timestamp": "2026-05-09T09:00:00Z",
        "type": "session_meta",
        "payload": {"id": "019c8a4c-ed82-79a1-aa28-7738fc5ab61a", "cwd": "/nowhere/project"},
    },
    {
        "timestamp": "2026-05-09T09:00:01Z",
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Name the quokka."}],
        },
    },
    {
        "timestamp": "2026-05-09T09:00:02Z",
        "type": "response_item",
        "payload": {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "The quokka is called Bob."}],
        },
    },
)
CHATGPT = {
    "id": "chat-1",
    "title": "Lighthouses",
    "create_time": 1778230000.0,
    "current_node": "b",
    "mapping": {
        "a": {
            "id": "a",
            "parent": None,
            "children": ["b"],
            "message": {
                "id": "a",
                "author": {"role": "user"},
                "create_time": 1778230000.0,
                "content": {"content_type": "text", "parts": ["How tall is a lighthouse?"]},
            },
        },
        "b": {
            "id": "b",
            "parent": "a",
            "children": [],
            "message": {
                "id": "b",
                "author": {"role": "assistant"},
                "create_time": 1778230010.0,
                "content": {"content_type": "text", "parts": ["Some forty metres."]},
            },
        },
    },
}
CLAUDE_AI = {
    "uuid": "ai-1",
    "name": "Kites",
    "created_at": "2026-05-10T09:00:00Z",
    "chat_messages": [
        {"uuid": "m-1", "sender": "human", "text": "Which kite flies best?", "created_at": "2026-05-10T09:00:00Z"},
        {"uuid": "m-2", "sender": "assistant", "text": "A delta kite.", "created_at": "2026-05-10T09:00:09Z"},
    ],
}


def lay_out(folder: Path, lines: Iterable[Any], name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder / name


def test_without_arguments_it_finds_the_agents_of_this_machine(cli: CommandLine, tmp_path: Path) -> None:
    lay_out(tmp_path / "claude/projects/-nowhere", CLAUDE_CODE, "s-1.jsonl")
    lay_out(tmp_path / "codex/sessions/2026/05/09", CODEX, "rollout-2026-05-09T09-00-00-x.jsonl")
    agents = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex")}
    first = cli("import", settings=agents)
    assert first.out == "4 new messages in 2 conversations from 2 files (0 known already, 0 files unchanged).\n"
    assert f"Found claude-code: {tmp_path / 'claude/projects'}\n" in first.err
    assert f"Found codex: {tmp_path / 'codex/sessions'}\n" in first.err
    assert first.err.endswith('Try: harken search "what you remember of it"\n')
    again = cli("import", "codex", settings=agents)
    assert again.out == "0 new messages in 0 conversations from 1 file (0 known already, 1 file unchanged).\n"


def test_with_a_folder_alone_it_tells_every_format_by_the_files(cli: CommandLine, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    session = lay_out(exports / "a", CLAUDE_CODE, "s-1.jsonl")
    lay_out(exports / "b", CODEX, "rollout-2026-05-09T09-00-00-x.jsonl")
    lay_out(exports, [{"conversation": "x", "role": "user", "content": "A wombat."}, {"no": "message"}], "own.jsonl")
    lay_out(exports, [{"name": "no transcript"}], "package.json")
    (exports / "c.json").write_text(json.dumps([CLAUDE_AI]), encoding="utf-8")
    with zipfile.ZipFile(exports / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT]))
    outcome = cli("import", str(exports), "--json")
    assert outcome.err.splitlines() == [
        "Found claude-code: 1 file",
        "Found codex: 1 file",
        "Found chatgpt: 1 file",
        "Found claude-ai: 1 file",
        "Found jsonl: 1 file",
        "Passed over, of no known format: 1 file",
    ]
    facts = outcome.json()
    assert (facts["files"], facts["added"], facts["conversations"], facts["failed"]) == (5, 9, 5, [])
    assert [(Path(bad["path"]).name, bad["line"]) for bad in facts["unreadable"]] == [("own.jsonl", 2)]
    for word, role in (
        ("marmalade", "user"),
        ("quokka Bob", "assistant"),
        ("forty metres", "assistant"),
        ("delta", ""),
    ):
        assert any(role in hit["role"] for hit in cli.search(word)), word
    # Named by its format, a file that was recognised before is the same file.
    facts = cli("import", "claude-code", str(session), "--json", "--no-embed").json()
    assert (facts["unchanged"], facts["added"], facts["embedded"]) == (1, 0, None)


def test_a_session_that_begins_with_many_snapshots_is_known_by_them(cli: CommandLine, tmp_path: Path) -> None:
    snapshots = [{"type": "file-history-snapshot", "messageId": str(n), "isSnapshotUpdate": False} for n in range(30)]
    session = lay_out(tmp_path / "old", [*snapshots, *CLAUDE_CODE], "s-1.jsonl")
    assert cli("import", str(session)).out.startswith("2 new messages in 1 conversation from 1 file")


def test_a_grown_file_adds_its_tail_and_a_rewritten_one_what_is_new(cli: CommandLine, tmp_path: Path) -> None:
    session = lay_out(tmp_path, CLAUDE_CODE[:1], "s-1.jsonl")
    assert cli("import", str(session), "--json").json()["added"] == 1
    lay_out(tmp_path, CLAUDE_CODE, "s-1.jsonl")
    grown = cli("import", str(session), "--json").json()
    assert (grown["added"], grown["known"]) == (1, 0)
    shorter = {**CLAUDE_CODE[1], "uuid": "u-3", "message": {"role": "assistant", "content": "On the right, I meant."}}
    lay_out(tmp_path, [shorter, CLAUDE_CODE[1]], "s-1.jsonl")
    rewritten = cli("import", str(session), "--json").json()
    assert (rewritten["added"], rewritten["known"]) == (1, 1)
    assert cli.status()["messages"] == 3


def test_lines_that_cannot_be_read_are_named_and_stop_nothing(cli: CommandLine, tmp_path: Path) -> None:
    good = json.dumps({"conversation": "x", "role": "user", "content": "A platypus."})
    broken = [json.dumps({"conversation": "x", "role": "pope", "content": str(number)}) for number in range(12)]
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join([good, "{", *broken, good.replace("platypus", "pangolin")]) + "\n", encoding="utf-8")
    (tmp_path / "locked.json").write_text("[1]", encoding="utf-8")
    outcome = cli("import", "jsonl", str(path))
    assert outcome.out.startswith("2 new messages in 1 conversation from 1 file ")
    assert f"Unreadable: {path}:2: is not JSON\n" in outcome.err
    assert f"Unreadable: {path}:3: 'role' is not one of" in outcome.err
    assert "… and 3 more lines; all of them: --json\n" in outcome.err
    failed = cli("import", "chatgpt", str(tmp_path / "locked.json"), "--json", code=1).json()
    assert [Path(bad["path"]).name for bad in failed["failed"]] == ["locked.json"]
    assert "holds no chatgpt conversation" in failed["failed"][0]["reason"]


def test_a_file_in_which_nothing_can_be_read_ends_with_an_error(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "strange.jsonl"
    path.write_text(
        '{"role": "user", "content": "A platypus."}\n{"conversation": 1, "role": "user", "content": ""}\n{}\n'
    )
    outcome = cli("import", "jsonl", path, code=1)
    assert outcome.out.startswith("0 new messages in 0 conversations from 1 file ")
    assert outcome.err.splitlines() == [
        f"Unreadable: {path}:1: 'conversation' is missing",
        f"Unreadable: {path}:2: 'conversation' is not a text",
        f"Unreadable: {path}:3: 'conversation' is missing",
        "harken: Nothing was imported, for nothing in it could be read.",
    ]


def test_a_file_of_another_format_than_was_named_is_told_by_itself(cli: CommandLine, write: Write) -> None:
    path = write("talk.jsonl", [{"conversation": "zoo", "role": "user", "content": "A platypus."}])
    assert cli("import", "claude-code", path).err.splitlines() == [
        "Nothing in it is of this format. Without one it is told by the files: harken import PATH"
    ]
    assert cli("import", "--no-embed", path).out.startswith("1 new message ")
    assert "of this format" not in cli("import", "jsonl", path).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No history was found on this machine. Name files: harken import FORMAT PATH"),
        (["codex"], "No history of codex was found on this machine."),
        (["word-perfect"], "'word-perfect' is neither a file nor a format. Formats: claude-code, codex, chatgpt"),
        (["codex", "/no/such/place"], "/no/such/place does not exist."),
        (
            ["jsonl", "/dev/null"],
            "/dev/null is neither a file nor a folder. What comes through a pipe is saved to a file first.",
        ),
        ([__file__], "Name its format: claude-code"),
        ([__file__, "/no/such/place"], "/no/such/place does not exist."),
        (["codex", ""], "A path that is empty does not exist."),
        ([""], "A path that is empty does not exist."),
        (["--no-embad"], "See: harken import --help"),
    ],
)
def test_an_import_that_cannot_be_meant_is_one_line_and_exit_code_2(
    cli: CommandLine, arguments: list[str], words: str
) -> None:
    assert words in cli.fails("import", *arguments, code=2)


def test_ctrl_c_ends_an_import_with_130_and_the_next_run_completes_it(
    cli: CommandLine, write: Write, tmp_path: Path
) -> None:
    total = 3000
    lines = ({"conversation": f"c{n % 50}", "role": "user", "content": f"thing {n}"} for n in range(total))
    path = write("many.jsonl", lines)
    for _ in range(20):
        out, err = (tmp_path / "out").open("w"), (tmp_path / "err").open("w")
        with out, err, cli.running("import", "jsonl", path, stdout=out, stderr=err) as process:
            while process.poll() is None and rows(cli.home, "messages") < total / 5:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            code = process.wait(TIMEOUT_SECONDS)
        if rows(cli.home, "messages") < total:
            break
        # On a machine under load it may be done before this process has its turn.
        shutil.rmtree(cli.home)
    assert code == 130, (tmp_path / "err").read_text()
    assert (tmp_path / "out").read_text().endswith("(0 known already, 0 files unchanged).\n")
    kept = "harken: stopped; what was done is kept, and the next run goes on from there."
    assert (tmp_path / "err").read_text().strip() == kept
    before = cli.status()["messages"]
    assert 0 < before < total
    facts = cli("import", "jsonl", path, "--json").json()
    assert (facts["added"], facts["known"]) == (total - before, before)
    assert cli("doctor").out.startswith("All agrees")
