"""Commands made of operations, and groups that import a command when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from harken.model.arguments import ArgumentField, arguments_of
from harken.serve.cli.session import CommandSession, json_option, print_json
from harken.serve.daemon.remote import ask_daemon, print_recorded
from harken.serve.operations.operation import AnyOperation, Caller


def command_of(operation: AnyOperation) -> click.Command:
    """The command of an operation that has one: its arguments parsed, run on the open store, the answer printed."""
    shown = [each for each in arguments_of(operation.arguments) if not each.spelling.is_hidden]

    def run(as_json: bool, yes: bool = False, **given: Any) -> None:
        session: CommandSession = click.get_current_context().obj
        given = {each.name: _read(each, given[each.name]) for each in shown}
        # What stands on this command line beside the home, and a chat's own store, no daemon knows; and hooks wait for
        # it while it does what takes long.
        is_own = session.opened is not None or session.overrides or session.is_verbose or operation.is_long
        is_own = is_own or session.is_of_team or operation.is_of_team or operation.asks is not None
        answer = None if is_own else ask_daemon(session.home, operation, given, as_json)
        if answer is None:
            try:
                here = Path.cwd()
            except FileNotFoundError:
                here = None
            wanted = operation.arguments(**given)
            asked: Any
            with (session.team if operation.is_of_team else session.engine)(operation.scopes) as asked:
                if operation.asks and not yes:
                    refusal, to = operation.asks(asked, wanted)
                    session.confirm(refusal, to=to)
                found = operation.run(asked, wanted, Caller(here, is_owner=True, talk=session.talk))
        if as_json:
            print_json(answer["view"] if answer else operation.shell_view(found))
            return
        with session.pager(operation.is_paged):
            if answer:
                print_recorded(session, answer["lines"])
            elif operation.show:
                operation.tell(session, found, given)

    parameters = [_parameter(each) for each in shown]
    parameters += [click.Option(["--yes"], is_flag=True, help="Do not ask.")] if operation.asks else []
    help = operation.help or operation.summary
    return json_option(click.Command(operation.words.split()[-1], callback=run, params=parameters, help=help))


def _read(argument: ArgumentField, value: Any) -> Any:
    """An argument as its operation takes it."""
    if separator := argument.spelling.separator:
        return tuple(name.strip() for name in value.split(separator) if name.strip())
    if argument.spelling.is_word and isinstance(value, tuple) and not argument.is_many:
        return " ".join(value)
    return argument.default if value is None and argument.spelling.is_word else value


def _parameter(argument: ArgumentField) -> click.Parameter:
    spelling, kind, is_required = argument.spelling, _type(argument), argument.default is MISSING
    if spelling.is_word:
        is_several = argument.is_many or (spelling.metavar or "").endswith("...")
        metavar = None if spelling.metavar == "..." else spelling.metavar
        return click.Argument(
            [argument.name], type=kind, required=is_required, nargs=-1 if is_several else 1, metavar=metavar
        )
    default = argument.default if spelling.default is ... else spelling.default
    name = spelling.option or f"--{argument.name.replace('_', '-')}"
    facts: dict[str, Any]
    if argument.kind is bool:
        facts = {"is_flag": True, "default": default}
        facts |= {"flag_value": False} if default is True and name.startswith("--no-") else {}
    elif argument.is_many and not spelling.separator:
        facts = {"type": kind, "multiple": True}
    elif is_required:
        facts = {"type": kind, "required": True}
    else:
        default = spelling.separator.join(default) if spelling.separator else default
        facts = {"type": kind, "default": default, "show_default": default not in (None, "", 0)}
    help = (spelling.help or argument.about.help) + " May be repeated." * ("multiple" in facts)
    return click.Option([name, argument.name], help=help, metavar=spelling.metavar, **facts)


def _type(argument: ArgumentField) -> click.ParamType[Any]:
    if argument.about.choices and not argument.spelling.separator:
        return click.Choice(argument.about.choices, case_sensitive=False)
    least, most = argument.spelling.limits or (argument.about.least, argument.about.most)
    ranges: dict[type, Callable[..., click.ParamType[Any]]] = {int: click.IntRange, float: click.FloatRange}
    if argument.kind in ranges and (least, most) != (None, None):
        return ranges[argument.kind](least, most)
    return click.types.convert_type(argument.kind)


_WHOLE = 1000


class LazyGroup(click.Group):
    """A group whose commands are known by a table, and imported when they are called.

    Args:
        sections: the headings of its help, each with the names of its commands, in the order in which they are listed.
        table: of each command by name, its module and its line in lists, which is the help of a group without its
            own. In the module `OPERATIONS` has it, or those that make a group of that name; else it has the same name,
            or `name_command` where Python needs that itself.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        table: Mapping[str, tuple[str, str]],
        sections: Mapping[str, Sequence[str]],
        **settings: Any,
    ) -> None:
        super().__init__(name, [click.Command(each, help=line) for each, (_, line) in table.items()], **settings)
        self.table, self.sections = table, sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command with its whole line, under its heading."""
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.table[name][1]) for name in names])

    def command_named(self, name: str) -> click.Command:
        """The command, imported now; `get_command` knows no more of it than its line."""
        module, line = self.table[name]
        known = vars(import_module(module))
        operations = [each for each in known.get("OPERATIONS", ()) if each.show is not None]
        commands = {each.words: command_of(each) for each in operations if each.words.split()[0] == name}
        command: click.Command
        if commands:
            command = _command(name, commands.pop(name, None), list(commands.values()), line)
        else:
            command = known.get(f"{name}_command") or known[name]
            command.help = command.help or line
        # A list of commands has the whole first sentence of each, which click would cut to a line.
        for each in command.commands.values() if isinstance(command, click.Group) else ():
            each.short_help = each.get_short_help_str(_WHOLE)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, imported."""
        name, _line, rest = super().resolve_command(ctx, args)
        return name, self.command_named(name) if name else None, rest


def _command(name: str, own: click.Command | None, below: Sequence[click.Command], line: str) -> click.Command:
    """A command, or a group of commands; a group that is a command itself when none of its own is called."""
    if own is None or not below:
        return own or click.Group(name, below, help=line)

    def run(**given: Any) -> None:
        if click.get_current_context().invoked_subcommand is None and own.callback:
            own.callback(**given)

    return click.Group(name, below, invoke_without_command=True, callback=run, params=own.params, help=own.help)
