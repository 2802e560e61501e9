"""`harken index`, `code`, `commits` and `documents`: what lies on the disk made searchable, searched and counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.errors import MissingExtraError
from harken.model.arguments import DEFAULT_LIMIT, MAX_LIMIT, MODES, MOST_COMMITS
from harken.model.workspace import LANGUAGES
from harken.serve.cli.importing import embed_now, no_embed_option
from harken.serve.cli.session import CommandAnswer, CommandSession, Report, on_store, print_json, with_json
from harken.serve.operations.operation import Caller, Piece
from harken.text.dates import since_of
from harken.text.shown import counted, readable_bytes

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.conversations import ContextItem
    from harken.sources.source import SourceHit
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.tree import IndexReport

_QUERY = click.argument("query", nargs=-1, required=True)
_LIMIT = click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=DEFAULT_LIMIT, help="At most so many.")
_PROJECT = click.option("--project", help="Only this project: its short name, key or folder.")
_MODE = click.option("--mode", type=click.Choice(MODES), default="hybrid", help="Words, meaning, or both.")
_LANGUAGE = click.option("--language", type=click.Choice(LANGUAGES), help="Only code of this language.")
_PATH = click.argument("path", default=".", type=click.Path(path_type=Path))
_DROP = click.option("--drop", is_flag=True, help="Take it out of the index, though it is on the disk.")


def _indexing(command: Callable[..., None]) -> Callable[..., None]:
    return _PATH(_DROP(no_embed_option(with_json(command))))


def _of_project(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    @wraps(command)
    def of_project(harken: Harken, project: str | None, **given: Any) -> CommandAnswer:
        return command(harken, project=Caller(is_owner=True).project(harken, project), **given)

    return _PROJECT(_LIMIT(on_store(of_project)))


def _searching(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    return _MODE(_of_project(command))


index, code, documents, commits = map(click.Group, ("index", "code", "documents", "commits"))


@index.command("code")
@_indexing
def index_code(session: CommandSession, **given: Any) -> None:
    """Index functions, classes, methods, modules and constants of a folder; what git ignores is left out."""
    _index(session, ("code",), **given)


@index.command("docs")
@_indexing
def index_docs(session: CommandSession, **given: Any) -> None:
    """Index Markdown, text and PDF files of a folder; what git ignores is left out."""
    _index(session, ("documents",), **given)


@index.command("commits")
@click.option("--since", help="Leave earlier commits out; five years ago where nothing is said.")
@click.option("--limit", type=click.IntRange(1), default=MOST_COMMITS, help="Only so many of the newest.")
@_indexing
def index_commits(session: CommandSession, since: str | None, **given: Any) -> None:
    """Index the history that HEAD comes from."""
    _index(session, ("commits",), since=since_of(since), **given)


@index.command("all")
@_indexing
def index_all(session: CommandSession, path: Path, drop: bool, **given: Any) -> None:
    """Index code, documents and commits of a repository; of a folder without git, all but commits."""
    from harken.sources.workspace.files import find_place

    # Commits last: what git cannot tell of them is no reason to leave out what lies on the disk.
    kinds: tuple[str, ...] = ("code", "documents", "commits")
    place = find_place(path, may_be_gone=True)
    if drop:
        kinds = kinds[:2] if place.prefix else kinds
    elif place.repository is None and place.root.exists():
        kinds = ("code", "documents")
        session.note(f"{path} is in no git repository, or git is missing or refuses it: no commits. See: git status")
    _index(session, kinds, path, drop=drop, **given)


def _index(
    session: CommandSession,
    kinds: Sequence[str],
    path: Path,
    no_embed: bool,
    as_json: bool,
    drop: bool,
    since: datetime | None = None,
    limit: int = MOST_COMMITS,
) -> None:
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.tree import IndexReport

    done: dict[str, IndexReport | CommitReport] = {}
    with session.engine(["index"]) as harken:
        try:
            for kind in kinds:
                with session.progress(f"Indexing {kind}", "commits") as show:
                    if kind == "commits":
                        done[kind] = commits = CommitReport()
                        harken.commits.index(path, since=since, limit=limit, progress=show, report=commits, drop=drop)
                    else:
                        done[kind] = files = IndexReport()
                        index = harken.code.index if kind == "code" else harken.documents.index
                        index(path, _by_bytes(show), files, drop=drop)
        except MissingExtraError:
            # It read nothing, and what to install is all there is to say.
            done.popitem()
            raise
        finally:
            for kind, report in done.items() if not as_json else ():
                if report.project:
                    _print_report(session, kind, report)
        if not path.expanduser().exists():
            session.note(f"{path} is gone: what was indexed of it is taken out.")
        embedded = None if no_embed or drop else embed_now(session, harken, "entries")
    if as_json:
        print_json({**{kind: report.view() for kind, report in done.items()}, "embedded": embedded})


def _by_bytes(show: Report) -> Callable[[int, int], None]:
    return lambda done, total: show(done, total, f"{readable_bytes(done)} of {readable_bytes(total)}")


def _print_report(session: CommandSession, kind: str, report: IndexReport | CommitReport) -> None:
    from harken.sources.workspace.commits import CommitReport
    from harken.sources.workspace.documents import NEEDS_EXTRA

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
        return
    changes = report.changes
    session.say(
        f"{kind}: {counted(report.indexed, 'file')} read, {report.unchanged:,} unchanged, {report.gone:,} gone"
        f" ({changes.added:,} new parts, {changes.changed:,} changed, {changes.removed:,} removed)."
    )
    if report.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.skipped.items()))
        session.say(f"{kind}: passed over: {reasons}.")
    if NEEDS_EXTRA in report.skipped:
        session.note("PDF files need an extra that is not installed. Try: pip install 'harken[pdf]'")


@code.command("search")
@_QUERY
@_LANGUAGE
@_searching
def search_code(harken: Harken, query: Sequence[str], **limits: Any) -> CommandAnswer:
    """Find functions, classes, methods, modules and constants by what they are for, or are called."""
    return _found(harken.code.search(" ".join(query), **limits))


@code.command("similar")
@click.argument("snippet")
@_LANGUAGE
@_of_project
def similar_code(harken: Harken, snippet: str, **limits: Any) -> CommandAnswer:
    """Find code like a SNIPPET; `-` reads it from standard input."""
    return _found(harken.code.similar(sys.stdin.read() if snippet == "-" else snippet, **limits))


@documents.command("search")
@_QUERY
@_searching
def search_documents(harken: Harken, query: Sequence[str], **limits: Any) -> CommandAnswer:
    """Find passages by word and by meaning."""
    return _found(harken.documents.search(" ".join(query), **limits))


@commits.command("search")
@_QUERY
@click.option("--author", help="Only by this one: the whole name, a word of it, or the address.")
@click.option("--since", help="Not before this: 2026-05-08, yesterday, '2 weeks ago', 'May 2023'.")
@_searching
def search_commits(harken: Harken, query: Sequence[str], since: str | None, **limits: Any) -> CommandAnswer:
    """Find commits by what they did."""
    return _found(harken.commits.search(" ".join(query), since=since_of(since), **limits))


@commits.command("history")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@_LIMIT
@on_store
def file_history(harken: Harken, path: Path, limit: int) -> CommandAnswer:
    """Show the commits that changed FILE, newest first, also under the names that it had before."""
    from harken.sources.workspace.commits import commit_item

    found = [(commit, commit_item(commit, 1.0)) for commit in harken.commits.history(path, limit)]
    views = [{**item.metadata, "message": commit.message} for commit, item in found]
    return CommandAnswer({"commits": views}, _item_lines([item for _, item in found]))


@commits.command("churn")
@click.option("--days", type=click.IntRange(1), default=90, help="How far back.")
@click.option(
    "--in", "folder", type=click.Path(path_type=Path), default=".", help="Anywhere in the repository; here by default."
)
@_LIMIT
@on_store
def churn(harken: Harken, days: int, folder: Path, limit: int) -> CommandAnswer:
    """Show the files that changed most often."""
    found = harken.commits.churn(folder, days, limit)
    lines = [
        f"{one.changes:5}  {one.path}  +{one.insertions:,} -{one.deletions:,}, {counted(one.authors, 'author')}"
        for one in found
    ]
    return CommandAnswer(
        {"files": [asdict(one) for one in found]}, lines or [f"Nothing changed in {counted(days, 'day')}."]
    )


@commits.command("authors")
@_PATH
@on_store
def authors(harken: Harken, path: Path) -> CommandAnswer:
    """Show who changed a file, or what lies in a folder."""
    found = harken.commits.authors(path)
    lines = [
        f"{one.commits:5}  {one.author} <{one.email}>  +{one.insertions:,} -{one.deletions:,}, "
        f"last on {one.last_at.astimezone():%Y-%m-%d}"
        for one in found
    ]
    return CommandAnswer(
        {"authors": [asdict(one) for one in found]}, lines or ["Nobody changed it in the commits that are indexed."]
    )


def _found(found: SourceHit) -> CommandAnswer:
    pairs = zip(found.hits, found.items, strict=True)
    hits = [{**hit.view(), "markdown": item.content, "metadata": dict(item.metadata)} for hit, item in pairs]
    return CommandAnswer({"hits": hits, "notes": list(found.notes)}, _item_lines(found.items), found.notes)


def _item_lines(items: Sequence[ContextItem]) -> list[Piece]:
    return [line for item in items for line in (item.content, "")] or ["Nothing was found."]
