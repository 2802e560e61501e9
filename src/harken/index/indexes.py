"""The three indexes of what lies on a disk, put together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from harken.index.code import CodeIndex
from harken.index.commits import CommitIndex
from harken.index.documents import DocumentIndex
from harken.index.tree import TreeIndexer
from harken.record.redact import Redactor
from harken.sources.code import CodeSource
from harken.sources.commits import CommitSource
from harken.sources.documents import DocumentSource
from harken.sources.found import SourceSearch
from harken.sources.memories import Search
from harken.storage.store import Store


def open_indexes(
    store: Store, redactor: Redactor, search: Search, wake: Callable[[], None], now: Callable[[], datetime]
) -> tuple[CodeIndex, CommitIndex, DocumentIndex]:
    """Code, commits and documents.

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
    return (
        CodeIndex(indexer, SourceSearch(store, CodeSource(), search), redact),
        CommitIndex(store, SourceSearch(store, CommitSource(), search), redact, wake, now),
        DocumentIndex(indexer, SourceSearch(store, DocumentSource(), search), redact),
    )
