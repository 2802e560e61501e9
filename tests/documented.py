"""Examples in the documents: what they are said to print, run at a command line or by a shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from command_line import FORKS, TIMEOUT_SECONDS, CommandLine, warm_start

ROOT = Path(__file__).resolve().parents[1]
# Every page that shows examples to its readers.
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "plugins").rglob("*.md")))
}
Step = tuple[str, list[str]]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n)+")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language; without one, those indented by four."""
    if language == "indented":
        return [re.sub(r"^    ", "", found, flags=re.MULTILINE) for found in _INDENTED.findall(_BLOCK.sub("", text))]
    return [block for named, block in _BLOCK.findall(text) if named == language]


def every_block(*languages: str) -> list[tuple[str, str, str]]:
    """(page, language, block) of every page; of all languages unless some are named."""
    found = [(page, language, block) for page, text in PAGES.items() for language, block in _BLOCK.findall(text)]
    found += [(page, "indented", block) for page, text in PAGES.items() for block in blocks(text, "indented")]
    return [each for each in found if not languages or each[1] in languages]


def steps(text: str) -> list[Step]:
    """Each command with the lines that it is said to print; `…` stands for anything."""
    found: list[Step] = []
    for line in "".join(blocks(text, "console")).replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def follow(tour: CommandLine, steps: Sequence[Step], folder: Path) -> set[str]:
    """Run each command and look for what it is said to print, in order; which commands of Harken those were.

    Commands begin in the current folder; a shell that another command needs has Harken in `folder`.
    """
    done = set()
    for command, expected in steps:
        program, *arguments = shlex.split(command)
        if program == "cd":
            os.chdir(arguments[0].replace("~", str(tour.person), 1))
            continue
        printed = tour(*arguments).out if program == "harken" else Shell(tour, folder).run(command)
        place = 0
        for part in (part.strip(" ") for line in expected for part in line.split("…")):
            place = printed.find(part, place)
            assert place >= 0, f"{command!r} does not print {part!r} here:\n{printed}"
            place += len(part)
        if program == "harken":
            done.add(arguments[0])
    return done


@dataclass(frozen=True)
class Shell:
    """A shell that finds `harken` as if it were installed, and git knows who commits; programs are made in a folder."""

    cli: CommandLine
    folder: Path

    def run(self, script: str, settings: Mapping[str, str] | None = None) -> str:
        """What a script prints; each of its commands must go well."""
        python = warm_start().python if FORKS else sys.executable
        self.add("harken", f'exec {shlex.quote(python)} -m harken "$@"')
        person = {f"GIT_COMMITTER_{name}": value for name, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))}
        environment = {**self.cli.environment(settings), **person}
        environment["PATH"] = f"{self.folder}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def add(self, name: str, script: str) -> None:
        """Make a program."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)


def named_commands() -> Iterator[str]:
    """Every command of Harken that a page names in a sentence, a shell example or a table, without its values."""
    for page, text in PAGES.items():
        shells = [line for _, _, block in every_block("sh", "indented") for line in block.splitlines()]
        for found in re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text)) + (shells if page == "README.md" else []):
            command = re.search(r"(?:^|[|&(] ?)harken (\S[^#)]*)", found)
            if command:
                yield command[1].partition(" | ")[0].strip()
