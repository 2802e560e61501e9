"""The one pipeline: candidates by word and by meaning, their facts, one weighed ranking, and hits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from math import prod

from harken.config.sections import SearchConfig
from harken.model.conversations import UNTRUSTED, Entry, Hit, Reason, Role
from harken.model.marks import in_words
from harken.search.fusion import MOST_HOLDERS, NOTHING_LEARNED, REORDERED, Evidence, Learned, learned_scores, placed
from harken.search.query import GLUED, Query
from harken.search.relevance import Gate, RareWords
from harken.search.session import QueryVector
from harken.storage.entries import STATES_RULE, load_entries
from harken.storage.facts import EntryFacts, Neighbours, asked_last, entry_facts, neighbours
from harken.storage.ports import Holding, NearestIndex, RowScope, StoredSpace, Transaction
from harken.storage.projects import ProjectScope
from harken.storage.records.marks import ratings_of
from harken.text.shown import short_key
from harken.text.traits import asking_share

_ASSISTANT_CUES = frozenset({"you", "your"})
_USER_CUES = frozenset({"i", "my", "me"})
_SECONDS_PER_DAY = 86_400
_TRUST = "trust"
_OTHER = "project"
RATED = "feedback"
# So many rules are looked at, and each may be so much less similar than what resembles a question: all that a task of
# BEAM's chats 1 to 5 was to be done by are among the nearest six, down to 0.46.
_MOST_RULES, RULE_LEEWAY = 8, 0.15
_LEEWAY_ABROAD = 0.2  # of what has another language, and the query's rare words
# A question resembles questions of anything, most of all where only the second model compares them, and answers none:
# what asks in so many of its sentences must be so much nearer.
_ASKING_SHARE, _FOR_ASKING_ABROAD = 0.3, 0.05
# What the query's words add to nearness where it has another language, and most answers could not have them.
_WORDS_ABROAD = 0.3


@dataclass(slots=True)
class Candidates:
    """Entries of a scope that may answer a query: found, fused, weighed and loaded in this order.

    Attributes:
        config: how they are fused and weighed.
        depth: how many of each list are fused.
        keyword: full-text scores, best first.
        nearest: cosine similarity of the nearest, -1 to 1, best first.
        similarity: that of every candidate which has a vector.
        elsewhere: those that were compared in the space for other languages, and whether they may have the query's.
        quoting: those that have the query's words in their order.
        held: who has which of the query's words; None where nobody has looked yet.
        rare: its rare words, and who has them; likewise.
        rules: similarity of the nearest that state a rule or a preference, best first.
        facts: of those that may come back; `untrusted` are those of them that are not to be trusted.
        fused: what words and meaning say together, or by learned fusion all features; compares within one search, as
            `scores` do.
        scores: that, weighed.
        reasons: what the weights were.
        learned: what learned fusion says of the best.
        beside, loaded: what stands beside those that were read ahead, and they themselves.
    """

    query: Query
    config: SearchConfig
    scope: RowScope
    depth: int
    keyword: dict[int, float] = field(default_factory=dict)
    nearest: dict[int, float] = field(default_factory=dict)
    similarity: dict[int, float] = field(default_factory=dict)
    elsewhere: dict[int, bool] = field(default_factory=dict)
    quoting: set[int] = field(default_factory=set)
    held: Holding | None = None
    rare: RareWords | None = None
    rules: dict[int, float] = field(default_factory=dict)
    facts: dict[int, EntryFacts] = field(default_factory=dict)
    untrusted: set[int] = field(default_factory=set)
    fused: dict[int, float] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)
    reasons: dict[int, list[Reason]] = field(default_factory=dict)
    learned: Learned = NOTHING_LEARNED
    beside: dict[int, Neighbours] = field(default_factory=dict)
    loaded: dict[int, Entry] = field(default_factory=dict)

    def foresee(
        self,
        tx: Transaction,
        index: NearestIndex,
        spaces: Iterable[StoredSpace],
        quote: str = "",
        facets: Sequence[str] = (),
        weighs_words: bool = True,
        finds_words: bool = True,
    ) -> None:
        """Have a server asked by one message for what finding words, the rare ones and the nearest will ask.

        Also which entries of the scope have some `facets`; not for the rare words, unless it `weighs_words`, nor for
        finding them, unless it `finds_words`.
        """
        terms = self.query.terms
        held = (terms, MOST_HOLDERS) if self.config.fusion == "learned" else (RareWords.terms_of(self.query), None)
        of_words = terms if finds_words else (), quote, self.scope, self.depth, self.config.context_window
        tx.text.foresee(tx, of_words, [held] if weighs_words else [])
        for space in spaces:
            index.foresee(tx, space, replace(self.scope, facets=(*self.scope.facets, *facets)))

    def read_last(self, tx: Transaction, best: Sequence[int], most: int, among: Iterable[int] | None = None) -> None:
        """Read facts of all, what stands beside the best, `most` of these whole; mostly a server's last question.

        Or facts of those `among` all that are named.
        """
        every = {**self.similarity, **self.keyword} if among is None else dict.fromkeys(among)
        candidates = [entry_id for entry_id in every if entry_id not in self.facts]
        beside = [entry_id for entry_id in best if entry_id not in self.beside]
        whole = [entry_id for entry_id in best[:most] if entry_id not in self.loaded]
        if candidates or beside or whole:
            tx.dialect.end_with(tx.connection, *asked_last(tx, candidates, beside, whole))
        self.read_facts(tx, candidates)
        self.beside |= dict.fromkeys(beside, Neighbours()) | neighbours(tx, beside)
        self.loaded |= load_entries(tx, whole)

    def best_fused(self, entry_ids: Iterable[int], most: int = REORDERED) -> list[int]:
        """Those of these that stand highest so far; of equals the newer ones, in whatever order a server gives rows."""
        return sorted(sorted(entry_ids, reverse=True), key=self.fused.__getitem__, reverse=True)[:most]

    def find_words(self, tx: Transaction, quote: str = "") -> None:
        """Find those with the query's words, and with a quotation where one is given."""
        window = self.config.context_window
        scored, self.quoting = tx.text.find(tx.connection, self.query.terms, quote, self.scope, self.depth, window)
        self.keyword = dict(scored)
        lowest = min(self.keyword.values(), default=0.0)
        self.keyword |= dict.fromkeys(self.quoting - self.keyword.keys(), lowest)

    def read_ahead(self, tx: Transaction, with_facts: bool = True, beside: int = 0) -> None:
        """Read what ordering those with the query's words takes, before it is known what is near.

        Also what stands `beside` so many of them, where most may be among the best.
        """
        if with_facts:
            self.read_facts(tx, self.keyword)
        if self.config.fusion == "learned" and self.keyword:
            self.held, best = self.holders(tx), list(self.keyword)[:beside]
            self.beside = dict.fromkeys(best, Neighbours()) | neighbours(tx, best)

    def holders(self, tx: Transaction) -> Holding:
        """Who has its words, as it was read ahead; else as it is read now."""
        return self.held or tx.text.holders(tx.connection, self.query.terms, self.scope, most=MOST_HOLDERS)

    def find_near(self, tx: Transaction, index: NearestIndex, asked: QueryVector, compared: int = 0) -> None:
        """Find the nearest, and how near those with the query's words are.

        Of a small scope so many are `compared` as spare comparing those found by words one by one.
        """
        wanted = max(self.depth, compared)
        self.nearest, self.similarity, self.elsewhere = asked.compare(tx, index, self.scope, wanted, list(self.keyword))
        if wanted > self.depth:
            self.nearest = dict(islice(self.nearest.items(), self.depth))
            ranked = {**self.nearest, **self.keyword}
            self.similarity = {each: self.similarity[each] for each in ranked if each in self.similarity}

    def find_rules(self, tx: Transaction, index: NearestIndex, asked: QueryVector, least: float) -> None:
        """Find the nearest rules, at `least` so near: a task's words are those of what was answered to such tasks."""
        scope = replace(self.scope, facets=(*self.scope.facets, STATES_RULE))
        near = asked.compare(tx, index, scope, _MOST_RULES, [])[0]
        self.rules = {entry_id: similarity for entry_id, similarity in near.items() if similarity >= least}
        self.similarity |= self.rules

    def read_facts(
        self, tx: Transaction, entry_ids: Iterable[int], known: Mapping[int, EntryFacts] | None = None
    ) -> None:
        """Read the facts of candidates that lack them and are not known from elsewhere."""
        missing = [entry_id for entry_id in entry_ids if entry_id not in self.facts]
        read: dict[int, EntryFacts] = {}
        if known:
            read = {entry_id: known[entry_id] for entry_id in missing if entry_id in known}
            missing = [entry_id for entry_id in missing if entry_id not in known]
        if missing:
            read |= entry_facts(tx, missing)
        self.facts |= read
        self.untrusted |= {entry_id for entry_id, each in read.items() if each.trust in UNTRUSTED}

    @property
    def judged(self) -> list[int]:
        """Those that verdicts weigh."""
        return [entry_id for entry_id, each in self.facts.items() if each.rated != 1.0]

    def fuse(self) -> None:
        """Make one list of both, the way the settings say, with scores of 0 to 1; who quotes words stands before all.

        What is not to be trusted counts as less similar by the margin that it needs more.
        """
        similarity = self._counted_similarity()
        if self.config.fusion == "rrf":
            nearest = sorted(self.nearest, key=lambda entry_id: -similarity[entry_id])
            self.fused = fuse_ranks([list(self.keyword), nearest], self.config.rrf_k)
        else:
            share = self.config.vector_weight
            self.fused = fuse_scores([(1.0 - share, self.keyword), (share, similarity)])
            if self.elsewhere:
                alone = fuse_scores([(_WORDS_ABROAD, self.keyword), (1.0, similarity)])
                self.fused |= {entry_id: alone[entry_id] for entry_id in self.elsewhere.keys() & alone.keys()}
        for entry_id in self.quoting:
            self.fused[entry_id] += 1.0

    def _counted_similarity(self) -> dict[int, float]:
        """The similarity of each candidate as far as it counts for its place; by words while its vector is to come."""
        margin = self.config.untrusted_margin
        lowered = {each: self.similarity[each] - margin for each in self.untrusted & self.similarity.keys()}
        counted = {**self.similarity, **lowered}
        fresh = {entry_id for entry_id, each in self.facts.items() if each.space_id == 0}
        if counted and (waiting := fresh & self.keyword.keys() - counted.keys()):
            # Else all that is embedded comes first: of what waited 0.38 was found, 0.73 by words (LoCoMo, recall@5).
            least, most = min(counted.values()), max(counted.values())
            shares = fuse_scores([(most - least, self.keyword)])
            counted |= {entry_id: least + shares[entry_id] for entry_id in waiting}
        return counted

    def learn(
        self, tx: Transaction, index: NearestIndex, asked: QueryVector | None, facts: Mapping[int, EntryFacts]
    ) -> None:
        """Order the best of those that may come back by learned fusion, where the settings ask for it.

        `index` and `asked` are those that `find_near` had, `facts` of all that may come back. It was learned from
        English: what has another language takes the place among the others that it had before.
        """
        if self.config.fusion != "learned" or (self.elsewhere and self.elsewhere.keys() >= facts.keys()):
            return
        best = self.best_fused(facts)
        best += [each for each in self.rules if each in facts and each not in best]
        around = neighbours(tx, [entry_id for entry_id in best if entry_id not in self.beside])
        around |= {entry_id: self.beside[entry_id] for entry_id in best if entry_id in self.beside}
        similarity = self._counted_similarity()
        if asked is not None:
            beside = {each.after for each in around.values() if each.after and each.after not in similarity}
            similarity |= asked.compare(tx, index, self.scope, 0, list(beside))[1]
        held = self.holders(tx)
        chosen = {entry_id: facts[entry_id] for entry_id in best}
        speakers = AuthorCue(self.query, chosen).sides_of(best, facts)
        known = Evidence(self.query, facts, self.fused, self.keyword, similarity, speakers, held, around)
        abroad = [entry_id for entry_id in best if entry_id in self.elsewhere]
        self.learned = learned_scores(known, [entry_id for entry_id in best if entry_id not in self.elsewhere])
        scores = self.learned.scores | placed(self.learned.scores, self.fused, abroad)
        # The others stay behind, in their order.
        least = min(scores.values(), default=0.0)
        self.fused = {entry_id: least * score / 2 for entry_id, score in self.fused.items()} | scores
        for entry_id in self.quoting & self.fused.keys():
            self.fused[entry_id] += 1.0

    def gate_for(self, entry_id: int, gate: Gate) -> Gate:
        """The gate for a candidate of another language than English.

        One that cannot have the query's words is not asked for more where nobody has said them; of one that has them,
        the second model need not say as much as the first of English.
        """
        if entry_id not in self.elsewhere:
            return gate
        if not self.elsewhere[entry_id]:
            lowered = replace(gate, raised=min(0.0, gate.raised))
        else:
            lowered = replace(gate, leeway=max(gate.leeway, _LEEWAY_ABROAD)) if gate.leeway else gate
        return gate_for_asking(self, entry_id, lowered)

    def weigh(self, facts: Mapping[int, EntryFacts], now: datetime) -> None:
        """Score those that may come back."""
        # Learned fusion knows the speaker by itself.
        cue = None if self.learned.scores else AuthorCue(self.query, facts)
        plain = self.config.recency_half_life_days is None and (cue is None or not cue.means_anybody)
        for entry_id, each in facts.items():
            # Nothing weighs most candidates, and asking costs as much as all else here.
            is_plain = plain and each.weight == each.rated == 1.0 and entry_id not in self.untrusted
            self.reasons[entry_id] = reasons = [] if is_plain else weigh(each, cue, self.config, now)
            if entry_id in self.quoting:
                reasons.append(Reason("quote", 1.0, "has the query's words in this order"))
            factor = prod([reason.value for reason in reasons]) if reasons else 1.0
            self.scores[entry_id] = self.fused[entry_id] * factor

    def best_first(self) -> list[int]:
        """Those that have a score, best first; of equals the newer ones."""
        return sorted(sorted(self.scores, reverse=True), key=self.scores.__getitem__, reverse=True)

    def hits(self, tx: Transaction, entry_ids: Sequence[int], passing: Mapping[int, Reason] | None = None) -> list[Hit]:
        """Load entries, in this order, each with why it came back."""
        entries = self.loaded | load_entries(tx, [each for each in entry_ids if each not in self.loaded])
        keyword_ranks = {entry_id: rank for rank, entry_id in enumerate(self.keyword, start=1)}
        vector_ranks = {entry_id: rank for rank, entry_id in enumerate(self.nearest, start=1)}
        if rated := [entries[each] for each in entry_ids if each in entries and self.facts[each].rated != 1.0]:
            self._explain_ratings(tx, rated)
        return [
            Hit(
                entry=entries[entry_id],
                score=self.scores[entry_id],
                fused=self.fused[entry_id],
                similarity=self.similarity.get(entry_id),
                keyword_rank=keyword_ranks.get(entry_id),
                vector_rank=vector_ranks.get(entry_id),
                reasons=(
                    *([passing[entry_id]] if passing else []),
                    *self.reasons[entry_id],
                    *self.learned.reasons(entry_id),
                ),
            )
            for entry_id in entry_ids
            if entry_id in entries
        ]

    def _explain_ratings(self, tx: Transaction, rated: Sequence[Entry]) -> None:
        """Say in words what verdicts made the factors of entries; asked for those that are shown alone."""
        names = {entry.id: (entry.ref_uid, entry.exchange_uid, entry.conversation_uid) for entry in rated}
        told = ratings_of(tx, {uid for uids in names.values() for uid in uids if uid})
        for entry_id, uids in names.items():
            words = "; ".join(in_words(told[uid]) for uid in dict.fromkeys(uids) if uid in told)
            mine = self.reasons[entry_id]
            self.reasons[entry_id] = [replace(each, note=words) if each.name == RATED else each for each in mine]


def gate_for_asking(found: Candidates, entry_id: int, gate: Gate) -> Gate:
    """The gate for a candidate that asks, where it has another language than the query."""
    if entry_id not in found.elsewhere or not gate.leeway:
        return gate
    is_asking = asking_share(found.facts[entry_id].traits) >= _ASKING_SHARE
    return replace(gate, raised=gate.raised + _FOR_ASKING_ABROAD) if is_asking else gate


def fuse_ranks(rankings: Sequence[Sequence[int]], k: int = 60) -> dict[int, float]:
    """Fuse rankings by reciprocal rank.

    Args:
        rankings: entry ids per retriever, best first; may be empty.
        k: damping, unitless, > 0.
    Returns:
        A score per id, higher is better; scores compare only within one call.
    Raises:
        ValueError: k is not positive.
    Source: Cormack et al. 2009.
    """
    if k <= 0:
        raise ValueError(f"k must be positive, not {k}")
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, entry_id in enumerate(ranking, start=1):
            scores[entry_id] = scores.get(entry_id, 0.0) + 1.0 / (k + rank)
    return scores


def fuse_scores(parts: Sequence[tuple[float, Mapping[int, float]]]) -> dict[int, float]:
    """Fuse scored lists by a convex combination of their min-max normalized scores.

    Args:
        parts: for each retriever its weight and a score per id, higher is better; an id that a list lacks gets the
            list's lowest.
    Returns:
        A score per id, 0 to the sum of the weights; scores compare only within one call.
    Source: Bruch et al. 2023; measured against `fuse_ranks` in docs/adr/0004-convex-fusion.md.
    """
    fused: dict[int, float] = {}
    for weight, scores in parts:
        if not scores:
            continue
        low, high = min(scores.values()), max(scores.values())
        span = high - low
        for entry_id, score in scores.items():
            fused[entry_id] = fused.get(entry_id, 0.0) + weight * ((score - low) / span if span > 0 else 1.0)
    return fused


def weigh(facts: EntryFacts, cue: AuthorCue | None, config: SearchConfig, now: datetime) -> list[Reason]:
    """The factors of one candidate; those that are neutral are left out."""
    reasons = []
    if cue is not None and cue.names(facts):
        reasons.append(Reason("author", 1.0 + config.author_lift, "the query names who said it"))
    if config.recency_half_life_days is not None:
        age_days = max(0.0, (now - facts.created_at).total_seconds() / _SECONDS_PER_DAY)
        reasons.append(Reason("recency", 0.5 ** (age_days / config.recency_half_life_days), f"{age_days:.0f} days old"))
    if facts.weight != 1.0:
        reasons.append(Reason("importance", facts.weight))
    if facts.rated != 1.0:
        reasons.append(Reason(RATED, facts.rated))
    if facts.trust.is_untrusted and config.untrusted_weight != 1.0:
        reasons.append(Reason(_TRUST, config.untrusted_weight, f"not to be trusted: {facts.trust.label}"))
    return reasons


def trust_factor(hit: Hit) -> float:
    """What its trust has multiplied a hit's score by; 1 for what may be trusted."""
    return next((reason.value for reason in hit.reasons if reason.name == _TRUST), 1.0)


def labelled(hits: Sequence[Hit], projects: ProjectScope) -> list[Hit]:
    """The hits, those of another project than the one at hand with that among their reasons."""
    others = {hit.entry.project or "" for hit in hits if projects.is_other(hit.entry.project)}
    why = {key: Reason(_OTHER, 1.0, f"of another project: {short_key(key)}") for key in others}
    return [
        replace(hit, reasons=(*hit.reasons, why[key])) if (key := hit.entry.project) in why else hit for hit in hits
    ]


def other_project(hit: Hit) -> str:
    """The name of the other project that a hit is of; empty where it is of the one at hand, or of none."""
    is_other = any(reason.name == _OTHER for reason in hit.reasons)
    return short_key(hit.entry.project or "") if is_other else ""


class AuthorCue:
    """Whom a query names as the speaker: one of the candidates' authors, or the person, or the agent; never several."""

    def __init__(self, query: Query, candidates: Mapping[int, EntryFacts]) -> None:
        authors = {facts.author for facts in candidates.values() if facts.author}
        said = query.words | {GLUED.sub("", word) for word in query.words}
        self._authors = {author for author in authors if next(iter(author.lower().split()), "") in said}
        self._role = ""
        agent, person = bool(query.words & _ASSISTANT_CUES), bool(query.words & _USER_CUES)
        if agent != person and not authors:
            self._role = (Role.ASSISTANT if agent else Role.USER).value

    @property
    def means_anybody(self) -> bool:
        """Whether there may be a candidate that it names."""
        return len(self._authors) == 1 or bool(self._role)

    def sides_of(self, entry_ids: Iterable[int], facts: Mapping[int, EntryFacts]) -> dict[int, float]:
        """1.0 of each candidate whose author is the one meant, -1.0 of others; none where nobody is meant."""
        if self.means_anybody:
            return {entry_id: 1.0 if self.names(facts[entry_id]) else -1.0 for entry_id in entry_ids}
        return {}

    def names(self, facts: EntryFacts) -> bool:
        """Whether this candidate's author is the one meant."""
        return facts.author in self._authors if len(self._authors) == 1 else facts.role == self._role


def pass_strictly(tx: Transaction, found: Candidates, gate: Gate, projects: Collection[int]) -> set[int]:
    """Those candidates of other projects that may come back; without a vector, those with all of the rare words."""
    strict = gate.of_others()
    passing = set()
    for entry_id in strict.within_reach(found.facts, found.similarity):
        each = found.facts[entry_id]
        if each.project_id not in projects:
            continue
        admitted = strict.admits(found.similarity.get(entry_id), each.trust.is_untrusted)
        if admitted is None:
            found.rare = found.rare or RareWords.read(tx, found.query, found.scope)
            admitted = found.rare.admit(entry_id, is_near=False, needs_all=True)
        if admitted:
            passing.add(entry_id)
    return passing
