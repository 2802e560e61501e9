"""`harken memory`: what was saved on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harken.errors import UsageError
from harken.serve.cli.searching import readable_age
from harken.serve.cli.session import CommandSession, json_option, print_json, with_session
from harken.serve.facts.saved import memory_facts, saved_facts
from harken.sources.memories.memories import SavedMemory
from harken.sources.memories.memory import CATEGORIES, Memory

_EXCERPT = 160
_CATEGORY = click.Choice(CATEGORIES, case_sensitive=False)
_MODES = click.Choice(("hybrid", "keyword", "semantic"))


@click.group()
def memory() -> None:
    """Facts, preferences, decisions: what was saved on purpose, found by every search."""


@memory.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--category", type=_CATEGORY, default="fact", show_default=True, help="What kind of memory it is.")
@click.option("--importance", type=float, help="From 0 to 1; 0.5 unless given.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be given several times.")
@click.option("--directory", type=click.Path(path_type=Path), help="Its project's, in place of the current one.")
@click.option("--everywhere", is_flag=True, help="Of no project.")
@json_option
@with_session
def add(
    session: CommandSession,
    text: tuple[str, ...],
    category: str,
    importance: float | None,
    tags: tuple[str, ...],
    directory: Path | None,
    everywhere: bool,
    as_json: bool,
) -> None:
    """Save a memory. One that says the same is merged with it, or gives way to it."""
    place = None if everywhere else directory or Path.cwd()
    with session.engine() as harken:
        saved = harken.memories.add(" ".join(text), category, importance, tags, directory=place)
    _print_saved(session, saved, as_json)


@memory.command("list")
@click.option("--category", type=_CATEGORY, help="Only of this one.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; with several, all of them.")
@click.option("--project", help="Only of this project: its short name, key or folder.")
@click.option("--superseded", is_flag=True, help="Those that others stand in place of as well.")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Pass over so many.")
@json_option
@with_session
def list_memories(
    session: CommandSession,
    category: str | None,
    tags: tuple[str, ...],
    project: str | None,
    superseded: bool,
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """List memories, newest first."""
    with session.engine() as harken:
        found = harken.memories.list(category, tags, project=project, superseded=superseded, limit=limit, offset=offset)
    if as_json:
        print_json([memory_facts(one) for one in found])
        return
    for one in found:
        _print_memory(session, one)
    if not found:
        session.out.print("No memories. Save one: harken memory add TEXT --category fact")


@memory.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--category", type=_CATEGORY, help="Only of this one.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; with several, all of them.")
@click.option("--min-importance", type=float, default=0.0, help="Only those at least so important.")
@click.option("--project", help="Only of this project: its short name, key or folder.")
@click.option("--limit", type=int, default=10, show_default=True, help="At most so many, up to 100.")
@click.option("--mode", type=_MODES, default="hybrid", help="Words, meaning, or both.")
@json_option
@with_session
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
        print_json(
            [{**memory_facts(one.memory), "score": one.hit.score, "similarity": one.hit.similarity} for one in found]
        )
        return
    for one in found:
        _print_memory(session, one.memory)
    if not found:
        session.out.print("Nothing was found.")


@memory.command()
@click.argument("identifier", metavar="ID")
@json_option
@with_session
def show(session: CommandSession, identifier: str, as_json: bool) -> None:
    """Show a whole memory."""
    with session.engine() as harken:
        found = harken.memories.get(identifier)
    if as_json:
        print_json(memory_facts(found))
    else:
        _print_memory(session, found, whole=True)


@memory.command()
@click.argument("identifier", metavar="ID")
@click.argument("text", nargs=-1)
@click.option("--category", type=_CATEGORY, help="Its new category.")
@click.option("--importance", type=float, help="Its new importance, from 0 to 1.")
@click.option("--tag", "tags", multiple=True, help="Its tags from now on, in place of all it has.")
@click.option("--no-tags", is_flag=True, help="Take its tags away.")
@json_option
@with_session
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
        print_json(memory_facts(changed))
    else:
        _print_memory(session, changed)


@memory.command()
@click.argument("identifiers", metavar="ID…", nargs=-1, required=True)
@json_option
@with_session
def forget(session: CommandSession, identifiers: tuple[str, ...], as_json: bool) -> None:
    """Forget memories for good, with those that they superseded: rows, full text, vectors, journal."""
    with session.engine() as harken:
        gone = harken.memories.forget(identifiers)
    if as_json:
        print_json({"forgotten": list(gone)})
    else:
        session.out.print(f"Forgot {_memories(len(gone))}.")


@memory.command()
@click.argument("identifiers", metavar="ID ID…", nargs=-1, required=True)
@click.option("--text", help="Words in place of the first one's.")
@json_option
@with_session
def merge(session: CommandSession, identifiers: tuple[str, ...], text: str | None, as_json: bool) -> None:
    """Let the first memory stand in place of the others, with all their tags and the highest importance."""
    with session.engine() as harken:
        saved = harken.memories.merge(identifiers, text)
    _print_saved(session, saved, as_json)


def _print_saved(session: CommandSession, saved: SavedMemory, as_json: bool) -> None:
    if as_json:
        print_json(saved_facts(saved))
        return
    session.out.print(f"{saved.outcome.capitalize()} {saved.memory.uid}", markup=False)
    did = "is the same as" if saved.outcome == "merged" else "stands in place of"
    for one in saved.alike:
        session.out.print(f"  {did} {one.uid}: {one.why} ({one.similarity:.2f})", markup=False)


def _print_memory(session: CommandSession, found: Memory, whole: bool = False) -> None:
    facts = f"{found.category}, importance {found.importance:g}, {readable_age(found.created_at)}"
    line = Text(facts, style="green")
    line.append(f"  {found.project.name}" if found.project else "", style="cyan")
    line.append("".join(f" #{tag}" for tag in found.tags), style="yellow")
    line.append(f"  {found.uid}", style="dim")
    line.append(f"  {found.trust.label}" if found.trust.is_untrusted else "", style="red")
    session.out.print(line)
    words = found.content if whole else " ".join(found.content.split())
    session.out.print(Text("  " + (words if whole or len(words) <= _EXCERPT else words[: _EXCERPT - 1] + "…")))
    if found.superseded_by:
        session.out.print(Text(f"  superseded by {found.superseded_by}", style="dim"))
    if whole and found.supersedes:
        session.out.print(Text(f"  supersedes {', '.join(found.supersedes)}", style="dim"))


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"
