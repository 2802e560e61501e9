"""Past conversations that matter now, and in each the exchanges that do: found before each model call."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from math import prod
from typing import Any, TypeVar

import structlog

from harken.config.settings import RagConfig, SearchConfig
from harken.model.conversations import Role, Trust, least_trusted
from harken.model.lookups import Retrieval
from harken.providers.embedder import Vectors
from harken.search.coverage import Coverage
from harken.search.fusion import fuse_hybrid
from harken.search.hierarchy import Lists, Placed, best_of, place_exchanges, rank_conversations
from harken.search.query import Query, parse_query
from harken.search.recall import has_enough, rare_holders, telling_holders
from harken.search.search import SpaceReader
from harken.search.session import Embedded, SearchSession
from harken.search.small_talk import asks_nothing
from harken.search.weights import AuthorCue, least_similarity, weigh
from harken.storage.entries import EntryFacts, entry_facts
from harken.storage.past import (
    RETRIEVALS,
    ConversationHead,
    ExchangeHead,
    conversation_heads,
    conversation_row,
    exchange_heads,
    has_others,
    log_retrieval,
)
from harken.storage.ports import RowScope, Store, StoredSpace, Transaction

# How many of each list are fused: of all conversations, and of those that come back, so many for each exchange.
_DEPTH, _DEPTH_OF_EACH = 120, 8
# Of a few conversations about all are compared, which is one statement less than comparing those found by words later.
_COMPARED = 200
# So many times as many conversations as wanted are tried: some have nothing that passes.
_SHORTLIST = 3
# As in auto-RAG: who has the query's rare words may be so much less similar.
_LEEWAY = 0.08
# In a conversation that comes back anyway, an exchange may be so much less similar: what stands beside what was asked
# for is seldom beside the point. docs/adr/0011-past-conversations.md
_WITHIN = 0.1
_HASH_CHARS = 16
# So many queries are embedded at a time.
_AT_ONCE = 4

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PastExchange:
    """An exchange that came back.

    Attributes:
        similarity: cosine, -1 to 1, of the nearest of its messages and its summary; None where none has a vector.
        score: compares within one recall.
        user: what was asked: of several messages the one that matters most; likewise `assistant`.
        message_uids: those two.
        trust: the lower one of theirs; an agent's where both may be believed more.
    """

    uid: str
    at: datetime
    similarity: float | None
    score: float
    user: str
    assistant: str
    message_uids: tuple[str, ...]
    trust: Trust = Trust.AGENT

    def view(self) -> dict[str, Any]:
        """The exchange as JSON."""
        return {
            "id": self.uid,
            "at": self.at.isoformat(),
            "similarity": self.similarity,
            "score": self.score,
            "user": self.user,
            "assistant": self.assistant,
            "trust": self.trust.value,
            "untrusted": self.trust.is_untrusted,
        }


@dataclass(frozen=True, slots=True)
class PastConversation:
    """A conversation that came back, with its best exchanges, best first.

    Attributes:
        title: empty where it has none.
        summary: empty where nobody has made one yet.
        similarity: cosine, -1 to 1, of its summary or of its nearest exchange; None where none has a vector.
        trust: of title and summary.
    """

    uid: str
    title: str
    summary: str
    at: datetime
    exchange_count: int
    similarity: float | None
    score: float
    exchanges: tuple[PastExchange, ...]
    trust: Trust = Trust.AGENT

    def view(self) -> dict[str, Any]:
        """The conversation as JSON, with its exchanges."""
        return {
            "id": self.uid,
            "title": self.title,
            "summary": self.summary,
            "at": self.at.isoformat(),
            "exchange_count": self.exchange_count,
            "similarity": self.similarity,
            "score": self.score,
            "exchanges": [each.view() for each in self.exchanges],
        }


@dataclass(frozen=True, slots=True)
class PastRecall:
    """What came back, best first, and why nothing did; `error_class` names what broke the search, if anything did."""

    conversations: tuple[PastConversation, ...] = ()
    query: str = ""
    notes: tuple[str, ...] = ()
    error_class: str = ""

    def view(self) -> dict[str, Any]:
        """The recall as JSON."""
        talks = [each.view() for each in self.conversations]
        return {"query": self.query, "conversations": talks, "notes": list(self.notes)}


@dataclass(slots=True)
class _PastQuery:
    query: Query
    space: StoredSpace | None = None
    vector: Vectors | None = None
    threshold: float | None = None
    leeway: float = 0.0
    config: SearchConfig = field(default_factory=SearchConfig)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Gate:
    """Tells which entries are near enough, or have enough of the query's rare words.

    Args:
        scope: among whose entries a word is rare.
    """

    tx: Transaction
    asked: _PastQuery
    scope: RowScope
    _rare: Mapping[str, frozenset[int]] | None = field(default=None, init=False)

    def passing(self, found: Lists, conversations: Collection[int], lowered: float = 0.0) -> set[int]:
        """Those of some conversations in a search that may come back.

        Args:
            found: the search.
            conversations: their rows.
            lowered: how much less similar than the threshold will do.
        """
        return {
            entry_id
            for entry_id, facts in found.facts.items()
            if facts.conversation_id in conversations and self._passes(found, entry_id, lowered)
        }

    def _passes(self, found: Lists, entry_id: int, lowered: float) -> bool:
        similarity, threshold, trust = found.similarity.get(entry_id), self.asked.threshold, found.facts[entry_id].trust
        if similarity is None or threshold is None:
            return self._says_enough(entry_id, similarity is not None, not trust.is_untrusted)
        if trust.is_untrusted:
            return similarity >= least_similarity(threshold, trust, self.asked.config)
        threshold -= lowered
        if similarity >= threshold:
            return True
        nearly = similarity >= threshold - self.asked.leeway and entry_id in found.keyword
        return nearly and self._says_enough(entry_id, near=True, is_trusted=True)

    def _says_enough(self, entry_id: int, near: bool, is_trusted: bool) -> bool:
        if self._rare is None:
            self._rare = rare_holders(telling_holders(self.tx, self.asked.query, self.scope))
        held = [term for term, holders in self._rare.items() if entry_id in holders]
        return has_enough(held, self._rare, near, is_trusted)


@dataclass(slots=True)
class PastConversations:
    """Searches all other conversations; never raises into a chat.

    A conversation is found by its summary and by what was said in it, so that history comes back before anything was
    summarized, and a few words in a long talk are not lost in its summary. A search of all chooses the conversations,
    a search in these their exchanges; each asks the store once, however many conversations there are.

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
    _threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE, "past"), init=False)
    _coverage: Coverage = field(default_factory=Coverage, init=False)

    def search(
        self, text: str, conversation_uid: str | None = None, together: SearchSession | None = None
    ) -> PastRecall:
        """Past conversations about a query, and the best exchanges of each.

        Args:
            text: what the user says now.
            conversation_uid: the conversation that goes on; nothing of it comes back.
            together: what is shared with other searches; None where there are none.
        Returns:
            At most `config.conversation_limit` conversations; none for small talk, for what was never discussed, and
            when the search fails.
        """
        config = self.config()
        query = parse_query(text)
        if not config.enabled:
            return PastRecall(notes=("Past conversations are off.",))
        if asks_nothing(query, self.search_config().min_query_tokens):
            return PastRecall(notes=("Nothing was asked, so nothing was searched.",))
        started = time.perf_counter()
        error_class = None
        shared = nullcontext(together) if together else SearchSession(self.store, self.reader, self._threads)
        try:
            with shared as mine:
                found = self._search(mine, query, conversation_uid, config)
        except Exception as error:  # noqa: BLE001 - memory must never stop a chat; the failure is logged and shown
            error_class = type(error).__name__
            _log.warning("past_conversations_failed", error_class=error_class)
            why = f"Past conversations were not searched: {error_class}."
            found = PastRecall(query=query.text, notes=(why,), error_class=error_class)
        if found.query:
            if together is not None:
                # The log is written, for which a store in memory has no other connection.
                together.view.release()
            self._keep(found, time.perf_counter() - started, error_class)
        return found

    def _search(
        self, together: SearchSession, query: Query, conversation_uid: str | None, config: RagConfig
    ) -> PastRecall:
        asked = _PastQuery(query, config=self.search_config())
        with together.view.reading() as tx:
            if not has_others(tx, conversation_uid):
                return PastRecall(notes=("There are no other conversations.",))
        asking = _or_note(lambda: together.ask(query), asked)
        with together.view.reading() as tx:
            current = None if conversation_uid is None else conversation_row(tx, conversation_uid)
            trusted = RowScope(without_untrusted=not asked.config.include_untrusted)
            others = replace(trusted, without_conversation_id=current)
            keyword = self._by_words(tx, asked, others, _DEPTH)
            # The model is mostly not done yet.
            facts = entry_facts(tx, list(keyword))
        if asking is not None:
            _or_note(lambda: self._take(together.answer(asking), asked, config), asked)
        with together.view.reading() as tx:
            if asked.space is not None:
                asked.notes += self._coverage.notes(tx, self.now())
            everywhere = self._lists(tx, asked, others, keyword, _DEPTH, _DEPTH, facts)
            ranked = rank_conversations(everywhere)
            shortlist = tuple(ranked)[: _SHORTLIST * config.conversation_limit]
            if not shortlist:
                return PastRecall(query=query.text, notes=tuple(asked.notes))
            gate = _Gate(tx, asked, replace(trusted, conversation_ids=shortlist))
            chosen = self._chosen(everywhere, ranked, shortlist, gate)[: config.conversation_limit]
            if not chosen:
                return PastRecall(query=query.text, notes=tuple(asked.notes))
            depth = _DEPTH_OF_EACH * config.exchange_limit_per_conversation * len(chosen)
            inside = replace(trusted, conversation_ids=tuple(chosen))
            keyword = self._by_words(tx, asked, inside, depth)
            within = self._lists(tx, asked, inside, keyword, depth, max(depth, _COMPARED), everywhere.facts)
            heads = conversation_heads(tx, chosen)
            told = [row for row, head in heads.items() if head.summary]
            scores = {row: ranked[row] for row in chosen}
            passing = gate.passing(within, chosen, _WITHIN if config.min_similarity is None else 0.0)
            placed = place_exchanges(scores, everywhere, within, passing, told, config)
            told_of = exchange_heads(tx, [row for each in placed for row in each.exchanges], chosen)
            said = {row: _quotable(head, passing) for row, head in told_of.items()}
        shown = tuple(_shown(each, heads[each.row], said, within.scores) for each in placed if each.row in heads)
        return PastRecall(shown, query.text, tuple(asked.notes))

    def _chosen(
        self, everywhere: Lists, ranked: Mapping[int, float], shortlist: Sequence[int], gate: _Gate
    ) -> list[int]:
        """Conversations of which something passes, best first."""
        passing = gate.passing(everywhere, set(shortlist))
        passed = {everywhere.facts[entry_id].conversation_id for entry_id in passing}
        return [row for row in shortlist if row in passed]

    def _take(self, answer: Embedded | str, asked: _PastQuery, config: RagConfig) -> None:
        """Give the query its vector, or note why it has none."""
        if isinstance(answer, str):
            asked.notes.append(answer)
            return
        asked.space, asked.vector = answer.space, answer.vector
        configured = config.min_similarity
        asked.threshold = answer.space.threshold if configured is None else configured
        asked.leeway = _LEEWAY if configured is None else 0.0

    def _by_words(self, tx: Transaction, asked: _PastQuery, scope: RowScope, depth: int) -> dict[int, float]:
        window = asked.config.context_window
        return dict(tx.text.search(tx.connection, asked.query.terms, scope, depth, window))

    def _lists(
        self,
        tx: Transaction,
        asked: _PastQuery,
        scope: RowScope,
        keyword: dict[int, float],
        depth: int,
        compared: int,
        known: Mapping[int, EntryFacts],
    ) -> Lists:
        """What words found in a scope and the nearest by meaning; more may be compared to spare a statement."""
        config = asked.config
        near: dict[int, float] = {}
        similarity: dict[int, float] = {}
        if asked.space is not None and asked.vector is not None:
            nearest, cosine = self.store.nearest.compare(tx, asked.space, asked.vector, scope, compared, list(keyword))
            near = dict(islice(nearest.items(), depth))
            similarity = {entry_id: cosine[entry_id] for entry_id in {**near, **keyword} if entry_id in cosine}
        found = {**keyword, **near}
        facts = {entry_id: known[entry_id] for entry_id in found if entry_id in known}
        facts |= entry_facts(tx, [entry_id for entry_id in found if entry_id not in known])
        untrusted = {entry_id for entry_id, each in facts.items() if each.trust.is_untrusted}
        fused = fuse_hybrid(keyword, near, similarity, config, untrusted)
        cue, now = AuthorCue(asked.query, facts), self.now()
        scores = {
            entry_id: fused[entry_id] * prod(reason.value for reason in weigh(each, cue, config, now))
            for entry_id, each in facts.items()
        }
        return Lists(keyword, similarity, scores, facts)

    def _keep(self, found: PastRecall, seconds: float, error_class: str | None) -> None:
        """A line for the log; a chat goes on without it."""
        of_exchanges = [each for talk in found.conversations for each in talk.exchanges]
        line = Retrieval(
            hashlib.sha256(found.query.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS],
            len(found.conversations),
            len(of_exchanges),
            best_of([each.similarity for each in found.conversations]),
            best_of([each.similarity for each in of_exchanges]),
            int(seconds * 1_000_000),
            self.now(),
            error_class,
        )
        try:
            with self.store.writing(RETRIEVALS) as tx:
                log_retrieval(tx, line)
        except Exception as error:  # noqa: BLE001 - what was found is worth more than a line about it
            _log.warning("retrieval_not_logged", error_class=type(error).__name__)


def _or_note(call: Callable[[], _Result], asked: _PastQuery) -> _Result | None:
    """What the call gives; None where it fails, which is logged and noted."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - words are searched all the same; the failure is logged and shown
        _log.warning("past_conversations_vector_failed", error_class=type(error).__name__)
        asked.notes.append(f"Searched by words alone: {type(error).__name__}.")
        return None


def _shown(
    found: Placed, head: ConversationHead, said: Mapping[int, ExchangeHead], scores: Mapping[int, float]
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
        head.trust,
    )


def _quotable(head: ExchangeHead, passing: Collection[int]) -> ExchangeHead:
    """The exchange less what is not to be trusted and has not passed by itself."""
    return replace(head, said=tuple(m for m in head.said if not m.trust.is_untrusted or m.entry_id in passing))


def _shown_exchange(
    head: ExchangeHead, score: float, similarity: float | None, scores: Mapping[int, float]
) -> PastExchange:
    chosen = []
    for role, default in ((Role.USER, 0), (Role.ASSISTANT, -1)):
        mine = [message for message in head.said if message.role is role]
        best = max(mine, key=lambda message: scores.get(message.entry_id or 0, 0.0), default=None)
        if best is not None and best.entry_id not in scores:
            best = mine[default]
        chosen.append(best)
    user, assistant = (message.text if message else "" for message in chosen)
    shown = [message for message in chosen if message]
    uids, trust = tuple(message.uid for message in shown), least_trusted([Trust.AGENT, *(m.trust for m in shown)])
    return PastExchange(head.uid, head.started_at, similarity, score, user, assistant, uids, trust)
