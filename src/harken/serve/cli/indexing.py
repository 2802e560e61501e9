"""`harken index`: code, commits and documents of a folder, made searchable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from harken.engine import Harken
from harken.errors import MissingExtraError
from harken.serve.cli.importing import embed_now
from harken.serve.cli.session import CommandSession, Report, counted, json_option, print_json, with_session
from harken.serve.facts.indexed import report_facts
from harken.sources.workspace.commits import MOST_COMMITS, CommitReport
from harken.sources.workspace.documents import NEEDS_EXTRA
from harken.sources.workspace.files import find_place
from harken.sources.workspace.tree import IndexReport
from harken.text.dates import parse_since

Reported = IndexReport | CommitReport
Run = Callable[[Harken, Report, Reported], object]


@click.group()
def index() -> None:
    """Make code, commits and documents searchable; only what has changed since the last time is read."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.argument("path", default=".", type=click.Path(path_type=Path)),
        click.option(
            "--no-embed", is_flag=True, help="Do not embed now; `harken worker run --until-idle` does it later."
        ),
        json_option,
        with_session,
    )[::-1]:
        command = option(command)
    return command


@index.command("code")
@_options
def index_code(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index functions, classes, methods, modules and constants of a folder; what git ignores is left out."""
    _index(session, {"code": _code(path)}, no_embed, as_json)


@index.command("docs")
@_options
def index_docs(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index Markdown, text and PDF files of a folder; what git ignores is left out."""
    _index(session, {"documents": _documents(path)}, no_embed, as_json)


@index.command("commits")
@click.option("--since", help="Leave earlier commits out; five years ago where nothing is said.")
@click.option("--limit", type=click.IntRange(1), default=MOST_COMMITS, help="Only so many of the newest.")
@_options
def index_commits(
    session: CommandSession, path: Path, no_embed: bool, as_json: bool, since: str | None, limit: int
) -> None:
    """Index the history that HEAD comes from."""
    earliest = parse_since(since, datetime.now(UTC)) if since else None
    _index(session, {"commits": _commits(path, earliest, limit)}, no_embed, as_json)


@index.command("all")
@_options
def index_all(session: CommandSession, path: Path, no_embed: bool, as_json: bool) -> None:
    """Index code, commits and documents of a repository; of a folder without git, all but commits."""
    runs = {"code": _code(path), "commits": _commits(path, None, MOST_COMMITS), "documents": _documents(path)}
    if find_place(path).repository is None:
        del runs["commits"]
        session.note(f"{path} is in no git repository, or git is not installed: there are no commits to index.")
    _index(session, runs, no_embed, as_json)


def _code(path: Path) -> tuple[Reported, Run]:
    return IndexReport(), lambda harken, show, report: harken.code.index(path, show, _of_files(report))


def _documents(path: Path) -> tuple[Reported, Run]:
    return IndexReport(), lambda harken, show, report: harken.documents.index(path, show, _of_files(report))


def _commits(path: Path, since: datetime | None, limit: int) -> tuple[Reported, Run]:
    def run(harken: Harken, show: Report, report: Reported) -> object:
        read = report if isinstance(report, CommitReport) else None
        return harken.commits.index(path, since=since, limit=limit, progress=show, report=read)

    return CommitReport(), run


def _of_files(report: Reported) -> IndexReport | None:
    return report if isinstance(report, IndexReport) else None


def _index(session: CommandSession, runs: dict[str, tuple[Reported, Run]], no_embed: bool, as_json: bool) -> None:
    done: dict[str, Reported] = {}
    with session.engine() as harken:
        try:
            for name, (report, run) in runs.items():
                done[name] = report
                with session.progress(f"Indexing {name}", "commits" if name == "commits" else "files") as show:
                    run(harken, show, report)
        except MissingExtraError:
            # It read nothing, and what to install is all there is to say.
            done.popitem()
            raise
        finally:
            if not as_json:
                _print_reports(session, {name: report for name, report in done.items() if report.project})
        embedded = None if no_embed else embed_now(session, harken, "entries")
    if as_json:
        print_json({**{name: report_facts(report) for name, report in done.items()}, "embedded": embedded})


def _print_reports(session: CommandSession, done: dict[str, Reported]) -> None:
    for name, report in done.items():
        if isinstance(report, CommitReport):
            session.out.print(
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
        session.out.print(
            f"{name}: {counted(report.indexed, 'file')} read, {report.unchanged:,} unchanged, {report.gone:,} gone"
            f" ({changes.added:,} new parts, {changes.changed:,} changed, {changes.removed:,} removed)."
        )
        if report.skipped:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.skipped.items()))
            session.out.print(f"{name}: passed over: {reasons}.")
        if NEEDS_EXTRA in report.skipped:
            session.note("PDF files need an extra that is not installed. Try: pip install 'harken[pdf]'")
