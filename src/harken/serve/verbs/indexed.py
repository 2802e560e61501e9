"""Verbs that make what lies on the disk searchable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from harken.chat.tools import Arguments
from harken.engine import Harken
from harken.errors import UsageError
from harken.serve.facts.indexed import report_facts
from harken.serve.verbs.reach import reached
from harken.serve.verbs.verb import Caller, Effect, Facts, Verb
from harken.sources.workspace.commits import MOST_COMMITS, CommitReport
from harken.sources.workspace.tree import IndexReport
from harken.text.dates import parse_since

_PATH = Field(
    None,
    min_length=1,
    max_length=4000,
    description="A folder or file; left out, the one that the server was started in.",
)


class IndexFiles(Arguments):
    """What `index_code` and `index_documents` take."""

    path: str | None = _PATH


class IndexCommits(Arguments):
    """What `index_commits` takes."""

    path: str | None = _PATH
    since: str | None = Field(None, max_length=100, description="Leave earlier ones out: 2026-05-08, '2 years ago'.")
    limit: int = Field(MOST_COMMITS, ge=1, le=MOST_COMMITS, description="Only so many of the newest.")


class FilesIndexed(Facts):
    """What indexing files did; `added`, `changed` and `removed` count parts of files."""

    project: str
    files: int
    indexed: int
    unchanged: int
    gone: int
    skipped: dict[str, int]
    added: int
    changed: int
    removed: int


class CommitsIndexed(Facts):
    """What reading a history did; `cut` commits of a shallow clone were left out, for want of their parents."""

    project: str
    added: int
    known: int
    removed: int
    cut: int


def _code(harken: Harken, wanted: IndexFiles, caller: Caller) -> FilesIndexed:
    report = IndexReport()
    harken.code.index(_place(harken, wanted.path, caller), caller.progress, report)
    return FilesIndexed.model_validate(report_facts(report))


def _documents(harken: Harken, wanted: IndexFiles, caller: Caller) -> FilesIndexed:
    report = IndexReport()
    harken.documents.index(_place(harken, wanted.path, caller), caller.progress, report)
    return FilesIndexed.model_validate(report_facts(report))


def _commits(harken: Harken, wanted: IndexCommits, caller: Caller) -> CommitsIndexed:
    earliest = parse_since(wanted.since, datetime.now(UTC)) if wanted.since else None
    place, report = _place(harken, wanted.path, caller), CommitReport()
    harken.commits.index(place, since=earliest, limit=wanted.limit, progress=caller.progress, report=report)
    return CommitsIndexed.model_validate(report_facts(report))


def _place(harken: Harken, path: str | None, caller: Caller) -> Path:
    if path is None and caller.directory is not None:
        path = str(caller.directory)
    place = reached(caller, path, harken.settings.serve.roots)
    if place is None:
        raise UsageError("No working directory is known here. Give path: an absolute one.")
    return place


VERBS = (
    Verb(
        "index_code",
        "Index code",
        "Make functions, classes and other code of a folder searchable (search with sources=['code']). Only what has "
        "changed is read; what git ignores is left out.",
        IndexFiles,
        FilesIndexed,
        _code,
        Effect.CHANGES,
        is_idempotent=True,
        is_long=True,
    ),
    Verb(
        "index_commits",
        "Index commits",
        "Make the git history of a folder searchable (search with sources=['commit']).",
        IndexCommits,
        CommitsIndexed,
        _commits,
        Effect.CHANGES,
        is_idempotent=True,
        is_long=True,
    ),
    Verb(
        "index_documents",
        "Index documents",
        "Make Markdown, text and PDF files of a folder searchable (search with sources=['document']).",
        IndexFiles,
        FilesIndexed,
        _documents,
        Effect.CHANGES,
        is_idempotent=True,
        is_long=True,
    ),
)
