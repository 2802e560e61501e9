"""Commands in the documents, and what they are said to print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from command_line import CommandLine

Step = tuple[list[str], list[str]]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def steps(text: str) -> list[Step]:
    """Each command with the lines that it is said to print; `…` stands for anything."""
    found: list[Step] = []
    for line in "".join(blocks(text, "console")).splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line[2:]), []))
        else:
            found[-1][1].append(line)
    return found


def follow(tour: CommandLine, steps: Sequence[Step]) -> set[str]:
    """Run each command and look for what it is said to print, in order; which commands those were."""
    done = set()
    for (program, *arguments), expected in steps:
        assert program == "harken"
        printed = tour(*arguments).out
        place = 0
        for part in (part.strip(" ") for line in expected for part in line.split("…")):
            place = printed.find(part, place)
            assert place >= 0, f"harken {' '.join(arguments)} does not print {part!r} here:\n{printed}"
            place += len(part)
        done.add(arguments[0])
    return done
