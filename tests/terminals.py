"""A real pseudo-terminal with `harken chat`, or another command, in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pexpect
from pexpect.fdpexpect import fdspawn

from command_line import FORKS, PYTHON, TIMEOUT_SECONDS, CommandLine, warm_start
from warm_start import WarmProcess

_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")
# How the prompt begins: pasted lines are to be told from typed ones.
_PROMPTING = "\x1b[?2004h"
WITHOUT_TERMINALS = sys.platform == "win32"
LINES, COLUMNS = 40, 120
# Longer than a program takes to change how its terminal works after it has shown something.
_REACTION_SECONDS = 0.05

if not WITHOUT_TERMINALS:
    import fcntl
    import pty
    import termios


@dataclass
class Terminal:
    """What a person at a keyboard does and sees."""

    process: subprocess.Popen[Any]
    screen: fdspawn[str]
    seen: str = ""

    def sends(self, keys: str) -> None:
        """What keys make."""
        time.sleep(_REACTION_SECONDS)
        self.screen.send(keys)

    def types(self, line: str) -> None:
        """A line, and Enter."""
        self.sends(f"{line}\r")

    def presses(self, letter: str) -> None:
        """A letter together with Ctrl."""
        self.sends(chr(ord(letter) & 0x1F))

    def sees(self, words: str) -> str:
        """Wait until words are shown, however the lines break; everything up to them, as a person reads it."""
        self.screen.expect(r"\s+".join(map(re.escape, words.split(" "))))
        shown = _ESCAPES.sub("", f"{self.screen.before}{words}")
        self.seen += shown
        return shown

    def waits_for_prompt(self) -> None:
        """Wait until something can be typed."""
        self.sees(_PROMPTING)

    def ends(self) -> tuple[int, str]:
        """Wait for the end; the exit code, and what was shown after the last that was waited for."""
        self.screen.expect(pexpect.EOF)
        return self.process.wait(TIMEOUT_SECONDS), _ESCAPES.sub("", self.screen.before or "").replace("\r", "")

    def closes(self) -> int:
        """Close it, as a window is closed; the exit code of what ran in it."""
        self.screen.close()
        return self.process.wait(TIMEOUT_SECONDS)


@contextmanager
def terminal(cli: CommandLine, *arguments: str, command: str = "chat") -> Iterator[Terminal]:
    """`harken chat`, or another command, in a terminal of 40 lines; killed at the latest with the block."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (LINES, COLUMNS))
    silent = termios.tcgetattr(theirs)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, silent)
    try:
        process = _started(cli, (command, *arguments), theirs)
    finally:
        os.close(theirs)
    shown = Terminal(process, fdspawn(ours, encoding="utf-8", timeout=TIMEOUT_SECONDS))
    try:
        yield shown
    finally:
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        shown.screen.close()


def _started(cli: CommandLine, words: tuple[str, ...], theirs: int) -> subprocess.Popen[Any]:
    """A command whose own terminal is this one."""
    environment = cli.environment({"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "LINES": str(LINES)})
    streams: dict[str, Any] = {"env": environment, "stdin": theirs, "stdout": theirs, "stderr": theirs}
    if FORKS and not cli.cold:
        return WarmProcess(warm_start(), words, terminal=True, **streams)

    def own() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return subprocess.Popen([*PYTHON, *words], start_new_session=True, preexec_fn=own, **streams)
