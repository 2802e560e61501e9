"""A real pseudo-terminal with `harken chat`, or another command, in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pexpect

from command_line import PYTHON, TIMEOUT_SECONDS, CommandLine

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")
# How the prompt begins: pasted lines are to be told from typed ones.
_PROMPTING = "\x1b[?2004h"
WITHOUT_TERMINALS = sys.platform == "win32"


@dataclass
class Terminal:
    """What a person at a keyboard does and sees."""

    child: pexpect.spawn[str]
    seen: str = ""

    def types(self, line: str) -> None:
        """A line, and Enter."""
        self.child.send(f"{line}\r")

    def presses(self, letter: str) -> None:
        """A letter together with Ctrl."""
        self.child.sendcontrol(letter)

    def sees(self, words: str) -> str:
        """Wait until words are shown; everything up to them, as a person reads it."""
        self.child.expect_exact(words)
        shown = _ESCAPES.sub("", f"{self.child.before}{words}")
        self.seen += shown
        return shown

    def waits_for_prompt(self) -> None:
        """Wait until something can be typed."""
        self.sees(_PROMPTING)

    def ends(self) -> tuple[int | None, str]:
        """Wait for the end; the exit code, and what was shown after the last that was waited for."""
        self.child.expect(pexpect.EOF)
        self.child.wait()
        return self.child.exitstatus, _ESCAPES.sub("", self.child.before or "").replace("\r", "")


@contextmanager
def terminal(cli: CommandLine, *arguments: str, command: str = "chat") -> Iterator[Terminal]:
    """`harken chat`, or another command, in a terminal of 40 lines; killed at the latest with the block."""
    environment = cli.environment({"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "LINES": "40"})
    child = pexpect.spawn(
        PYTHON[0],
        [*PYTHON[1:], command, *arguments],
        env=environment,
        encoding="utf-8",
        dimensions=(40, 120),
        timeout=TIMEOUT_SECONDS,
        echo=False,
    )
    try:
        yield Terminal(child)
    finally:
        child.close(force=True)
