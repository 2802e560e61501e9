"""Searches of every source beside conversations, all through the one retrieval path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from harken.errors import NotFoundError
from harken.model.arguments import DEFAULT_LIMIT
from harken.model.conversations import ContextItem, Hit, SavedRecord
from harken.model.experience_texts import experience_markdown, value_markdown
from harken.model.experiences import (
    AXES,
    DOMAINS,
    EXPERIENCE,
    OUTCOMES,
    STRATEGIES,
    VALUE,
    check_one_of,
    read_experience,
    read_value,
)
from harken.model.views import format_moment
from harken.search.session import SearchSession
from harken.sources.memories.memories import checked_category
from harken.sources.memories.memory import memory_of
from harken.sources.source import SearchPort, Source, SourceHit, SourceSearch, relevance_of
from harken.sources.workspace.code import CodeSource
from harken.sources.workspace.commits import CommitSource
from harken.sources.workspace.documents import DocumentSource
from harken.storage.conversations import entry_of
from harken.storage.entries import load_entries
from harken.storage.ports import Readable, Transaction
from harken.storage.projects import EVERY_PROJECT, ProjectScope
from harken.storage.records.rows import MEMORY, find_kept

MOST_MEMORIES = 100
_VALUE_FACTS = ("axis", "cluster_id", "cluster_size", "similarity_to_centroid")


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A `Source` of saved records; one that was found several times is shown once, as it was found best."""

    name: str
    item: Callable[[SavedRecord, Hit], ContextItem]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """Show the records of this source among the hits."""
        mine: dict[str, Hit] = {}
        for hit in hits:
            if hit.entry.source == self.name:
                mine.setdefault(hit.entry.ref_uid, hit)
        saved = find_kept(tx, self.name, list(mine))
        return [self.item(saved[uid], hit) for uid, hit in mine.items() if uid in saved]


def _memory_item(saved: SavedRecord, hit: Hit) -> ContextItem:
    one = memory_of(saved)
    content = f"**Memory**: {one.content}\n*Category: {one.category}, Importance: {one.importance:g}*"
    created = format_moment(one.created_at)
    metadata = {"id": one.uid, "category": one.category, "importance": one.importance, "created_at": created}
    return ContextItem(MEMORY, content, relevance_of(hit), metadata)


def _experience_item(saved: SavedRecord, hit: Hit) -> ContextItem:
    one = read_experience(saved)
    metadata = {
        "id": one.uid,
        "domain": one.domain,
        "strategy": one.strategy,
        "outcome_status": one.status.value,
        "confidence_tier": one.tier,
        "iteration_count": one.iteration_count,
    }
    return ContextItem(EXPERIENCE, experience_markdown(one, hit.entry.part), relevance_of(hit), metadata)


def _value_item(saved: SavedRecord, hit: Hit) -> ContextItem:
    one = read_value(saved)
    facts = {name: getattr(one, name) for name in _VALUE_FACTS}
    return ContextItem(VALUE, value_markdown(one), relevance_of(hit), {"id": one.uid, **facts})


MEMORIES = RecordSource(MEMORY, _memory_item)
EXPERIENCES, VALUES = RecordSource(EXPERIENCE, _experience_item), RecordSource(VALUE, _value_item)
_INDEXED: dict[str, Source] = {each.name: each for each in (CodeSource(), CommitSource(), DocumentSource())}
_ALL: tuple[Source, ...] = (MEMORIES, EXPERIENCES, VALUES, *_INDEXED.values())


def item_of(tx: Transaction, hit: Hit) -> ContextItem | None:
    """A hit of any source as a context shows it; None where it is of a conversation, or its record is gone."""
    mine = (each for each in _ALL if each.name == hit.entry.source)
    return next((item for source in mine for item in source.items(tx, [hit])), None)


@dataclass(frozen=True, slots=True)
class SourceSearcher:
    """Finds records, and shows them as a context does; reached as `Harken.sources`.

    Every limit is from 1 to 50, that of memories to 100; every mode is `hybrid`, `keyword` or `semantic`.

    Raises:
        UsageError: by every search whose limit, mode, category, source, axis, domain, strategy or outcome is none.
        NotFoundError: by every search in a project that is not there.
    """

    store: Readable
    search: SearchPort
    projects: ProjectScope = EVERY_PROJECT
    open_session: Callable[[], AbstractContextManager[SearchSession]] | None = None
    search_in: Callable[[SearchSession], SearchPort] | None = None

    def records(self, wanted: Iterable[tuple[str, str]]) -> list[SavedRecord]:
        """Records by source and id, each once, in the given order; those that are gone are left out."""
        asked = list(dict.fromkeys(wanted))
        found = _records(self.store, asked)
        if len(found) < len(asked) and self.open_session is not None:
            with self.open_session() as session:
                for _, elsewhere in session.asked(lambda there: _records(there.view, asked)):
                    found = elsewhere | found
        return [found[one] for one in asked if one in found]

    def show(self, uid: str) -> ContextItem:
        """A unit of code, a commit, a passage or a value by its id or the beginning of it, as a context shows it.

        Raises:
            NotFoundError: it names none, or several.
        """
        if self.open_session is None:
            return _shown(self.store, uid)
        with self.open_session() as session:
            return session.asked(lambda there: _shown(there.view, uid))[0][1]

    def search_memories(
        self, query: str, limit: int = DEFAULT_LIMIT, *, category: str | None = None, mode: str = "hybrid"
    ) -> SourceHit:
        """Saved memories; those that were superseded are not among them."""
        facets = () if category is None else (f"category:{checked_category(category)}",)
        return self._of(MEMORIES).find(query, facets=facets, limit=limit, mode=mode, most=MOST_MEMORIES)

    def search_indexed(
        self, source: str, query: str, limit: int = DEFAULT_LIMIT, *, project: str | None = None, mode: str = "hybrid"
    ) -> SourceHit:
        """Units of code, commits or passages of documents: the source is `code`, `commit` or `document`.

        `Harken.code`, `commits` and `documents` search the space at hand alone, and by language, author and day.
        """
        check_one_of("source", source, tuple(_INDEXED))
        return self._of(_INDEXED[source]).find(query, project=project, limit=limit, mode=mode)

    def search_experiences(
        self,
        query: str,
        axis: str = "full",
        domain: str | None = None,
        strategy: str | None = None,
        outcome: str | None = None,
        limit: int = DEFAULT_LIMIT,
        *,
        mode: str = "hybrid",
        is_filled: bool = False,
    ) -> SourceHit:
        """Experiences that have ended, by one of their four texts: `full`, `strategy`, `surprise` or `root_cause`.

        Only of this domain, strategy and outcome (`confirmed`, `falsified`, `abandoned`) where they are named; the
        newest others of the same follow, up to the limit, where it is to be filled.
        """
        check_one_of("axis", axis, AXES)
        filters = (("domain", domain, DOMAINS), ("strategy", strategy, STRATEGIES), ("outcome", outcome, OUTCOMES))
        facets = (f"axis:{axis}", *_checked_facets(*filters))
        return self._of(EXPERIENCES).find(query, facets=facets, limit=limit, mode=mode, is_filled=is_filled)

    def search_values(
        self,
        query: str,
        limit: int = DEFAULT_LIMIT,
        *,
        axis: str | None = None,
        domain: str | None = None,
        mode: str = "hybrid",
        is_filled: bool = False,
    ) -> SourceHit:
        """Values whose cluster is of this axis, and which experiences of this domain bear out, where they are named.

        The newest others of the same follow, up to the limit, where it is to be filled.
        """
        facets = _checked_facets(("axis", axis, AXES), ("domain", domain, DOMAINS))
        return self._of(VALUES).find(query, facets=facets, limit=limit, mode=mode, is_filled=is_filled)

    def _of(self, source: Source) -> SourceSearch:
        return SourceSearch(self.store, source, self.search, self.projects, self.open_session, self.search_in)


def _records(store: Readable, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], SavedRecord]:
    with store.reading() as tx:
        found = {(source, uid): find_kept(tx, source, [uid]).get(uid) for source, uid in wanted}
    return {one: record for one, record in found.items() if record}


def _shown(store: Readable, uid: str) -> ContextItem:
    with store.reading() as tx:
        entry_id = entry_of(tx, uid)
        entry = None if entry_id is None else load_entries(tx, [entry_id]).get(entry_id)
        item = item_of(tx, Hit(entry, 1.0, 1.0)) if entry else None
    if item is None:
        raise NotFoundError(f"'{uid}' names nothing. Ids are printed by: harken search QUERY")
    return item


def _checked_facets(*wanted: tuple[str, str | None, Sequence[str]]) -> tuple[str, ...]:
    """A facet for each that is named, held to what there is of it."""
    named = [(name, value, known) for name, value, known in wanted if value is not None]
    for name, value, known in named:
        check_one_of(name, value, known)
    return tuple(f"{name}:{value}" for name, value, _ in named)
