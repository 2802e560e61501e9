"""What a failed test or build is about: its words, and what tells whether it is the same one again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harken.sources.check_commands import check_command, command_line
from harken.sources.check_results import FAILED, check_result, told_lines
from harken.words import STOP_WORDS

# What changes from one run to the next although nothing else has failed.
_PASSING = re.compile(
    r"=*\s?(?:\d+ \w+, )*\d+ \w+\b.* in [\d.]+m?s.*"  # pytest's last line
    r"|0x[0-9a-f]+|\b[\d.]+\s?(?:ms|s|sec|seconds|m|min)\b"
    r"|:\d+(?::\d+)?\b|\(\d+(?:[,:]\d+)?\)|\bline \d+"
    r"|/(?:tmp|var/folders)/\S*?(?=/[^/\s]+(?:\s|$)|\s|$)",
    re.IGNORECASE,
)
_NAME_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]{2,}")
# By these words alone, experiences that had nothing to do with a failure were as near to it as 0.68 (cosine, bundled
# model, 82 experiences), where 0.6 is asked.
_FRAME_WORDS = """
    fail fails failed failing failure failures error errors err fatal panicked assert assertion assertionerror
    assertionfailed expect expected received actual test tests testing spec specs suite suites case passed passing
    skipped total ran found exit code warning warnings thread main line lines file files src lib build make makefile
    ninja npm py js ts tsx jsx rs go java kt cpp cc none true false
"""
_FRAME = STOP_WORDS | set(_FRAME_WORDS.split())


@dataclass(frozen=True, slots=True)
class Failure:
    """A test or build that failed.

    Attributes:
        check: the command.
        told: the lines that say what failed.
    """

    check: str
    told: str

    @property
    def words(self) -> str:
        """What it is about, for a search: names taken apart, without the words that every failure is told in.

        Empty where that leaves less than two, so that nothing could be found but by chance.
        """
        plain = " ".join(_plain(line) for line in self.told.splitlines())
        found = dict.fromkeys(word.lower() for word in _WORD.findall(_NAME_BORDER.sub(" ", plain)))
        kept = [word for word in found if word not in _FRAME]
        return " ".join(kept) if sum(not word.isdigit() for word in kept) > 1 else ""

    @property
    def cause(self) -> str:
        """An id that is the same for the same lines of the same command, whatever they took and in whatever order."""
        lines = sorted({plain for line in self.told.splitlines() if (plain := _plain(line))})
        digest = hashlib.sha256("\n".join([" ".join(self.check.split()), *lines]).encode("utf-8", "surrogatepass"))
        return f"cause-{digest.hexdigest()[:32]}"


def failure_of(tool_name: str, given: str, printed: str, facts: Mapping[str, Any]) -> Failure | None:
    """The failure that a tool's call came to; None where it ran no test or build, or that did not fail.

    Args:
        tool_name: as the agent calls the tool.
        given: what it was given: a command, or JSON that holds one.
        printed: what came of it.
        facts: `exit_code` or `is_error`, where the agent tells.
    """
    check = check_command(command_line(tool_name, given))
    if check is None or check_result(check, "", printed, facts) != FAILED:
        return None
    return Failure(check.check, told_lines(printed, FAILED))


def _plain(line: str) -> str:
    return " ".join(_PASSING.sub(" ", line).split())
