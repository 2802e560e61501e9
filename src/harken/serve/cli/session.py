"""What every command shares: the open store, the two outputs, errors, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from harken.config.settings import Settings, load_settings
from harken.context.builder import ContextSession as Talk
from harken.engine import Harken
from harken.text.terminal import PlainConsole, printable_json

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Report(Protocol):
    """Tells how far something has come."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show so much done of so much; the note stands in place of the counts."""
        ...


@dataclass(slots=True)
class CommandSession:
    """One run of the command line.

    Attributes:
        out: the answer; never anything else.
        err: everything else.
        opened: a store that stays open between commands, as a chat has it.
        talk: the conversation that goes on in that chat; None on the command line.
        prefix: what stands before a command that a person is told to type.
    """

    home: Path | None
    overrides: Mapping[str, Any]
    out: Console = field(default_factory=lambda: PlainConsole(highlight=False, soft_wrap=True))
    err: Console = field(default_factory=lambda: PlainConsole(stderr=True, highlight=False, soft_wrap=True))
    opened: Harken | None = None
    talk: Talk | None = None
    prefix: str = "harken "

    @contextmanager
    def engine(self) -> Iterator[Harken]:
        """The open store; what its journal has and its database lacks is brought in first, with a word about it."""
        if self.opened is not None:
            yield self.opened
            return
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
        return load_settings(self.home, None, self.overrides).settings

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
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
            console=self.err,
            transient=True,
            disable=not self.err.is_terminal,
        )
        tasks: list[TaskID] = []

        def report(done: int, total: int, note: str = "") -> None:
            counts = note or f"{done:,} of {total:,} {unit}"
            if not tasks:
                bar.start()
                tasks.append(bar.add_task(title, total=total, note=counts))
            bar.update(tasks[0], completed=done, total=total, note=counts)

        try:
            yield report
        finally:
            if tasks:
                bar.stop()


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    document = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write(printable_json(document) + "\n")


def json_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The option `--json`, for every command that prints facts."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def untrusted_option(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The option `--no-untrusted`, for every command that recalls."""
    words = "Leave out what is not to be trusted: what tools brought, web pages among it."
    return click.option("--no-untrusted", is_flag=True, help=words)(command)


def with_session(command: Callable[..., Result]) -> Callable[..., Result]:
    """Hand the command its session as the first argument."""

    @click.pass_obj
    @wraps(command)
    def run(session: CommandSession, /, *args: Any, **kwargs: Any) -> Result:
        return command(session, *args, **kwargs)

    return run


def counted(count: int, noun: str) -> str:
    """`1 message`, `1,200 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def readable_bytes(count: int) -> str:
    """`1.4 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
