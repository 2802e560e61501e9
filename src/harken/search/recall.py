"""What was said earlier in a conversation and matters now: found by itself, before each model call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import prod
from typing import TypeVar

import structlog

from harken.config.settings import AutoRagConfig, SearchConfig
from harken.model.conversations import Entry, Hit, Reason, SearchScope
from harken.search.coverage import Coverage
from harken.search.fusion import fuse_hybrid
from harken.search.query import Query, parse_query
from harken.search.search import SpaceReader, ranks_of
from harken.search.session import DaemonClient, SearchSession
from harken.search.small_talk import asks_nothing, distinctive_terms
from harken.search.weights import AuthorCue, weigh
from harken.storage.conversations import entries_of, exchanges_of
from harken.storage.entries import entry_facts, load_entries, untrusted_among
from harken.storage.ports import Holding, RowScope, Store, Transaction
from harken.storage.scopes import row_scope
from harken.text import tokens

# A word that more than this share of a segment's entries has is no rare one; in a short segment, more than so many.
_COMMON_SHARE, _COMMON_FLOOR = 0.1, 10
_MOST_TERMS = 12
# Who has the query's rare words may be so much less similar than the model's own calibration asks; a threshold that
# somebody has set is kept to the letter. "We decided to deploy on Fridays" lies at 0.53 from "what did we decide about
# the deploy?", where 0.60 is asked of texts that merely resemble.
_LEEWAY = 0.08
# What a query asks of in words that nobody has said is less likely to have been talked about: so much more similarity
# is asked for where none of its telling words was said, in proportion where some were.
_FOR_UNSAID = 0.12
# What shares an exchange with a message that is near enough (evidence in context on LoCoMo's conv-26 at 2,000 tokens:
# 0.70 with, 0.68 without, at no more tokens).
_PARTNER_LEEWAY = 0.2
# How many of each list are fused: of a segment fewer do than of a whole store.
_DEPTH = 80
# The best so many times as many as wanted are tried: some say the same, or do not fit.
_TRIES = 4
# A message that must be cut to less than this says too little.
_LEAST_TOKENS = 24
# Queries that are embedded at one time.
_AT_ONCE = 8

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
class _SegmentCandidates:
    keyword: dict[int, float] = field(default_factory=dict)
    vector: dict[int, float] = field(default_factory=dict)
    similarity: dict[int, float] = field(default_factory=dict)
    threshold: float | None = None
    leeway: float = 0.0
    fused: dict[int, float] = field(default_factory=dict)
    rare: Mapping[str, frozenset[int]] = field(default_factory=dict)
    unsaid: float = 0.0
    untrusted: set[int] = field(default_factory=set)
    margin: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def extra(self) -> float:
        """How much nearer than the threshold is asked for; none where somebody has set that."""
        return _FOR_UNSAID * self.unsaid if self.leeway else 0.0

    def bar(self, entry_id: int) -> float | None:
        """The similarity that an entry needs; None where it, or the threshold, is not known."""
        if self.threshold is None or entry_id not in self.similarity:
            return None
        return self.threshold + self.extra + (self.margin if entry_id in self.untrusted else 0.0)

    def is_nearly_near(self, entry_id: int) -> bool:
        """Whether an entry with its words, and to be trusted, is not quite near enough."""
        least = (self.threshold or 0.0) - self.leeway
        return self.similarity[entry_id] >= least and entry_id in self.keyword and entry_id not in self.untrusted


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
    _threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE, "auto-rag"), init=False)
    _coverage: Coverage = field(default_factory=Coverage, init=False)

    def together(self) -> SearchSession:
        """What this search shares with others of the same call."""
        return SearchSession(self.store, self.reader, self._threads)

    def begin(self, query: str, config: AutoRagConfig, together: SearchSession) -> None:
        """Have a query embedded that is about to be searched for; what fails here is met again there, and noted."""
        asked = parse_query(query)
        if config.enabled and not asks_nothing(asked, self.search_config().min_query_tokens):
            _safely("vectors", lambda: together.ask(asked), [])

    def search(
        self,
        query: str,
        segment_uid: str,
        excluded: Collection[str],
        config: AutoRagConfig,
        frame: Frame = lambda entry, text: text,
        together: SearchSession | None = None,
    ) -> Recall:
        """Find the few messages of a segment that a query is about.

        Each must be near enough to the query by cosine similarity, found by its words or not. One that is nearly so,
        or has no vector yet, must have at least half of the query's rare words; one that is not quite so far off comes
        with what it asks or answers. Where a threshold is set, no vector may lie under it. What is not to be trusted
        must be nearer by a margin, or, without a vector, have all of the rare words.

        Args:
            query: what the user says now.
            segment_uid: nothing outside of it comes back.
            excluded: ids of messages that must not come back: they are in the context already.
            config: the limits.
            frame: what will stand in the context for a message; its tokens count against the budget.
            together: what is shared with other searches; None where there are none.
        Returns:
            At most `config.top_k` messages in at most `config.max_tokens`; none for small talk, for what was never
            discussed, and when the search fails.
        """
        if not config.enabled:
            return Recall(notes=("Auto-RAG is off.",))
        asked = parse_query(query)
        if asks_nothing(asked, self.search_config().min_query_tokens):
            return Recall(notes=("Nothing was asked, so nothing was searched.",))
        notes: list[str] = []

        def find() -> Recall:
            with nullcontext(together) if together else self.together() as shared:
                return self._recall(shared, asked, segment_uid, excluded, config, frame)

        return _safely("search", find, notes) or Recall(query=asked.text, notes=tuple(notes))

    def _recall(
        self,
        together: SearchSession,
        query: Query,
        segment_uid: str,
        excluded: Collection[str],
        config: AutoRagConfig,
        frame: Frame,
    ) -> Recall:
        search_config = self.search_config()
        found = _SegmentCandidates(margin=search_config.untrusted_margin)
        asking = _safely("vectors", lambda: together.ask(query), found.notes)
        with together.view.reading() as tx:
            wanted = SearchScope(segment=segment_uid, sources=("message",))
            scope = row_scope(tx, replace(wanted, without_untrusted=not search_config.include_untrusted))
            seen = entries_of(tx, excluded)
        depth = min(_DEPTH, search_config.candidates) + len(seen)
        # Both lists each on its own: where one part is broken, the other carries.
        _safely("full_text", lambda: self._by_word(together, query, scope, depth, found), found.notes)
        if asking is not None:
            _safely("vectors", lambda: self._by_meaning(together, asking, scope, depth, found), found.notes)
        if config.relevance_threshold is not None and found.threshold is not None:
            found.threshold, found.leeway = config.relevance_threshold, 0.0
        with together.view.reading() as tx:
            found.untrusted = untrusted_among(tx, list({**found.similarity, **found.keyword}))
            found.fused = fuse_hybrid(found.keyword, found.vector, found.similarity, search_config, found.untrusted)
            passing = self._passing(tx, found, seen, _TRIES * config.top_k)
            hits = self._ranked(tx, query, found, passing, _TRIES * config.top_k)
            items = tuple(_packed(query, hits, config, frame))
        return Recall(items, query.text, tuple(found.notes))

    def _by_word(
        self, together: SearchSession, query: Query, scope: RowScope, depth: int, found: _SegmentCandidates
    ) -> None:
        window = self.search_config().context_window
        with together.view.reading() as tx:
            found.keyword = dict(tx.text.search(tx.connection, query.terms, scope, depth, window))
            holding = telling_holders(tx, query, scope)
        found.rare = rare_holders(holding)
        found.unsaid = sum(not held for held in holding.of.values()) / max(1, len(holding.of))

    def _by_meaning(
        self, together: SearchSession, asking: DaemonClient, scope: RowScope, depth: int, found: _SegmentCandidates
    ) -> None:
        query = together.answer(asking)
        if isinstance(query, str):
            found.notes.append(query)
            return
        with together.view.reading() as tx:
            found.notes += self._coverage.notes(tx, self.now())
            also = list(found.keyword)
            near, told = self.store.nearest.compare(tx, query.space, query.vector, scope, depth, also)
        configured = self.search_config().relevance_threshold
        found.vector, found.similarity = near, told
        if configured is None:
            found.threshold, found.leeway = query.space.threshold, _LEEWAY
        else:
            found.threshold, found.leeway = configured, 0.0

    def _passing(self, tx: Transaction, found: _SegmentCandidates, seen: set[int], limit: int) -> dict[int, Reason]:
        """What may come back, each with the reason."""
        passing: dict[int, Reason] = {}
        unsure: list[int] = []
        candidates = [entry_id for entry_id in {**found.similarity, **found.keyword} if entry_id not in seen]
        for entry_id in candidates:
            bar = found.bar(entry_id)
            if bar is None:
                unsure.append(entry_id)
            elif (similarity := found.similarity[entry_id]) >= bar:
                passing[entry_id] = Reason("similarity", similarity, f"near enough: the threshold is {bar:g}")
            elif found.is_nearly_near(entry_id):
                unsure.append(entry_id)
        passing |= _partners(tx, found, passing, seen)
        best = sorted({*passing, *unsure}, key=lambda entry_id: -found.fused[entry_id])[:limit]
        unsure = [entry_id for entry_id in unsure if entry_id in best and entry_id not in passing]
        rare = found.rare
        for entry_id in unsure:
            held = [term for term, holders in rare.items() if entry_id in holders]
            near = entry_id in found.similarity
            if has_enough(held, rare, near, entry_id not in found.untrusted):
                how = "nearly near enough" if near else "has no vector"
                words = f"{how}, and has of the query's {len(rare)} rare words: {', '.join(held)}"
                passing[entry_id] = Reason("words", len(held) / len(rare), words)
        # Near enough by the threshold itself, and by words: that brings its answer too.
        return _partners(tx, found, _near(found, passing), seen) | passing

    def _ranked(
        self, tx: Transaction, query: Query, found: _SegmentCandidates, passing: Mapping[int, Reason], limit: int
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


def telling_holders(tx: Transaction, query: Query, scope: RowScope) -> Holding:
    """Who of a scope has each of the words that say what a query is about."""
    return tx.text.holders(tx.connection, distinctive_terms(query.terms)[:_MOST_TERMS], scope, _COMMON_FLOOR)


def rare_holders(holding: Holding) -> Mapping[str, frozenset[int]]:
    """Those of the words that are rare.

    One that nobody has said is the rarest of all. Where every word is common, all count.
    """
    common = max(_COMMON_FLOOR, int(holding.entries * _COMMON_SHARE))
    return {term: held for term, held in holding.of.items() if len(held) <= common} or holding.of


def has_enough(held: Sequence[str], rare: Mapping[str, frozenset[int]], near: bool, is_trusted: bool) -> bool:
    """Half of the rare words; for what is nearly near enough, two that are half of those that anybody has said.

    What is not to be trusted must have all of them.
    """
    if not is_trusted:
        return bool(rare) and len(held) == len(rare)
    said = sum(1 for holders in rare.values() if holders)
    return bool(held) and (2 * len(held) >= len(rare) or (near and len(held) > 1 and 2 * len(held) >= said))


def _near(found: _SegmentCandidates, passing: Mapping[int, Reason]) -> dict[int, Reason]:
    """Those of what passes that are as near as the model's threshold asks."""
    least = found.threshold if found.threshold is not None else 1.0
    return {entry_id: reason for entry_id, reason in passing.items() if found.similarity.get(entry_id, -1.0) >= least}


def _partners(
    tx: Transaction, found: _SegmentCandidates, passing: Mapping[int, Reason], seen: set[int]
) -> dict[int, Reason]:
    """What answers, or asks, that which is near enough: the decision often has none of the question's words."""
    if not passing or not found.leeway or found.threshold is None:
        return {}
    bar = found.threshold - _PARTNER_LEEWAY
    near = {e: s for e, s in found.similarity.items() if s >= bar and e not in seen | found.untrusted}
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
