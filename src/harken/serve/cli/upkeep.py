"""`harken doctor`, `forget`, `reindex`, `backup`, `restore`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harken.config.settings import load_settings
from harken.engine.maintenance import migrate as migrate_store
from harken.errors import HarkenError, StoreCorruptError, UsageError
from harken.journal.backup import restore as restore_backup
from harken.journal.journal import DATABASE_NAME
from harken.journal.replay import set_database_aside
from harken.record.forget import Doomed
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, readable_bytes, with_session
from harken.storage.migrations import HEAD


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@json_option
@with_session
def doctor(session: CommandSession, fix: bool, as_json: bool) -> None:
    """Check that database, journal, full text and vectors agree; exit 0 only when all does."""
    with session.engine() as harken:
        findings = harken.upkeep.doctor(fix)
    if as_json:
        facts = [{"check": found.check, "problem": found.problem, "fixed": found.fixed} for found in findings]
        print_json({"ok": all(found.fixed for found in findings), "findings": facts})
    for found in [] if as_json else findings:
        session.out.print(f"{'fixed' if found.fixed else 'problem'}: {found.problem}", markup=False)
    if any(not found.fixed for found in findings):
        if not fix:
            session.note("Repair with: harken doctor --fix")
        raise click.exceptions.Exit(1)
    if not as_json and not findings:
        session.out.print("All agrees: database, journal, full text, vectors, leases.")


@click.command()
@click.argument("messages", nargs=-1, metavar="[ID]...")
@click.option("--conversation", multiple=True, help="A whole conversation, by id.")
@click.option("--project", help="Every conversation of a project.")
@click.option("--query", help="Every message that holds all of these words.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@with_session
def forget(
    session: CommandSession,
    messages: tuple[str, ...],
    conversation: tuple[str, ...],
    project: str | None,
    query: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget messages for good: the words are erased everywhere, and only their ids remain."""
    with session.engine() as harken:
        doomed = harken.upkeep.plan_forget(messages=messages, conversations=conversation, project=project, query=query)
        if not doomed.tombstones:
            raise UsageError("No message holds all of these words.")
        if not yes:
            _confirm(doomed)
        with session.progress("Forgetting", "records") as show:
            done = harken.upkeep.forget(doomed, show)
    if not done.scrubbed:
        session.note("Freed space may still hold the words: another process is reading. When it is done: harken doctor")
    if as_json:
        ids = [tombstone.uid for tombstone in doomed.tombstones]
        print_json({"messages": done.messages, "conversations": done.conversations, "ids": ids})
    else:
        session.out.print(f"Forgot {counted(done.messages, 'message')}. Backups made earlier still hold them.")


def _confirm(doomed: Doomed) -> None:
    try:
        agreed = click.confirm(f"Forget {counted(doomed.messages, 'message')} for good?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise UsageError("Nothing was forgotten, for nobody answered. Where nobody can, add --yes.") from None
    if not agreed:
        raise HarkenError("Nothing was forgotten.")


@click.command()
@click.option("--from-journal", is_flag=True, help="Make the whole database anew from the journal.")
@json_option
@with_session
def reindex(session: CommandSession, from_journal: bool, as_json: bool) -> None:
    """Embed everything again, or make the whole database anew from the journal; ids stay as they are."""
    if not from_journal:
        _embed_again(session, as_json)
        return
    settings = load_settings(session.home, overrides=session.overrides).settings
    if settings.store is not None:
        raise UsageError("The store that the settings name keeps no journal: its database is the truth.")
    database = settings.home / DATABASE_NAME
    try:
        # Opening brings in whatever a database that is missing lacks, so there is nothing left to rebuild then.
        count = _reindex(session, rebuild=database.exists())
    except StoreCorruptError:
        for moved in set_database_aside(database):
            session.note(f"The damaged database was moved to {moved}")
        count = _reindex(session, rebuild=False)
    if as_json:
        print_json({"messages": count})
    else:
        session.out.print(f"The database holds {counted(count, 'message')} of the journal.")


def _embed_again(session: CommandSession, as_json: bool) -> None:
    with session.engine() as harken:
        waiting = harken.upkeep.embed_again()
        with session.progress("Embedding", "entries") as show:
            done = harken.embed(show, patient=True)
        failed = harken.upkeep.status().counts.failed
    if as_json:
        print_json({"waiting": waiting, "embedded": done, "failed": failed})
    else:
        session.out.print(f"Embedded {counted(done, 'text')} of {waiting:,} again.")
    if failed:
        raise HarkenError(f"{counted(failed, 'text')} given up after repeated failures. Again: harken worker retry")


def _reindex(session: CommandSession, rebuild: bool) -> int:
    with session.engine() as harken:
        if rebuild:
            with session.progress("Reindexing", "conversations") as show:
                for done, total in harken.upkeep.reindex_from_journal():
                    show(done, total)
        return harken.upkeep.status().counts.messages


@click.command()
@click.option("--language", help="Whose word forms full text knows: english (the default), german, russian …")
@click.option("--role", help="Give this role of the server the rights to use the tables, of one tenant at a time.")
@click.option("--distribute", is_flag=True, hidden=True)
@json_option
@with_session
def migrate(session: CommandSession, language: str | None, role: str | None, distribute: bool, as_json: bool) -> None:
    """Make or upgrade the tables of the store, as their owner; an embedded store is upgraded whenever it is opened."""
    if distribute:
        # Refused by name: earlier versions offered it.
        raise UsageError(
            "Harken does not work on a Citus cluster yet: after --distribute nothing can be written."
            " Nothing was changed. Go without it: harken migrate"
        )
    settings = load_settings(session.home, overrides=session.overrides).settings
    done = migrate_store(settings, language, role)
    if as_json:
        print_json({"before": done.before, "schema": HEAD})
        return
    session.out.print(f"The store has schema {HEAD}." if done.before == HEAD else f"The store has schema {HEAD} now.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@with_session
def backup(session: CommandSession, file: Path, as_json: bool) -> None:
    """Write one file with everything, while others go on using the store."""
    with session.engine() as harken:
        size = harken.upkeep.backup(file)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        session.out.print(f"{file}: {readable_bytes(size)}", markup=False)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@json_option
@with_session
def restore(session: CommandSession, file: Path, as_json: bool) -> None:
    """Put a backup into a home that has no store yet."""
    home = load_settings(session.home, overrides=session.overrides).settings.home
    restore_backup(file, home)
    with session.engine() as harken:
        count = harken.upkeep.status().counts.messages
    if as_json:
        print_json({"home": str(home), "messages": count})
    else:
        session.out.print(f"{home} holds {counted(count, 'message')}.", markup=False)
