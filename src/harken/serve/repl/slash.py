"""Slash commands: the command line's own, run on the store that the chat has open."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import click
from rich.table import Table

from harken.errors import UsageError
from harken.serve.cli.commands import LazyGroup
from harken.serve.cli.session import CommandSession, line_of

# Those of the command line that make sense within a conversation, in the order in which they are listed.
_OFFERED = (
    *("new", "context", "search", "show", "rag", "embeddings", "summarizer", "memory", "core", "task", "status"),
    *("model", "list", "stats"),
)
_LEAVING = ("exit", "quit")
# At the end of a line that goes on.
CONTINUES = "\\"
_HELP = "help"
_COMMAND = re.compile(r"/(?P<name>[a-z]*)(?P<rest>\s.*)?", re.IGNORECASE | re.DOTALL)
# Quotes hold words together only around whole words, so that an apostrophe needs none.
_WORD = re.compile(r"""(?:"([^"]*)"|'([^']*)')(?=\s|$)|(\S+)""")
_KEYS = (
    ("Enter", "says it; Alt-Enter, or a backslash at the end of the line, begins another line"),
    ("Ctrl-C", "stops the answer, or gives up the line; the chat goes on"),
    ("Ctrl-D", "leaves, like /exit"),
    ("//…", "says something that begins with a slash"),
)


class Slash:
    """Runs what begins with a slash; nothing that a command throws gets out.

    Args:
        session: with the open store and the conversation that goes on.
        context: of the command line, whose commands they are.
    """

    def __init__(self, session: CommandSession, context: click.Context) -> None:
        self._session = session
        group = context.command
        self._commands = {name: group.command_named(name) for name in _OFFERED if isinstance(group, LazyGroup)}

    @property
    def names(self) -> tuple[str, ...]:
        """Every command, with its slash."""
        return tuple(f"/{name}" for name in (*self._commands, _HELP, _LEAVING[0]))

    def run(self, line: str) -> bool:
        """Run a command; False when it is the one that leaves.

        Raises:
            BrokenPipeError: nobody reads what is printed any more.
        """
        name, words = _parsed(line)
        if name in _LEAVING and not words:
            return False
        try:
            self._run(name, words)
        except (click.Abort, KeyboardInterrupt):
            self._session.note("Stopped; what was done is kept.")
        except BrokenPipeError:
            raise
        except click.ClickException as error:
            is_help = isinstance(error, click.exceptions.NoArgsIsHelpError)
            self._session.note(error.format_message() if is_help else line_of(error))
        except Exception as error:  # noqa: BLE001 - the serve boundary: the chat outlives whatever a command raises
            self._session.note(line_of(error))
        return True

    def _run(self, name: str, words: Sequence[str]) -> None:
        if name == _HELP:
            self._help(words)
        elif name in _LEAVING:
            raise UsageError(f"/{name} takes no words. Say: /{name}")
        elif name not in self._commands:
            near = difflib.get_close_matches(f"/{name}", self.names, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"There is no command /{name}.{meant} Commands: {', '.join(self.names)}")
        else:
            self._commands[name].main(
                args=list(words), prog_name=f"/{name}", obj=self._session, standalone_mode=False, max_content_width=110
            )

    def _help(self, words: Sequence[str]) -> None:
        if len(words) > 1:
            raise UsageError("Say: /help, or /help COMMAND")
        for word in words:
            name = word.removeprefix("/")
            if name not in (_HELP, *_LEAVING):
                self._run(name, ["--help"])
                return
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, command in self._commands.items():
            table.add_row(f"/{name} {_forms(command)}".rstrip(), command.get_short_help_str(limit=160))
        table.add_row("/help [COMMAND]", "This list, or all about a command.")
        table.add_row("/exit", "Leave.")
        table.add_section()
        for key, does in _KEYS:
            table.add_row(key, does)
        self._session.out.print(table, markup=False, soft_wrap=False)


def is_command(line: str) -> bool:
    """Whether a line is meant as a command: a slash and a plain word, unlike `/usr/bin` or `//`."""
    return _COMMAND.fullmatch(line.strip()) is not None


def _parsed(line: str) -> tuple[str, list[str]]:
    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return "", []
    rest = found["rest"] or ""
    words = [next(part for part in match.groups() if part is not None) for match in _WORD.finditer(rest)]
    return found["name"].lower(), words


def _forms(command: click.Command) -> str:
    """The words that may follow a command, or its own commands."""
    if isinstance(command, click.Group):
        return f"[{'|'.join(command.commands)}]"
    forms = []
    for argument in command.params:
        if isinstance(argument, click.Argument):
            name = (argument.name or "").upper()
            forms.append(argument.metavar or (name if argument.required else f"[{name}]"))
    return " ".join(forms)
