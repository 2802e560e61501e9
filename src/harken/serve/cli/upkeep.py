"""`harken doctor`, `forget`, `reindex`, `migrate`, `backup`, `restore` and `config`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.errors import HarkenError, StoreCorruptError, UsageError
from harken.serve.cli.session import CommandAnswer, CommandSession, json_option, on_store, print_json, with_json
from harken.text.shown import counted, readable_bytes

if TYPE_CHECKING:
    from harken.config.settings import LoadedSettings, SettingValue
    from harken.engine import Harken
    from harken.record.doctor import Finding


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@with_json
def doctor(session: CommandSession, fix: bool, as_json: bool) -> None:
    """Check that database, journal, full text and vectors agree; exit 0 only when all does."""
    findings = _examined(session, fix)
    damaged = any(found.check == "database" and not found.fixed for found in findings)
    if fix and damaged and session.opened is None and session.settings().store is None:
        _set_database_aside(session)
        findings = [*(replace(found, fixed=True) for found in findings), *_examined(session, fix)]
    is_well = all(found.fixed for found in findings)
    lines = [f"{'fixed' if found.fixed else 'problem'}: {found.problem}" for found in findings]
    view = {"ok": is_well, "findings": [asdict(found) for found in findings]}
    session.tell(as_json, view, *(lines or ["All agrees: database, journal, full text, vectors, leases."]))
    if not is_well:
        if not fix:
            session.note(f"Repair with: {session.prefix}doctor --fix")
        raise click.exceptions.Exit(1)


def _examined(session: CommandSession, fix: bool) -> list[Finding]:
    try:
        is_own = session.opened is None and not session.is_of_team
        if is_own and (session.settings().store or "").startswith("postgresql"):
            from harken.engine.team import examine

            with session.team() as (team, _operator):
                return examine(team, fix)
        with session.engine(["admin"] if fix else []) as harken:
            return harken.maintenance.doctor(fix)
    except StoreCorruptError as error:
        from harken.record.doctor import Finding

        return [Finding("database", str(error))]


def _set_database_aside(session: CommandSession) -> None:
    """Move a damaged database away, and make it anew from the journal, with the settings that it can still tell."""
    from harken.config.settings import RUN_TIME
    from harken.journal.journal import DATABASE_NAME
    from harken.journal.replay import set_database_aside

    kept: list[SettingValue] | None = None
    with suppress(HarkenError):
        kept = [value for value in _loaded(session).values() if value.origin == RUN_TIME]
    for moved in set_database_aside(session.settings().home / DATABASE_NAME):
        session.note(f"The damaged database was moved to {moved}")
    with suppress(HarkenError), session.engine() as harken:
        for value in kept or ():
            harken.run_time.set(value.key, value.value)
    lost = f"what `{session.prefix}config set` kept, " if kept is None else ""
    session.note(f"The journal has not, and has to be given again: {lost}webhooks, indexes, books of what models cost.")


@click.command()
@click.argument("messages", nargs=-1, metavar="[ID]...")
@click.option("--conversation", "conversations", multiple=True, help="A whole conversation, by how its id begins.")
@click.option("--project", help="Every conversation of a project.")
@click.option("--query", help="Every message that holds all of these words.")
@click.option("--keep-copies", is_flag=True, help="Leave copies that were shared in other spaces of a team.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_json
def forget(session: CommandSession, yes: bool, as_json: bool, keep_copies: bool, **named: Any) -> None:
    """Forget messages for good: the words are erased everywhere, and only their ids remain."""
    with session.engine(["forget"]) as harken:
        doomed = harken.maintenance.plan_forget(**named)
        if not doomed.tombstones:
            nothing = "No message holds all of these words." if named["query"] else "The project has no conversations."
            raise UsageError(nothing)
        doomed = replace(doomed, copies=(), shared=()) if keep_copies else doomed
        shared = f" and {counted(doomed.shares, 'shared copy', 'shared copies')}" if doomed.copies else ""
        if not yes:
            session.confirm("Nothing was forgotten", f"Forget {counted(doomed.messages, 'message')}{shared} for good?")
        with session.progress("Forgetting", "records") as show:
            done = harken.maintenance.forget(doomed, show)
    if not done.scrubbed:
        session.note("Freed space may still hold the words. In a team its worker sees to it; else later: harken doctor")
    ids = [tombstone.uid for tombstone in doomed.tombstones]
    view = {"messages": done.messages, "conversations": done.conversations, "ids": ids, "copies": doomed.shares}
    said = f"Forgot {counted(done.messages, 'message')}{shared}."
    session.tell(as_json, view, f"{said} Backups made earlier still hold them.")


@click.command()
@click.option("--from-journal", is_flag=True, help="Make the whole database anew from the journal.")
@with_json
def reindex(session: CommandSession, from_journal: bool, as_json: bool) -> None:
    """Embed everything again, or make the whole database anew from the journal; ids stay as they are."""
    if not from_journal:
        _embed_again(session, as_json)
        return
    settings = session.settings()
    if settings.store is not None:
        raise UsageError("The store that the settings name keeps no journal: its database is the truth.")
    from harken.journal.journal import DATABASE_NAME

    database = settings.home / DATABASE_NAME
    try:
        # Opening brings in whatever a database that is missing lacks, so there is nothing left to rebuild then.
        count = _reindex(session, rebuild=database.exists())
    except StoreCorruptError:
        _set_database_aside(session)
        count = _reindex(session, rebuild=False)
    session.tell(as_json, {"messages": count}, f"The database holds {counted(count, 'message')} of the journal.")


def _embed_again(session: CommandSession, as_json: bool) -> None:
    with session.engine(["admin"]) as harken:
        waiting = harken.maintenance.embed_again()
        with session.progress("Embedding", "entries") as show:
            done = harken.embed(show, patient=True)
        failed = harken.maintenance.status().counts.failed
    view = {"waiting": waiting, "embedded": done, "failed": failed}
    session.tell(as_json, view, f"Embedded {counted(done, 'text')} of {waiting:,} again.")
    if failed:
        raise HarkenError(f"{counted(failed, 'text')} given up after repeated failures. Again: harken worker retry")


def _reindex(session: CommandSession, rebuild: bool) -> int:
    with session.engine() as harken:
        if rebuild:
            with session.progress("Reindexing", "conversations") as show:
                for done, total in harken.maintenance.reindex_from_journal():
                    show(done, total)
        return harken.maintenance.status().counts.messages


@click.command()
@click.option("--language", help="Whose word forms full text knows: english (the default), german, russian …")
@click.option("--role", help="Give this role of the server the rights to use the tables, of one tenant at a time.")
@click.option("--distribute", is_flag=True, help="Spread the tables over the machines of a Citus cluster, by tenant.")
@with_json
def migrate(session: CommandSession, language: str | None, role: str | None, distribute: bool, as_json: bool) -> None:
    """Make or upgrade the tables of the store, as their owner; an embedded store is upgraded whenever it is opened."""
    from harken.engine.maintenance import migrate as migrate_store

    done = migrate_store(session.settings(), language, role, distribute)
    now = "" if done.before == done.schema else " now"
    view = {"before": done.before, "schema": done.schema, "distributed": list(done.distributed)}
    spread = f"\nSpread by tenant: {', '.join(done.distributed)}." if done.distributed else ""
    session.tell(as_json, view, f"The store has schema {done.schema}{now}.{spread}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@on_store
def backup(harken: Harken, file: Path) -> CommandAnswer:
    """Write one file with everything, while others go on using the store."""
    size = harken.maintenance.backup(file)
    return CommandAnswer({"file": str(file), "bytes": size}, [f"{file}: {readable_bytes(size)}"])


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@with_json
def restore(session: CommandSession, file: Path, as_json: bool) -> None:
    """Put a backup into a home that has no store yet."""
    from harken.journal.backup import restore as restore_backup

    home = session.settings().home
    if own := restore_backup(file, home):
        session.note(f"{own} stays; the backup's settings were not taken.")
    if session.settings().store is not None:
        what = f"{home}/harken.db is what was restored, but the settings name another store"
        raise HarkenError(f"{what}. Put it there, or take `store` out of them.")
    with session.engine() as harken:
        count = harken.maintenance.status().counts.messages
    session.tell(as_json, {"home": str(home), "messages": count}, f"{home} holds {counted(count, 'message')}.")


@click.group(invoke_without_command=True)
@click.option("--all", "with_defaults", is_flag=True, help="Show those with their defaults as well.")
@json_option
@click.pass_context
def config(context: click.Context, with_defaults: bool, as_json: bool) -> None:
    """Show the settings that differ from their defaults, and where each comes from; set one for good.

    With --all, or --json, all of them.
    """
    if context.invoked_subcommand is None:
        loaded = _loaded(context.obj)
        every = loaded.values()
        shown = [value for value in every if with_defaults or as_json or value.origin != "default"]
        _print(context.obj, shown, as_json)
        if len(every) > len(shown):
            context.obj.note(f"{len(every) - len(shown)} more have their defaults: harken config --all")
        if loaded.passed_over:
            context.obj.note(f"Passed over in the settings file, for nothing reads it: {', '.join(loaded.passed_over)}")


@config.command("set")
@click.argument("key")
@click.argument("value")
@with_json
def set_value(session: CommandSession, key: str, value: str, as_json: bool) -> None:
    """Keep a value in the store: it stands above the settings file and the environment, for every process."""
    with session.engine() as harken:
        kept = harken.run_time.set(key, value)
    _print(session, [kept], as_json)


@config.command()
@click.argument("key")
@with_json
def unset(session: CommandSession, key: str, as_json: bool) -> None:
    """Take a value back that was set at run time."""
    with session.engine() as harken:
        now = harken.run_time.unset(key)
    _print(session, [now], as_json)


def _loaded(session: CommandSession) -> LoadedSettings:
    """Nothing is opened or made where there is no store that could hold more."""
    from harken.config.settings import load_settings
    from harken.journal.journal import DATABASE_NAME

    loaded = load_settings(session.home, overrides=session.overrides)
    if loaded.settings.store is None and not (loaded.settings.home / DATABASE_NAME).exists():
        return loaded
    with session.engine() as harken:
        return harken.loaded


def _print(session: CommandSession, values: Sequence[SettingValue], as_json: bool) -> None:
    if as_json:
        print_json([value.view() for value in values])
        return
    from rich.table import Column, Table

    from harken.config.settings import RUN_TIME

    table = Table(Column("setting", no_wrap=True), Column("value", overflow="fold"), "from", box=None, pad_edge=False)
    for value in values:
        # What is set at run time is kept in the store, for every process.
        origin = "config set, kept" if value.origin == RUN_TIME else value.origin
        given = "none" if value.value is None and value.origin != "default" else value.value
        table.add_row(value.key, "" if given is None else str(given), origin)
    session.out.print(table)
