"""Past conversations that matter now, and in each the exchanges that do: found before each model call."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from harken.config.sections import RagConfig
from harken.log import Log
from harken.model.conversations import Role, SearchScope, Trust, least_trusted
from harken.model.lookups import PastConversation, PastExchange, Retrieval
from harken.search.asked import AskedBefore, asked_before, askers_among, may_be_asked_again, objected
from harken.search.candidates import Candidates, gate_for_asking, pass_strictly
from harken.search.newest import mark_corrected
from harken.search.places import Placed, place_exchanges, rank_conversations
from harken.search.query import Query, asks_nothing, parse_query
from harken.search.relevance import Gate, RareWords, for_general, is_talk
from harken.search.retrieval_log import RetrievalLog
from harken.search.session import Guess, LookAhead, QueryVector, SearchSession, SearchSessions, attempted
from harken.search.spread import Several, searched_for
from harken.search.union import best_of, in_one_order, talk_told_apart, trust_here, whose
from harken.storage.past import (
    ConversationHead,
    ExchangeHead,
    conversation_heads,
    conversation_row,
    exchange_heads,
    foresee_conversations,
    foresee_heads,
    has_others,
)
from harken.storage.ports import RowScope, Transaction
from harken.storage.projects import ProjectScope
from harken.storage.records.marks import having_any
from harken.text.decisions import announces
from harken.text.shown import short_key

# How many of each list are fused: of all conversations, and of those that come back, so many for each exchange.
_DEPTH, _DEPTH_OF_EACH = 120, 8
# Of a few conversations about all are compared, which is one statement less than comparing those found by words later.
_COMPARED = 200
# So many times as many conversations as wanted are tried: some have nothing that passes.
_SHORTLIST = 3
# In a conversation that comes back anyway, an exchange may be so much less similar: what stands beside what was asked
# for is seldom beside the point. docs/adr/0011-past-conversations.md
_WITHIN = 0.1
# So many times as many exchanges come back where many are asked for.
_SEVERAL = 3
_HASH_CHARS = 16
EVERYWHERE = RowScope()
# As other conversations are called among what is looked ahead for, and the rows of all of them are remembered.
PAST = SearchScope(sources=("other conversations",))
_NOTHING_ASKED = "Nothing was asked, so nothing was searched."

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class PastRecall:
    """What came back, best first, and why nothing did.

    Attributes:
        failure: a sentence on what could not be searched; empty where all could.
        error_class: what broke the whole search, if anything did.
        asked: the same question, asked in other conversations.
    """

    conversations: tuple[PastConversation, ...] = ()
    query: str = ""
    notes: tuple[str, ...] = ()
    failure: str = ""
    error_class: str = ""
    asked: AskedBefore | None = None

    def view(self) -> dict[str, Any]:
        """The recall as JSON."""
        talks, asked = [each.view() for each in self.conversations], self.asked.view() if self.asked else None
        return {"query": self.query, "conversations": talks, "notes": list(self.notes), "asked_before": asked}


@dataclass(frozen=True, slots=True)
class PastConversations:
    """Searches all other conversations; never raises into a chat.

    A conversation is found by its summary and by what was said in it, so that history comes back before anything was
    summarized, and a few words in a long talk are not lost in its summary. A search of all chooses the conversations,
    a search in these their exchanges; each asks the store once, however many conversations there are.

    Args:
        config: the limits; read anew for each search.
        log: gets a line about each search, without its words; None where none is to be kept.
    Source: seed 003, hierarchical retrieval.
    """

    sessions: SearchSessions
    config: Callable[[], RagConfig]
    log: RetrievalLog | None = None

    def foresee(self, tx: Transaction, session: SearchSession, query: Query, conversation_uid: str | None) -> None:
        """Have a server asked for what a search is likely to ask, if the like was searched before."""
        if self.config().enabled and not asks_nothing(query, session.config.min_query_tokens):
            _foresee(tx, session, searched_for(query), conversation_uid)

    def search(
        self,
        text: str,
        conversation_uid: str | None = None,
        session: SearchSession | None = None,
        within: RowScope = EVERYWHERE,
        log_later: bool = False,
    ) -> PastRecall:
        """Past conversations about what the user says now, other than the one that goes on, with their best exchanges.

        None for small talk, for what was never discussed, and when the search fails. With `log_later`, its line waits
        for `log.write`: to write is to stand behind whoever else writes.
        """
        config, query = self.config(), parse_query(text)
        if not config.enabled:
            return PastRecall(notes=("Past conversations are off.",))
        several = Several.asked_by(query)
        if several:
            more = _SEVERAL * config.exchange_limit_per_conversation
            query, config = several.query, config.model_copy(update={"exchange_limit_per_conversation": more})
        with self.sessions.joined(session) as shared:
            if asks_nothing(query, shared.config.min_query_tokens):
                return PastRecall(notes=(_NOTHING_ASKED,))
            started = time.perf_counter()
            try:
                found = _past_of_all(
                    shared,
                    config.conversation_limit,
                    lambda there: _PastSearch(there, query, config, within).run(conversation_uid),
                    lambda tx, there: _foresee(tx, there, query, conversation_uid),
                )
            except Exception as error:  # noqa: BLE001 - memory must never stop a chat; the failure is logged and shown
                name = type(error).__name__
                _log.warning("past_conversations_failed", error_class=name)
                why = f"Past conversations were not searched: {name}."
                found = PastRecall((), query.text, (why,), why, name)
            if several and several.in_order:
                found = replace(found, conversations=_by_time(found.conversations))
            if found.query and self.log is not None:
                self.log.add(_log_line(found, time.perf_counter() - started, shared.now))
                if not log_later:
                    # The log is written, for which a store in memory has no other connection.
                    shared.view.release()
                    self.log.write()
        return found


def _past_of_all(
    session: SearchSession, most: int, ask: Callable[[SearchSession], PastRecall], ahead: LookAhead
) -> PastRecall:
    """The best conversations of all spaces that may be read; what other projects bring comes behind."""
    if session.others is None:
        return ask(session)
    answers = session.asked(ask, ahead)
    own = answers[0][1]
    merged: list[tuple[str, PastConversation]] = []
    for is_other in (False, True):
        of_it = [
            (space, [talk for talk in found.conversations if bool(talk.other_project) is is_other])
            for space, found in answers
        ]
        merged += in_one_order(
            of_it,
            lambda talk: talk.score,
            lambda talk: talk.similarity,
            lambda talk, score: replace(talk, score=score),
            lambda talk: (talk.title, talk.at, *(each.user for each in talk.exchanges)),
        )
    shown = merged[:most]
    asked: list[tuple[str, Sequence[str]]] = [(space, (talk.uid,)) for space, talk in shown]
    asked += [(space, each.message_uids) for space, talk in shown for each in talk.exchanges]
    origins = iter(whose(session, asked))
    talks = [(talk, next(origins)) for _, talk in shown]
    told = [talk_told_apart(talk, origin, [next(origins) for _ in talk.exchanges]) for talk, origin in talks]
    failed = tuple(dict.fromkeys(session.unread))
    notes = (*(own.notes if not told or own.conversations else ()), *failed)
    query = own.query or next((found.query for _, found in answers if found.query), "")
    before = _asked_of_all(session, [(space, found.asked) for space, found in answers if found.asked])
    why = own.failure or " ".join(failed)
    return replace(own, conversations=tuple(told), query=query, notes=notes, failure=why, asked=before)


def _asked_of_all(session: SearchSession, asked: Sequence[tuple[str, AskedBefore]]) -> AskedBefore | None:
    """When the same was asked in any space, copies counting once, and what the last one came to, with whose it is."""
    if not asked:
        return None
    space, last = max(asked, key=lambda each: each[1].at[-1])
    [origin] = whose(session, [(space, (last.conversation_uid,))])
    said_by = "" if origin is None or origin.is_mine else origin.by or "somebody else"
    at = tuple(sorted({moment for _, each in asked for moment in each.at}))
    return replace(last, at=at, trust=trust_here(last.trust, origin), said_by=said_by)


def _log_line(found: PastRecall, seconds: float, now: datetime) -> Retrieval:
    of_exchanges = [each for talk in found.conversations for each in talk.exchanges]
    return Retrieval(
        hashlib.sha256(found.query.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS],
        len(found.conversations),
        len(of_exchanges),
        best_of(each.similarity for each in found.conversations),
        best_of(each.similarity for each in of_exchanges),
        int(seconds * 1_000_000),
        now,
        found.error_class or None,
    )


def _foresee(tx: Transaction, session: SearchSession, query: Query, conversation_uid: str | None) -> None:
    foresee_conversations(tx, conversation_uid)
    if guess := session.guess(PAST):
        found = Candidates(query, session.config, guess.scope, _DEPTH)
        found.foresee(tx, session.view.nearest, session.known.spaces.values(), weighs_words=False)


@dataclass(slots=True)
class _PastSearch:
    """One search.

    Attributes:
        asked: the query's vector; None where words alone must do.
        rare: the query's rare words; read when something depends on them.
        askers: what persons have said and may ask the same, with how near it is.
        own: the id of the conversation that goes on; empty without one.
    """

    session: SearchSession
    query: Query
    config: RagConfig
    within: RowScope
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    asked: QueryVector | None = None
    rare: RareWords | None = None
    askers: dict[int, float | None] = field(default_factory=dict)
    own: str = ""

    def run(self, conversation_uid: str | None) -> PastRecall:
        session, config, self.own = self.session, self.config, conversation_uid or self.own
        session.look_ahead(PAST, lambda tx, there: _foresee(tx, there, self.query, conversation_uid))
        with session.view.reading() as tx:
            if not has_others(tx, conversation_uid):
                return PastRecall(notes=("There are no other conversations.",))
            current = None if conversation_uid is None else conversation_row(tx, conversation_uid)
            is_remote = tx.dialect.is_remote
        asked = session.begin(self.query, known_scripts_only=True)
        trusted = replace(self.within, without_untrusted=not session.config.include_untrusted)
        wanted = replace(trusted, without_conversation_id=current)
        own, beyond = (
            Candidates(self.query, session.config, rows, _DEPTH) for rows in (session.projects.inside(wanted), wanted)
        )
        self._find_words(own, is_ahead=True)
        if is_remote:
            session.note(PAST, Guess(own.scope))
        elif session.projects.prefers and not isinstance(asked, str) and not asked.done():
            # It may turn out that nothing of others is near; but for so long, and longer, the model is at work.
            self._find_words(beyond, is_ahead=True)
        if self._is_talk():
            return PastRecall((), self.query.text, (_NOTHING_ASKED,), self.failure)
        shown = self._found(own, config)
        asked_here = dict(self.askers)
        if session.projects.prefers and len(shown) < config.conversation_limit:
            left = config.model_copy(update={"conversation_limit": config.conversation_limit - len(shown)})
            shown += self._found(beyond, left, session.projects.others)
        before = None
        if self.askers:
            with session.view.reading() as tx:
                # What the project has come to itself counts there, and what others have where it was never asked.
                before = asked_before(tx, self.query.text, asked_here)
                if before is None and self.askers != asked_here:
                    before = asked_before(tx, self.query.text, self.askers)
            if before is not None and session.projects.is_other(before.project):
                before = replace(before, other_project=short_key(before.project))
        return PastRecall(shown, self.query.text, tuple(self.notes), self.failure, asked=before)

    def _find_words(self, found: Candidates, is_ahead: bool = False) -> None:
        with self.session.view.reading() as tx:
            if tx.dialect.is_remote:
                found.foresee(tx, self.session.view.nearest, self.session.known.spaces.values(), weighs_words=False)
            found.find_words(tx)
            if is_ahead and not tx.dialect.is_remote:
                # Here, for the model is mostly not done yet; a server is asked together with those that are near.
                found.read_facts(tx, found.keyword)

    def _found(
        self, everywhere: Candidates, config: RagConfig, others: Collection[int] = ()
    ) -> tuple[PastConversation, ...]:
        """The conversations of a scope that come back, best first; only of `others`, projects, if there are any."""
        session, trusted = self.session, replace(self.within, without_untrusted=everywhere.scope.without_untrusted)
        is_compared = bool(others and everywhere.keyword)
        if others and not self._is_any_near(everywhere, others):
            return ()
        if others and not everywhere.keyword:
            self._find_words(everywhere)
        if not is_compared:
            with self._by_meaning():
                self._find_near(everywhere)
        if not everywhere.keyword and not everywhere.nearest:
            return ()
        gate = Gate.of(self.asked, config.min_similarity, session.config)
        with self._by_meaning():
            if self.asked is not None:
                gate = for_general(self.asked, gate)
        with session.view.reading() as tx:
            self._rank(tx, everywhere)
            if may_be_asked_again(self.query):
                threshold = self.asked.space.threshold if self.asked else None
                self.askers |= askers_among(everywhere, self._barred(tx, everywhere), threshold)
            ranked = rank_conversations(everywhere)
            of_others = {each.conversation_id for each in everywhere.facts.values() if each.project_id in others}
            shortlist = tuple(row for row in ranked if not others or row in of_others)
            shortlist = shortlist[: _SHORTLIST * config.conversation_limit]
            rare_in = replace(trusted, conversation_ids=shortlist)
            passing = self._passing(tx, everywhere, gate, shortlist, rare_in, others)
            passed = {everywhere.facts[entry_id].conversation_id for entry_id in passing}
            chosen = [row for row in shortlist if row in passed][: config.conversation_limit]
        lowered = _WITHIN if config.min_similarity is None else 0.0
        scores, gate = {row: ranked[row] for row in chosen}, replace(gate, raised=-lowered, general=0.0)
        return self._inside(scores, everywhere, gate, rare_in, config, others) if chosen else ()

    def _inside(
        self,
        chosen: Mapping[int, float],
        everywhere: Candidates,
        gate: Gate,
        rare_in: RowScope,
        config: RagConfig,
        others: Collection[int],
    ) -> tuple[PastConversation, ...]:
        """The best exchanges of conversations, by row with their scores."""
        session, rows = self.session, tuple(chosen)
        depth = _DEPTH_OF_EACH * config.exchange_limit_per_conversation * len(rows)
        within = Candidates(self.query, session.config, replace(rare_in, conversation_ids=rows), depth)
        self._find_words(within)
        with self._by_meaning():
            self._find_near(within, _COMPARED)
        with session.view.reading() as tx:
            foresee_heads(tx, rows)
            self._rank(tx, within, everywhere)
            # What it has asked of its subagents is no other conversation.
            heads = {row: head for row, head in conversation_heads(tx, rows).items() if head.parent_uid != self.own}
            summarized = [row for row, head in heads.items() if head.summary]
            passing = self._passing(tx, within, gate, rows, rare_in, others)
            placed = place_exchanges(chosen, everywhere, within, passing, summarized, config)
            exchanges = exchange_heads(tx, [row for each in placed for row in each.exchanges], rows)
        for row, head in exchanges.items():
            # What is not to be trusted is quoted where it has passed by itself.
            said = tuple(m for m in head.said if not m.trust.is_untrusted or m.entry_id in passing)
            exchanges[row] = replace(head, said=said)
        shown = tuple(
            _shown(each, heads[each.row], exchanges, within.scores, session.projects)
            for each in placed
            if each.row in heads
        )
        return mark_corrected(shown)

    def _is_any_near(self, found: Candidates, others: Collection[int]) -> bool:
        """Whether other projects have anything that may come back: mostly not, which this knows at a third of the cost.

        It compares with the query. Without a vector of the query their words decide, later.
        """
        if self.asked is None:
            return True
        with self._by_meaning():
            self._find_near(found)
        gate = Gate.of(self.asked, self.config.min_similarity, self.session.config)
        bar = gate.of_others().bar(False)
        near = [entry_id for entry_id, similarity in found.nearest.items() if similarity >= bar]
        if not near:
            return False
        with self.session.view.reading() as tx:
            found.read_facts(tx, near)
            return bool(pass_strictly(tx, found, gate, others))

    @contextmanager
    def _by_meaning(self) -> Iterator[None]:
        """A step that the words can do without."""
        failures: list[str] = []
        with attempted("vectors", failures, "earched by words alone: {error}."):
            yield
        for what in failures:
            self.asked = None
            self.notes.append(f"S{what}")
            self.failure = f"Past conversations were s{what}"

    def _is_talk(self) -> bool:
        """Whether the query, once it is embedded, asks for nothing that was said."""
        asked: QueryVector | str = ""
        with self._by_meaning():
            asked = self.session.vector(self.query, known_scripts_only=True)
            self.notes += [note for note in [asked if isinstance(asked, str) else asked.note] if note]
        if isinstance(asked, str):
            return False
        self.asked = asked
        with self.session.view.reading() as tx:
            self.notes += self.session.notes(tx)
        return is_talk(asked, Gate.of(asked, self.config.min_similarity, self.session.config))

    def _find_near(self, found: Candidates, compared: int = 0) -> None:
        if self.asked is not None:
            with self.session.view.reading() as tx:
                found.find_near(tx, self.session.view.nearest, self.asked, compared)

    def _rank(self, tx: Transaction, found: Candidates, before: Candidates | None = None) -> None:
        found.read_facts(tx, {**found.keyword, **found.nearest}, before.facts if before else None)
        found.fuse()
        found.weigh(found.facts, self.session.now)

    def _barred(self, tx: Transaction, found: Candidates) -> set[int]:
        """What was called wrong for such a question, or has a tag that recall leaves out."""
        barred = objected(tx, self.query, found.judged, self.session.view.nearest, self.asked)
        if self.config.without_tags:
            barred |= having_any(tx, found.facts, self.config.without_tags)
        return barred

    def _passing(
        self,
        tx: Transaction,
        found: Candidates,
        gate: Gate,
        conversations: Collection[int],
        scope: RowScope,
        others: Collection[int],
    ) -> set[int]:
        """Entries of some conversations that may come back; a word is rare among the entries of the scope."""
        barred = self._barred(tx, found)
        if others:
            return pass_strictly(tx, found, gate, others) - barred
        passing = set()
        for entry_id in gate.within_reach(found.facts, found.similarity):
            each = found.facts[entry_id]
            if each.conversation_id not in conversations or entry_id in barred:
                continue
            similarity, is_untrusted = found.similarity.get(entry_id), each.trust.is_untrusted
            asked_for = gate_for_asking(found, entry_id, gate)
            admitted = asked_for.admits(similarity, is_untrusted, entry_id in found.keyword)
            if admitted is None:
                self.rare = self.rare or RareWords.read(tx, self.query, scope)
                is_elsewhere = entry_id in found.elsewhere
                admitted = self.rare.make_up(entry_id, similarity, gate, is_untrusted, is_elsewhere)
            if admitted:
                passing.add(entry_id)
        return passing


def _by_time(found: Iterable[PastConversation]) -> tuple[PastConversation, ...]:
    talks = [replace(talk, exchanges=tuple(sorted(talk.exchanges, key=lambda each: each.at))) for talk in found]
    return tuple(sorted(talks, key=lambda talk: talk.at))


def _shown(
    found: Placed,
    head: ConversationHead,
    said: Mapping[int, ExchangeHead],
    scores: Mapping[int, float],
    projects: ProjectScope,
) -> PastConversation:
    exchanges = tuple(
        _shown_exchange(said[row], score, similarity, scores)
        for row, (score, similarity) in found.exchanges.items()
        if row in said
    )
    told = head.uid, head.title, head.summary, head.created_at, head.exchange_count
    other = short_key(head.project) if projects.is_other(head.project) else ""
    return PastConversation(*told, found.similarity, found.score, exchanges, head.trust, head.project, other)


def _shown_exchange(
    head: ExchangeHead, score: float, similarity: float | None, scores: Mapping[int, float]
) -> PastExchange:
    chosen = []
    for role, default in ((Role.USER, 0), (Role.ASSISTANT, -1)):
        mine = [message for message in head.said if message.role is role]
        # What an agent is about to do is no answer, however like the question.
        mine = [each for each in mine if len(mine) == 1 or role is Role.USER or not announces(each.text)] or mine
        best = max(mine, key=lambda message: scores.get(message.entry_id or 0, 0.0), default=None)
        if best is not None and best.entry_id not in scores:
            best = mine[default]
        chosen.append(best)
    user, assistant = (message.text if message else "" for message in chosen)
    shown = [message for message in chosen if message]
    uids, trust = tuple(message.uid for message in shown), least_trusted([Trust.AGENT, *(m.trust for m in shown)])
    authors = tuple(message.name if message else "" for message in chosen)
    return PastExchange(head.uid, head.started_at, similarity, score, user, assistant, uids, trust, authors=authors)
