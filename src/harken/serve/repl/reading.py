"""What a person says: plain lines of any stdin."""

from __future__ import annotations

import sys
from typing import Protocol

CONTINUES = "\\"


class Reader(Protocol):
    """Where a chat's lines come from."""

    def read(self) -> str | None:
        """What was said or typed next, one line or several, empty where it was given up; None at the end."""
        ...


class PlainReader:
    """Lines of stdin as they are, without a word of its own; a backslash at a line's end continues it."""

    def read(self) -> str | None:
        """See `Reader.read`."""
        lines: list[str] = []
        while line := sys.stdin.readline():
            line = line.removesuffix("\n")
            if not line.endswith(CONTINUES):
                return "\n".join([*lines, line])
            lines.append(line.removesuffix(CONTINUES))
        return "\n".join(lines) if lines else None
