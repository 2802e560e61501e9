"""One run of the command line: the open store, the two outputs, the log, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import click

from harken.errors import HarkenError
from harken.text.characters import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console

    from harken.config.settings import Settings
    from harken.context.builder import ContextSession
    from harken.engine import Harken

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Piece = str | tuple[str, str]
"""Text, or text and a style."""
_AGREED = "yes"


class Report(Protocol):
    """Tells how far something has come."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show so much done of so much; the note stands in place of the counts."""
        ...


@dataclass
class CommandSession:
    """One run of the command line.

    What takes long to import (the engine, rich, the log) is imported when it is first used: help needs none of it.

    Attributes:
        opened: a store that stays open between commands, as a chat has it.
        talk: the conversation that goes on in that chat; None on the command line.
        prefix: what stands before a command that a person is told to type.
        is_verbose: whether the whole log is shown on stderr, not errors alone.
    """

    home: Path | None
    overrides: Mapping[str, Any]
    is_verbose: bool = False
    opened: Harken | None = None
    talk: ContextSession | None = None
    prefix: str = "harken "

    @cached_property
    def out(self) -> Console:
        """The answer; never anything else."""
        return _console()

    @cached_property
    def err(self) -> Console:
        """Everything else."""
        return _console(stderr=True)

    @contextmanager
    def engine(self) -> Iterator[Harken]:
        """The open store; what its journal has and its database lacks is brought in first, with a word about it."""
        if self.opened is not None:
            yield self.opened
            return
        log_to_stderr(self.is_verbose)
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

    def settings(self) -> Settings:
        """What is set for this run, without opening a store; values set at run time are not among it."""
        log_to_stderr(self.is_verbose)
        from harken.config.settings import load_settings

        return load_settings(self.home, None, self.overrides).settings

    def say(self, *pieces: Piece, lit: str = "") -> None:
        """A line of the answer; the style of the first piece is that of the whole line.

        Args:
            pieces: put together as they are; an empty line without any.
            lit: a pattern; what it matches is highlighted.
        """
        from rich.text import Text

        parts = [(piece, "") if isinstance(piece, str) else piece for piece in pieces or ("",)]
        line = Text(parts[0][0], style=parts[0][1])
        for text, style in parts[1:]:
            line.append(text, style)
        if lit:
            line.highlight_regex(lit, "bold yellow")
        self.out.print(line)

    def write(self, text: str) -> None:
        """Text of the answer as it is, without styles or wrapping."""
        sys.stdout.write(f"{printable(text)}\n")

    def tell(self, as_json: bool, view: object, *lines: Piece) -> None:
        """The answer: as JSON, or as lines for people."""
        if as_json:
            print_json(view)
            return
        for line in lines:
            self.say(line)

    def agrees(self, to: str) -> bool:
        """Whether the person at the terminal types a yes; any other answer is a no.

        Args:
            to: what it is typed for: `to confirm`.
        """
        answer: str = click.prompt(f"Type '{_AGREED}' {to}", default="", show_default=False, err=True)
        return answer.strip().lower() == _AGREED

    def note(self, text: str) -> None:
        """A line beside the answer."""
        self.err.print(text, markup=False)

    @contextmanager
    def progress(self, title: str, unit: str) -> Iterator[Report]:
        """A bar with counts on a terminal's stderr, shown from the first report on; silent elsewhere.

        Args:
            title: what is being done.
            unit: what is counted, for reports that bring no note of their own.
        """
        shown: list[_Bar] = []

        def report(done: int, total: int, note: str = "") -> None:
            if not shown:
                shown.append(_Bar(self.err, title, total))
            shown[0].update(done, total, note or f"{done:,} of {total:,} {unit}")

        try:
            yield report
        finally:
            for bar in shown:
                bar.stop()


class _Bar:
    def __init__(self, console: Console, title: str, total: int) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, note="")
        self.stop = self._bar.stop

    def update(self, done: int, total: int, note: str) -> None:
        self._bar.update(self._task, completed=done, total=total, note=note)


def _console(*, stderr: bool = False) -> Console:
    from harken.text.console import PlainConsole

    return PlainConsole(stderr=stderr, highlight=False, soft_wrap=True)


def log_to_stderr(is_verbose: bool) -> None:
    """Have the log written to stderr: whole, or errors alone."""
    import logging

    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if is_verbose else logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def is_help(error: click.ClickException) -> bool:
    """Whether a command group was called without a command: its whole help is the answer then."""
    return isinstance(error, click.exceptions.NoArgsIsHelpError)


def line_of(error: Exception) -> str:
    """The error as one line for people; one that nobody meant to raise is logged with its trace, for `--verbose`."""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        text = f"{error.format_message()} See: {context.command_path if context else 'harken'} --help"
    elif isinstance(error, HarkenError):
        text = str(error)
    else:
        import structlog

        if not structlog.is_configured():
            log_to_stderr(is_verbose="--verbose" in sys.argv)
        structlog.get_logger(__name__).debug("command_failed", error_class=type(error).__name__, exc_info=error)
        text = f"unexpected {type(error).__name__}; run again with --verbose, and please report it."
    return " ".join(text.split())


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    document = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write(printable_json(document) + "\n")


def json_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The option `--json`, for every command that prints facts."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def with_json(command: Callable[..., Result]) -> Callable[..., Result]:
    """Hand the command its session, and `--json` as `as_json`."""
    return json_option(with_session(command))


def with_session(command: Callable[..., Result]) -> Callable[..., Result]:
    """Hand the command its session as the first argument."""

    @click.pass_obj
    @wraps(command)
    def run(session: CommandSession, /, *args: Any, **kwargs: Any) -> Result:
        return command(session, *args, **kwargs)

    return run
