"""`harken config`: what is set, where it comes from, and values that are changed at run time."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.table import Table

from harken.config.settings import SettingValue, load_settings
from harken.journal.journal import DATABASE_NAME
from harken.serve.cli.session import CommandSession, json_option, print_json, with_session


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Show every setting, and where its value comes from; set one at run time."""
    if context.invoked_subcommand is None:
        _print(context.obj, _values(context.obj), as_json)


@config.command("set")
@click.argument("key")
@click.argument("value")
@json_option
@with_session
def set_value(session: CommandSession, key: str, value: str, as_json: bool) -> None:
    """Keep a value in the store: it stands above the settings file and the environment, for every process."""
    with session.engine() as harken:
        kept = harken.run_time.set(key, value)
    _print(session, [kept], as_json)


@config.command()
@click.argument("key")
@json_option
@with_session
def unset(session: CommandSession, key: str, as_json: bool) -> None:
    """Take a value back that was set at run time."""
    with session.engine() as harken:
        now = harken.run_time.unset(key)
    _print(session, [now], as_json)


def _values(session: CommandSession) -> list[SettingValue]:
    """Nothing is opened or made where there is no store that could hold more."""
    loaded = load_settings(session.home, overrides=session.overrides)
    if loaded.settings.store is None and not (loaded.settings.home / DATABASE_NAME).exists():
        return loaded.values()
    with session.engine() as harken:
        return harken.loaded.values()


def _print(session: CommandSession, values: Sequence[SettingValue], as_json: bool) -> None:
    if as_json:
        print_json([{"key": value.key, "value": value.value, "origin": value.origin} for value in values])
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for value in values:
        table.add_row(value.key, "" if value.value is None else str(value.value), value.origin)
    session.out.print(table)
