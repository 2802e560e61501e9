"""A chat begun or gone on with, at a terminal or with lines of stdin, and its loop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from harken.chat.turn import CHAT_CHANNEL, Turn
from harken.context.builder import ContextSession as Talk
from harken.engine import Harken
from harken.errors import HarkenError, MissingExtraError, NotFoundError, UsageError
from harken.journal.journal import TYPED_NAME
from harken.model.conversations import MessageType, Role
from harken.providers.chat_model import Finish
from harken.serve.cli.reporting import HOW_TO_CONFIGURE, summaries_words
from harken.serve.cli.session import CommandSession, line_of
from harken.serve.process import EXIT_INTERRUPTED
from harken.serve.repl.showing import PlainAnswer, TerminalAnswer
from harken.serve.repl.slash import CONTINUES, Slash, is_command
from harken.text.characters import printable
from harken.text.shown import counted, one_line

_SHOWN_MESSAGES, _SHOWN_CHARS = 2, 400
_CUT_OFF = {
    Finish.LENGTH: "at llm.max_tokens; raise it, or ask for the rest.",
    Finish.OTHER: "by the endpoint; ask for the rest.",
}


Reader = Callable[[], str | None]
"""Gives what was said or typed next, one line or several, empty where it was given up; None at the end."""


def read_stdin() -> str | None:
    """The next line of stdin as it is; a backslash at its end continues it. None at the end."""
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
        has_failed: whether anything that was said has got no answer.
    """

    session: CommandSession
    harken: Harken
    talk: Talk
    slash: Slash
    view: Callable[[], PlainAnswer | TerminalAnswer]
    is_terminal: bool
    told_halts: set[str] = field(default_factory=set)
    has_failed: bool = False

    def run(self, reader: Reader) -> None:
        """Take line after line; an error of any kind is one line, and the chat goes on.

        Raises:
            BrokenPipeError: nobody reads what is printed any more.
        """
        goes_on = True
        while goes_on:
            # Said once here; `/status` says it for as long as it lasts.
            for why in self.harken.background.blocked_reasons.values():
                if why not in self.told_halts:
                    self.told_halts.add(why)
                    self._aside(f"Work in the background stands still for now: {' '.join(why.split())}")
            line = reader()
            try:
                goes_on = line is not None and self._take(line)
            except KeyboardInterrupt:
                self.session.note("Stopped.")

    def say(self, text: str) -> Turn:
        """Have something answered, shown as it comes; Ctrl-C stops the answer.

        Raises:
            HarkenError: there is no model, or it cannot be used; nothing was recorded.
        """
        self.harken.run_time.refresh()
        with _stopped_by_ctrl_c() as stop, self.view() as view:
            turn = self.harken.chat.turn(self.talk, text, listen=view.listen, stop=stop)
        if turn.finish in _CUT_OFF and not turn.error:
            self.session.note(f"The answer was cut off {_CUT_OFF[turn.finish]}")
        self._aside(_footer(turn))
        return turn

    def _take(self, line: str) -> bool:
        words = line.strip()
        if is_command(words):
            return self.slash.run(words)
        try:
            turn = self.say(words.removeprefix("/") if words.startswith("//") else line) if words else None
            if turn and turn.error and not turn.stopped:
                raise HarkenError(f"The answer failed: {' '.join(turn.error.split())}")
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the serve boundary: the chat outlives whatever an answer raises
            self.has_failed = True
            self.session.note(line_of(error))
        return True

    def _aside(self, words: str) -> None:
        if self.is_terminal:
            _dim(self.session, words)


def _footer(turn: Turn) -> str:
    """`1,234 tokens in, 56 out · $0.0012 · back came 2 past conversations, 3 earlier messages`."""
    usage = turn.usage
    parts = ["stopped"] if turn.stopped else []
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if turn.price_usd is not None and turn.price_usd > 0:
        parts.append(f"${turn.price_usd:.4f}")
    past, known, earlier, elsewhere = map(turn.context.layer, ("past", "known", "auto_rag", "elsewhere"))
    back = []
    if past is not None:
        talks = sum(item.facts.get("source") == "conversation" for item in past.items)
        back.append(counted(talks, "past conversation"))
    if known is not None:
        back.append(counted(len(known.items), "saved item"))
    if earlier is not None:
        back.append(counted(len(earlier.items), "earlier message"))
    if elsewhere is not None:
        back.append(f"{counted(len(elsewhere.items), 'item')} of other projects")
    parts.append(f"back came {', '.join(back)}" if back else "nothing came back")
    return " · ".join([*parts, *turn.context.failures])


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second interrupts whatever does not heed it."""
    stop = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with _handled(interrupt, signal.SIGINT):
        yield stop


def run_chat(context: click.Context, words: Sequence[str], continues: bool, conversation: str | None) -> None:
    """Begin a chat, or go on with the last one or the one named; without words, lines are answered until they end.

    Raises:
        UsageError: both are given.
    """
    session: CommandSession = context.obj
    if continues and conversation is not None:
        raise UsageError("Say --continue or --conversation, not both.")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with session.engine(["record"]) as harken, _handled(_end, signal.SIGHUP, signal.SIGTERM):
        session.opened, session.prefix = harken, "/"
        is_resumed = continues or conversation is not None
        session.talk = _find(harken, conversation) if is_resumed else harken.chat.begin(Path.cwd())
        slash = Slash(session, context.find_root())
        # Before anything is shown: what is missing is said at once.
        reader = None if words else _typed_lines(harken, slash) if is_terminal else read_stdin
        shows = session.out.is_terminal
        repl = Repl(
            session,
            harken,
            session.talk,
            slash,
            view=lambda: TerminalAnswer(session.out) if shows else PlainAnswer(session.err),
            is_terminal=shows,
        )
        if reader is not None:
            _talk_on(repl, reader, is_terminal, is_resumed)
            return
        turn = repl.say(" ".join(words))
        if turn.stopped:
            raise click.exceptions.Exit(EXIT_INTERRUPTED)
        if turn.error:
            raise HarkenError(turn.error)


def _find(harken: Harken, conversation: str | None) -> Talk:
    try:
        return harken.chats.find(conversation, CHAT_CHANNEL)
    except NotFoundError:
        if conversation is not None:
            raise
        raise NotFoundError("There is no chat to go on with yet. Begin one: harken chat") from None


def _typed_lines(harken: Harken, slash: Slash) -> Reader:
    try:
        from harken.serve.repl.terminal import TypedLines, terminal_reader
    except ModuleNotFoundError as error:
        raise MissingExtraError("Chatting at a terminal", "chat") from error
    typed = TypedLines(harken.home / TYPED_NAME, lambda text: harken.recorder.redactor.redact(text).text)
    return terminal_reader(typed, slash.names)


def _talk_on(repl: Repl, reader: Reader, is_terminal: bool, is_resumed: bool) -> None:
    session, harken = repl.session, repl.harken
    harken.background.hold(repl.talk.conversation_uid)
    try:
        harken.start_worker()
    except HarkenError as error:
        repl.told_halts.add(str(error))
        _dim(session, f"Some work in the background has to wait: {' '.join(str(error).split())}")
    if is_terminal:
        # A person types for longer than that takes, and the first answer is not kept waiting.
        harken.chats.warm_up()
        model = harken.chat.model_name
        _dim(session, f"Harken · {model or 'no model'} · /help lists the commands, Ctrl-D leaves")
        if model is None:
            session.note("No language model is configured: nothing answers, and the commands work.")
            session.note(f"Set one: {HOW_TO_CONFIGURE.format(prefix=session.prefix)}")
        _dim(session, summaries_words(harken, session.prefix))
        if is_resumed:
            _show_last(session, harken, repl.talk.conversation_uid)
    repl.run(reader)
    if repl.has_failed and not is_terminal:
        # Who writes lines into it looks at how it ends.
        raise click.exceptions.Exit(1)
    if is_terminal and harken.chats.newest(repl.talk.conversation_uid).segment_uid is not None:
        _dim(session, f"Go on with: harken chat --conversation {repl.talk.conversation_uid}")


def _show_last(session: CommandSession, harken: Harken, conversation_uid: str) -> None:
    title = harken.maintenance.titles([conversation_uid]).get(conversation_uid, "untitled")
    said = [
        message
        for message in harken.show(conversation_uid).messages
        if message.type is MessageType.TEXT and message.role in (Role.USER, Role.ASSISTANT)
    ]
    _dim(session, f"Going on with “{printable(title)}” · {counted(len(said), 'message')} · {conversation_uid}")
    for message in said[-_SHOWN_MESSAGES:]:
        _dim(session, f"{message.role.value}: {one_line(printable(message.text), _SHOWN_CHARS)}")


def _dim(session: CommandSession, words: str) -> None:
    session.err.print(Text(words, "dim"))


def _end(number: int, _frame: FrameType | None) -> None:
    """End the chat in good order when its terminal is closed or it is asked to: workers stop, what was said is kept."""
    if number == signal.SIGHUP:
        # The terminal is gone, and whatever is written to it fails.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
    raise SystemExit(128 + number)
