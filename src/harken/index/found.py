"""What a search of one derived source gives, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harken.errors import UsageError
from harken.model import ContextItem, Hit, SearchScope
from harken.sources.memories import Search
from harken.sources.source import Source
from harken.storage.store import Store

MAX_LIMIT = 50
DEFAULT_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, best first.

    Attributes:
        hits: with scores and reasons.
        items: the same as a context shows them, with the facts of their source.
        notes: one sentence for each part that could not answer.
    """

    hits: tuple[Hit, ...]
    items: tuple[ContextItem, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceSearch:
    """Searches the entries of one source.

    Args:
        store: where records are looked up.
        source: shows what was found.
        search: the one retrieval path.
    """

    store: Store
    source: Source
    search: Search

    def find(
        self,
        query: str,
        *,
        facets: tuple[str, ...] = (),
        project: str | Path | None = None,
        since: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        mode: str = "hybrid",
    ) -> Found:
        """Find the records that answer a query.

        Raises:
            UsageError: the limit is not from 1 to 50, or the mode is none.
            NotFoundError: there is no such project.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise UsageError(f"limit must be from 1 to {MAX_LIMIT}, not {limit}.")
        named = None if project is None else str(project)
        scope = SearchScope(sources=(self.source.name,), project=named, since=since, facets=facets)
        result = self.search(query, scope, limit, mode)
        with self.store.reading() as tx:
            shown = [(hit, items[0]) for hit in result.hits if (items := self.source.items(tx, [hit]))]
        return Found(tuple(hit for hit, _ in shown), tuple(item for _, item in shown), result.notes)
