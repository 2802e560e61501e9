"""The context of a chat before each model call, built from everything that is remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harken.config.settings import Settings
from harken.context.builder import ContextBuilder, ContextSession
from harken.context.layers import ChatContext, LayerName, Pending
from harken.context.past import SAVED, SavedQuotes, foresee_saved, latest_quotes
from harken.context.render import ASKED, Quote, recall_quotes
from harken.context.rules import RULE_SAID, rule_quotes
from harken.context.task_history import last_runs
from harken.errors import NotFoundError, StoreError, StoreReadOnlyError, UsageError
from harken.jobs.job import run_until_idle
from harken.jobs.summarize import SummarizeSegmentWork
from harken.model.arguments import SECTIONS
from harken.model.conversations import CoreFact, ProjectIdentity
from harken.model.lookups import Retrieval
from harken.record.ids import conversation_uid
from harken.record.recorder import Recorder
from harken.record.scope import scope_of
from harken.search.past import PAST, PastConversations, PastRecall
from harken.search.query import Query, asks_nothing, is_small_talk, parse_query
from harken.search.recall import AutoRag, Recall
from harken.search.retrieval_log import RetrievalLog
from harken.search.search import Searcher
from harken.search.session import SearchSession, attempted
from harken.search.spread import searched_for
from harken.search.union import facts_told_apart
from harken.storage.conversations import (
    conversation_named,
    conversation_question,
    find_conversation,
    newest_conversation,
    newest_segment,
)
from harken.storage.enrichment.segments import count_left, has_left, note_left
from harken.storage.past import list_retrievals
from harken.storage.ports import Transaction
from harken.storage.projects import ProjectScope, projects_question
from harken.storage.records.rules import rules_question
from harken.storage.state import INJECTIONS, core_facts, given_question, given_to, note_given, note_recall

_RECALLED = (LayerName.RULES, LayerName.PAST, LayerName.KNOWN, LayerName.AUTO_RAG, LayerName.ELSEWHERE)
# Messages; until then auto-RAG alone brings them back.
_WORTH_A_CALL = 10
# Whatever is asked, the model has to be loaded for it.
_ANY_QUESTION = "what did we decide about the garden before"


class Chats:
    """Builds contexts and keeps the summaries of what left them; reached as `Harken.chats`."""

    def __init__(self, recorder: Recorder, settings: Callable[[], Settings], searcher: Searcher) -> None:
        self._recorder = recorder
        self._settings = settings
        self._searcher = searcher
        self._sessions = sessions = searcher.sessions
        self._store = sessions.store
        self._now = sessions.now
        self.auto_rag = AutoRag(sessions)
        self.retrievals = RetrievalLog(self._store)
        self._past = PastConversations(sessions, lambda: settings().rag, self.retrievals)

    def session(self, conversation: str | ContextSession, channel: str) -> ContextSession:
        """A conversation by the name that its channel knows it by; one that is new has no segment yet."""
        if isinstance(conversation, ContextSession):
            return conversation
        return self.newest(conversation_uid(channel, conversation))

    def find(self, beginning: str | None = None, channel: str | None = None) -> ContextSession:
        """A conversation by its id, the beginning of it, or its own name; None is the one that was active last.

        Args:
            beginning: of an id, or a whole name.
            channel: where the one that was active last is looked for; None is everywhere but in runs of tasks.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        with self._store.reading() as tx:
            known = conversation_named(tx, beginning).uid if beginning is not None else None
            uid = known or newest_conversation(tx, self._now(), channel)
        if uid is None:
            raise NotFoundError("There is no conversation yet. Import some: harken import; or begin one: harken chat")
        return self.newest(uid)

    def newest(self, conversation_uid: str) -> ContextSession:
        """A conversation by its whole id, as it stands now; one that is new has no segment yet."""
        with self._store.reading() as tx:
            known = find_conversation(tx, conversation_uid)
            project = known.project if known else None
            return ContextSession(conversation_uid, newest_segment(tx, conversation_uid), project)

    def build(
        self,
        session: ContextSession,
        pending: Sequence[Pending],
        is_subagent: bool = False,
        task_name: str | None = None,
        *,
        budget_tokens: int | None = None,
        system_prompt: str | None = None,
        is_preview: bool = False,
        past_note: str = "",
        include_untrusted: bool = True,
        project: str | None = None,
        directory: str | Path | None = None,
    ) -> ChatContext:
        """Everything that the model gets to see, in order.

        System prompt, core memory, rules, summary, other conversations, what was saved or indexed, auto-RAG, window.
        A subagent sees its task's earlier runs in place of all that a conversation brings.

        Args:
            session: whose segment is looked at.
            pending: what the user says now, oldest first, recorded already or not: text, or the recorded message.
            is_subagent: whether a task asks.
            task_name: the task; needed for a subagent.
            budget_tokens: None takes the setting.
            system_prompt: likewise.
            is_preview: otherwise what left the window is noted to be summarized.
            past_note: said under the heading of other conversations: how the caller's tools tell more of them.
            include_untrusted: whether what is not to be trusted may be recalled (the window has it all the same).
            project: that the conversation goes on in, by its key or short name; None takes its own.
            directory: tells the project of a conversation that has none.
        Returns:
            Never more than the budget, except for a last pending message that alone is larger: it is kept, and noted.
        Raises:
            UsageError: the budget is none, or a subagent has no task.
            NotFoundError: there is no such project.
        """
        config = (settings := self._settings()).context
        budget = config.default_budget_tokens if budget_tokens is None else budget_tokens
        _check(budget, task_name or not is_subagent)
        projects = self._projects(project or session.project, directory)
        with self._sessions.open(projects, **({} if include_untrusted else {"include_untrusted": False})) as searches:
            builder = ContextBuilder(self._recorder.redactor, self.auto_rag, searches, settings, session, budget)
            builder.read(pending, recalls=not is_subagent)
            builder.system(config.system_prompt if system_prompt is None else system_prompt)
            builder.core()
            if is_subagent:
                builder.runs(last_runs(searches.view, task_name or "", config.subagent_history))
            else:
                builder.rules()
                builder.summary()
                past = self._past.search(builder.query, session.conversation_uid, searches)
                builder.others(past, past_note)
                builder.known(*self._known(builder))
                builder.talk()
            context = builder.context()
        if not is_preview:
            self._note(session.conversation_uid, context)
        return context

    def recall(self, session: ContextSession, query: str, excluded: Collection[str] = ()) -> Recall:
        """Search the session's segment as auto-RAG does."""
        if session.segment_uid is None:
            return Recall(notes=("Nothing was said yet.",))
        return self.auto_rag.search(query, session.segment_uid, excluded, self._settings().auto_rag)

    def past(
        self,
        query: str,
        session: ContextSession | None = None,
        directory: str | Path | None = None,
        *,
        is_logged: bool = True,
    ) -> PastRecall:
        """Search other conversations, all of them where no session goes on, from its project or a directory's.

        Unless `is_logged`, nothing is written.
        """
        past = self._past if is_logged else replace(self._past, log=None)
        with self._sessions.open(self._projects(session.project if session else None, directory)) as searches:
            return past.search(query, session.conversation_uid if session else None, searches)

    def warm_up(self) -> Future[None] | None:
        """Load what a recall needs, in a thread, while nobody waits for it; an endpoint has no model, and may cost."""
        is_endpoint = self._settings().embedder == "openai-compatible"
        return None if is_endpoint else self._sessions.models.submit(self._load)

    def _load(self) -> None:
        """Look for something as a recall does, of which all passes: what it imports and puts together stays."""
        query, config = parse_query(_ANY_QUESTION), self._settings().rag.model_copy(update={"min_similarity": -1.0})
        with self._sessions.open() as searches:
            searches.vector(query)
            rule_quotes(searches, query, config)
            SavedQuotes(self._searcher, query).near(searches)
            PastConversations(self._sessions, lambda: config).search(query.text, session=searches)

    def quotes_about(
        self, prompt: str, conversation_uid: str, directory: str | None = None, by_words: bool = False
    ) -> list[Quote]:
        """Standing rules, what was saved, and what other conversations say, about a prompt: the most important first.

        Nothing that hooks or a recall have told the conversation before. Asked at once, in one session. What is of
        another project than the directory's comes last; without a directory, the conversation's own tells. Found
        `by_words` alone where nobody can wait until the model is loaded. It writes nothing: `retrievals.write` is for
        whoever called it, once the answer is given.
        """
        query = parse_query(prompt)
        with self._about(conversation_uid, directory, by_words, query) as searches:
            with searches.view.reading() as tx:
                given = given_to(tx, conversation_uid)
            # First, for it has most to look for while the model is at work.
            past = self._past.search(prompt, conversation_uid, searches, log_later=True)
            saved: list[Quote] = []
            if query.text and not is_small_talk(query):
                saved = SavedQuotes(self._searcher, query, self._settings().rag.without_tags).near(searches)
            rules = self._rules(searches, query, conversation_uid)
            told = {each.text.removeprefix(RULE_SAID).strip() for each in rules}
            quotes = [*rules, *saved, *recall_quotes(past, self._now(), told)]
        fresh = (quote for quote in quotes if quote.uid not in given)
        return sorted(fresh, key=lambda quote: (quote.source != ASKED, bool(quote.project)))

    @contextmanager
    def _about(
        self, conversation_uid: str, directory: str | Path | None, by_words: bool, query: Query | None = None
    ) -> Iterator[SearchSession]:
        """A session that sees what the directory's project does, or else the conversation's own."""
        with self._sessions.open() as searches:
            searches.by_words, searches.seen_from = by_words, (conversation_uid, str(directory or ""))
            own = conversation_uid if directory is None else ""

            def ahead(tx: Transaction, _there: SearchSession) -> None:
                asked = [rules_question(tx), projects_question(tx)]
                asked += [given_question(tx, conversation_uid)] if query is not None else []
                asked += [conversation_question(tx, own)] if own else []
                tx.dialect.foresee(tx.connection, *asked)

            searches.look_ahead("projects", ahead)
            if query is not None and not is_small_talk(query):
                searches.look_ahead(SAVED, lambda tx, there: foresee_saved(tx, there, query))
                searches.look_ahead(PAST, lambda tx, there: self._past.foresee(tx, there, query, conversation_uid))
                # The model is at work while rows are read.
                with attempted("vectors", []):
                    searches.begin(searched_for(query))
            with searches.view.reading() as tx:
                known = find_conversation(tx, own) if own else None
            project = known.project if known else None
            searches.projects = scope_of(searches.view, self._settings().rag.scope, project, directory)
            yield searches

    def _projects(self, project: ProjectIdentity | str | None, directory: str | Path | None = None) -> ProjectScope:
        """What recall sees from a project, or from a directory's."""
        return scope_of(self._store, self._settings().rag.scope, project, directory)

    def always_known(
        self, conversation_uid: str, directory: str | Path | None = None
    ) -> tuple[list[CoreFact], list[Quote]]:
        """Core memory, what others have set with their names, and the user's standing rules that touch any prompt.

        No rule that its own conversation has stated.
        """
        with self._about(conversation_uid, directory, by_words=False) as searches:
            with searches.view.reading() as tx:
                facts = facts_told_apart(searches, core_facts(tx, *SECTIONS))
            return facts, self._rules(searches, None, conversation_uid)

    def _rules(self, searches: SearchSession, query: Query | None, conversation_uid: str) -> list[Quote]:
        found = rule_quotes(searches, query, self._settings().rag, of_others=conversation_uid)
        return [quote if quote.project else replace(quote, text=f"{RULE_SAID} {quote.text}") for quote in found]

    def _known(self, builder: ContextBuilder) -> tuple[list[Quote], str]:
        """What was saved or indexed and answers, unless just said; and why it was not searched where that failed."""
        searches, query, config = builder.searches, parse_query(builder.query), builder.settings.rag
        quotes, failures = list[Quote](), list[str]()
        if config.enabled and config.saved and not asks_nothing(query, searches.config.min_query_tokens):
            least = searches.config.relevance_threshold if config.min_similarity is None else config.min_similarity
            with attempted("saved", failures, "What was saved or indexed was not searched: {error}."):
                said = [message.text for message in builder.expected()]
                quotes = SavedQuotes(self._searcher, query, config.without_tags).known(searches, least, said)
        return quotes, " ".join(failures)

    def latest(self, directory: str, conversation_uid: str) -> list[Quote]:
        """The outcome of the conversation before this one in a folder's project, as a quotation; none where none is."""
        return latest_quotes(self._store, self._projects(None, directory).own, conversation_uid)

    def given(self, conversation_uid: str) -> set[str]:
        """Ids of everything that hooks have told a conversation."""
        with self._store.reading() as tx:
            tx.dialect.end_with(tx.connection, given_question(tx, conversation_uid))
            return given_to(tx, conversation_uid)

    def note_given(
        self,
        conversation_uid: str,
        reasons: Mapping[str, str],
        unless: Callable[[], bool],
        tokens: int = 0,
        took: Sequence[tuple[str, float]] = (),
        event: str | None = None,
        once: bool = False,
    ) -> bool:
        """Note that a conversation is told these, unless nobody waits for it any more; whether somebody did.

        Args:
            conversation_uid: the conversation's id.
            reasons: why, in words of ours alone, by id.
            unless: whether nobody waits any more.
            tokens: of all that it is told.
            took: agents whose hooks were answered before, each with the milliseconds it took.
            event: its agent's, at which it is told.
            once: not where all of it was told meanwhile, as by a second hook of the same event.
        """
        with self._store.writing(of=INJECTIONS) as tx:
            # Asked now: the store may have been busy for longer than a hook waits.
            if unless() or (once and given_to(tx, conversation_uid) >= reasons.keys()):
                return False
            note_given(tx, conversation_uid, reasons, self._now(), event)
            note_recall(tx, conversation_uid, tokens, self._now(), took)
        return True

    def past_log(self, limit: int = 1000) -> list[Retrieval]:
        """The searches of past conversations, newest first."""
        self.retrievals.write()
        with self._store.reading() as tx:
            return list_retrievals(tx, limit)

    def summarize(self) -> int:
        """Bring every rolling summary up to date without a model, in this thread; how many messages that took in."""
        work = SummarizeSegmentWork(self._store, self._settings, self._now)
        run_until_idle(work)
        return work.stored

    def _note(self, conversation_uid: str, context: ChatContext) -> None:
        """Note what a context says of the conversation: what has left its window, and how much came back."""
        if context.left_before is not None:
            self._note_left(context.left_before)
        layers = [layer for layer in context.layers if layer.name in _RECALLED]
        if recalled := sum(layer.tokens for layer in layers):
            # Reasons in a context may hold words of what was said, which forgetting would have to find here.
            reasons = {item.uid: "" for layer in layers for item in layer.items if item.uid}
            # What came back is worth more than its count.
            with suppress(StoreError), self._store.writing(of=INJECTIONS) as tx:
                note_given(tx, conversation_uid, reasons, self._now())
                note_recall(tx, conversation_uid, recalled, self._now())

    def _note_left(self, message_uid: str) -> None:
        """Have what left the window summarized; a model, which costs money, is asked only when it is worth a call."""
        with self._store.reading() as tx:
            waits = has_left(tx, message_uid)
            if not waits and self._settings().llm.model is not None:
                waits = count_left(tx, message_uid) < _WORTH_A_CALL
        if not waits:
            # Who may only read is shown the context all the same.
            with suppress(StoreReadOnlyError), self._store.writing() as tx:
                note_left(tx, message_uid, self._now())
            self._recorder.wake()


def _check(budget_tokens: int, is_named: object) -> None:
    if budget_tokens <= 0:
        raise UsageError(f"budget_tokens must be > 0, got {budget_tokens}")
    if not is_named:
        raise UsageError("A subagent's context needs the name of its task.")
