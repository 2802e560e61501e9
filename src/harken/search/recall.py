"""What was said earlier in a conversation and matters now: found by itself, before each model call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from harken.config.sections import AutoRagConfig
from harken.model.conversations import Entry, Hit, Reason, SearchScope
from harken.search.asked import objected
from harken.search.candidates import Candidates
from harken.search.newest import MARK, is_said_before, newest_first
from harken.search.query import Query, asks_nothing, parse_query
from harken.search.relevance import Gate, RareWords, for_general, is_talk
from harken.search.session import Guess, QueryVector, SearchSession, SearchSessions, attempted
from harken.search.spread import Several, searched_for
from harken.search.union import hits_told_apart
from harken.storage.conversations import entries_of
from harken.storage.enrichment.summaries import TOOLS
from harken.storage.entries import foresee_segment, row_scope
from harken.storage.ports import RowScope, Transaction
from harken.text import tokens

# Where one message is near enough, others may be so much less similar: the prompt is about what was said here, and
# which of it answers is for the order to say (ADR 20).
_ALONGSIDE = 0.1
# How many of each list are fused: of a segment fewer do than of a whole store.
_DEPTH = 80
# The best so many times as many as wanted are tried: some say the same, or do not fit.
_TRIES = 4
# A message that must be cut to less than this says too little.
_LEAST_TOKENS = 24

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
        failures: those of the notes that tell of a part that failed.
    """

    items: tuple[Recalled, ...] = ()
    query: str = ""
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What all of them take."""
        return sum(item.tokens for item in self.items)


@dataclass(frozen=True, slots=True)
class AutoRag:
    """Searches one segment by word and by meaning; never raises into a chat."""

    sessions: SearchSessions

    def begin(self, text: str, config: AutoRagConfig, session: SearchSession) -> None:
        """Have a query embedded that is about to be searched for; what fails here is met again there, and noted."""
        query = parse_query(text)
        if config.enabled and not asks_nothing(query, session.config.min_query_tokens):
            with attempted("vectors", []):
                session.begin(searched_for(query), known_scripts_only=True)

    def search(
        self,
        text: str,
        segment_uid: str,
        excluded: Collection[str],
        config: AutoRagConfig,
        frame: Frame = lambda entry, text: text,
        session: SearchSession | None = None,
    ) -> Recall:
        """Find the few messages of a segment that a query is about, and what its tool calls brought, in short.

        Each must be near enough to the query by cosine similarity, found by its words or not. One that is nearly so,
        or has no vector yet, must have at least half of the query's rare words; one that is not quite so far off comes
        with what it asks or answers. Where a threshold is set, no vector may lie under it. What is not to be trusted
        must be nearer by a margin, or, without a vector, have all of the rare words.

        Args:
            text: what the user says now.
            segment_uid: nothing outside of it comes back.
            excluded: ids of messages that are in the context already, and of exchanges whose tool calls are.
            config: `top_k` messages at most, in `max_tokens` at most.
            frame: what will stand in the context for a message; its tokens count against the budget.
            session: what is shared with other searches; None where there are none.
        Returns:
            Nothing for small talk, for what was never discussed, and when the search fails.
        """
        if not config.enabled:
            return Recall(notes=("Auto-RAG is off.",))
        query = parse_query(text)
        with self.sessions.joined(session) as shared:
            if asks_nothing(query, shared.config.min_query_tokens):
                return Recall(notes=("Nothing was asked, so nothing was searched.",))
            several = Several.asked_by(query)
            if several:
                config = config.model_copy(update={"top_k": max(config.top_k, config.top_k_several)})
            search = _SegmentSearch(shared, several.query if several else query, config, several)
            items: tuple[Recalled, ...] = ()
            with attempted("search", search.failures):
                hits = hits_told_apart(shared, [(shared.space, hit) for hit in search.hits(segment_uid, excluded)])
                items = tuple(_packed(query, hits, config, frame))
        return Recall(items, query.text, (*search.failures, *search.notes), tuple(search.failures))


@dataclass(slots=True)
class _SegmentSearch:
    session: SearchSession
    query: Query
    config: AutoRagConfig
    several: Several | None = None
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    asked: QueryVector | None = None
    gate: Gate = field(default_factory=partial(Gate, None))
    rare: RareWords = field(default_factory=partial(RareWords, {}))

    def hits(self, segment_uid: str, excluded: Collection[str]) -> list[Hit]:
        """The best that may come back, best first."""
        config, most = self.session.config, _TRIES * self.config.top_k
        wanted = SearchScope(segment=segment_uid, sources=("message", TOOLS))
        wanted = replace(wanted, without_untrusted=not config.include_untrusted)
        with self.session.view.reading() as tx:
            is_remote = tx.dialect.is_remote
            if is_remote:
                self._foresee(tx, wanted, list(excluded))
        self.session.begin(self.query, known_scripts_only=True)
        with self.session.view.reading() as tx:
            scope = row_scope(tx, wanted)
            seen = entries_of(tx, excluded)
        found = self._candidates(scope, len(seen))
        if is_remote:
            self.session.note(wanted, Guess(scope, len(excluded) - len(seen)))
        # Both lists each on its own: where one part is broken, the other carries.
        with attempted("full_text", self.failures), self.session.view.reading() as tx:
            self._find_words(tx, found)
        is_small = False
        with attempted("vectors", self.failures):
            self._find_near(found)
            if self.asked is not None:
                is_small = is_talk(self.asked, self.gate)
        if is_small:
            self.notes.append("It resembles small talk more than anything that was said.")
            return []
        with self.session.view.reading() as tx:
            if is_remote:
                found.fuse()
                found.read_last(tx, found.best_fused(found.fused.keys() - seen, 2 * most), 2 * most)
            found.read_facts(tx, [*found.similarity, *found.keyword])
            found.fuse()
            seen = seen | objected(tx, self.query, found.judged, self.session.view.nearest, self.asked)
            passing = self._passing(found, seen, most)
            facts = {entry_id: found.facts[entry_id] for entry_id in passing}
            if is_remote:
                found.read_last(tx, found.best_fused(facts), 4 * most)
        if not self.failures:
            # It reads by words and by meaning once more; where a part is broken, what is there keeps its order.
            with attempted("learned_order", self.failures), self.session.view.reading() as tx:
                found.learn(tx, self.session.view.nearest, self.asked, facts)
        with self.session.view.reading() as tx:
            found.weigh(facts, self.session.now)
            if self.several:
                self.several.spread(tx, found, self.asked)
            return newest_first(self.session.view, found.hits(tx, found.best_first()[:most], passing))

    def _find_words(self, tx: Transaction, found: Candidates) -> None:
        if tx.dialect.is_remote:
            found.foresee(tx, self.session.view.nearest, self.session.known.spaces.values())
        found.find_words(tx)
        # Here, for the model is still at work; facts a server is asked for together with those that are near.
        found.read_ahead(tx, with_facts=not tx.dialect.is_remote)
        # Once for both: each word is looked for in every entry of a small store.
        self.rare = RareWords.read(tx, self.query, found.scope, found.held)

    def _candidates(self, scope: RowScope, seen: int) -> Candidates:
        return Candidates(self.query, self.session.config, scope, min(_DEPTH, self.session.config.candidates) + seen)

    def _foresee(self, tx: Transaction, wanted: SearchScope, excluded: Sequence[str]) -> None:
        """Have a server asked by one message for all that needs no vector, if the segment was searched before."""
        foresee_segment(tx, wanted.segment or "", excluded, self.session.now)
        if guess := self.session.guess(wanted):
            candidates = self._candidates(guess.scope, max(0, len(excluded) - guess.unseen))
            candidates.foresee(tx, self.session.view.nearest, self.session.known.spaces.values())

    def _find_near(self, found: Candidates) -> None:
        asked = self.session.vector(self.query, known_scripts_only=True)
        if isinstance(asked, str):
            self.notes.append(asked)
            return
        self.asked = asked
        self.notes += [asked.note] if asked.note else []
        with self.session.view.reading() as tx:
            self.notes += self.session.notes(tx)
            found.find_near(tx, self.session.view.nearest, asked)
        own, config = self.config.relevance_threshold, self.session.config
        gate = Gate.of(asked, config.relevance_threshold if own is None else own, config)
        # A threshold that somebody has set is kept to the letter.
        self.gate = for_general(asked, self.rare.raise_for_unsaid(gate))

    def _passing(self, found: Candidates, seen: set[int], most: int) -> dict[int, Reason]:
        """Those that may come back, each with the reason."""
        passing: dict[int, Reason] = {}
        unsure: list[int] = []
        for entry_id in {**found.similarity, **found.keyword}:
            # What was forgotten while the model was waited for has no facts any more.
            if entry_id in seen or entry_id not in found.facts:
                continue
            similarity, is_untrusted = found.similarity.get(entry_id), found.facts[entry_id].trust.is_untrusted
            gate = found.gate_for(entry_id, self.gate)
            admitted = gate.admits(similarity, is_untrusted, entry_id in found.keyword)
            if admitted is None:
                unsure.append(entry_id)
            elif admitted and similarity is not None:
                why = f"near enough: the threshold is {gate.bar(is_untrusted):g}"
                passing[entry_id] = Reason("similarity", similarity, why)
        passing |= self._partners(found, passing, seen)
        best = set(sorted({*passing, *unsure}, key=lambda entry_id: -found.fused[entry_id])[:most])
        for entry_id in unsure:
            similarity, is_untrusted = found.similarity.get(entry_id), found.facts[entry_id].trust.is_untrusted
            rest = similarity, self.gate, is_untrusted, entry_id in found.elsewhere
            if entry_id in best and entry_id not in passing and self.rare.make_up(entry_id, *rest):
                held, of = self.rare.held_by(entry_id), len(self.rare.holders)
                how = "nearly near enough" if entry_id in found.similarity else "has no vector"
                words = f"{how}, and has of the query's {of} rare words: {', '.join(held)}"
                passing[entry_id] = Reason("words", len(held) / of, words)
        # Near enough by the threshold itself, and by words: that brings its answer too, and what else is on the matter.
        least = 1.0 if self.gate.threshold is None else self.gate.threshold
        near = [entry_id for entry_id in passing if found.similarity.get(entry_id, -1.0) >= least]
        return self._alongside(found, near, seen) | self._partners(found, near, seen) | passing

    def _alongside(self, found: Candidates, near: Collection[int], seen: set[int]) -> dict[int, Reason]:
        """What is nearly as near as it must be, where something is near enough; nothing where somebody set the bar."""
        if not near or not self.gate.leeway or self.gate.threshold is None:
            return {}
        least = self.gate.threshold - _ALONGSIDE
        return {
            entry_id: Reason("similarity", similarity, "nearly near enough, beside what is")
            for entry_id, similarity in found.similarity.items()
            if similarity >= least and entry_id in found.facts and entry_id not in seen
            if not found.facts[entry_id].trust.is_untrusted
        }

    def _partners(self, found: Candidates, passing: Collection[int], seen: set[int]) -> dict[int, Reason]:
        """What answers, or asks, that which is near enough: the decision often has none of the question's words."""
        bar = self.gate.partner_bar
        if bar is None or not passing:
            return {}
        exchange_of: dict[int, int] = {}
        for entry_id, similarity in found.similarity.items():
            each = found.facts.get(entry_id)
            if each and each.exchange_id and similarity >= bar and entry_id not in seen and not each.trust.is_untrusted:
                exchange_of[entry_id] = each.exchange_id
        met = {exchange_of[entry_id] for entry_id in passing if entry_id in exchange_of}
        return {
            entry_id: Reason("exchange", found.similarity[entry_id], "asks or answers what is near enough")
            for entry_id, exchange in exchange_of.items()
            if exchange in met and entry_id not in passing
        }


def _packed(query: Query, hits: Iterable[Hit], config: AutoRagConfig, frame: Frame) -> Iterator[Recalled]:
    """The best that fit the budget; one that does not is clipped where enough of it remains."""
    room, count = config.max_tokens, 0
    said = {_plain(query.text)}
    for hit in hits:
        if count == config.top_k or room < _LEAST_TOKENS:
            return
        text = f"({MARK}) {hit.entry.text}" if is_said_before(hit) else hit.entry.text
        if _plain(hit.entry.text) in said:
            # Asked before in the same words, or said twice: it tells nothing new.
            continue
        said.add(_plain(hit.entry.text))
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
