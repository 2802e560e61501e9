"""Slash commands: the command line's own, run on the store that the chat has open."""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Sequence
from contextlib import redirect_stdout

import click
from rich.table import Table

from harken.errors import UsageError
from harken.serve.cli.commands import LazyGroup
from harken.serve.cli.session import CommandSession, line_of
from harken.text.shown import counted

# Those of the command line that are listed first; the others follow.
_FIRST = (
    *("new", "context", "search", "show", "rag", "embeddings", "summarizer", "memory", "core", "task", "status"),
    *("model", "list", "stats"),
)
# Those that make no sense within a conversation: what agents start, and what wants the store to itself.
_APART = frozenset({"chat", "hook", "install", "mcp", "migrate", "reindex", "restore", "serve", "setup", "view"})
_APART |= {"erase", "group", "key", "principal", "share", "space", "unshare", "whoami"}
# Other names, for what comes out of a pipe.
_ALIASES = {"open": "show"}
_LEAVING = ("exit", "quit")
# At the end of a line that goes on.
CONTINUES = "\\"
_HELP = "help"
_MOST_FORMS = 7
_COMMAND = re.compile(r"/(?P<name>[a-z]*)(?P<rest>\s.*)?", re.IGNORECASE | re.DOTALL)
# Between a command and the one that gets what it finds: `/search frost | /open`.
_PIPE = re.compile(r"\s\|\s*(?=/[a-z])", re.IGNORECASE)
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
        self._group = context.command
        known = self._group.table if isinstance(self._group, LazyGroup) else {}
        self._commands = dict.fromkeys([*_FIRST, *sorted(set(known) - {*_FIRST, *_APART}), *_ALIASES])

    @property
    def names(self) -> tuple[str, ...]:
        """Every command, with its slash."""
        return tuple(f"/{name}" for name in (*self._commands, _HELP, _LEAVING[0]))

    def run(self, line: str) -> bool:
        """Run a command, or one that gets what another finds; False when it is the one that leaves.

        Raises:
            BrokenPipeError: nobody reads what is printed any more.
        """
        first, *then = _PIPE.split(line, maxsplit=1)
        name, words = _parsed(first)
        if name in _LEAVING and not words:
            return False
        try:
            self._run(name, words) if not then else self._pipe(name, words, then[0])
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
            self._command(name).main(
                args=list(words), prog_name=f"/{name}", obj=self._session, standalone_mode=False, max_content_width=110
            )

    def _pipe(self, name: str, words: Sequence[str], then: str) -> None:
        """Run a command, and another with the id of the best that it found, or of the one whose number is given."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            self._run(name, [*words, "--json"])
        found = _ids(json.loads(printed.getvalue() or "null"))
        name, words = _parsed(then)
        number = int(words.pop()) if words and words[-1].isdecimal() else 1
        if not 1 <= number <= len(found):
            raise UsageError(f"There is no number {number}: {counted(len(found), 'thing')} found.")
        self._run(name, [*words, found[number - 1]])

    def _command(self, name: str) -> click.Command:
        """The command; its module is imported when it is first named."""
        assert isinstance(self._group, LazyGroup)  # noqa: S101 - else there are no names
        return self._group.command_named(_ALIASES.get(name, name))

    def _help(self, words: Sequence[str]) -> None:
        if len(words) > 1:
            raise UsageError("Say: /help, or /help COMMAND")
        for word in words:
            name = word.removeprefix("/")
            if name not in (_HELP, *_LEAVING):
                self._run(name, ["--help"])
                return
        table = Table(box=None, show_header=False, pad_edge=False)
        for name in self._commands:
            command = self._command(name)
            table.add_row(f"/{name} {_forms(command)}".rstrip(), command.get_short_help_str(limit=160))
        table.add_row(
            "/search … | /open [N]", "Opens the best that was found, or number N; so do other commands with an ID."
        )
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


def _ids(view: object) -> list[str]:
    """The ids of the records that a command's JSON lists, best first."""
    lists = [view, *(view.values() if isinstance(view, dict) else ())]
    records = next((each for each in lists if isinstance(each, list)), [])
    return [str(each["id"]) for each in records if isinstance(each, dict) and "id" in each]


def _forms(command: click.Command) -> str:
    """The words that may follow a command, or its own commands; of many the first, for the help of each lists all."""
    if isinstance(command, click.Group):
        names = list(command.commands)
        return f"[{'|'.join(names if len(names) <= _MOST_FORMS else [*names[: _MOST_FORMS - 1], '…'])}]"
    forms = []
    for argument in command.params:
        if isinstance(argument, click.Argument):
            name = (argument.name or "").upper()
            forms.append(argument.metavar or (name if argument.required else f"[{name}]"))
    return " ".join(forms)
