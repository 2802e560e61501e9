"""Making what lies on the disk searchable. The command line indexes with bars and reports of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import MOST_COMMITS, Argument
from harken.model.views import CommitsView, FilesView
from harken.serve.operations.operation import AnyOperation, Caller, Effect, NoArguments, Operation
from harken.text.dates import since_of

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.sources.workspace.commits import CommitReport


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesArguments:
    """What to index."""

    path: Annotated[
        str | None, Argument("A folder or file; left out, the one that the server was started in.", 1, 4000)
    ] = None
    drop: Annotated[bool, Argument("Take it out of the index.", is_rare=True)] = False

    def place(self, harken: Harken, caller: Caller) -> Path:
        """The real place.

        Raises:
            UsageError: it is not known, or may not be read.
        """
        # As any other path, the caller's own directory has to exist and to be open.
        path = self.path or (str(caller.directory) if caller.directory else None)
        place = caller.reach(path, harken.settings.serve.roots)
        if place is None:
            raise UsageError("No working directory is known here. Give path: an absolute one.")
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsArguments(FilesArguments):
    """Which history to index, and how much of it."""

    since: Annotated[str | None, Argument("Leave earlier ones out: 2026-05-08, '2 years ago'.", most=100)] = None
    limit: Annotated[int, Argument("Only so many of the newest.", 1, MOST_COMMITS)] = MOST_COMMITS


def _commits(harken: Harken, wanted: CommitsArguments, caller: Caller) -> CommitReport:
    earliest, place = since_of(wanted.since), wanted.place(harken, caller)
    return harken.commits.index(place, since=earliest, limit=wanted.limit, progress=caller.progress, drop=wanted.drop)


class IndexedView(TypedDict):
    """How many parts of a project's code, documents or history search sees."""

    project: str
    source: str
    parts: int


class IndexedAnswer(TypedDict):
    """Everything that was indexed, by project."""

    indexed: list[IndexedView]


def _indexed(harken: Harken, _wanted: NoArguments, _caller: Caller) -> IndexedAnswer:
    found = harken.archive.indexed()
    return IndexedAnswer(indexed=[IndexedView(project=key, source=kind, parts=count) for key, kind, count in found])


_indexing: Callable[..., AnyOperation] = partial(
    Operation, effect=Effect.CHANGES, scope="index", is_idempotent=True, is_long=True
)
OPERATIONS = (
    _indexing(
        "index_code",
        "Make functions, classes and other code of a folder searchable (search with sources=['code']). Only what has "
        "changed is read; what git ignores is left out.",
        FilesArguments,
        lambda harken, wanted, by: harken.code.index(wanted.place(harken, by), by.progress, drop=wanted.drop),
        "Index code",
        FilesView,
    ),
    _indexing(
        "index_commits",
        "Make the git history of a folder searchable (search with sources=['commit']).",
        CommitsArguments,
        _commits,
        "Index commits",
        CommitsView,
    ),
    _indexing(
        "index_documents",
        "Make Markdown, text and PDF files of a folder searchable (search with sources=['document']).",
        FilesArguments,
        lambda harken, wanted, by: harken.documents.index(wanted.place(harken, by), by.progress, drop=wanted.drop),
        "Index documents",
        FilesView,
    ),
    Operation(
        "indexed",
        "Say of which projects code, documents and commits were indexed, and how many parts.",
        NoArguments,
        _indexed,
        "What was indexed",
        IndexedAnswer,
    ),
)
