"""Past conversations that matter now, and in each the exchanges that do: found before each model call."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import prod

import structlog

from harken import tokens
from harken.config import RagConfig, SearchConfig
from harken.model import Role
from harken.providers.embedder import Vectors
from harken.retrieve.autorag import has_enough, rare_holders
from harken.retrieve.fuse import fuse_hybrid
from harken.retrieve.query import Query, parse_query
from harken.retrieve.search import SpaceReader
from harken.retrieve.small_talk import is_mostly_foreign, is_small_talk
from harken.retrieve.weigh import AuthorCue, weigh
from harken.storage.entries import EntryFacts, entry_facts
from harken.storage.past import (
    RETRIEVALS,
    ConversationHead,
    ExchangeHead,
    Retrieval,
    conversation_heads,
    conversation_row,
    exchange_heads,
    has_others,
    log_retrieval,
    message_entries,
    summary_entries,
)
from harken.storage.store import RowScope, Store, StoredSpace, Transaction
from harken.storage.summaries import CONVERSATION

# How many of each list are fused: of all conversations, and of those that are looked into, so many for each exchange.
_DEPTH, _DEPTH_OF_EACH = 120, 4
# So many times as many conversations as wanted are looked into: some have nothing that passes.
_SHORTLIST = 3
# What the second best exchange of a conversation, and its summary, add to the best one.
_SECOND, _SUMMARY = 0.2, 0.2
# As in auto-RAG: who has the query's rare words may be so much less similar.
_LEEWAY = 0.08
_HASH_CHARS = 16

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PastExchange:
    """An exchange that came back.

    Attributes:
        similarity: cosine, -1 to 1, of the nearest of its messages and its summary; None where none has a vector.
        score: compares within one recall.
        user: what was asked: of several messages the one that matters most; likewise `assistant`.
        message_uids: those two.
    """

    uid: str
    at: datetime
    similarity: float | None
    score: float
    user: str
    assistant: str
    message_uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PastConversation:
    """A conversation that came back, with its best exchanges, best first.

    Attributes:
        title: empty where it has none.
        summary: empty where nobody has made one yet.
        similarity: cosine, -1 to 1, of its summary or of its nearest exchange; None where none has a vector.
    """

    uid: str
    title: str
    summary: str
    at: datetime
    exchange_count: int
    similarity: float | None
    score: float
    exchanges: tuple[PastExchange, ...]


@dataclass(frozen=True, slots=True)
class PastRecall:
    """What came back, best first, and why nothing did; `error_class` names what broke the search, if anything did."""

    conversations: tuple[PastConversation, ...] = ()
    query: str = ""
    notes: tuple[str, ...] = ()
    error_class: str = ""


@dataclass(slots=True)
class _Asked:
    query: Query
    space: StoredSpace | None = None
    vector: Vectors | None = None
    threshold: float | None = None
    leeway: float = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Lists:
    """What one step found: entries with their scores."""

    keyword: dict[int, float]
    similarity: dict[int, float]
    scores: dict[int, float]
    facts: dict[int, EntryFacts]


@dataclass(slots=True)
class PastConversations:
    """Searches all other conversations; never raises into a chat.

    A conversation is found by its summary and by what was said in it, so that history comes back before anything was
    summarized, and a few words in a long talk are not lost in its summary. Each step asks the store once, however many
    conversations there are.

    Args:
        config: the limits; read anew for each search, likewise `search_config`.
        reader: opens the space that answers; None while nothing is embedded.
    Source: seed 003, hierarchical retrieval.
    """

    store: Store
    config: Callable[[], RagConfig]
    search_config: Callable[[], SearchConfig]
    reader: Callable[[], SpaceReader | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def search(self, text: str, conversation_uid: str | None = None) -> PastRecall:
        """Past conversations about a query, and the best exchanges of each.

        Args:
            text: what the user says now.
            conversation_uid: the conversation that goes on; nothing of it comes back.
        Returns:
            At most `config.conversation_limit` conversations; none for small talk, for what was never discussed, and
            when the search fails.
        """
        config = self.config()
        query = parse_query(text)
        if not config.enabled:
            return PastRecall(notes=("Past conversations are off.",))
        least = self.search_config().min_query_tokens
        if not query.text or is_small_talk(query) or tokens.estimate(query.text) < least:
            return PastRecall(notes=("Nothing was asked, so nothing was searched.",))
        with self.store.reading() as tx:
            if not has_others(tx, conversation_uid):
                return PastRecall(notes=("There are no other conversations.",))
        started = time.perf_counter()
        error_class = None
        try:
            found = self._search(query, conversation_uid, config)
        except Exception as error:  # noqa: BLE001 - memory must never stop a chat; the failure is logged and shown
            error_class = type(error).__name__
            _log.warning("past_conversations_failed", error_class=error_class)
            why = f"Past conversations were not searched: {error_class}."
            found = PastRecall(query=query.text, notes=(why,), error_class=error_class)
        self._keep(found, time.perf_counter() - started, error_class)
        return found

    def _search(self, query: Query, conversation_uid: str | None, config: RagConfig) -> PastRecall:
        asked = self._asked(query, config)
        with self.store.reading() as tx:
            current = None if conversation_uid is None else conversation_row(tx, conversation_uid)
            everywhere = self._lists(tx, asked, RowScope(without_conversation_id=current), _DEPTH)
            chosen = _ranked_conversations(everywhere)[: _SHORTLIST * config.conversation_limit]
            if not chosen:
                return PastRecall(query=query.text, notes=tuple(asked.notes))
            inside = RowScope(conversation_ids=tuple(chosen))
            depth = _DEPTH_OF_EACH * config.exchange_limit_per_conversation * len(chosen)
            within = self._lists(tx, asked, inside, depth, summary_entries(tx, chosen).values())
            passing = self._passing(tx, asked, within, inside)
            found = _Hierarchy(within, passing, everywhere).conversations(config)
            rows = [each.row for each in found]
            heads = conversation_heads(tx, rows)
            exchanges = [row for each in found for row in each.exchanges]
            said = exchange_heads(tx, exchanges, rows)
            uids = message_entries(tx, exchanges, rows)
        scores = {uid: within.scores[entry_id] for entry_id, uid in uids.items() if entry_id in within.scores}
        shown = tuple(_shown(each, heads[each.row], said, scores) for each in found if each.row in heads)
        return PastRecall(shown, query.text, tuple(asked.notes))

    def _asked(self, query: Query, config: RagConfig) -> _Asked:
        """The query with its vector. Made before the transaction: a model may take seconds."""
        asked = _Asked(query)
        try:
            reader = self.reader()
            if reader is None:
                asked.notes.append("Searched by words alone: nothing is embedded yet.")
            elif reader.embedder.space.latin_only and is_mostly_foreign(query.text):
                asked.notes.append("Searched by words alone: the embedding model does not know this script.")
            else:
                asked.space, asked.vector = reader.space, reader.embedder.embed_query(query.text)
                configured = config.min_similarity
                asked.threshold = reader.space.threshold if configured is None else configured
                asked.leeway = _LEEWAY if configured is None else 0.0
        except Exception as error:  # noqa: BLE001 - words are searched all the same; the failure is logged and shown
            _log.warning("past_conversations_vector_failed", error_class=type(error).__name__)
            asked.notes.append(f"Searched by words alone: {type(error).__name__}.")
        return asked

    def _lists(self, tx: Transaction, asked: _Asked, scope: RowScope, depth: int, also: Iterable[int] = ()) -> _Lists:
        config = self.search_config()
        keyword = dict(tx.text.search(tx.connection, asked.query.terms, scope, depth, config.context_window))
        near: dict[int, float] = {}
        similarity: dict[int, float] = {}
        if asked.space is not None and asked.vector is not None:
            near = self.store.nearest.nearest(tx, asked.space, asked.vector, scope, depth)
            rest = [entry_id for entry_id in {*keyword, *also} if entry_id not in near]
            similarity = {**near, **self.store.nearest.similarities(tx, asked.space, asked.vector, rest)}
        fused = fuse_hybrid(keyword, near, similarity, config)
        facts = entry_facts(tx, list(fused))
        cue, now = AuthorCue(asked.query, facts), self.now()
        scores = {
            entry_id: fused[entry_id] * prod(reason.value for reason in weigh(each, cue, config, now))
            for entry_id, each in facts.items()
        }
        return _Lists(keyword, similarity, scores, facts)

    def _passing(self, tx: Transaction, asked: _Asked, found: _Lists, scope: RowScope) -> set[int]:
        """Entries that are near enough, or have enough of the query's rare words."""
        passing: set[int] = set()
        unsure: list[int] = []
        for entry_id in found.facts:
            similarity = found.similarity.get(entry_id)
            if similarity is None or asked.threshold is None:
                unsure.append(entry_id)
            elif similarity >= asked.threshold:
                passing.add(entry_id)
            elif similarity >= asked.threshold - asked.leeway and entry_id in found.keyword:
                unsure.append(entry_id)
        rare = rare_holders(tx, asked.query, scope) if unsure else {}
        for entry_id in unsure:
            held = [term for term, holders in rare.items() if entry_id in holders]
            if has_enough(held, rare, entry_id in found.similarity):
                passing.add(entry_id)
        return passing

    def _keep(self, found: PastRecall, seconds: float, error_class: str | None) -> None:
        """A line for the log; a chat goes on without it."""
        of_exchanges = [each for talk in found.conversations for each in talk.exchanges]
        line = Retrieval(
            hashlib.sha256(found.query.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS],
            len(found.conversations),
            len(of_exchanges),
            _best([each.similarity for each in found.conversations]),
            _best([each.similarity for each in of_exchanges]),
            int(seconds * 1_000_000),
            self.now(),
            error_class,
        )
        try:
            with self.store.writing(RETRIEVALS) as tx:
                log_retrieval(tx, line)
        except Exception as error:  # noqa: BLE001 - what was found is worth more than a line about it
            _log.warning("retrieval_not_logged", error_class=type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """A conversation's row with its exchanges' rows, best first, each with its score and similarity."""

    row: int
    score: float
    similarity: float | None
    exchanges: Mapping[int, tuple[float, float | None]]


@dataclass(slots=True)
class _Hierarchy:
    """From entries that pass to conversations with their exchanges."""

    within: _Lists
    passing: set[int]
    everywhere: _Lists

    def conversations(self, config: RagConfig) -> list[_Found]:
        """The best, in the order in which all of the store ranks them."""
        passed = {self.within.facts[entry_id].conversation_id for entry_id in self.passing}
        ranked = [row for row in _ranked_conversations(self.everywhere) if row in passed]
        limit = config.exchange_limit_per_conversation
        places = config.conversation_limit * limit
        found = [
            self._found(row, places if config.share_places else limit) for row in ranked[: config.conversation_limit]
        ]
        return _shared(found, places) if config.share_places else found

    def _found(self, row: int, limit: int) -> _Found:
        of_it = [entry_id for entry_id, each in self.within.facts.items() if each.conversation_id == row]
        scores: dict[int, tuple[float, float | None]] = {}
        for entry_id in sorted(of_it, key=lambda each: -self.within.scores[each]):
            exchange = self.within.facts[entry_id].exchange_id
            if exchange is None or (entry_id not in self.passing and exchange not in scores):
                continue
            best, similarity = scores.get(exchange, (self.within.scores[entry_id], None))
            scores[exchange] = (best, _best([similarity, self.within.similarity.get(entry_id)]))
        shown = dict(list(scores.items())[:limit])
        nearest = [self.within.similarity.get(entry_id) for entry_id in of_it]
        best_score = max(self.within.scores[entry_id] for entry_id in of_it)
        return _Found(row, best_score, _best(nearest), shown)


def _shared(found: Sequence[_Found], places: int) -> list[_Found]:
    """Each conversation keeps its best exchange; the other places go to the best of all.

    Evidence among the exchanges shown on LoCoMo's conv-26, three conversations: 0.833 so, 0.767 with two of each.
    """
    kept = {(each.row, exchange) for each in found for exchange in list(each.exchanges)[:1]}
    others = sorted(
        (
            (score, each.row, exchange)
            for each in found
            for exchange, (score, _) in each.exchanges.items()
            if (each.row, exchange) not in kept
        ),
        reverse=True,
    )
    kept |= {(row, exchange) for _, row, exchange in others[: max(0, places - len(kept))]}
    return [
        replace(each, exchanges={row: facts for row, facts in each.exchanges.items() if (each.row, row) in kept})
        for each in found
    ]


def _ranked_conversations(found: _Lists) -> list[int]:
    """Rows of conversations, best first: by their best exchange, the next one, and their summary."""
    summary: dict[int, float] = {}
    of_exchanges: dict[int, dict[int, float]] = {}
    for entry_id, each in found.facts.items():
        if each.conversation_id is None:
            continue
        score = found.scores[entry_id]
        if each.source == CONVERSATION:
            summary[each.conversation_id] = score
        else:
            mine = of_exchanges.setdefault(each.conversation_id, {})
            key = each.exchange_id or -entry_id
            mine[key] = max(score, mine.get(key, 0.0))
    totals: dict[int, float] = {}
    for row in {*summary, *of_exchanges}:
        best, second, *_ = [*sorted(of_exchanges.get(row, {}).values(), reverse=True), 0.0, 0.0]
        totals[row] = max(best, summary.get(row, 0.0)) + _SECOND * second + _SUMMARY * summary.get(row, 0.0)
    return sorted(totals, key=lambda row: (-totals[row], -row))


def _shown(
    found: _Found, head: ConversationHead, said: Mapping[int, ExchangeHead], scores: Mapping[str, float]
) -> PastConversation:
    exchanges = tuple(
        _shown_exchange(said[row], score, similarity, scores)
        for row, (score, similarity) in found.exchanges.items()
        if row in said
    )
    return PastConversation(
        head.uid,
        head.title,
        head.summary,
        head.created_at,
        head.exchange_count,
        found.similarity,
        found.score,
        exchanges,
    )


def _shown_exchange(
    head: ExchangeHead, score: float, similarity: float | None, scores: Mapping[str, float]
) -> PastExchange:
    chosen = []
    for role, default in ((Role.USER, 0), (Role.ASSISTANT, -1)):
        mine = [message for message in head.said if message.role is role]
        best = max(mine, key=lambda message: scores.get(message.uid, 0.0), default=None)
        if best is not None and best.uid not in scores:
            best = mine[default]
        chosen.append(best)
    user, assistant = (message.text if message else "" for message in chosen)
    uids = tuple(message.uid for message in chosen if message)
    return PastExchange(head.uid, head.started_at, similarity, score, user, assistant, uids)


def _best(similarities: Sequence[float | None]) -> float | None:
    return max((each for each in similarities if each is not None), default=None)
