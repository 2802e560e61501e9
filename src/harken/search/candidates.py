"""The one pipeline: candidates by word and by meaning, their facts, one weighed ranking, hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import prod

from harken.config.sections import SearchConfig
from harken.model.conversations import Hit, Reason
from harken.search.query import Query
from harken.search.ranking import AuthorCue, fuse_hybrid, weigh
from harken.search.session import QueryVector
from harken.storage.entries import EntryFacts, entry_facts, load_entries
from harken.storage.ports import NearestIndex, RowScope, Transaction


@dataclass(slots=True)
class Candidates:
    """Entries of a scope that may answer a query: found, fused, weighed and loaded in this order.

    Attributes:
        config: how they are fused and weighed.
        depth: how many of each list are fused.
        keyword: full-text scores, best first.
        nearest: cosine similarity of the nearest, -1 to 1, best first.
        similarity: that of every candidate which has a vector.
        quoting: those that have the query's words in their order.
        facts: of those that may come back.
        fused: what words and meaning say together; compares within one search, as `scores` do.
        scores: that, weighed.
        reasons: what the weights were.
    """

    query: Query
    config: SearchConfig
    scope: RowScope
    depth: int
    keyword: dict[int, float] = field(default_factory=dict)
    nearest: dict[int, float] = field(default_factory=dict)
    similarity: dict[int, float] = field(default_factory=dict)
    quoting: set[int] = field(default_factory=set)
    facts: dict[int, EntryFacts] = field(default_factory=dict)
    fused: dict[int, float] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    reasons: dict[int, list[Reason]] = field(default_factory=dict)

    def find_words(self, tx: Transaction, quote: str = "") -> None:
        """Find those with the query's words, and with a quotation where one is given."""
        window = self.config.context_window
        scored, self.quoting = tx.text.find(tx.connection, self.query.terms, quote, self.scope, self.depth, window)
        self.keyword = dict(scored)
        lowest = min(self.keyword.values(), default=0.0)
        self.keyword |= dict.fromkeys(self.quoting - self.keyword.keys(), lowest)

    def find_near(self, tx: Transaction, index: NearestIndex, asked: QueryVector, compared: int = 0) -> None:
        """Find the nearest, and how near those with the query's words are.

        Args:
            tx: any transaction.
            index: of the store.
            asked: the query's vector.
            compared: so many of a small scope, to spare comparing those found by words one by one.
        """
        wanted = max(self.depth, compared)
        self.nearest, self.similarity = index.compare(
            tx, asked.space, asked.vector, self.scope, wanted, list(self.keyword)
        )
        if wanted > self.depth:
            self.nearest = dict(islice(self.nearest.items(), self.depth))
            ranked = {**self.nearest, **self.keyword}
            self.similarity = {each: self.similarity[each] for each in ranked if each in self.similarity}

    def read_facts(
        self, tx: Transaction, entry_ids: Iterable[int], known: Mapping[int, EntryFacts] | None = None
    ) -> None:
        """Read the facts of candidates that lack them and are not known from elsewhere."""
        missing = [entry_id for entry_id in entry_ids if entry_id not in self.facts]
        if known:
            self.facts |= {entry_id: known[entry_id] for entry_id in missing if entry_id in known}
            missing = [entry_id for entry_id in missing if entry_id not in known]
        if missing:
            self.facts |= entry_facts(tx, missing)

    def fuse(self) -> None:
        """Make one list of both; who quotes words stands before everything else, for neither fusion exceeds 1."""
        untrusted = {entry_id for entry_id, each in self.facts.items() if each.trust.is_untrusted}
        self.fused = fuse_hybrid(self.keyword, self.nearest, self.similarity, self.config, untrusted)
        for entry_id in self.quoting:
            self.fused[entry_id] += 1.0

    def weigh(self, facts: Mapping[int, EntryFacts], now: datetime) -> None:
        """Score those that may come back."""
        cue = AuthorCue(self.query, facts)
        for entry_id, each in facts.items():
            reasons = weigh(each, cue, self.config, now)
            if entry_id in self.quoting:
                reasons.append(Reason("quote", 1.0, "has the query's words in this order"))
            self.reasons[entry_id] = reasons
            self.scores[entry_id] = self.fused[entry_id] * prod([reason.value for reason in reasons])

    def best_first(self) -> list[int]:
        """Those that have a score, best first; of equals the newer ones."""
        return sorted(self.scores, key=lambda entry_id: (-self.scores[entry_id], -entry_id))

    def hits(self, tx: Transaction, entry_ids: Sequence[int], passing: Mapping[int, Reason] | None = None) -> list[Hit]:
        """Load entries, in this order, each with why it came back."""
        entries = load_entries(tx, entry_ids)
        keyword_ranks = {entry_id: rank for rank, entry_id in enumerate(self.keyword, start=1)}
        vector_ranks = {entry_id: rank for rank, entry_id in enumerate(self.nearest, start=1)}
        return [
            Hit(
                entry=entries[entry_id],
                score=self.scores[entry_id],
                fused=self.fused[entry_id],
                similarity=self.similarity.get(entry_id),
                keyword_rank=keyword_ranks.get(entry_id),
                vector_rank=vector_ranks.get(entry_id),
                reasons=(*([passing[entry_id]] if passing else []), *self.reasons[entry_id]),
            )
            for entry_id in entry_ids
            if entry_id in entries
        ]
