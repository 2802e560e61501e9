"""The three indexes of what lies on a disk, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from harken.redact.redactor import Redactor
from harken.sources.source import SearchPort, SourceSearch
from harken.sources.workspace.code import CodeIndex, CodeSource
from harken.sources.workspace.commits import CommitIndex, CommitSource
from harken.sources.workspace.documents import DocumentIndex, DocumentSource
from harken.sources.workspace.tree import TreeIndexer
from harken.storage.ports import Store


@dataclass(frozen=True, slots=True)
class Indexes:
    """Code, commits and documents."""

    code: CodeIndex
    commits: CommitIndex
    documents: DocumentIndex


def open_indexes(
    store: Store, redactor: Redactor, search: SearchPort, wake: Callable[[], None], now: Callable[[], datetime]
) -> Indexes:
    """The three indexes, over one reader of files.

    Args:
        store: where all of them are kept.
        redactor: takes secrets out of every text.
        search: finds entries.
        wake: called when there is something new to embed.
        now: the clock.
    """

    def redact(text: str) -> str:
        return redactor.redact(text).text

    indexer = TreeIndexer(store, wake, now)
    return Indexes(
        CodeIndex(indexer, SourceSearch(store, CodeSource(), search), redact),
        CommitIndex(store, SourceSearch(store, CommitSource(), search), redact, wake, now),
        DocumentIndex(indexer, SourceSearch(store, DocumentSource(), search), redact),
    )
