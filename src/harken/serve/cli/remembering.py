"""`harken memory`: the operations on memories, and what people alone do with them."""

from __future__ import annotations

from typing import Any

import click

from harken.errors import UsageError
from harken.model.arguments import CATEGORIES, MODES
from harken.serve.cli.commands import command_of
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.serve.operations.saved import MEMORIES, REMEMBER, show_memory, show_saved
from harken.text.shown import counted

_CATEGORY = click.Choice(CATEGORIES, case_sensitive=False)


@click.group()
def memory() -> None:
    """Facts, preferences, decisions: what was saved on purpose, found by every search."""


memory.add_command(command_of(REMEMBER))
memory.add_command(command_of(MEMORIES))


@memory.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--category", type=_CATEGORY, help="Only of this one.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; with several, all of them.")
@click.option("--min-importance", type=float, default=0.0, help="Only those at least so important.")
@click.option("--project", help="Only of this project: its short name, key or folder.")
@click.option("--limit", type=int, default=10, show_default=True, help="At most so many, up to 100.")
@click.option("--mode", type=click.Choice(MODES), default="hybrid", help="Words, meaning, or both.")
@with_json
def search(
    session: CommandSession,
    query: tuple[str, ...],
    category: str | None,
    tags: tuple[str, ...],
    min_importance: float,
    project: str | None,
    limit: int,
    mode: str,
    as_json: bool,
) -> None:
    """Find memories by word and by meaning."""
    limits: dict[str, Any] = {"limit": limit, "category": category, "tags": tags, "project": project, "mode": mode}
    with session.engine() as harken:
        found = harken.memories.search(" ".join(query), min_importance=min_importance, **limits)
    if as_json:
        print_json([one.view() for one in found])
        return
    for one in found:
        show_memory(session, one.memory)
    if not found:
        session.say("Nothing was found.")


@memory.command()
@click.argument("identifier", metavar="ID")
@with_json
def show(session: CommandSession, identifier: str, as_json: bool) -> None:
    """Show a whole memory."""
    with session.engine() as harken:
        found = harken.memories.get(identifier)
    if as_json:
        print_json(found.view())
    else:
        show_memory(session, found, is_whole=True)


@memory.command()
@click.argument("identifier", metavar="ID")
@click.argument("text", nargs=-1)
@click.option("--category", type=_CATEGORY, help="Its new category.")
@click.option("--importance", type=float, help="Its new importance, from 0 to 1.")
@click.option("--tag", "tags", multiple=True, help="Its tags from now on, in place of all it has.")
@click.option("--no-tags", is_flag=True, help="Take its tags away.")
@with_json
def edit(
    session: CommandSession,
    identifier: str,
    text: tuple[str, ...],
    category: str | None,
    importance: float | None,
    tags: tuple[str, ...],
    no_tags: bool,
    as_json: bool,
) -> None:
    """Change a memory: its words, category, importance or tags."""
    if tags and no_tags:
        raise UsageError("Give --tag or --no-tags, not both.")
    with session.engine() as harken:
        changed = harken.memories.edit(
            identifier,
            content=" ".join(text) if text else None,
            category=category,
            importance=importance,
            tags=tags if tags or no_tags else None,
        )
    if as_json:
        print_json(changed.view())
    else:
        show_memory(session, changed)


@memory.command()
@click.argument("identifiers", metavar="ID…", nargs=-1, required=True)
@with_json
def forget(session: CommandSession, identifiers: tuple[str, ...], as_json: bool) -> None:
    """Forget memories for good, with those that they superseded: rows, full text, vectors, journal."""
    with session.engine() as harken:
        gone = harken.memories.forget(identifiers)
    session.tell(as_json, {"forgotten": list(gone)}, f"Forgot {counted(len(gone), 'memory', 'memories')}.")


@memory.command()
@click.argument("identifiers", metavar="ID ID…", nargs=-1, required=True)
@click.option("--text", help="Words in place of the first one's.")
@with_json
def merge(session: CommandSession, identifiers: tuple[str, ...], text: str | None, as_json: bool) -> None:
    """Let the first memory stand in place of the others, with all their tags and the highest importance."""
    with session.engine() as harken:
        saved = harken.memories.merge(identifiers, text)
    if as_json:
        print_json(saved.view())
    else:
        show_saved(session, saved)
