"""What was typed in earlier chats, for the arrow keys: a file of one's own, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from harken.files import make_private

_KEPT_LINES = 1000


class TypedLines:
    """Keeps what is typed, one JSON string a line, readable by its owner alone.

    Args:
        path: the file; made with the first line.
        redacted: takes secrets out of a text; a line that it changes is not kept at all.
    """

    def __init__(self, path: Path, redacted: Callable[[str], str]) -> None:
        self._path = path
        self._redacted = redacted

    def load(self) -> list[str]:
        """The newest lines, oldest first; what cannot be read is passed over."""
        try:
            written = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(written) > 2 * _KEPT_LINES:
            written = written[-_KEPT_LINES:]
            self._replace(written)
        found = map(_line, written[-_KEPT_LINES:])
        return [line for line in found if line]

    def keep(self, text: str) -> None:
        """Add a line, unless it holds a secret; a disk that refuses costs the history, not the chat."""
        if self._redacted(text) != text:
            return
        try:
            make_private(self._path.parent)
            self._write(self._path, os.O_APPEND, [json.dumps(text, ensure_ascii=False)])
        except OSError:
            return

    def _replace(self, lines: list[str]) -> None:
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            self._write(fresh, os.O_TRUNC, lines)
            fresh.replace(self._path)
        except OSError:
            return

    def _write(self, path: Path, how: int, lines: list[str]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
            file.write("".join(f"{line}\n" for line in lines))


def _line(written: str) -> str:
    try:
        found = json.loads(written)
    except ValueError:
        return ""
    return found if isinstance(found, str) else ""
