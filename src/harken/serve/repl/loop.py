"""The loop of a chat: lines of any stdin, and what was typed in earlier chats."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from rich.text import Text

from harken.chat.turn import Turn
from harken.context.builder import ContextSession as Talk
from harken.context.layers import LayerName
from harken.engine import Harken
from harken.files import make_private
from harken.serve.cli.session import CommandSession, line_of
from harken.serve.repl.showing import AnswerView
from harken.serve.repl.slash import Slash, is_command
from harken.text.shown import counted

CONTINUES = "\\"
_KEPT_LINES = 1000


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


class TypedLines:
    """Keeps what is typed, for the arrow keys: one JSON string a line, readable by its owner alone, without secrets.

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


@dataclass(slots=True)
class Repl:
    """One chat.

    Attributes:
        view: makes what shows the next answer.
        is_terminal: whether a person looks on, who is told more.
    """

    session: CommandSession
    harken: Harken
    talk: Talk
    slash: Slash
    view: Callable[[], AnswerView]
    is_terminal: bool

    def run(self, reader: Reader) -> None:
        """Take line after line; an error of any kind is one line, and the chat goes on.

        Raises:
            BrokenPipeError: nobody reads what is printed any more.
        """
        goes_on = True
        while goes_on:
            line = reader.read()
            try:
                goes_on = line is not None and self._take(line)
            except KeyboardInterrupt:
                self.session.note("Stopped.")

    def say(self, text: str) -> Turn:
        """Have something answered, shown as it comes; Ctrl-C stops the answer.

        Raises:
            HarkenError: there is no model, or it cannot be used; nothing was recorded.
        """
        with _stopped_by_ctrl_c() as stop, self.view() as view:
            turn = self.harken.chat.turn(self.talk, text, listen=view.listen, stop=stop)
        self._aside(_footer(turn))
        return turn

    def _take(self, line: str) -> bool:
        words = line.strip()
        if is_command(words):
            return self.slash.run(words)
        if words:
            self._answer(words.removeprefix("/") if words.startswith("//") else line)
        return True

    def _answer(self, text: str) -> None:
        try:
            turn = self.say(text)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the serve boundary: the chat outlives whatever an answer raises
            self.session.note(line_of(error))
        else:
            if turn.error and not turn.stopped:
                self.session.note(f"The answer failed: {' '.join(turn.error.split())}")

    def _aside(self, words: str) -> None:
        """A dim line below an answer, for a person."""
        if self.is_terminal:
            self.session.err.print(Text(words, "dim"))


def _footer(turn: Turn) -> str:
    """`1,234 tokens in, 56 out · $0.0012 · back came 2 past conversations, 3 earlier messages`."""
    usage = turn.usage
    parts = ["stopped"] if turn.stopped else []
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if turn.price_usd is not None and turn.price_usd > 0:
        parts.append(f"${turn.price_usd:.4f}")
    past, earlier = turn.context.layer(LayerName.PAST), turn.context.layer(LayerName.AUTO_RAG)
    back = []
    if past is not None:
        talks = sum(item.facts.get("source") == "conversation" for item in past.items)
        back.append(counted(talks, "past conversation"))
    if earlier is not None:
        back.append(counted(len(earlier.items), "earlier message"))
    parts.append(f"back came {', '.join(back)}" if back else "nothing came back")
    return " · ".join(parts)


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second interrupts whatever does not heed it."""
    stop = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
