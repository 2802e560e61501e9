"""Lines typed at a terminal, with completion and the arrow keys; needs an extra."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from harken.serve.repl.loop import CONTINUES
from harken.serve.repl.typed import TypedLines

_PROMPT = FormattedText([("bold", "> ")])


class TerminalReader:
    """Reads from the terminal; Ctrl-D on an empty line ends it, and Ctrl-C gives the line up.

    Args:
        typed: what was typed before.
        commands: to complete, with their slash.
    """

    def __init__(self, typed: TypedLines, commands: Sequence[str]) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=_History(typed),
            completer=_Commands(commands),
            complete_while_typing=False,
            key_bindings=_keys(),
            prompt_continuation=FormattedText([("", "  ")]),
        )

    def read(self) -> str | None:
        """See `Reader.read`."""
        try:
            return self._session.prompt(_PROMPT)
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


class _History(History):
    def __init__(self, typed: TypedLines) -> None:
        super().__init__()
        self._typed = typed

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._typed.load())

    def store_string(self, string: str) -> None:
        self._typed.keep(string)


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
