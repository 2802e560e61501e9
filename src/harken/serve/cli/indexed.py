"""`harken code`, `harken commits` and `harken documents`: what was indexed, searched and counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harken.model.conversations import ContextItem
from harken.model.workspace import LANGUAGES, Commit
from harken.search.search import MODES
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, with_session
from harken.serve.facts.said import hit_facts
from harken.sources.found import DEFAULT_LIMIT, MAX_LIMIT, SourceHit
from harken.sources.workspace.commits import commit_item
from harken.text.dates import parse_since

_LIMIT = click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=DEFAULT_LIMIT, help="At most so many.")
_PROJECT = click.option("--project", help="Only this project: its short name, key or folder.")
_MODE = click.option("--mode", type=click.Choice(MODES), default="hybrid", help="Words, meaning, or both.")
_LANGUAGE = click.option("--language", type=click.Choice(LANGUAGES), help="Only code of this language.")
_IN = click.option(
    "--in", "folder", type=click.Path(path_type=Path), default=".", help="Anywhere in the repository; here by default."
)


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (*options, json_option, with_session)[::-1]:
            command = option(command)
        return command

    return decorated


@click.group()
def code() -> None:
    """Find code that was indexed (`harken index code`)."""


@code.command("search")
@click.argument("query", nargs=-1, required=True)
@_options(_LANGUAGE, _PROJECT, _LIMIT, _MODE)
def search_code(
    session: CommandSession,
    query: tuple[str, ...],
    language: str | None,
    project: str | None,
    limit: int,
    mode: str,
    as_json: bool,
) -> None:
    """Find functions, classes, methods, modules and constants by what they are for, or are called."""
    with session.engine() as harken:
        found = harken.code.search(" ".join(query), language=language, project=project, limit=limit, mode=mode)
    _print_found(session, found, as_json)


@code.command("similar")
@click.argument("snippet")
@_options(_LANGUAGE, _PROJECT, _LIMIT)
def similar_code(
    session: CommandSession, snippet: str, language: str | None, project: str | None, limit: int, as_json: bool
) -> None:
    """Find code like a SNIPPET; `-` reads it from standard input."""
    text = sys.stdin.read() if snippet == "-" else snippet
    with session.engine() as harken:
        found = harken.code.similar(text, language=language, project=project, limit=limit)
    _print_found(session, found, as_json)


@click.group()
def documents() -> None:
    """Find passages of documents that were indexed (`harken index docs`)."""


@documents.command("search")
@click.argument("query", nargs=-1, required=True)
@_options(_PROJECT, _LIMIT, _MODE)
def search_documents(
    session: CommandSession, query: tuple[str, ...], project: str | None, limit: int, mode: str, as_json: bool
) -> None:
    """Find passages by word and by meaning."""
    with session.engine() as harken:
        found = harken.documents.search(" ".join(query), project=project, limit=limit, mode=mode)
    _print_found(session, found, as_json)


@click.group()
def commits() -> None:
    """Find commits that were indexed (`harken index commits`), and count what they say of files and people."""


@commits.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--author", help="Only by this one: the whole name, a word of it, or the address.")
@click.option("--since", help="Not before this: 2026-05-08, yesterday, '2 weeks ago', 'May 2023'.")
@_options(_PROJECT, _LIMIT, _MODE)
def search_commits(
    session: CommandSession,
    query: tuple[str, ...],
    author: str | None,
    since: str | None,
    project: str | None,
    limit: int,
    mode: str,
    as_json: bool,
) -> None:
    """Find commits by what they did."""
    earliest = parse_since(since, datetime.now(UTC)) if since else None
    with session.engine() as harken:
        found = harken.commits.search(
            " ".join(query), author=author, since=earliest, project=project, limit=limit, mode=mode
        )
    _print_found(session, found, as_json)


@commits.command("history")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@_options(_LIMIT)
def file_history(session: CommandSession, path: Path, limit: int, as_json: bool) -> None:
    """Show the commits that changed FILE, newest first, also under the names that it had before."""
    with session.engine() as harken:
        found = harken.commits.history(path, limit)
    if as_json:
        print_json({"commits": [_commit_facts(commit) for commit in found]})
        return
    _print_items(session, [commit_item(commit, 1.0) for commit in found])


@commits.command("churn")
@click.option("--days", type=click.IntRange(1), default=90, help="How far back.")
@_options(_IN, _LIMIT)
def churn(session: CommandSession, days: int, folder: Path, limit: int, as_json: bool) -> None:
    """Show the files that changed most often."""
    with session.engine() as harken:
        found = harken.commits.churn(folder, days, limit)
    if as_json:
        print_json({"files": [_plain(one, "path changes insertions deletions authors last_at") for one in found]})
        return
    for one in found:
        lines = f"+{one.insertions:,} -{one.deletions:,}"
        session.out.print(Text(f"{one.changes:5}  {one.path}  {lines}, {counted(one.authors, 'author')}"))
    if not found:
        session.out.print(f"Nothing changed in {counted(days, 'day')}.")


@commits.command("authors")
@click.argument("path", default=".", type=click.Path(path_type=Path))
@_options()
def authors(session: CommandSession, path: Path, as_json: bool) -> None:
    """Show who changed a file, or what lies in a folder."""
    with session.engine() as harken:
        found = harken.commits.authors(path)
    if as_json:
        names = "author email commits insertions deletions first_at last_at"
        print_json({"authors": [_plain(one, names) for one in found]})
        return
    for one in found:
        last = one.last_at.date().isoformat()
        lines = f"+{one.insertions:,} -{one.deletions:,}"
        session.out.print(Text(f"{one.commits:5}  {one.author} <{one.email}>  {lines}, last on {last}"))
    if not found:
        session.out.print("Nobody changed it in the commits that are indexed.")


def _plain(record: object, names: str) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in names.split()}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _commit_facts(commit: Commit) -> dict[str, Any]:
    return {**commit_item(commit, 1.0).metadata, "message": commit.message}


def _print_found(session: CommandSession, found: SourceHit, as_json: bool) -> None:
    if as_json:
        pairs = zip(found.hits, found.items, strict=True)
        hits = [{**hit_facts(hit), "markdown": item.content, "metadata": dict(item.metadata)} for hit, item in pairs]
        print_json({"hits": hits, "notes": list(found.notes)})
        return
    for note in found.notes:
        session.note(note)
    _print_items(session, found.items)


def _print_items(session: CommandSession, items: Sequence[ContextItem]) -> None:
    for item in items:
        session.out.print(Text(item.content))
        session.out.print()
    if not items:
        session.out.print("Nothing was found.")
