"""The free search: of all that was said and saved, by words and by meaning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from types import MappingProxyType

from harken.errors import MissingExtraError, ProviderError, UsageError
from harken.model.arguments import MODES, SOURCES, SUMMARIES, check_limit
from harken.model.conversations import DERIVED_SOURCES, KEPT_FOLDERS, Hit, Reason, SearchScope, spoken
from harken.model.lookups import SearchResult
from harken.providers.embedder import Reranker
from harken.search.candidates import RULE_LEEWAY, Candidates, labelled, other_project, pass_strictly, trust_factor
from harken.search.fusion import REORDERED
from harken.search.newest import newest_first
from harken.search.query import (
    Query,
    best_passage,
    distinctive_terms,
    is_bare_question,
    last_question,
    parse_query,
    share_held,
)
from harken.search.relevance import Gate
from harken.search.session import EMPTY, NOTHING_RECORDED, UNINDEXED, Guess, QueryVector, SearchSession, SearchSessions
from harken.search.spread import Several, led_to, searched_for
from harken.search.union import hits_in_one_order, hits_told_apart
from harken.storage.enrichment.summaries import CONVERSATION
from harken.storage.entries import STATES_RULE, has_entries, has_kept_of, load_entries, row_scope, sources_question
from harken.storage.facts import EntryFacts, neighbours
from harken.storage.ports import MESSAGE_SOURCE, RowScope, Transaction
from harken.storage.workspace.files import PARTS, count_parts
from harken.text import tokens
from harken.text.words import content_terms

KEPT = frozenset(KEPT_FOLDERS)
_INDEXED = frozenset((*PARTS, "commit"))
# Of the words of a question which the query has as well; of those of the query that a statement has.
_SAME_SHARE, _ABOUT_SHARE = 2 / 3, 0.5
_BEST = 10
# So many times as many as are wanted are read with what stands beside the best: learned fusion may choose others.
_LOADED = 5
# How many tokens of a text the cross-encoder reads: the most of these that makes so many on average, for its time grows
# with every token. Of BEAM's long answers 96 each gave an MRR of 0.632, 64 0.642, 48 0.659, 32 0.634 (ADR 4).
_JUDGED_TOKENS, _JUDGED_ON_AVERAGE = (96, 64, 48, 32, 24, 16), 32
_QUESTION_TOKENS = 16
# Few texts have more characters a token: what lies behind so many is cut off, and not worth counting.
_LONGEST_TOKEN = 8
_LEAST_CHANCE = 1e-6
# What is of other projects has no score above the lowest of the one at hand.
_BEHIND = 0.999
# How much less near than what comes back by itself may be what has another language; who searches looks for himself.
_ABROAD = 0.15
_ECHO = Reason("question", 1.0, "only asks the same: what says something stands before it")


@dataclass(frozen=True, slots=True)
class Searcher:
    """Searches a store.

    Args:
        reranker: opens the cross-encoder on first use.
    """

    sessions: SearchSessions
    reranker: Callable[[], Reranker]

    def search(
        self,
        text: str,
        scope: SearchScope | None = None,
        limit: int | None = None,
        mode: str = "hybrid",
        use_reranker: bool | None = None,
        session: SearchSession | None = None,
    ) -> SearchResult:
        """Find what answers a query in all spaces that may be read; one without a single word finds nothing.

        Args:
            text: the query.
            scope: where to look; None is all that was said or saved.
            limit: how many hits at most; None takes the setting, likewise of `use_reranker`.
            mode: `hybrid`, `keyword` or `semantic`.
            use_reranker: whether a cross-encoder looks at the best again.
            session: what is shared with other searches, if there are any.
        Raises:
            UsageError: the limit, the mode or a source is not possible.
            NotFoundError: the scope names something that is not there.
        """
        with self.sessions.joined(session) as shared:
            if shared.others is None:
                return self.here(text, scope, limit, mode, use_reranker, shared)
            most = shared.config.limit if limit is None else limit
            answers = shared.asked(
                lambda there: self.here(text, scope, limit, mode, use_reranker, there),
                lambda tx, there: foresee_search(tx, there, text, scope, most, mode),
            )
            first = answers[0][1]
            own = [(space, [hit for hit in found.hits if not other_project(hit)]) for space, found in answers]
            behind = [(space, [hit for hit in found.hits if other_project(hit)]) for space, found in answers]
            merged = [*hits_in_one_order(own)[:most], *hits_in_one_order(behind)[:most]]
            hits = tuple(hits_told_apart(shared, merged))
        is_empty = all(EMPTY.intersection(found.notes) for _, found in answers)
        notes = [note for note in first.notes if is_empty or note not in EMPTY]
        notes += dict.fromkeys(shared.unread)
        threshold = next((found.threshold for _, found in answers if found.threshold is not None), None)
        return replace(first, hits=hits, notes=tuple(notes), threshold=threshold)

    def port(self, session: SearchSession) -> Callable[[str, SearchScope, int, str], SearchResult]:
        """The search of a session's own space alone, as sources ask for it."""
        return lambda query, scope, limit, mode: self.here(query, scope, limit, mode, None, session)

    def here(
        self,
        text: str,
        scope: SearchScope | None,
        limit: int | None,
        mode: str,
        use_reranker: bool | None,
        session: SearchSession,
    ) -> SearchResult:
        """What `search` finds in the session's own space alone."""
        config = session.config
        limit = config.limit if limit is None else limit
        check_limit(limit)
        if mode not in MODES:
            raise UsageError(f"mode must be one of {', '.join(MODES)}, not '{mode}'.")
        scope = _default_scope(scope)
        if unknown := [name for name in (*scope.sources, *scope.without_sources) if name not in SOURCES]:
            raise UsageError(f"There is no source '{unknown[0]}'. Sources: {', '.join(SOURCES)}")
        if mode == "hybrid" and not self.sessions.has_model:
            # Without a model this is what was asked for, so no note says that meaning was left out.
            mode = "keyword"
        query = parse_query(text)
        if not query.text:
            return SearchResult((), notes=("The query has no words.",))
        result = _search(session, query, scope, limit, mode)
        others = _of_others(session, query, scope, limit, mode)
        hits = list(result.hits)
        if config.rerank if use_reranker is None else use_reranker:
            with session.view.reading() as tx:
                questions = _questions_before(tx, hits[: config.rerank_top])
            # It takes long, and needs no view of the store.
            session.view.release()
            hits = rerank(self.reranker(), query, hits, config.rerank_top, config.rerank_blend, questions)
        hits = newest_first(session.view, statements_first(query, hits, result.threshold))
        own = labelled(hits[:limit], session.projects)
        lowest, highest = min([1.0, *(hit.score for hit in own)]), max([hit.score for hit in others], default=0.0)
        behind = [replace(hit, score=_BEHIND * lowest * hit.score / (highest or 1.0)) for hit in others]
        return replace(result, hits=(*own, *behind))


def _default_scope(scope: SearchScope | None) -> SearchScope:
    """The scope; one that names neither sources nor facets leaves out what is read from the disk."""
    given = scope or SearchScope()
    names_some = given.sources or given.facets or given.without_sources
    return given if names_some else replace(given, without_sources=DERIVED_SOURCES)


def _of_others(session: SearchSession, query: Query, scope: SearchScope, limit: int, mode: str) -> list[Hit]:
    """What other projects have to say, where they are to come behind the one at hand."""
    if not session.projects.prefers or scope.project or scope.conversation or scope.segment:
        return []
    if scope.sources and KEPT.issuperset(scope.sources):
        with session.view.reading() as tx:
            # Mostly nothing was saved there, which this knows at a tenth of the cost.
            if not has_kept_of(tx, scope.sources, session.projects.others):
                return []
    found = _search(session, query, scope, limit, mode, session.projects.others)
    return labelled(statements_first(query, found.hits, found.threshold)[:limit], session.projects)


def _search(
    session: SearchSession, query: Query, scope: SearchScope, limit: int, mode: str, others: Collection[int] = ()
) -> SearchResult:
    """More hits than wanted, for the cross-encoder chooses among them; only of `others`, projects, if there are any."""
    config, several = session.config, Several.asked_by(query)
    query = several.query if several else query
    asked: QueryVector | None = None
    notes: list[str] = []
    waiting: list[str] = []
    session.look_ahead(scope, lambda tx, there: _look_ahead(tx, there, query, scope, limit, mode))
    if mode != "keyword":
        session.begin(query)
    with session.view.reading() as tx:
        found = _within(session, query, scope, limit, mode, others)
        if mode != "semantic":
            found.find_words(tx, query.quote)
            # Here, for the model is still at work; a server is asked for their facts together with those of the near.
            found.read_ahead(tx, not tx.dialect.is_remote, beside=0 if tx.dialect.is_remote else REORDERED)
        if mode != "keyword":
            waiting = session.notes(tx)
    if mode != "keyword":
        try:
            answer = session.vector(query)
        except (ProviderError, MissingExtraError) as error:
            answer = f"Searched by words alone: {error}"
        asked, notes = (None, [answer]) if isinstance(answer, str) else (answer, [answer.note] if answer.note else [])
    gate = Gate.of(asked, config.relevance_threshold, config)
    with session.view.reading() as tx:
        if asked is not None:
            found.find_near(tx, session.view.nearest, asked)
        order = _ranked(tx, session, found, gate, asked, others, several, _LOADED * max(limit, config.rerank_top))
        hits = found.hits(tx, order[: max(limit, config.rerank_top)])
        is_of_index = bool(scope.sources) and _INDEXED.issuperset(scope.sources)
        if not hits and is_of_index and not any(kind in scope.sources for _, kind, _ in count_parts(tx)):
            notes = [UNINDEXED]
        elif not hits and not has_entries(tx):
            notes = [NOTHING_RECORDED]
        elif asked is not None:
            notes += waiting
    return SearchResult(tuple(hits), query.terms, gate.threshold, tuple(notes))


def _within(
    session: SearchSession, query: Query, scope: SearchScope, limit: int, mode: str, others: Collection[int]
) -> Candidates:
    """Candidates of a scope, of whose words a server is asked by one message."""
    config = session.config
    with session.view.reading() as tx:
        rows = row_scope(tx, scope)
        if not config.include_untrusted:
            rows = replace(rows, without_untrusted=True)
        rows = rows if others else session.projects.inside(rows)
        found = Candidates(query, config, rows, max(limit, config.candidates))
        if tx.dialect.is_remote:
            if not others:
                session.note(scope, Guess(rows))
            _foresee(tx, session, found, mode)
    return found


def foresee_search(
    tx: Transaction, session: SearchSession, text: str, scope: SearchScope | None, limit: int, mode: str = "hybrid"
) -> None:
    """Have a server asked for what a search is likely to ask, if its scope was searched before."""
    _look_ahead(tx, session, searched_for(parse_query(text)), _default_scope(scope), limit, mode)


def _look_ahead(
    tx: Transaction, session: SearchSession, query: Query, scope: SearchScope, limit: int, mode: str
) -> None:
    if scope.without_sources:
        tx.dialect.foresee(tx.connection, sources_question(tx, scope.without_sources))
    if guess := session.guess(scope):
        found = Candidates(query, session.config, guess.scope, max(limit, session.config.candidates))
        _foresee(tx, session, found, mode)


def _foresee(tx: Transaction, session: SearchSession, found: Candidates, mode: str) -> None:
    rules = (STATES_RULE,) if _may_state_rules(session, found.scope) else ()
    index, spaces = session.view.nearest, () if mode == "keyword" else session.known.spaces.values()
    found.foresee(tx, index, spaces, found.query.quote, facets=rules, finds_words=mode != "semantic")


def _ranked(
    tx: Transaction,
    session: SearchSession,
    found: Candidates,
    gate: Gate,
    asked: QueryVector | None,
    others: Collection[int],
    several: Several | None,
    most: int,
) -> list[int]:
    # Who looks for a word wants to see where it stands; only what merely resembles must resemble enough. No word can
    # show that what has another language is about the query.
    abroad = replace(gate, raised=-_ABROAD if gate.leeway else 0.0)
    bars = {is_abroad: (of_it.bar(False), of_it.bar(True)) for is_abroad, of_it in ((False, gate), (True, abroad))}

    def is_near(entry_id: int, is_untrusted: bool = False) -> bool:
        return found.similarity[entry_id] >= bars[entry_id in found.elsewhere][is_untrusted]

    if asked is not None and _may_state_rules(session, found.scope):
        found.find_rules(tx, session.view.nearest, asked, (gate.threshold or 0.0) - RULE_LEEWAY)
    resembling = [entry_id for entry_id in found.nearest if is_near(entry_id)]
    if tx.dialect.is_remote:
        found.fuse()
        likely = [*found.keyword, *resembling, *found.rules]
        best = found.best_fused([each for each in dict.fromkeys(likely) if each in found.fused])
        found.read_last(tx, [*best, *(each for each in found.rules if each not in best)], most, likely)
    found.read_facts(tx, [*found.keyword, *resembling, *found.rules])
    passing = pass_strictly(tx, found, gate, others) if others else found.facts.keys()
    if not passing:
        return []
    found.fuse()
    near = {
        entry_id: each
        for entry_id, each in found.facts.items()
        if entry_id in passing and (entry_id in found.keyword or is_near(entry_id, entry_id in found.untrusted))
    }
    # They say how something is to be done, so they come with what is about it, and never alone.
    rules = [entry_id for entry_id in found.rules if near and entry_id in passing]
    near |= {entry_id: found.facts[entry_id] for entry_id in rules if not found.facts[entry_id].trust.is_untrusted}
    once = without_echoes(led_to(tx, found, near) if several and several.is_theme else near)
    found.learn(tx, session.view.nearest, asked, once)
    found.weigh(once, session.now)
    if several:
        several.spread(tx, found, asked)
    return _once_each(found.best_first(), found.facts)


def _may_state_rules(session: SearchSession, scope: RowScope) -> bool:
    """Whether rules are looked for in a scope: people state them in conversations."""
    return session.config.fusion == "learned" and not scope.outside_conversations


def without_echoes(facts: Mapping[int, EntryFacts]) -> dict[int, EntryFacts]:
    """Candidates less the summaries of what is among them itself: they say it again, in fewer words."""
    said = [each for each in facts.values() if each.source not in SUMMARIES]
    if len(said) == len(facts):
        return dict(facts)
    conversations, exchanges = {each.conversation_id for each in said}, {each.exchange_id for each in said}

    def is_echo(each: EntryFacts) -> bool:
        if each.source == CONVERSATION:
            return each.conversation_id in conversations
        return each.source in SUMMARIES and each.exchange_id in exchanges

    return {entry_id: each for entry_id, each in facts.items() if not is_echo(each)}


def _once_each(order: Sequence[int], facts: Mapping[int, EntryFacts]) -> list[int]:
    """Candidates, best first, less those of a record of which a better one stands before: a commit's parts."""
    seen: set[str] = set()
    once = []
    for entry_id in order:
        each = facts[entry_id]
        uid = each.ref_uid if each.conversation_id is None else ""
        if not uid or uid not in seen:
            once.append(entry_id)
        seen.add(uid)
    return once


def statements_first(query: Query, hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """Hits with the first of the best ten that says something of the query before the first that merely asks the same.

    What is asked of an agent is recorded, so an old question is the best match of the same one, and answers nothing.
    """
    terms, bar = distinctive_terms(query.terms), inf if threshold is None else threshold

    def is_echo(hit: Hit) -> bool:
        if hit.entry.source != MESSAGE_SOURCE or not is_bare_question(hit.entry.text):
            return False
        # Of the same words: one that is merely near may say in its question what is asked for.
        return share_held(distinctive_terms(parse_query(hit.entry.text).terms), query.terms) >= _SAME_SHARE

    def says(hit: Hit) -> bool:
        if hit.entry.trust.is_untrusted or is_bare_question(hit.entry.text):
            return False
        is_near = hit.similarity is not None and hit.similarity >= bar
        return is_near or share_held(terms, content_terms(hit.entry.text)) >= _ABOUT_SHARE

    first = next((place for place, hit in enumerate(hits[:_BEST]) if is_echo(hit)), _BEST)
    saying = [place for place in range(first + 1, len(hits[:_BEST])) if says(hits[place])]
    if not saying:
        return list(hits)
    # One of them: who asked may have said more than that, and what he asked is what some questions are about.
    order = [*range(first), saying[0], *(place for place in range(first, len(hits)) if place != saying[0])]
    echo = replace(hits[first], reasons=(*hits[first].reasons, _ECHO))
    return [
        replace(echo if place == first else hits[place], score=hit.score)
        for place, hit in zip(order, hits, strict=True)
    ]


def _questions_before(tx: Transaction, hits: Sequence[Hit]) -> dict[int, str]:
    """The question that stands before hits, by their entries' ids, as somebody said it who is to be trusted."""
    beside = neighbours(tx, [hit.entry.id for hit in hits])
    before = {entry_id: each.before for entry_id, each in beside.items() if each.follows_question}
    questions: dict[int, str] = {}
    for each in load_entries(tx, list(before.values())).values():
        question = "" if each.trust.is_untrusted else last_question(each.text)
        if question:
            questions[each.id] = spoken(each.author, tokens.clip_middle(question, _QUESTION_TOKENS))
    return {entry_id: questions[turn] for entry_id, turn in before.items() if turn in questions}


def rerank(
    reranker: Reranker,
    query: Query,
    hits: Sequence[Hit],
    top: int,
    blend: float,
    questions: Mapping[int, str] = MappingProxyType({}),
) -> list[Hit]:
    """Reorder the `top` of hits by a blend of their score and the cross-encoder's judgement; both are best first.

    The judgement's share is `blend`, 0 to 1, once both are brought to 0..1 among the top. Of a long text it reads the
    passage that has most of the query's words, and before it the question that the text follows, by its entry's id:
    "Yes, in May" answers nothing by itself. What is not to be trusted loses as much of it as of its score: what is
    written to be found reads like an answer.
    """
    head, tail = list(hits[:top]), list(hits[top:])
    if len(head) < 2:
        return [*head, *tail]
    asked = tokens.clip_middle(query.text, _JUDGED_ON_AVERAGE)
    judged = _normalized(
        [_odds(chance) for chance in reranker.score(asked, _passages(query, head, questions)).tolist()]
    )
    scores = _normalized([hit.score for hit in head])
    trusted = [trust_factor(hit) for hit in head]
    blended = [
        (1 - blend) * score + blend * judgement * factor
        for score, judgement, factor in zip(scores, judged, trusted, strict=True)
    ]
    order = sorted(range(len(head)), key=lambda index: -blended[index])
    places = sorted((hit.score for hit in head), reverse=True)
    return [
        replace(head[index], score=place, reasons=(*head[index].reasons, Reason("rerank", judged[index])))
        for index, place in zip(order, places, strict=True)
    ] + tail


def _passages(query: Query, hits: Sequence[Hit], questions: Mapping[int, str]) -> list[str]:
    """What the cross-encoder reads of each: short texts leave their room to longer ones, and to questions."""
    terms, longest = distinctive_terms(query.terms), _JUDGED_TOKENS[0] * _LONGEST_TOKEN
    sizes = [tokens.estimate(hit.entry.text[:longest]) for hit in hits]
    led_by = [questions.get(hit.entry.id, "") for hit in hits]
    room = _JUDGED_ON_AVERAGE * len(hits) - sum(map(tokens.estimate, led_by))
    fitting = (most for most in _JUDGED_TOKENS if sum(min(size, most) for size in sizes) <= room)
    most = next(fitting, _JUDGED_TOKENS[-1])
    passages = [spoken(hit.entry.author, best_passage(hit.entry.text, terms, most)) for hit in hits]
    return [f"{question}\n{said}" if question else said for question, said in zip(led_by, passages, strict=True)]


def _odds(chance: float) -> float:
    """Its logarithm: of ten chances one is often near 1 and the others near 0, and those differ as well."""
    within = min(max(chance, _LEAST_CHANCE), 1.0 - _LEAST_CHANCE)
    return log(within / (1.0 - within))


def _normalized(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]
