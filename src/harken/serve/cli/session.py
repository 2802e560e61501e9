"""One run of the command line: the open store, the two outputs, the log, progress."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, TypeVar

import click

from harken.errors import HarkenError, MissingExtraError, UsageError
from harken.log import Log, set_up_log
from harken.serve.operations.operation import Piece, TeamMember
from harken.text.characters import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from harken.config.settings import Settings
    from harken.context.builder import ContextSession
    from harken.engine import Harken
    from harken.model.team import KeyScope

Result = TypeVar("Result")
_AGREED = "yes"
# Alone in its piece: the moment of an id and the beginning of what chance or its source adds.
_ID = re.compile(r"\A( *[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4})-[0-9a-f]{4}-[0-9a-f]{12}\Z")
# As many commands as a line names; more are what `--help` is for.
_MOST_WAYS = 12


class Report(Protocol):
    """Tells how far something has come."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show so much done of so much; the note stands in place of the counts."""
        ...


@dataclass
class CommandSession:
    """One run of the command line; what takes long to import is imported when it is first used.

    Attributes:
        opened: a store that stays open between commands, as a chat has it.
        talk: the conversation that goes on in that chat; None on the command line.
        prefix: what stands before a command that a person is told to type.
        is_verbose: whether the whole log is shown on stderr, not errors alone.
        space: of a team, in which is written; None for one's own.
    """

    home: Path | None
    overrides: Mapping[str, Any]
    is_verbose: bool = False
    space: str | None = None
    opened: Harken | None = None
    talk: ContextSession | None = None
    prefix: str = "harken "

    @cached_property
    def out(self) -> Console:
        """The answer; never anything else."""
        from harken.text.console import PlainConsole

        return PlainConsole(highlight=False, soft_wrap=True)

    @cached_property
    def err(self) -> Console:
        """Everything else."""
        from harken.text.console import PlainConsole

        return PlainConsole(stderr=True, highlight=False, soft_wrap=True)

    @contextmanager
    def engine(self, scopes: Iterable[KeyScope | str] = ()) -> Iterator[Harken]:
        """The open store; what its journal has and its database lacks is brought in first, with a word about it.

        Of a team, the memory as whoever asks may see it, if their key has the scopes.
        """
        if self.opened is not None:
            yield self.opened
            return
        if self.is_of_team:
            with self.team(scopes) as (team, speaker):
                yield team.memory(speaker, self.space)
            return
        from harken.engine import Harken

        with self.progress("Rebuilding from the journal", "conversations") as report:
            harken = Harken(self.home, settings=self.overrides, on_replay=report)
        with harken:
            replayed = harken.replayed
            if replayed.messages:
                self.note(f"Brought {replayed.messages} messages from the journal into the database.")
            for torn in replayed.torn:
                self.note(f"Set aside a broken journal line ({torn.length} bytes of {torn.path}) in {torn.kept_in}")
            yield harken

    @property
    def is_of_team(self) -> bool:
        """Whether a key or a space is given: then it is a team's memory."""
        # The settings take longer to import than a daemon to answer.
        return self.space is not None or bool(os.environ.get("HARKEN_KEY"))  # noqa: TID251

    @contextmanager
    def team(self, scopes: Iterable[KeyScope | str] = ()) -> Iterator[TeamMember]:
        """The team, and who asks: by the key of the environment, which needs the scopes, else as its operator."""
        from harken.config.settings import team_key
        from harken.engine.team import Team
        from harken.model.team import KeyScope

        with Team(self.home, settings=self.overrides) as team:
            key = team_key()
            speaker = team.operator() if key is None else team.speaker(key)
            speaker.require(*map(KeyScope.of, scopes))
            yield TeamMember(team, speaker)

    def settings(self) -> Settings:
        """The settings of this run, read without opening a store; values set at run time are not among them."""
        from harken.config.settings import load_settings

        return load_settings(self.home, None, self.overrides).settings

    def say(self, *pieces: Piece, lit: str = "") -> None:
        """See `Printer.say`."""
        plain = "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)
        if _is_plain(sys.stdout) and "\t" not in plain:
            self.write(plain)
            return
        from rich.text import Text

        from harken.text.console import light_markdown, wrapped

        first, *others = [_shown_piece(piece) for piece in pieces or ("",)]
        # The style of the first is that of the line.
        line = Text(style=first[1])
        for text, style in (first, *others):
            line.append_text(Text(text, style) if style else light_markdown(text))
        if lit:
            line.highlight_regex(lit, "bold yellow")
        for part in wrapped(self.out, line) if sys.stdout.isatty() else (line,):
            self.out.print(part)

    def write(self, text: str) -> None:
        """See `Printer.write`."""
        sys.stdout.write(f"{printable(text)}\n")
        sys.stdout.flush()

    @contextmanager
    def pager(self, is_wanted: bool) -> Iterator[None]:
        """Show what is said meanwhile in the person's pager, where it is wanted and longer than their terminal."""
        if not is_wanted or self.opened is not None or not (sys.stdin.isatty() and sys.stdout.isatty()):
            yield
            return
        with self.out.capture() as shown:
            yield
        text = shown.get()
        if text.count("\n") < self.out.size.height:
            sys.stdout.write(text)
        else:
            click.echo_via_pager(text, color=not self.out.no_color)

    def tell(self, as_json: bool, view: object, *lines: Piece) -> None:
        """The answer: as JSON, or as lines for people."""
        if as_json:
            print_json(view)
        for line in () if as_json else lines:
            self.say(line)

    def agrees(self, to: str) -> bool:
        """Whether the person at the terminal types a yes `to` do something; any other answer is a no."""
        answer: str = click.prompt(f"Type '{_AGREED}' {to}", default="", show_default=False, err=True)
        return answer.strip().lower() == _AGREED

    def confirm(self, otherwise: str, question: str = "", to: str = "to confirm", at_terminal: bool = False) -> None:
        """Go on where a person agrees to a question, or types a yes `to` do something, `at_terminal` alone if need be.

        Raises:
            UsageError: nobody can answer; `otherwise` says what was not done.
            HarkenError: they did not agree.
        """
        refusal = UsageError(f"{otherwise}, for nobody can answer here. To do it all the same, add --yes.")
        has_terminal = sys.stdin.isatty()
        if not has_terminal and (at_terminal or self.opened is not None):
            raise refusal
        try:
            is_agreed = click.confirm(question, err=True) if question else self.agrees(to)
        except click.Abort:
            if has_terminal:
                raise
            click.echo(err=True)
            raise refusal from None
        if not is_agreed:
            raise HarkenError(f"{otherwise}.")

    def note(self, text: str) -> None:
        """See `Printer.note`."""
        if _is_plain(sys.stderr) and "\t" not in text:
            sys.stderr.write(f"{printable(text)}\n")
            return
        from rich.text import Text

        from harken.text.console import wrapped

        for part in wrapped(self.err, Text(text)) if sys.stderr.isatty() else (Text(text),):
            self.err.print(part)

    @contextmanager
    def progress(self, title: str, unit: str) -> Iterator[Report]:
        """A bar on a terminal's stderr from the first report on, counting units where a report brings no note."""
        bar: Progress | None = None

        def report(done: int, total: int, note: str = "") -> None:
            nonlocal bar
            if bar is None:
                from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

                text, note_text = TextColumn("{task.description}"), TextColumn("{task.fields[note]}", markup=False)
                columns = (text, BarColumn(), TaskProgressColumn(), note_text, TimeRemainingColumn())
                bar = Progress(*columns, console=self.err, transient=True, disable=not self.err.is_terminal)
                bar.start()
                bar.add_task(title, total=total, note="")
            bar.update(bar.task_ids[0], completed=done, total=total, note=note or f"{done:,} of {total:,} {unit}")

        try:
            yield report
        finally:
            if bar is not None:
                bar.stop()


def _shown_piece(piece: Piece) -> tuple[str, str]:
    """A piece as a terminal shows it: of an id, as much as `harken show` needs to know it by."""
    text, style = (piece, "") if isinstance(piece, str) else piece
    return (_ID.sub(r"\1", text), style) if style == "dim" else (text, style)


def _is_plain(stream: TextIO) -> bool:
    """Whether nobody sees colours there: then rich, which takes longer to import than a daemon to answer, stays out."""
    env = os.environ  # noqa: TID251 - as rich reads its own
    return not stream.isatty() and not env.keys() & {"FORCE_COLOR", "TTY_COMPATIBLE", "JUPYTER_COLUMNS"}


def log_to_stderr(level: str) -> None:
    """Have the log written to stderr from this level on: `DEBUG`, `ERROR` or `CRITICAL`."""

    def configure() -> None:
        import logging

        import structlog

        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )

    set_up_log(configure)


def line_of(error: Exception) -> str:
    """The error as one line for people; one that nobody meant to raise is logged with its trace, for `--verbose`."""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        path = context.command_path if context else "harken"
        text = f"{error.format_message()} {_ways(error, context)}See: {path} --help"
    elif isinstance(error, HarkenError):
        text = str(error)
    elif isinstance(error, ModuleNotFoundError) and (extra := _extra_with(error.name or "")):
        text = str(MissingExtraError("This", extra))
    else:
        Log(__name__).debug("command_failed", error_class=type(error).__name__, exc_info=error)
        text = f"unexpected {type(error).__name__}; run again with --verbose, and please report it."
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(text.split())


def _extra_with(module: str) -> str:
    """The extra of this package that brings a module, of several the smallest; empty where none does."""
    from importlib.metadata import requires

    brought = [re.split(r"[^\w-].*extra == .|.$", line) for line in requires("harken") or () if "extra ==" in line]
    extras = [extra for name, extra, _ in brought if name.replace("-", "_") == module.partition(".")[0]]
    return min(extras, key=[extra for _, extra, _ in brought].count, default="")


def _ways(error: click.ClickException, context: click.Context | None) -> str:
    """The commands of a group that has not the one that was typed; of a long list, those that it may have meant."""
    if not isinstance(error, click.NoSuchCommand) or context is None or not isinstance(context.command, click.Group):
        return ""
    names = context.command.list_commands(context)
    return f"Commands: {', '.join(names)}. " if len(names) <= _MOST_WAYS else ""


def print_json(value: object) -> None:
    """One JSON document on stdout; moments in it are ISO 8601, and amounts of money numbers."""
    document = json.dumps(value, ensure_ascii=False, indent=2, default=_simple)
    sys.stdout.write(printable_json(document) + "\n")


def _simple(value: object) -> object:
    from datetime import datetime
    from decimal import Decimal

    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def with_json(command: Callable[..., Result]) -> Callable[..., Result]:
    """Hand the command its session, and `--json` as `as_json`."""
    return json_option(click.pass_obj(command))


class CommandAnswer(NamedTuple):
    """The answer of a command: as JSON, or as lines for people, with notes beside them."""

    view: object
    lines: Iterable[Piece]
    notes: Iterable[str] = ()


def on_store(command: Callable[..., CommandAnswer], scopes: Iterable[str] = ()) -> Callable[..., None]:
    """Hand the command the open store, for which a team's key needs the scopes; print its answer as `--json` asks."""

    @wraps(command)
    def run(session: CommandSession, as_json: bool, **given: Any) -> None:
        with session.engine(scopes) as harken:
            answer = command(harken, **given)
        for note in [] if as_json else answer.notes:
            session.note(note)
        session.tell(as_json, answer.view, *answer.lines)

    return with_json(run)
