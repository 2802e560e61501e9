"""A chat begun or gone on with, at a terminal or with lines of stdin."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.text import Text

from harken.chat.turn import CHAT_CHANNEL
from harken.context.builder import ContextSession as Talk
from harken.engine import Harken
from harken.errors import HarkenError, MissingExtraError, NotFoundError, UsageError
from harken.journal.backup import TYPED_NAME
from harken.model.conversations import Message, MessageType, Role
from harken.serve.cli.reporting import HOW_TO_CONFIGURE, summaries_words
from harken.serve.cli.session import CommandSession
from harken.serve.process import EXIT_INTERRUPTED
from harken.serve.repl.loop import PlainReader, Reader, Repl
from harken.serve.repl.showing import PlainAnswer, TerminalAnswer
from harken.serve.repl.slash import Slash
from harken.serve.repl.typed import TypedLines
from harken.text.characters import printable
from harken.text.shown import counted, one_line

_SHOWN_MESSAGES, _SHOWN_CHARS = 2, 400


def run_chat(context: click.Context, words: Sequence[str], continues: bool, conversation: str | None) -> None:
    """Begin or go on with a chat.

    Args:
        context: of the command line.
        words: the one message to answer; without any, lines are taken until they end.
        continues: whether to go on with the chat that was active last.
        conversation: the one to go on with.
    Raises:
        UsageError: both are given.
    """
    session: CommandSession = context.obj
    if continues and conversation is not None:
        raise UsageError("Say --continue or --conversation, not both.")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with session.engine() as harken, _ended_by_signals():
        # Before anything is shown: what is missing is said at once.
        typed = TypedLines(harken.home / TYPED_NAME, lambda text: harken.recorder.redactor.redact(text).text)
        session.opened, session.prefix = harken, "/"
        session.talk = _talk(harken, continues, conversation)
        slash = Slash(session, context.find_root())
        reader = None if words else _reader(is_terminal, typed, slash)
        shows = session.out.is_terminal
        repl = Repl(
            session,
            harken,
            session.talk,
            slash,
            view=lambda: TerminalAnswer(session.out) if shows else PlainAnswer(session.err),
            is_terminal=shows,
        )
        if reader is None:
            _say_once(repl, " ".join(words))
        else:
            _talk_on(repl, reader, is_terminal, continues or conversation is not None)


def _talk(harken: Harken, continues: bool, conversation: str | None) -> Talk:
    if not continues and conversation is None:
        return harken.chat.begin(Path.cwd())
    try:
        return harken.chats.find(conversation, CHAT_CHANNEL)
    except NotFoundError:
        if conversation is not None:
            raise
        raise NotFoundError("There is no chat to go on with yet. Begin one: harken chat") from None


def _reader(is_terminal: bool, typed: TypedLines, slash: Slash) -> Reader:
    if not is_terminal:
        return PlainReader()
    try:
        from harken.serve.repl.terminal import TerminalReader
    except ModuleNotFoundError as error:
        raise MissingExtraError("Chatting at a terminal", "chat") from error
    return TerminalReader(typed, slash.names)


def _say_once(repl: Repl, text: str) -> None:
    turn = repl.say(text)
    if turn.stopped:
        raise click.exceptions.Exit(EXIT_INTERRUPTED)
    if turn.error:
        raise HarkenError(turn.error)


def _talk_on(repl: Repl, reader: Reader, is_terminal: bool, is_resumed: bool) -> None:
    session, harken = repl.session, repl.harken
    harken.background.hold(repl.talk.conversation_uid)
    try:
        harken.start_worker()
    except HarkenError as error:
        repl.told_halts.add(str(error))
        _dim(session, f"Some work in the background has to wait: {' '.join(str(error).split())}")
    if is_terminal:
        _greet(session, harken)
        if is_resumed:
            _recall(session, harken, repl.talk.conversation_uid)
    repl.run(reader)
    if is_terminal and harken.chats.newest(repl.talk.conversation_uid).segment_uid is not None:
        _dim(session, f"Go on with: harken chat --conversation {repl.talk.conversation_uid}")


def _greet(session: CommandSession, harken: Harken) -> None:
    _dim(session, f"Harken · {harken.chat.model_name or 'no model'} · /help lists the commands, Ctrl-D leaves")
    if harken.chat.model_name is None:
        session.note("No language model is configured: nothing answers, and the commands work.")
        session.note(f"Set one: {HOW_TO_CONFIGURE.format(prefix=session.prefix)}")
    _dim(session, summaries_words(harken, session.prefix))


def _recall(session: CommandSession, harken: Harken, conversation_uid: str) -> None:
    """Where the conversation was left."""
    title = harken.chats.titles([conversation_uid]).get(conversation_uid, "untitled")
    said = [message for message in harken.show(conversation_uid).messages if _is_said(message)]
    _dim(session, f"Going on with “{printable(title)}” · {counted(len(said), 'message')} · {conversation_uid}")
    for message in said[-_SHOWN_MESSAGES:]:
        _dim(session, f"{message.role.value}: {one_line(printable(message.text), _SHOWN_CHARS)}")


def _is_said(message: Message) -> bool:
    return message.type is MessageType.TEXT and message.role in (Role.USER, Role.ASSISTANT)


def _dim(session: CommandSession, words: str) -> None:
    session.err.print(Text(words, "dim"))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A closed terminal, or a request to end, ends the chat in good order: workers stop, what was said is kept."""

    def end(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # The terminal is gone, and whatever is written to it fails.
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (1, 2):
                os.dup2(nowhere, descriptor)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
