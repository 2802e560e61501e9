"""Help, the version and completion are quick: they import nothing of what carries commands out."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import click
import pytest

from command_line import CommandLine
from harken.serve.cli.commands import command_of
from harken.serve.cli.main import COMMANDS
from harken.serve.cli.main import cli as commands
from harken.serve.operations.registry import COMMANDS as MADE_OF_OPERATIONS
from harken.serve.team import people, spaces

HEAVY = {
    "numpy",
    "sqlalchemy",
    "pydantic",
    "rich",
    "structlog",
    "httpx",
    "starlette",
    "harken.engine",
    "harken.storage",
}


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--help",), *((name, "--help") for name in ("search", "memory", "import", "serve", "key"))],
)
def test_help_imports_nothing_heavy(cli: CommandLine, words: tuple[str, ...]) -> None:
    assert not cli.imports(*words)[1] & HEAVY


@pytest.mark.parametrize("typed", ["harken ", "harken sea", "harken memory ", "harken search --", "harken worker r"])
def test_completion_imports_nothing_heavy(cli: CommandLine, typed: str) -> None:
    words = typed.split(" ")
    asked = {"_HARKEN_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    assert not cli.imports(settings=asked)[1] & HEAVY


@pytest.mark.parametrize("words", [("status",), ("list",), ("search", "tomato", "--mode", "keyword")])
def test_who_opens_a_store_pays_for_nothing_else(stocked: CommandLine, words: tuple[str, ...]) -> None:
    done, imported = stocked.imports(*words)
    assert done.code == 0, done.err
    assert "harken.engine" in imported
    unused = {"pydantic", "rich", "structlog", "alembic", "httpx", "starlette", "mcp", "onnxruntime", "tokenizers"}
    # Whoever ranks does so by arrays.
    assert not imported & (unused if words[0] == "search" else {*unused, "numpy"})


def test_the_help_alone_imports_no_command(cli: CommandLine) -> None:
    assert not any(name.startswith("harken.serve.cli.talking") for name in cli.imports("--help")[1])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_of_each_command_what_it_says_of_itself(name: str) -> None:
    command = commands.command_named(name)
    assert command.name == name
    first = inspect.cleandoc(command.help or "").split("\n\n")[0]
    assert COMMANDS[name][1] == " ".join(first.split())


def test_a_working_folder_that_was_deleted_is_in_nobodys_way(cli: CommandLine, tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); sys.argv = ['harken', 'status']"
    script += "; from harken.serve.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=gone,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "0 in 0 conversations" in done.stdout, done.stderr


def test_every_operation_of_people_is_a_command() -> None:
    of_team = {each.words: each for each in (*people.OPERATIONS, *spaces.OPERATIONS) if each.show is not None}
    for path, operation in {**MADE_OF_OPERATIONS, **of_team}.items():
        first, *rest = path.split()
        command = commands.command_named(first)
        for word in rest:
            assert isinstance(command, click.Group)
            command = command.commands[word]
        assert command.help == command_of(operation).help
