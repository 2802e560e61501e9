"""The port of sources: finds the records of one kind, and shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from harken.model.arguments import DEFAULT_LIMIT, MAX_LIMIT, check_limit
from harken.model.conversations import ContextItem, Hit, SearchScope
from harken.model.lookups import SearchResult
from harken.search.candidates import labelled, other_project
from harken.search.session import EMPTY, SearchSession
from harken.search.union import hits_told_apart, in_one_order
from harken.storage.entries import load_entries, newest_entries, row_scope
from harken.storage.ports import Readable, Transaction
from harken.storage.projects import EVERY_PROJECT, ProjectScope


class SearchPort(Protocol):
    """The one retrieval path."""

    def __call__(self, query: str, scope: SearchScope, limit: int, mode: str, /) -> SearchResult:
        """Search the entries in scope; best first."""
        ...


class Source(Protocol):
    """One kind of record that can be remembered beside conversations."""

    @property
    def name(self) -> str:
        """As entries and items have it: `memory`, `experience`, `value`, `code`, `commit` or `document`."""
        ...

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """Show the records of hits in a context, in their order; those of other sources or gone are left out."""
        ...


def relevance_of(hit: Hit) -> float:
    """How like a hit is to what was asked, 0 to 1: its similarity, or its score where it has no vector yet."""
    return min(1.0, max(0.0, hit.score if hit.similarity is None else hit.similarity))


@dataclass(frozen=True, slots=True)
class SourceHit:
    """What was found, best first: hits with scores and reasons, and the same as a context shows them.

    Attributes:
        notes: one sentence for each part that could not answer.
        threshold: how like the query something must be to be relevant (cosine similarity); None where none applies.
    """

    hits: tuple[Hit, ...]
    items: tuple[ContextItem, ...]
    notes: tuple[str, ...] = ()
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class SourceSearch:
    """Searches the entries of one source; what fills up a list is of no other project than the one at hand.

    Attributes:
        open_session: opens what searches all spaces that may be read.
        search_in: the search in the space of a session.
    """

    store: Readable
    source: Source
    search: SearchPort
    projects: ProjectScope = EVERY_PROJECT
    open_session: Callable[[], AbstractContextManager[SearchSession]] | None = None
    search_in: Callable[[SearchSession], SearchPort] | None = None

    def find(
        self,
        query: str,
        *,
        facets: tuple[str, ...] = (),
        project: str | Path | None = None,
        since: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        mode: str = "hybrid",
        most: int = MAX_LIMIT,
        is_filled: bool = False,
    ) -> SourceHit:
        """Find the records that answer a query and have all of the facets; from 1 to `most`.

        The newest others that have the facets follow, up to the limit, where it is to be filled.

        Raises:
            UsageError: the limit is not possible, or the mode is none.
            NotFoundError: there is no such project.
        """
        check_limit(limit, most)
        named = None if project is None else str(project)
        scope = SearchScope(sources=(self.source.name,), project=named, since=since, facets=facets)
        search_in = self.search_in
        if self.open_session is None or search_in is None:
            return self._here(query, scope, limit, mode, is_filled)

        def ask(there: SearchSession) -> SourceHit:
            found = replace(self, store=there.view, search=search_in(there), projects=there.projects)
            return found._here(query, scope, limit, mode, is_filled)

        with self.open_session() as session:
            if session.others is None:
                return self._here(query, scope, limit, mode, is_filled)
            return _in_one_order(session, session.asked(ask), limit)

    def _here(self, query: str, scope: SearchScope, limit: int, mode: str, is_filled: bool) -> SourceHit:
        # What has a name may stand behind all that calls it.
        is_name = self.source.name == "code" and len(query.split()) == 1
        result = self.search(query, scope, max(limit, MAX_LIMIT) if is_name else limit, mode)
        found = replace(_named_first(query, self._shown(result.hits, result.notes), limit), threshold=result.threshold)
        return self._filled(found, scope.facets, limit) if is_filled and len(found.hits) < limit else found

    def _filled(self, found: SourceHit, facets: tuple[str, ...], limit: int) -> SourceHit:
        known = {hit.entry.ref_uid for hit in found.hits}
        with self.store.reading() as tx:
            scope = self.projects.inside(row_scope(tx, SearchScope(sources=(self.source.name,), facets=facets)))
            newest = newest_entries(tx, scope, limit + len(known))
            entries = load_entries(tx, newest)
        others = [entries[entry_id] for entry_id in newest if entries[entry_id].ref_uid not in known]
        more = [Hit(entry, 0.0, 0.0) for entry in others[: limit - len(found.hits)]]
        rest = self._shown(labelled(more, self.projects), ())
        own = sum(not other_project(hit) for hit in found.hits)
        items = (*found.items[:own], *rest.items, *found.items[own:])
        return SourceHit((*found.hits[:own], *rest.hits, *found.hits[own:]), items, found.notes)

    def _shown(self, hits: Sequence[Hit], notes: tuple[str, ...]) -> SourceHit:
        with self.store.reading() as tx:
            items = self.source.items(tx, hits)
            if len(items) != len(hits):
                # Some records are gone, or were found twice: which ones, only each by itself can tell.
                each = [(hit, found[0]) for hit in hits if (found := self.source.items(tx, [hit]))]
                hits, items = [hit for hit, _ in each], [item for _, item in each]
        return SourceHit(tuple(hits), tuple(items), notes)


def _named_first(query: str, found: SourceHit, limit: int) -> SourceHit:
    """The best, those that are called just as was asked for before all else, unless they are files."""
    name = query.strip().removesuffix("()")

    def place(at: int) -> tuple[bool, bool]:
        item = found.items[at]
        is_named = f".{item.metadata.get('qualified_name')}".endswith(f".{name}")
        return bool(other_project(found.hits[at])), not is_named or item.content.startswith("**module**")

    order = sorted(range(len(found.hits)), key=place)[:limit]
    hits = [replace(found.hits[at], score=hit.score) for at, hit in zip(order, found.hits, strict=False)]
    return replace(found, hits=tuple(hits), items=tuple(found.items[at] for at in order))


def _in_one_order(session: SearchSession, answers: Sequence[tuple[str, SourceHit]], limit: int) -> SourceHit:
    """The best of what several spaces have found, each with whose it is."""
    merged = in_one_order(
        [(space, list(zip(found.hits, found.items, strict=True))) for space, found in answers],
        lambda pair: pair[0].score,
        lambda pair: pair[0].similarity,
        lambda pair, score: (replace(pair[0], score=score), pair[1]),
        lambda pair: (pair[0].entry.source, pair[0].entry.part, pair[0].entry.created_at, pair[0].entry.text),
    )
    behind = [each for each in merged if other_project(each[1][0])]
    shown = [*(each for each in merged if not other_project(each[1][0])), *behind][:limit]
    hits = hits_told_apart(session, [(space, hit) for space, (hit, _) in shown])
    threshold = next((found.threshold for _, found in answers if found.threshold is not None), None)
    notes = tuple(note for note in answers[0][1].notes if not shown or note not in EMPTY)
    return SourceHit(tuple(hits), tuple(item for _, (_, item) in shown), notes, threshold)
