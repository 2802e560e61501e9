"""The one retrieval path: words and meaning, fused, weighed, held to a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import prod
from typing import Any, Protocol

from harken.config.settings import SearchConfig
from harken.errors import MissingExtraError, ProviderError, UsageError
from harken.model.arguments import MODES
from harken.model.conversations import Hit, Reason, SearchScope
from harken.model.lookups import SearchResult
from harken.providers.embedder import Embedder, Reranker, Vectors
from harken.search.coverage import NOTHING_EMBEDDED, NOTHING_RECORDED, Coverage
from harken.search.fusion import fuse_hybrid
from harken.search.query import Query, parse_query
from harken.search.weights import AuthorCue, least_similarity, rerank, weigh
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, TOOLS
from harken.storage.entries import EntryFacts, entry_facts, has_entries, load_entries
from harken.storage.ports import Readable, RowScope, SharedTransaction, StoredSpace, Transaction
from harken.storage.scopes import row_scope
from harken.storage.vectors import answering_space

# Queries that are embedded at one time.
_AT_ONCE = 8


class SpaceReader(Protocol):
    """A space that answers queries, and the model that embeds a query into it."""

    @property
    def space(self) -> StoredSpace:
        """Whose vectors are compared."""
        ...

    @property
    def embedder(self) -> Embedder:
        """Embeds the query."""
        ...


@dataclass(frozen=True, slots=True)
class _SearchQuery:
    space: StoredSpace
    vector: Vectors


@dataclass(slots=True)
class _Candidates:
    keyword: dict[int, float] = field(default_factory=dict)
    vector: dict[int, float] = field(default_factory=dict)
    similarity: dict[int, float] = field(default_factory=dict)
    quoting: set[int] = field(default_factory=set)
    facts: dict[int, EntryFacts] = field(default_factory=dict)


# The query's vector; none where words alone are looked for, or it cannot be made, which a note says.
_Answer = tuple[_SearchQuery | None, list[str]]


@dataclass(frozen=True, slots=True)
class _Asking:
    """A query that is being embedded, and its space as the store has it now, where that is known."""

    answer: Future[_Answer]
    space: StoredSpace | None = None

    def result(self) -> _Answer:
        asked, notes = self.answer.result()
        return asked if asked is None or self.space is None else _SearchQuery(self.space, asked.vector), notes


@dataclass(slots=True)
class Searcher:
    """Searches a store.

    Args:
        reader: opens the answering space on first use; None where there is no embedder, which a note says.
        reranker: opens the cross-encoder on first use.
        threads: embed queries while words are looked up; None where all must be done by one thread.
    """

    store: Readable
    config: SearchConfig
    reader: Callable[[], SpaceReader | None]
    reranker: Callable[[], Reranker]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    threads: ThreadPoolExecutor | None = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE, "search"))
    _answered: SpaceReader | None = field(default=None, init=False)
    _coverage: Coverage = field(default_factory=Coverage, init=False)

    def search(
        self,
        text: str,
        scope: SearchScope | None = None,
        limit: int | None = None,
        mode: str = "hybrid",
        use_reranker: bool | None = None,
    ) -> SearchResult:
        """Find what answers a query.

        Args:
            text: anything; a query without a single word finds nothing.
            scope: where to look; None is everywhere.
            limit: how many hits at most; None takes the setting.
            mode: `hybrid`, `keyword` or `semantic`.
            use_reranker: None takes the setting.
        Raises:
            UsageError: the limit or the mode is not possible.
            NotFoundError: the scope names something that is not there.
        """
        limit = self.config.limit if limit is None else limit
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}.")
        if mode not in MODES:
            raise UsageError(f"mode must be one of {', '.join(MODES)}, not '{mode}'.")
        query = parse_query(text)
        if not query.text:
            return SearchResult((), notes=("The query has no words.",))
        threads = None if mode == "keyword" else self.threads
        asked, notes = self._asked(query, mode) if threads is None else (None, [])
        begun = None if threads is None else self._begun(query, threads)
        depth = max(limit, self.config.candidates)
        with SharedTransaction(self.store) as view:
            with view.reading() as tx:
                rows = row_scope(tx, scope or SearchScope())
                if not self.config.include_untrusted:
                    rows = replace(rows, without_untrusted=True)
                asking = None if threads is None else self._asking(tx, query, begun, threads)
                found = self._by_word(tx, query, rows, mode, depth)
            if asking is not None:
                view.wait_for(asking.answer)
                asked, notes = asking.result()
            threshold = self._threshold(asked)
            with view.reading() as tx:
                self._by_meaning(tx, asked, rows, depth, found)
                hits = self._hits(tx, query, found, threshold, limit)
                notes = self._notes(tx, asked, bool(hits), notes)
        if self.config.rerank if use_reranker is None else use_reranker:
            hits = rerank(self.reranker(), query.text, hits, self.config.rerank_top, self.config.rerank_blend)
        return SearchResult(tuple(hits[:limit]), query.terms, threshold, tuple(notes))

    def _begun(self, query: Query, threads: ThreadPoolExecutor) -> _Asking | None:
        """The query on its way into the space that answered last; None before the first search.

        The model works while words are looked up: each takes about as long, and neither needs the other. Before the
        store is asked anything: a millisecond of 13 on a server.
        """
        before = self._answered
        if before is None:
            return None
        space, embed = before.space, before.embedder.embed_query
        return _Asking(threads.submit(_or_note, lambda: _SearchQuery(space, embed(query.text))), space)

    def _asking(self, tx: Transaction, query: Query, begun: _Asking | None, threads: ThreadPoolExecutor) -> _Asking:
        """What waits for the query's vector; what was begun, if its space is the one that answers now.

        A model that takes seconds is waited for without a view of the store, which need not last as long.
        """
        space = answering_space(tx)
        if begun is not None and _is_same(begun.space, space):
            return _Asking(begun.answer, space)
        if begun is not None:
            begun.answer.cancel()
        return _Asking(threads.submit(_or_note, lambda: self._embedded(query)))

    def _asked(self, query: Query, mode: str) -> _Answer:
        """The query's vector; none where words alone are to be looked for, or it cannot be made, which a note says."""
        return (None, []) if mode == "keyword" else _or_note(lambda: self._embedded(query))

    def _embedded(self, query: Query) -> _SearchQuery | None:
        """The query's vector in the space that answers; None while none does."""
        reader = self._answered = self.reader()
        return None if reader is None else _SearchQuery(reader.space, reader.embedder.embed_query(query.text))

    def _by_word(self, tx: Transaction, query: Query, rows: RowScope, mode: str, depth: int) -> _Candidates:
        found = _Candidates()
        if mode != "semantic":
            window = self.config.context_window
            scored, found.quoting = tx.text.find(tx.connection, query.terms, query.quote, rows, depth, window)
            found.keyword = dict(scored)
            lowest = min(found.keyword.values(), default=0.0)
            found.keyword |= dict.fromkeys(found.quoting - found.keyword.keys(), lowest)
            # Here, for the model is still at work.
            found.facts = entry_facts(tx, list(found.keyword))
        return found

    def _by_meaning(
        self, tx: Transaction, asked: _SearchQuery | None, rows: RowScope, depth: int, found: _Candidates
    ) -> None:
        if asked is not None:
            found.vector, found.similarity = self.store.nearest.compare(
                tx, asked.space, asked.vector, rows, depth, list(found.keyword)
            )

    def _notes(self, tx: Transaction, asked: _SearchQuery | None, has_hits: bool, notes: list[str]) -> list[str]:
        """What else a person should know of a search than what was in its way."""
        if not has_hits and not has_entries(tx):
            return [NOTHING_RECORDED]
        return notes if asked is None else [*notes, *self._coverage.notes(tx, self.now())]

    def _threshold(self, asked: _SearchQuery | None) -> float | None:
        if asked is None:
            return None
        configured = self.config.relevance_threshold
        return asked.space.threshold if configured is None else configured

    def _hits(
        self, tx: Transaction, query: Query, found: _Candidates, threshold: float | None, limit: int
    ) -> list[Hit]:
        # Who looks for a word wants to see where it stands; only what merely resembles must resemble enough.
        resembling = [e for e in found.vector if threshold is None or found.similarity[e] >= threshold]
        known = found.facts | entry_facts(tx, [e for e in resembling if e not in found.facts])
        fused = self._fused(found, {entry_id for entry_id, each in known.items() if each.trust.is_untrusted})
        facts = without_echoes(self._near_enough(found, threshold, known))
        weighed = self._weighed(query, fused, facts, found.quoting)
        wanted = max(limit, self.config.rerank_top)
        order = sorted(weighed, key=lambda entry_id: (-weighed[entry_id][0], -entry_id))
        best = _once_each(order, facts)[:wanted]
        entries = load_entries(tx, best)
        keyword_ranks = ranks_of(found.keyword)
        vector_ranks = ranks_of(found.vector)
        return [
            Hit(
                entry=entries[entry_id],
                score=weighed[entry_id][0],
                fused=fused[entry_id],
                similarity=found.similarity.get(entry_id),
                keyword_rank=keyword_ranks.get(entry_id),
                vector_rank=vector_ranks.get(entry_id),
                reasons=tuple(weighed[entry_id][1]),
            )
            for entry_id in best
            if entry_id in entries
        ]

    def _near_enough(
        self, found: _Candidates, threshold: float | None, facts: Mapping[int, EntryFacts]
    ) -> Mapping[int, EntryFacts]:
        """Candidates less those that merely resemble and do not resemble enough to be trusted so far."""
        if threshold is None:
            return facts
        return {
            entry_id: each
            for entry_id, each in facts.items()
            if entry_id in found.keyword
            or found.similarity[entry_id] >= least_similarity(threshold, each.trust, self.config)
        }

    def _fused(self, found: _Candidates, untrusted: set[int]) -> dict[int, float]:
        fused = fuse_hybrid(found.keyword, found.vector, found.similarity, self.config, untrusted)
        # Neither fusion exceeds 1: who quotes words finds them before everything else.
        return {entry_id: score + (entry_id in found.quoting) for entry_id, score in fused.items()}

    def _weighed(
        self, query: Query, fused: Mapping[int, float], facts: Mapping[int, EntryFacts], quoting: set[int]
    ) -> dict[int, tuple[float, list[Reason]]]:
        cue = AuthorCue(query, facts)
        now = self.now()
        weighed: dict[int, tuple[float, list[Reason]]] = {}
        for entry_id, score in fused.items():
            if entry_id in facts:
                reasons = weigh(facts[entry_id], cue, self.config, now)
                if entry_id in quoting:
                    reasons.append(Reason("quote", 1.0, "has the query's words in this order"))
                weighed[entry_id] = (score * prod([reason.value for reason in reasons]), reasons)
        return weighed


def _or_note(ask: Callable[[], _SearchQuery | None]) -> _Answer:
    """What is asked, or why words alone must do."""
    try:
        asked = ask()
    except (ProviderError, MissingExtraError) as error:
        return None, [f"Searched by words alone: {error}"]
    return asked, [] if asked else [NOTHING_EMBEDDED]


def _is_same(one: StoredSpace | None, other: StoredSpace | None) -> bool:
    return one is not None and other is not None and (one.id, one.name) == (other.id, other.name)


def without_echoes(facts: Mapping[int, EntryFacts]) -> dict[int, EntryFacts]:
    """Candidates less the summaries of what is among them itself: they say it again, in fewer words."""
    summaries = (CONVERSATION, EXCHANGE, TOOLS)
    said = [each for each in facts.values() if each.source not in summaries]
    conversations, exchanges = {each.conversation_id for each in said}, {each.exchange_id for each in said}

    def is_echo(each: EntryFacts) -> bool:
        if each.source == CONVERSATION:
            return each.conversation_id in conversations
        return each.source in summaries and each.exchange_id in exchanges

    return {entry_id: each for entry_id, each in facts.items() if not is_echo(each)}


def _once_each(order: Sequence[int], facts: Mapping[int, EntryFacts]) -> list[int]:
    """Candidates, best first, less those of a record of which a better one stands before: a commit's parts."""
    seen: set[str] = set()
    kept = []
    for entry_id in order:
        uid = facts[entry_id].ref_uid
        if facts[entry_id].conversation_id is None and uid:
            if uid in seen:
                continue
            seen.add(uid)
        kept.append(entry_id)
    return kept


def ranks_of(scores: Mapping[int, Any]) -> dict[int, int]:
    """The place of each in its list, from 1."""
    return {entry_id: rank for rank, entry_id in enumerate(scores, start=1)}
