"""Commands made of operations, and groups that import a command when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from harken.model.arguments import ArgumentField, arguments_of
from harken.serve.cli.session import CommandSession, json_option, print_json
from harken.serve.operations.operation import AnyOperation, Caller, Operation, ShellCommand, Spelling
from harken.serve.operations.remote import ask_daemon, print_recorded

_NO = "--no-"


def command_of(operation: Operation[Any, Any]) -> click.Command:
    """The command of an operation that has one: its arguments parsed, run on the open store, the answer printed."""
    shell = operation.command
    if shell is None:
        raise ValueError(f"{operation.name} has no command")
    shown = [each for each in arguments_of(operation.arguments) if not _spelling(shell, each).is_hidden]

    def run(as_json: bool, **given: Any) -> None:
        session: CommandSession = click.get_current_context().obj
        given = {each.name: _read(_spelling(shell, each), each, given) for each in shown}
        wanted = operation.arguments(**given)
        # What stands on this command line beside the home, and a chat's own store, no daemon knows.
        is_own = session.opened is not None or session.overrides or session.is_verbose
        answer = None if is_own else ask_daemon(session.home, operation, shell, given, as_json)
        if answer is None:
            with session.engine() as harken:
                found = operation.run(harken, wanted, Caller(_here(), is_owner=True, talk=session.talk))
        if as_json:
            print_json(answer["view"] if answer else shell.view(found))
        elif answer:
            print_recorded(session, answer["lines"])
        else:
            shell.show(session, found, wanted)

    parameters = [_parameter(_spelling(shell, each), each) for each in shown]
    return json_option(click.Command(shell.path.split()[-1], callback=run, params=parameters, help=shell.help))


def _here() -> Path | None:
    """The working directory; None where it was deleted meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _spelling(shell: ShellCommand[Any, Any], argument: ArgumentField) -> Spelling:
    return shell.spelling.get(argument.name, Spelling())


def _read(spelling: Spelling, argument: ArgumentField, given: Mapping[str, Any]) -> Any:
    """An argument as its operation takes it."""
    value = given[argument.name]
    if spelling.separator:
        return tuple(name.strip() for name in value.split(spelling.separator) if name.strip())
    if spelling.is_word and isinstance(value, tuple) and not argument.is_many:
        return " ".join(value)
    return value


def _parameter(spelling: Spelling, argument: ArgumentField) -> click.Parameter:
    kind = _type(spelling, argument)
    is_required = argument.default is MISSING
    if spelling.is_word:
        is_several = argument.is_many or (spelling.metavar or "").endswith("...")
        metavar = None if spelling.metavar == "..." else spelling.metavar
        return click.Argument(
            [argument.name], type=kind, required=is_required, nargs=-1 if is_several else 1, metavar=metavar
        )
    default = argument.default if spelling.default is ... else spelling.default
    told: dict[str, Any] = {"help": spelling.help or argument.about.help, "metavar": spelling.metavar}
    name = spelling.option or f"--{argument.name.replace('_', '-')}"
    if argument.kind is bool and default is True and name.startswith(_NO):
        told |= {"is_flag": True, "flag_value": False, "default": True}
    elif argument.kind is bool:
        told |= {"is_flag": True, "default": default}
    elif spelling.separator:
        told |= {"default": spelling.separator.join(default), "show_default": True}
    elif argument.is_many:
        told |= {"type": kind, "multiple": True}
    elif is_required:
        told |= {"type": kind, "required": True}
    else:
        told |= {"type": kind, "default": default, "show_default": default not in (None, "", 0)}
    return click.Option([name, argument.name], **told)


def _type(spelling: Spelling, argument: ArgumentField) -> click.ParamType[Any]:
    if argument.about.choices and not spelling.separator:
        return click.Choice(argument.about.choices, case_sensitive=False)
    least, most = spelling.limits or (argument.about.least, argument.about.most)
    if argument.kind is int and (least, most) != (None, None):
        return click.IntRange(None if least is None else int(least), None if most is None else int(most))
    return click.types.convert_type(argument.kind)


def _group(operation: AnyOperation) -> str:
    return operation.command.path.split()[0] if operation.command else ""


class LazyGroup(click.Group):
    """A group whose commands are known by a table, and imported when they are called.

    Args:
        table: of each command by name, its module and its line in lists. There `OPERATIONS` has it, or those that
            make a group of that name; else it has the same name, or `name_command` where Python needs that itself.
    """

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, in the order of lists."""
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where there is none."""
        if cmd_name not in self.table:
            return None
        module, line = self.table[cmd_name]
        known = vars(import_module(module))
        operations = [each for each in known.get("OPERATIONS", ()) if each.command is not None]
        commands = {each.command.path: command_of(each) for each in operations if _group(each) == cmd_name}
        if commands:
            return commands.get(cmd_name) or click.Group(cmd_name, list(commands.values()), help=line)
        command: click.Command = known.get(f"{cmd_name}_command") or known[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into a help page, from the table alone."""
        room = formatter.width - 6 - max(map(len, self.table))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._line(name, room)) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may stand here, from the table alone."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._line(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _line(self, name: str, most_chars: int = 45) -> str:
        return click.Command(name, help=self.table[name][1]).get_short_help_str(most_chars)
