"""The loop of a chat: lines of any stdin."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

from rich.text import Text

from harken.chat.turn import Turn
from harken.context.builder import ContextSession as Talk
from harken.context.layers import LayerName
from harken.engine import Harken
from harken.serve.cli.session import CommandSession, line_of
from harken.serve.repl.showing import AnswerView
from harken.serve.repl.slash import Slash, is_command
from harken.text.shown import counted

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


@dataclass(slots=True)
class Repl:
    """One chat.

    Attributes:
        view: makes what shows the next answer.
        is_terminal: whether a person looks on, who is told more.
        told_halts: why work in the background stands still, as far as the person was told.
    """

    session: CommandSession
    harken: Harken
    talk: Talk
    slash: Slash
    view: Callable[[], AnswerView]
    is_terminal: bool
    told_halts: set[str] = field(default_factory=set)

    def run(self, reader: Reader) -> None:
        """Take line after line; an error of any kind is one line, and the chat goes on.

        Raises:
            BrokenPipeError: nobody reads what is printed any more.
        """
        goes_on = True
        while goes_on:
            self._tell_halts()
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

    def _tell_halts(self) -> None:
        """Say once why work in the background stands still; `/status` says it for as long as it lasts."""
        for why in self.harken.background.halts.values():
            if why not in self.told_halts:
                self.told_halts.add(why)
                self._aside(f"Work in the background stands still for now: {' '.join(why.split())}")

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
    return " · ".join([*parts, *turn.context.failures])


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
