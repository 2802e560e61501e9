"""What every command shares: exit codes, clean outputs, the ways to start it and to end it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import PYTHON, TIMEOUT_SECONDS, CommandLine
from harken import __version__
from harken.serve.cli.main import COMMANDS as EVERY_COMMAND
from harken.serve.cli.main import SECTIONS

COMMANDS = (
    "chat",
    "new",
    "model",
    "import",
    "search",
    "show",
    "context",
    "core",
    "status",
    "config",
    "doctor",
    "forget",
    "reindex",
    "backup",
    "restore",
)


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Whose commands have a process each: these tests are what is claimed of such."""
    return replace(cli, apart=True)


def test_the_module_and_the_console_script_are_the_same_program(cli: CommandLine) -> None:
    version = replace(cli, cold=True)("--version").out
    assert version == f"harken, version {__version__}\n"
    script = Path(sys.executable).with_name("harken")
    if not script.exists():
        pytest.skip(f"Harken is not installed beside {sys.executable}")
    done = subprocess.run([script, "--version"], env=cli.environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == version


@pytest.mark.parametrize(
    "words",
    [("--help",), ("list",), ("show", "1", "--json"), ("search", "tomato"), ("search",), ("list", "--agent", "x")],
)
def test_where_most_tests_run_a_command_it_says_what_it_says_in_a_process(
    stocked: CommandLine, words: tuple[str, ...]
) -> None:
    here, apart = stocked.run(*words), replace(stocked, apart=True).run(*words)
    assert (here.returncode, here.stdout, here.stderr) == (apart.returncode, apart.stdout, apart.stderr)
    assert here.stdout or here.stderr


@pytest.mark.no_home
def test_every_command_explains_itself(cli: CommandLine) -> None:
    overview = cli("--help").out
    assert "Start with `harken setup`" in overview
    for command in COMMANDS:
        assert f"\n  {command} " in overview
    assert cli("worker", "-h").out.count("\n  ") >= 3
    assert not cli.home.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["remember"], "No such command 'remember'. See: harken --help"),
        (["status", "--frobnicate"], "--frobnicate"),
        (["show"], "Missing argument 'ID'. See: harken show --help"),
        (["show", "x", "--around", "-1"], "'--around': -1 is not in the range"),
        (["restore", "/no/such/file"], "'/no/such/file' does not exist. See: harken restore --help"),
        (["premortem"], "Choose from: debugging, refactoring, feature"),
        (["experience", "start", "--domain", "debugging"], "Choose from: systematic-elimination, trial-and-error"),
        (["worker", "walk"], "No such command 'walk'. Commands: retry, run, status. See: harken worker --help"),
    ],
)
def test_misuse_is_one_line_on_stderr_and_exit_code_2(cli: CommandLine, arguments: list[str], words: str) -> None:
    assert words in cli.fails(*arguments, code=2)


@pytest.mark.no_home
def test_no_command_at_all_is_a_question_for_help_and_is_answered(cli: CommandLine) -> None:
    outcome = cli()
    assert outcome.out == cli("--help").out
    assert outcome.err == ""
    # A group alone is half a command.
    assert "Commands:" in cli("worker", code=2).err


@pytest.mark.no_home
def test_help_stands_in_groups_and_no_line_of_it_is_cut(cli: CommandLine) -> None:
    overview = cli("--help").out
    headings = [overview.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert headings == sorted(headings)
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(EVERY_COMMAND)
    assert "..." not in overview.split("Every day:")[1]
    flat = " ".join(overview.split())
    for _module, line in EVERY_COMMAND.values():
        assert line in flat


@pytest.mark.no_home
@pytest.mark.parametrize("group", ["memory", "rag", "commits", "team"])
def test_no_line_of_a_groups_help_is_cut(cli: CommandLine, group: str) -> None:
    listed = cli(group, "--help").out.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed


def test_a_home_that_cannot_be_is_one_line_and_exit_code_1(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in cli.fails("--home", tmp_path / "file" / "home", "status")
    assert "there is no engine 'mysql'. Use sqlite:///PATH or postgresql://" in cli.fails(
        "--store", "mysql://x", "status"
    )
    refused = cli.fails("--store", "postgresql://me:secret@host:port/team", "status")
    assert ("is no URL" in refused, "secret" in refused) == (True, False)


@pytest.mark.no_home
def test_the_home_of_the_command_line_wins_over_the_environment(cli: CommandLine, tmp_path: Path) -> None:
    assert cli("--home", tmp_path / "other", "status", "--json").json()["home"] == str(tmp_path / "other")
    assert not cli.home.exists()


def test_a_reader_that_goes_away_is_no_error_worth_words(stocked: CommandLine) -> None:
    with stocked.running("search", "tomato", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(TIMEOUT_SECONDS) == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_that_is_started_without_a_stream_goes_without_it(cli: CommandLine, closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *PYTHON]
    for words in (("memory", "add", "The goats are milked at six", "--category", "fact"), ("list",)):
        done = subprocess.run([*command, *words], env=cli.environment(), capture_output=True, check=False)
        assert (done.returncode, b"unexpected" in done.stderr) == (0, False), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_an_answer_that_finds_no_room_says_why(stocked: CommandLine) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with stocked.running("list", stdout=full, stderr=subprocess.PIPE) as process:
        os.close(full)
        assert process.stderr is not None
        assert process.stderr.read() == "harken: No space left on device\n"
        assert process.wait(TIMEOUT_SECONDS) == 1


def test_what_a_locale_has_no_letter_for_is_told_by_its_number(cli: CommandLine) -> None:
    said = "the mill at Łódź is closed"
    cli("memory", "add", said, settings={"HARKEN_EMBEDDER": "none"})
    ascii_only = replace(cli, cold=True, settings={**cli.settings, "PYTHONIOENCODING": "ascii"})
    assert [memory["content"] for memory in ascii_only("memory", "list", "--json").json()] == [said]
    assert "\\u0141" in ascii_only("memory", "list").out


def test_an_empty_home_is_none_named(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("--home", "", "status", "--json").json()["home"] == str(cli.home)
    tab = {"_HARKEN_COMPLETE": "zsh_complete", "COMP_WORDS": "harken --home ", "COMP_CWORD": "2"}
    assert replace(cli, cold=True)(settings=tab).out.startswith("file\n"), "a Tab offers files"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_gets_a_progress_bar_with_counts_beside_the_answer(cli: CommandLine, tmp_path: Path) -> None:
    import pty

    lines = [{"conversation": "c", "role": "user", "content": f"A word about {number}"} for number in range(1200)]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ours, theirs = pty.openpty()
    shown = b""
    with cli.running("import", tmp_path / "talk.jsonl", stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        # A pseudo-terminal whose other end is closed answers with an error instead of nothing.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 4096):
                shown += chunk
        os.close(ours)
        answer, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert answer.startswith("1,200 new messages in 1 conversation from 1 file ")
    assert b"Importing jsonl" in shown
    assert b"1 of 1 file, 1,200 new messages" in shown


def test_the_log_is_shown_on_demand_and_holds_no_words_of_anybody(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('["A secretive numbat"]', encoding="utf-8")
    quiet = cli("import", "chatgpt", tmp_path / "bad.json", code=1)
    loud = cli("--verbose", "import", "chatgpt", tmp_path / "bad.json", code=1)
    assert "event='transcript_failed'" not in quiet.err
    assert "event='transcript_failed'" in loud.err
    assert "numbat" not in quiet.err + loud.err
    assert loud.out == quiet.out
