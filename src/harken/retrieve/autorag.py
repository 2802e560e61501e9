"""What was said earlier in a conversation and matters now: found by itself, before each model call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import prod
from typing import TypeVar

import structlog

from harken import tokens
from harken.config import AutoRagConfig, SearchConfig
from harken.model import Entry, Hit, Reason, SearchScope
from harken.retrieve.fuse import fuse_hybrid
from harken.retrieve.query import Query, parse_query
from harken.retrieve.search import SpaceReader, ranks_of
from harken.retrieve.small_talk import is_mostly_foreign, is_small_talk, telling_terms
from harken.retrieve.weigh import AuthorCue, weigh
from harken.storage.chats import count_entries, entries_of, exchanges_of
from harken.storage.entries import entry_facts, load_entries
from harken.storage.scopes import row_scope
from harken.storage.store import RowScope, Store, Transaction

# A word that more than this share of a segment's entries has is no rare one; in a short segment, more than so many.
_COMMON_SHARE, _COMMON_FLOOR = 0.1, 10
_MOST_TERMS = 12
# Who has the query's rare words may be so much less similar than the model's own calibration asks; a threshold that
# somebody has set is kept to the letter. "We decided to deploy on Fridays" lies at 0.53 from "what did we decide about
# the deploy?", where 0.60 is asked of texts that merely resemble.
_LEEWAY = 0.08
# What shares an exchange with a message that is near enough (evidence in context on LoCoMo's conv-26 at 2,000 tokens:
# 0.70 with, 0.68 without, at no more tokens).
_PARTNER_LEEWAY = 0.2
# How many of each list are fused: of a segment fewer do than of a whole store.
_DEPTH = 80
# The best so many times as many as wanted are tried: some say the same, or do not fit.
_TRIES = 4
# A message that must be cut to less than this says too little.
_LEAST_TOKENS = 24

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")
Frame = Callable[[Entry, str], str]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A message that came back.

    Attributes:
        hit: with the reasons why.
        text: as it goes into the context: whole, or clipped to the budget.
        tokens: what it takes there, with its frame.
    """

    hit: Hit
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Recall:
    """What came back, best first, and why nothing did.

    Attributes:
        query: what was searched for; empty where nothing was.
        notes: one sentence for each part that could not answer, or for why there was no search.
    """

    items: tuple[Recalled, ...] = ()
    query: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What all of them take."""
        return sum(item.tokens for item in self.items)


@dataclass(slots=True)
class _Found:
    keyword: dict[int, float] = field(default_factory=dict)
    vector: dict[int, float] = field(default_factory=dict)
    similarity: dict[int, float] = field(default_factory=dict)
    threshold: float | None = None
    leeway: float = 0.0
    fused: dict[int, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class AutoRag:
    """Searches one segment by word and by meaning; never raises into a chat.

    Args:
        search_config: how lists are fused and weighed; read anew for each search.
        reader: opens the space that answers; None while nothing is embedded.
    """

    store: Store
    search_config: Callable[[], SearchConfig]
    reader: Callable[[], SpaceReader | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def search(
        self,
        query: str,
        segment_uid: str,
        excluded: Collection[str],
        config: AutoRagConfig,
        frame: Frame = lambda entry, text: text,
    ) -> Recall:
        """Find the few messages of a segment that a query is about.

        Each must be near enough to the query by cosine similarity, found by its words or not. One that is nearly so,
        or has no vector yet, must have at least half of the query's rare words; one that is not quite so far off comes
        with what it asks or answers. Where a threshold is set, no vector may lie under it.

        Args:
            query: what the user says now.
            segment_uid: nothing outside of it comes back.
            excluded: ids of messages that must not come back: they are in the context already.
            config: the limits.
            frame: what will stand in the context for a message; its tokens count against the budget.
        Returns:
            At most `config.top_k` messages in at most `config.max_tokens`; none for small talk, for what was never
            discussed, and when the search fails.
        """
        if not config.enabled:
            return Recall(notes=("Auto-RAG is off.",))
        asked = parse_query(query)
        if (
            not asked.text
            or is_small_talk(asked)
            or tokens.estimate(asked.text) < self.search_config().min_query_tokens
        ):
            return Recall(notes=("Nothing was asked, so nothing was searched.",))
        notes: list[str] = []

        def find() -> Recall:
            return self._recall(asked, segment_uid, excluded, config, frame)

        return _safely("search", find, notes) or Recall(query=asked.text, notes=tuple(notes))

    def _recall(
        self, query: Query, segment_uid: str, excluded: Collection[str], config: AutoRagConfig, frame: Frame
    ) -> Recall:
        with self.store.reading() as tx:
            scope = row_scope(tx, SearchScope(segment=segment_uid, sources=("message",)))
            seen = entries_of(tx, excluded)
        found = self._find(query, scope, min(_DEPTH, self.search_config().candidates) + len(seen))
        if config.relevance_threshold is not None and found.threshold is not None:
            found.threshold, found.leeway = config.relevance_threshold, 0.0
        found.fused = fuse_hybrid(found.keyword, found.vector, found.similarity, self.search_config())
        with self.store.reading() as tx:
            passing = self._passing(tx, query, scope, found, seen, _TRIES * config.top_k)
            hits = self._ranked(tx, query, found, passing, _TRIES * config.top_k)
            items = tuple(_packed(query, hits, config, frame))
        return Recall(items, query.text, tuple(found.notes))

    def _find(self, query: Query, scope: RowScope, depth: int) -> _Found:
        """Both lists, each on its own: where one part is broken, the other carries."""
        found = _Found()
        found.keyword = _safely("full_text", lambda: self._by_word(query, scope, depth), found.notes) or {}
        by_meaning = _safely("vectors", lambda: self._by_meaning(query, scope, depth, found), found.notes)
        if by_meaning is not None:
            found.vector, found.similarity, found.threshold = by_meaning
            found.leeway = _LEEWAY if self.search_config().relevance_threshold is None else 0.0
        return found

    def _by_word(self, query: Query, scope: RowScope, depth: int) -> dict[int, float]:
        with self.store.reading() as tx:
            return dict(tx.text.search(tx.connection, query.terms, scope, depth, self.search_config().context_window))

    def _by_meaning(
        self, query: Query, scope: RowScope, depth: int, found: _Found
    ) -> tuple[dict[int, float], dict[int, float], float | None]:
        reader = self.reader()
        if reader is None:
            found.notes.append("Searched by words alone: nothing is embedded yet.")
            return {}, {}, None
        if reader.embedder.space.latin_only and is_mostly_foreign(query.text):
            found.notes.append("Searched by words alone: the embedding model does not know this script.")
            return {}, {}, None
        vector = reader.embedder.embed_query(query.text)
        with self.store.reading() as tx:
            near, similarity = self.store.nearest.compare(tx, reader.space, vector, scope, depth, list(found.keyword))
        configured = self.search_config().relevance_threshold
        return near, similarity, reader.space.threshold if configured is None else configured

    def _passing(
        self, tx: Transaction, query: Query, scope: RowScope, found: _Found, seen: set[int], limit: int
    ) -> dict[int, Reason]:
        """What may come back, each with the reason."""
        passing: dict[int, Reason] = {}
        unsure: list[int] = []
        for entry_id in {**found.similarity, **found.keyword}:
            similarity = found.similarity.get(entry_id)
            bar = found.threshold if similarity is not None else None
            if entry_id in seen:
                continue
            if similarity is None or bar is None:
                unsure.append(entry_id)
            elif similarity >= bar:
                passing[entry_id] = Reason("similarity", similarity, f"near enough: the threshold is {bar:g}")
            elif similarity >= bar - found.leeway and entry_id in found.keyword:
                unsure.append(entry_id)
        passing |= _partners(tx, found, passing, seen)
        # Looking for each word costs a search: only for those that would be among the best.
        best = sorted({*passing, *unsure}, key=lambda entry_id: -found.fused[entry_id])[:limit]
        unsure = [entry_id for entry_id in unsure if entry_id in best and entry_id not in passing]
        rare = rare_holders(tx, query, scope) if unsure else {}
        for entry_id in unsure:
            held = [term for term, holders in rare.items() if entry_id in holders]
            near = entry_id in found.similarity
            if has_enough(held, rare, near):
                how = "nearly near enough" if near else "has no vector"
                words = f"{how}, and has of the query's {len(rare)} rare words: {', '.join(held)}"
                passing[entry_id] = Reason("words", len(held) / len(rare), words)
        return passing

    def _ranked(
        self, tx: Transaction, query: Query, found: _Found, passing: Mapping[int, Reason], limit: int
    ) -> Iterator[Hit]:
        """The best hits first, so many of them."""
        config, now = self.search_config(), self.now()
        facts = entry_facts(tx, list(passing))
        cue = AuthorCue(query, facts)
        reasons = {entry_id: weigh(facts[entry_id], cue, config, now) for entry_id in passing if entry_id in facts}
        scores = {
            entry_id: found.fused[entry_id] * prod(reason.value for reason in weights)
            for entry_id, weights in reasons.items()
        }
        keyword_ranks, vector_ranks = ranks_of(found.keyword), ranks_of(found.vector)
        best = sorted(scores, key=lambda entry_id: (-scores[entry_id], -entry_id))[:limit]
        loaded = load_entries(tx, best)
        for entry_id in best:
            yield Hit(
                entry=loaded[entry_id],
                score=scores[entry_id],
                fused=found.fused[entry_id],
                similarity=found.similarity.get(entry_id),
                keyword_rank=keyword_ranks.get(entry_id),
                vector_rank=vector_ranks.get(entry_id),
                reasons=(passing[entry_id], *reasons[entry_id]),
            )


def recall_query(pending: Sequence[str]) -> str:
    """What a search is made from: the words that the user says now, joined."""
    return " ".join(text for text in pending if text.strip())


def rare_holders(tx: Transaction, query: Query, scope: RowScope) -> dict[str, set[int]]:
    """The query's rare words, each with the entries of the scope that have it in their own text.

    One that nobody has said is the rarest of all. Where every word is common, all count.
    """
    common = max(_COMMON_FLOOR, int(count_entries(tx, scope) * _COMMON_SHARE))
    holders: dict[str, set[int]] = {}
    for term in telling_terms(query.terms)[:_MOST_TERMS]:
        found = tx.text.search(tx.connection, [term], scope, common + 1, with_context=False)
        holders[term] = {entry_id for entry_id, _ in found}
    return {term: held for term, held in holders.items() if len(held) <= common} or holders


def has_enough(held: Sequence[str], rare: Mapping[str, set[int]], near: bool) -> bool:
    """Half of the rare words; for what is nearly near enough, two that are half of those that anybody has said."""
    said = sum(1 for holders in rare.values() if holders)
    return bool(held) and (2 * len(held) >= len(rare) or (near and len(held) > 1 and 2 * len(held) >= said))


def _partners(tx: Transaction, found: _Found, passing: Mapping[int, Reason], seen: set[int]) -> dict[int, Reason]:
    """What answers, or asks, that which is near enough: the decision often has none of the question's words."""
    if not passing or not found.leeway or found.threshold is None:
        return {}
    bar = found.threshold - _PARTNER_LEEWAY
    near = {e: s for e, s in found.similarity.items() if s >= bar and e not in seen}
    exchange_of = exchanges_of(tx, near)
    met = {exchange_of[entry_id] for entry_id in passing if entry_id in exchange_of}
    return {
        entry_id: Reason("exchange", near[entry_id], "asks or answers what is near enough")
        for entry_id, exchange in exchange_of.items()
        if exchange in met and entry_id not in passing
    }


def _packed(query: Query, hits: Iterator[Hit], config: AutoRagConfig, frame: Frame) -> Iterator[Recalled]:
    """The best that fit the budget; one that does not is clipped where enough of it remains."""
    room, count = config.max_tokens, 0
    said = {_plain(query.text)}
    for hit in hits:
        if count == config.top_k or room < _LEAST_TOKENS:
            return
        text = hit.entry.text
        if _plain(text) in said:
            # Asked before in the same words, or said twice: it tells nothing new.
            continue
        said.add(_plain(text))
        size = tokens.estimate(frame(hit.entry, text))
        if size > room:
            around = tokens.estimate(frame(hit.entry, ""))
            text = tokens.clip_middle(text, room - around) if room - around >= _LEAST_TOKENS else ""
            size = tokens.estimate(frame(hit.entry, text))
        if text and size <= room:
            yield Recalled(hit, text, size)
            room, count = room - size, count + 1


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _safely(part: str, call: Callable[[], _Result], notes: list[str]) -> _Result | None:
    """What the call gives; None where it fails, which is logged and noted."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - memory must never stop a chat; the failure is logged and shown
        _log.warning("auto_rag_part_failed", part=part, error_class=type(error).__name__)
        notes.append(f"Searched without {part}: {type(error).__name__}.")
        return None
