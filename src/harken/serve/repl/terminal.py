"""Lines typed at a terminal, with completion and the arrow keys; needs an extra."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from harken.files import make_private
from harken.serve.repl.slash import CONTINUES

_KEPT_LINES = 1000
_PROMPT = FormattedText([("bold", "> ")])


def terminal_reader(typed: TypedLines, commands: Sequence[str]) -> Callable[[], str | None]:
    """A `Reader` of the terminal; Ctrl-D on an empty line ends it, and Ctrl-C gives the line up.

    Args:
        typed: what was typed before.
        commands: to complete, with their slash.
    """
    session: PromptSession[str] = PromptSession(
        history=typed,
        completer=_Commands(commands),
        complete_while_typing=False,
        key_bindings=_keys(),
        prompt_continuation=FormattedText([("", "  ")]),
    )

    def read() -> str | None:
        try:
            return session.prompt(_PROMPT)
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read


class TypedLines(History):
    """The lines typed in earlier chats, one JSON string a line, in a file that only its owner can read.

    Args:
        path: the file; made with the first line.
        redacted: takes secrets out of a text; a line that it changes is not kept at all.
    """

    def __init__(self, path: Path, redacted: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._redacted = redacted

    def load_history_strings(self) -> list[str]:
        """The newest lines, the last one first; what cannot be read is passed over."""
        try:
            written = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(written) > 2 * _KEPT_LINES:
            written = written[-_KEPT_LINES:]
            fresh = self._path.with_name(f"{self._path.name}.new")
            with suppress(OSError):
                self._write(fresh, os.O_TRUNC, written)
                fresh.replace(self._path)
        return [line for line in map(_line, reversed(written[-_KEPT_LINES:])) if line]

    def store_string(self, string: str) -> None:
        """Add a line, unless it holds a secret; a disk that refuses costs the history, not the chat."""
        if self._redacted(string) != string:
            return
        with suppress(OSError):
            make_private(self._path.parent)
            self._write(self._path, os.O_APPEND, [json.dumps(string, ensure_ascii=False)])

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


class _Commands(Completer):
    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        begun = document.text_before_cursor
        for command in self._commands if begun.startswith("/") else ():
            if command.startswith(begun):
                yield Completion(command, start_position=-len(begun))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _line_break(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def _say(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith(CONTINUES):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return keys
