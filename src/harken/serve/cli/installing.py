"""`harken install` puts memory into a coding agent and takes it out again; `harken setup` begins with all of them."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from harken.errors import HarkenError, MissingExtraError
from harken.serve.cli.importing import import_all
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.serve.cli.talking import choose_model
from harken.serve.install.plan import Backups, Change, make, plan
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
    target, home = TARGETS[agent], session.settings().home.expanduser().absolute()
    project = Path.cwd() if scope == "project" else None
    command, backups = _command(home, shared=project is not None), Backups(home)
    changes = _planned(target, command, backups, project, undo=undo)
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


def _planned(
    target: Target, command: Command, backups: Backups, project: Path | None = None, *, undo: bool = False
) -> list[Change]:
    from harken.config.settings import environment

    if not undo and target.hooked and not all(map(find_spec, ("starlette", "uvicorn"))):
        raise MissingExtraError("The daemon, which answers an agent's hooks,", "server")
    return plan(target.edits(Where(Path.home(), project, environment()), command, target.hooked), backups, undo=undo)


@click.command()
@click.option("--yes", is_flag=True, help="Import and install without asking; what costs money is still asked for.")
@click.option("--model", "name", metavar="VENDOR:MODEL", help="Use this language model; its price is shown first.")
@with_json
def setup(session: CommandSession, yes: bool, name: str | None, as_json: bool) -> None:
    """Find the agents and histories of this machine, import, install, choose a model: each is asked first.

    Without anybody to ask, it says what it has found, and does nothing but what --yes and --model name. A language
    model is sent what you say to it, and what is summarized; until there is one, nothing leaves this machine.
    """
    from harken.config.settings import environment

    where, home = Where(Path.home(), None, environment()), session.settings().home.expanduser().absolute()
    command, backups = _command(home, shared=False), Backups(home)
    agents = [each for each, target in TARGETS.items() if target.edits(where, command, None)[0].path.parent.is_dir()]
    is_asking = not as_json and sys.stdin.isatty()
    done: dict[str, Any] = {"agents": agents, "installed": [], "failed": []}

    def agrees(question: str) -> bool:
        return yes or (is_asking and click.confirm(question, default=True, err=True))

    with session.engine() as harken:
        formats = {each: found for each, one in harken.transcript_formats().items() if (found := one.discover())}
        done["histories"] = {each: [str(path) for path in found] for each, found in formats.items()}
        titles = ", ".join(TARGETS[each].title for each in agents)
        session.note(f"Agents here: {titles or 'none that is known'}. Histories: {', '.join(formats) or 'none'}.")
        if languages := harken.spaces.languages():
            session.note(f"What is not English is found by {languages}")
        if formats and agrees(f"Import what was said in {', '.join(formats)}? It stays on this machine."):
            done["imported"] = import_all(session, harken, list(formats.items()), is_quiet=as_json)
        for each in agents:
            if not agrees(f"Put memory into {TARGETS[each].title}? `harken install {each} --uninstall` undoes it."):
                continue
            try:
                changes = _planned(TARGETS[each], command, backups)
                make(changes, backups)
            except HarkenError as error:
                session.note(f"{TARGETS[each].title}: {error}")
                done["failed"].append(each)
                continue
            done["installed"].append(each)
            for line in (*(f"{change.action:<10} {change.edit.path}" for change in changes), *TARGETS[each].notes):
                session.note(line)
        done["model"] = choose_model(session, harken, name, is_asking=is_asking, is_agreed=yes)
    if not is_asking and not yes:
        session.note("Nobody can answer here. All of it at once: harken setup --yes")
    state = "Ready." if done["installed"] or done["model"] or "imported" in done else "Nothing was set up yet."
    state = f"Not ready: {', '.join(done['failed'])} failed, see above." if done["failed"] else state
    session.tell(as_json, done, f"{state} Try: harken search, harken list, or harken status")
    if done["failed"]:
        raise click.exceptions.Exit(1)


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
        own = ", and HARKEN_KEY into the environment that the agent starts in" * ("HARKEN_KEY" in kept)
        file = home / "harken.toml"
        notes.append(f"{', '.join(sorted(kept))}: not written down; put lasting settings into {file}{own}.")
    return notes
