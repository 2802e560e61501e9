"""`harken install`: memory put into a coding agent, and taken out again."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import click

from harken.errors import MissingExtraError
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.serve.install.plan import Backups, make, plan
from harken.serve.install.targets import SHARED_COMMAND, TARGETS, Command, Target, Where, own_command
from harken.text.shown import counted

# As much of a change as people look over; a settings file of one line is a line of thousands of characters.
_SHOWN_LINES, _LINE_CHARS = 12, 240


@click.command("install")
@click.argument("agent", type=click.Choice(list(TARGETS)))
@click.option("--uninstall", "undo", is_flag=True, help="Take out what was put in; files are as they were before.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Your own settings, or the files of the project in this folder, which others may get with it.",
)
@with_json
def install_command(session: CommandSession, agent: str, undo: bool, dry_run: bool, scope: str, as_json: bool) -> None:
    """Put memory into a coding agent's settings: hooks, where it has them, and the MCP server.

    Shows what changes, keeps each file as it was, and changes nothing else in it; installing again changes nothing.
    With --uninstall every file is as it was before, to the byte; where you changed it since, your changes are kept.
    """
    from harken.config.settings import environment

    target, home = TARGETS[agent], session.settings().home.expanduser().absolute()
    project = Path.cwd() if scope == "project" else None
    if not undo and target.hooked and not all(map(find_spec, ("starlette", "uvicorn"))):
        raise MissingExtraError("The daemon, which answers an agent's hooks,", "server")
    command, backups = _command(home, shared=project is not None), Backups(home)
    edits = target.edits(Where(Path.home(), project, environment()), command, target.hooked)
    changes = plan(edits, backups, undo=undo)
    if not dry_run:
        make(changes, backups)
    stay = "Conversations that were recorded stay: see `harken status`."
    notes = [stay] if undo else _notes(target, home, shared=project is not None)
    if as_json:
        facts = {"agent": agent, "scope": scope, "dry_run": dry_run, "command": list(command.words)}
        hooks = target.hooked.events if target.hooked and not undo else ()
        files = []
        for change in changes:
            copy = backups.copy(change.real_path)
            kept = str(copy) if copy.exists() else None
            view = {"path": str(change.edit.path), "action": change.action, "backup": kept, "diff": change.diff}
            files.append(view)
        print_json({**facts, "hooks": list(hooks), "files": files, "notes": notes})
        return
    for change in changes:
        session.say(f"{change.action:<10} {change.edit.path}")
    lines = [line for change in changes for line in change.diff.splitlines()]
    shown = lines if dry_run else lines[:_SHOWN_LINES]
    for line in shown:
        session.write(line if len(line) <= _LINE_CHARS else f"{line[: _LINE_CHARS - 1]}…")
    if len(lines) > len(shown):
        session.say(f"… and {counted(len(lines) - len(shown), 'line')} more; before it is done, --dry-run shows all.")
    if dry_run:
        session.say("Nothing was changed (--dry-run).")
    for note in [] if dry_run else notes:
        session.note(note)


def _command(home: Path, *, shared: bool) -> Command:
    from harken.config.settings import default_home, environment

    if shared:
        return Command(SHARED_COMMAND)
    plain = {name: value for name, value in environment().items() if name != "HARKEN_HOME"}
    return Command(own_command(), None if home == default_home(plain).absolute() else str(home))


def _notes(target: Target, home: Path, *, shared: bool) -> list[str]:
    from harken.config.settings import default_home, environment

    notes = list(target.notes)
    if shared and shutil.which(SHARED_COMMAND[0]) is None:
        notes.append("The files name `harken` without a folder, for others have it elsewhere; here, PATH lacks it.")
    if shared and home != default_home({}).absolute():
        notes.append(f"The files do not name your home: set HARKEN_HOME={home} where you start the agent.")
    if find_spec("mcp") is None:
        notes.append("The MCP server needs one more extra: pip install 'harken[mcp]'")
    kept = [name for name in environment() if name.startswith("HARKEN_") and name != "HARKEN_HOME"]
    if kept:
        notes.append(f"{', '.join(sorted(kept))}: not written down; put lasting settings into {home / 'harken.toml'}.")
    return notes
