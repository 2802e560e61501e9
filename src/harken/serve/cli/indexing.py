"""`harken index`, `code`, `commits` and `documents`: what lies on the disk made searchable, searched and counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.errors import MissingExtraError
from harken.model.arguments import DEFAULT_LIMIT, MAX_LIMIT, MODES, MOST_COMMITS
from harken.model.conversations import ContextItem
from harken.model.workspace import LANGUAGES, Commit
from harken.serve.cli.importing import embed_now
from harken.serve.cli.session import CommandSession, print_json, with_json
from harken.text.dates import parse_since
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.sources.source import SourceHit
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.tree import IndexReport

_LIMIT = click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=DEFAULT_LIMIT, help="At most so many.")
_PROJECT = click.option("--project", help="Only this project: its short name, key or folder.")
_MODE = click.option("--mode", type=click.Choice(MODES), default="hybrid", help="Words, meaning, or both.")
_LANGUAGE = click.option("--language", type=click.Choice(LANGUAGES), help="Only code of this language.")
_IN = click.option(
    "--in", "folder", type=click.Path(path_type=Path), default=".", help="Anywhere in the repository; here by default."
)


def _search_options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (*options, with_json)[::-1]:
            command = option(command)
        return command

    return decorated


@click.group()
def index() -> None:
    """Make code, commits and documents searchable; only what has changed since the last time is read."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.argument("path", default=".", type=click.Path(path_type=Path)),
        click.option(
            "--no-embed", is_flag=True, help="Do not embed now; `harken worker run --until-idle` does it later."
        ),
        with_json,
    )[::-1]:
        command = option(command)
    return command


@index.command("code")
@_options
def index_code(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index functions, classes, methods, modules and constants of a folder; what git ignores is left out."""
    _index(session, ("code",), path, no_embed, as_json)


@index.command("docs")
@_options
def index_docs(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index Markdown, text and PDF files of a folder; what git ignores is left out."""
    _index(session, ("documents",), path, no_embed, as_json)


@index.command("commits")
@click.option("--since", help="Leave earlier commits out; five years ago where nothing is said.")
@click.option("--limit", type=click.IntRange(1), default=MOST_COMMITS, help="Only so many of the newest.")
@_options
def index_commits(
    session: CommandSession, path: Path, no_embed: bool, as_json: bool, since: str | None, limit: int
) -> None:
    """Index the history that HEAD comes from."""
    earliest = parse_since(since, datetime.now(UTC)) if since else None
    _index(session, ("commits",), path, no_embed, as_json, earliest, limit)


@index.command("all")
@_options
def index_all(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index code, commits and documents of a repository; of a folder without git, all but commits."""
    from harken.sources.workspace.files import find_place

    kinds: tuple[str, ...] = ("code", "commits", "documents")
    if find_place(path).repository is None:
        kinds = ("code", "documents")
        session.note(f"{path} is in no git repository, or git is not installed: there are no commits to index.")
    _index(session, kinds, path, no_embed, as_json)


def _index(
    session: CommandSession,
    kinds: Sequence[str],
    path: Path,
    no_embed: bool,
    as_json: bool,
    since: datetime | None = None,
    limit: int = MOST_COMMITS,
) -> None:
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.tree import IndexReport

    done: dict[str, IndexReport | CommitReport] = {}
    with session.engine() as harken:
        try:
            for kind in kinds:
                with session.progress(f"Indexing {kind}", "commits" if kind == "commits" else "files") as show:
                    if kind == "commits":
                        done[kind] = commits = CommitReport()
                        harken.commits.index(path, since=since, limit=limit, progress=show, report=commits)
                    else:
                        done[kind] = files = IndexReport()
                        (harken.code if kind == "code" else harken.documents).index(path, show, files)
        except MissingExtraError:
            # It read nothing, and what to install is all there is to say.
            done.popitem()
            raise
        finally:
            if not as_json:
                _print_reports(session, {kind: report for kind, report in done.items() if report.project})
        embedded = None if no_embed else embed_now(session, harken, "entries")
    if as_json:
        print_json({**{kind: report.view() for kind, report in done.items()}, "embedded": embedded})


def _print_reports(session: CommandSession, done: Mapping[str, IndexReport | CommitReport]) -> None:
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.documents import NEEDS_EXTRA

    for name, report in done.items():
        if isinstance(report, CommitReport):
            session.say(
                f"commits: {counted(report.added, 'new commit')}, {report.known:,} known already"
                f", {report.removed:,} on no branch any more."
            )
            if report.cut:
                session.note(
                    f"{counted(report.cut, 'commit')} left out: this clone is shallow and lacks what came before."
                    " Bring it: git fetch --unshallow"
                )
            continue
        changes = report.changes
        session.say(
            f"{name}: {counted(report.indexed, 'file')} read, {report.unchanged:,} unchanged, {report.gone:,} gone"
            f" ({changes.added:,} new parts, {changes.changed:,} changed, {changes.removed:,} removed)."
        )
        if report.skipped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.skipped.items()))
            session.say(f"{name}: passed over: {reasons}.")
        if NEEDS_EXTRA in report.skipped:
            session.note("PDF files need an extra that is not installed. Try: pip install 'harken[pdf]'")


@click.group()
def code() -> None:
    """Find code that was indexed (`harken index code`)."""


@code.command("search")
@click.argument("query", nargs=-1, required=True)
@_search_options(_LANGUAGE, _PROJECT, _LIMIT, _MODE)
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
@_search_options(_LANGUAGE, _PROJECT, _LIMIT)
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
@_search_options(_PROJECT, _LIMIT, _MODE)
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
@_search_options(_PROJECT, _LIMIT, _MODE)
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
@_search_options(_LIMIT)
def file_history(session: CommandSession, path: Path, limit: int, as_json: bool) -> None:
    """Show the commits that changed FILE, newest first, also under the names that it had before."""
    with session.engine() as harken:
        found = harken.commits.history(path, limit)
    if as_json:
        print_json({"commits": [_commit_view(commit) for commit in found]})
        return
    from harken.sources.workspace.commits import commit_item

    _print_items(session, [commit_item(commit, 1.0) for commit in found])


@commits.command("churn")
@click.option("--days", type=click.IntRange(1), default=90, help="How far back.")
@_search_options(_IN, _LIMIT)
def churn(session: CommandSession, days: int, folder: Path, limit: int, as_json: bool) -> None:
    """Show the files that changed most often."""
    with session.engine() as harken:
        found = harken.commits.churn(folder, days, limit)
    if as_json:
        print_json({"files": [_plain(one, "path changes insertions deletions authors last_at") for one in found]})
        return
    for one in found:
        lines = f"+{one.insertions:,} -{one.deletions:,}"
        session.say(f"{one.changes:5}  {one.path}  {lines}, {counted(one.authors, 'author')}")
    if not found:
        session.say(f"Nothing changed in {counted(days, 'day')}.")


@commits.command("authors")
@click.argument("path", default=".", type=click.Path(path_type=Path))
@_search_options()
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
        session.say(f"{one.commits:5}  {one.author} <{one.email}>  {lines}, last on {last}")
    if not found:
        session.say("Nobody changed it in the commits that are indexed.")


def _plain(record: object, names: str) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in names.split()}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def _commit_view(commit: Commit) -> dict[str, Any]:
    from harken.sources.workspace.commits import commit_item

    return {**commit_item(commit, 1.0).metadata, "message": commit.message}


def _print_found(session: CommandSession, found: SourceHit, as_json: bool) -> None:
    if as_json:
        pairs = zip(found.hits, found.items, strict=True)
        hits = [{**hit.view(), "markdown": item.content, "metadata": dict(item.metadata)} for hit, item in pairs]
        print_json({"hits": hits, "notes": list(found.notes)})
        return
    for note in found.notes:
        session.note(note)
    _print_items(session, found.items)


def _print_items(session: CommandSession, items: Sequence[ContextItem]) -> None:
    for item in items:
        session.say(item.content)
        session.say()
    if not items:
        session.say("Nothing was found.")
