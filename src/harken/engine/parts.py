"""The parts of the engine: each is imported, made and wired when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from harken.config.settings import LoadedSettings, Settings, environment, load_settings
from harken.engine.runtime_settings import RunTimeSettings
from harken.errors import UsageError
from harken.journal.journal import DATABASE_NAME, JOURNAL_NAME, Journal, Replayed
from harken.journal.staging import remove_staged
from harken.storage.open import open_store
from harken.storage.state import SCRUB_DUE, get_setting, journal_offsets

if TYPE_CHECKING:
    from harken.bench.bench import Bench
    from harken.chat.tasks import Tasks
    from harken.chat.tools import Toolbox
    from harken.chat.turn import Chat
    from harken.context.assembler import ContextAssembler
    from harken.context.chats import Chats
    from harken.context.rules import Rules
    from harken.engine.archive import Archive
    from harken.engine.maintenance import Maintenance
    from harken.jobs.spaces import Spaces
    from harken.jobs.spend import LanguageModel
    from harken.jobs.webhooks import Webhooks
    from harken.jobs.workers import Background
    from harken.model.conversations import SearchScope
    from harken.model.lookups import SearchResult
    from harken.providers.embedder import Embedder, Reranker
    from harken.record.core_memory import CoreMemory
    from harken.record.feedback import Feedback
    from harken.record.labels import Labels
    from harken.record.recorder import Recorder
    from harken.redact.redactor import Redactor
    from harken.search.search import Searcher
    from harken.sources.experiences.experiences import Experiences
    from harken.sources.experiences.values import Values
    from harken.sources.memories.memories import Memories
    from harken.sources.searches import SourceSearcher
    from harken.sources.topics.topics import Topics
    from harken.sources.workspace.code import CodeIndex
    from harken.sources.workspace.commits import CommitIndex
    from harken.sources.workspace.documents import DocumentIndex
    from harken.storage.ports import Store
    from harken.storage.projects import ProjectScope

_Part = TypeVar("_Part")


class lazy_part(Generic[_Part]):
    """A part of the engine that is imported and made when it is first used, once, whichever thread asks."""

    def __init__(self, make: Callable[[Any], _Part]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type[object], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, engine: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, engine: object, owner: type[object]) -> _Part: ...
    def __get__(self, engine: object | None, owner: type[object]) -> Self | _Part:
        if engine is None:
            return self
        # Found there by Python itself from the second time on.
        parts = vars(engine)
        with parts["_opening"]:
            if self._name not in parts:
                parts[self._name] = self._make(engine)
            part: _Part = parts[self._name]
        return part


class Parts:
    """The store, its settings, and all that is opened on it; `Harken` adds the verbs.

    Args:
        home: where everything is kept; None takes `HARKEN_HOME`, else the platform's data directory.
        settings: values that stand above the settings file and the environment; nested or with dotted keys.
        embedder: stands in place of the configured model, likewise the reranker.
        env: the environment; None takes the process's own.
        on_replay: called with (conversations done, in all) when the journal has what the database lacks.
        store: an open store in place of the one that the settings name; closed with this.
        beside: another one of this process by the same settings, whose models this one uses.
    Raises:
        ConfigError: a setting is unknown or out of range.
        StoreError: the store cannot be opened.
        UsageError: the embedder is a model's name.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        env: Mapping[str, str] | None = None,
        on_replay: Callable[[int, int], None] = lambda _done, _all: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        store: Store | None = None,
        beside: Parts | None = None,
    ) -> None:
        if isinstance(embedder, str):
            raise UsageError(f"embedder is a model of your own. To name one: settings={{'embedder': {embedder!r}}}")
        self._opening = threading.RLock()
        self._env = environment() if env is None else env
        self.loaded = load_settings(home, self._env, settings)
        self._now = now
        self._given_embedder = embedder
        self._reranker = reranker
        self._beside = beside
        place = self.settings.store or self.home / DATABASE_NAME
        self.store: Store = store or open_store(place, self.home / "cache", self.settings.tenant)
        self.replayed = Replayed(0, 0, [])
        self._removed = remove_staged(self.home)
        try:
            self.run_time = RunTimeSettings(
                self.store, partial(load_settings, home, self._env, settings), changed=self._follow_settings
            )
            self.loaded = self.run_time.load()
            if self.settings.redaction.patterns:
                # A pattern that cannot be one is said at once, not when something is recorded.
                _ = self._redactor
            if self.settings.llm.model:
                # The moment at which a model is first seen counts, whatever this process goes on to do.
                _ = self._language_model
            self._journal: Journal | None = None
            if self.settings.store is None:
                self._journal = Journal(self.home / JOURNAL_NAME, self.home / "torn", self.settings.record.fsync)
            self._catch_up(on_replay)
        except BaseException:
            self.store.close()
            raise

    @lazy_part
    def recorder(self) -> Recorder:
        """Writes what is said: redacted, to the journal, then to the rows."""
        from harken.record.recorder import Recorder

        return Recorder(
            store=self.store,
            journal=self._journal,
            redactor=self._redactor,
            config=self.settings.record,
            min_message_tokens=self.settings.embedding.min_message_tokens,
            wake=self._wake,
            now=self._now,
        )

    @lazy_part
    def spaces(self) -> Spaces:
        """The embedding models: which one fills the store, which one answers."""
        if self._beside is not None:
            return self._beside.spaces.of_store(self.store)
        from harken.jobs.spaces import open_spaces

        return open_spaces(self.store, self.settings, lambda: self._language_model.book(), self._given_embedder)

    @lazy_part
    def maintenance(self) -> Maintenance:
        """What keeps a store in order: status, doctor, forgetting, rebuilding, backup, export."""
        from harken.engine.maintenance import Maintenance

        return Maintenance(
            self.store, self._journal, lambda: self.recorder, self.spaces, self.home, self._now, self._removed
        )

    @lazy_part
    def archive(self) -> Archive:
        """What was said, page by page and by day, and what came back in it."""
        from harken.engine.archive import Archive

        return Archive(self.store)

    @lazy_part
    def core(self) -> CoreMemory:
        """Small facts of the user and the agent, always in the prompt."""
        from harken.record.core_memory import CoreMemory

        return CoreMemory(self.recorder)

    @lazy_part
    def feedback(self) -> Feedback:
        """Verdicts on what was recalled."""
        from harken.record.feedback import Feedback

        return Feedback(self.recorder)

    @lazy_part
    def labels(self) -> Labels:
        """What the owner says of conversations: tags, titles, projects."""
        from harken.record.labels import Labels

        return Labels(self.recorder)

    @lazy_part
    def memories(self) -> Memories:
        """What was saved on purpose."""
        from harken.sources.memories.duplicates import MeaningComparison
        from harken.sources.memories.memories import Memories

        return Memories(self.store, self.recorder, self._search, MeaningComparison(self.store, self.spaces))

    @lazy_part
    def experiences(self) -> Experiences:
        """What was tried, and how it went."""
        from harken.sources.experiences.experiences import Experiences

        return Experiences(self.store, self.recorder)

    @lazy_part
    def values(self) -> Values:
        """Principles distilled from clusters of experiences."""
        from harken.sources.experiences.values import Values

        return Values(self.store, self.recorder, self.spaces.answering)

    @lazy_part
    def topics(self) -> Topics:
        """What conversations are about, taken together."""
        from harken.sources.topics.topics import Topics

        return Topics(self.recorder, lambda: self._language_model)

    @lazy_part
    def code(self) -> CodeIndex:
        """Units of code, indexed and searched."""
        from harken.sources.workspace.code import CodeIndex

        return CodeIndex(self.recorder, self._search_indexed)

    @lazy_part
    def commits(self) -> CommitIndex:
        """The history of repositories, indexed and searched."""
        from harken.sources.workspace.commits import CommitIndex

        return CommitIndex(self.recorder, self._search_indexed)

    @lazy_part
    def documents(self) -> DocumentIndex:
        """Passages of documents, indexed and searched."""
        from harken.sources.workspace.documents import DocumentIndex

        return DocumentIndex(self.recorder, self._search_indexed)

    @lazy_part
    def sources(self) -> SourceSearcher:
        """Searches of every source beside conversations."""
        from harken.sources.searches import SourceSearcher

        return SourceSearcher(self.store, self._searcher.search)

    @lazy_part
    def assembler(self) -> ContextAssembler:
        """One context out of everything that is remembered."""
        from harken.context.assembler import ContextAssembler

        return ContextAssembler(self._searcher, self._current)

    @lazy_part
    def bench(self) -> Bench:
        """Measurements on the history itself."""
        from harken.bench.bench import Bench

        return Bench(self._searcher, self._current)

    @lazy_part
    def chats(self) -> Chats:
        """Contexts of chats, and their rolling summaries."""
        from harken.context.chats import Chats

        return Chats(self.recorder, self._current, self._searcher)

    @lazy_part
    def rules(self) -> Rules:
        """What people have said to hold from now on."""
        from harken.context.rules import Rules

        return Rules(self.core)

    @lazy_part
    def background(self) -> Background:
        """The workers that embed and summarize."""
        from harken.jobs.workers import Background

        return Background(
            self.store, self.spaces, self._current, self._language_model, self._now, lambda: self.webhooks.work()
        )

    @lazy_part
    def webhooks(self) -> Webhooks:
        """Addresses that are told of what happens here."""
        from harken.jobs.webhooks import Webhooks

        return Webhooks(self.store, lambda: self.settings.webhooks, self.recorder.new_uid, self._now)

    @lazy_part
    def tasks(self) -> Tasks:
        """Scheduled tasks that see their own earlier runs."""
        from harken.chat.tasks import Tasks

        model, toolbox = self._language_model, self._toolbox(reads_core_only=True)
        return Tasks(self.recorder, self.chats, self._current, model, toolbox)

    @lazy_part
    def chat(self) -> Chat:
        """Talks with the configured language model."""
        from harken.chat.turn import Chat

        return Chat(self.recorder, self.chats, self._language_model, self._current, self._toolbox())

    def _search(
        self,
        query: str,
        scope: SearchScope | None = None,
        limit: int | None = None,
        mode: str = "hybrid",
        *,
        directory: str | Path | None = None,
        conversation: str | None = None,
        rerank: bool | None = None,
        threshold: float | None = None,
    ) -> SearchResult:
        """See `Harken.search`."""
        held = {} if threshold is None else {"relevance_threshold": threshold}
        with self._searcher.sessions.open(self._seen_from(directory, conversation), **held) as session:
            return self._searcher.search(query, scope, limit, mode, rerank, session)

    def _search_indexed(self, query: str, scope: SearchScope, limit: int, mode: str) -> SearchResult:
        """What an index of the workspace searches, whose rows it has itself."""
        return self._searcher.search(query, scope, limit, mode)

    def _seen_from(self, directory: str | Path | None, conversation: str | None) -> ProjectScope:
        """What is seen of other projects from a directory, or a conversation's project; of nowhere, everything."""
        from harken.storage.projects import EVERY_PROJECT

        if directory is None and conversation is None:
            return EVERY_PROJECT
        from harken.record.forget import whole_uid
        from harken.record.scope import scope_of
        from harken.storage.conversations import find_conversation

        with self.store.reading() as tx:
            known = find_conversation(tx, conversation) if conversation else None
            if conversation and known is None:
                known = find_conversation(tx, whole_uid(tx, conversation))
        return scope_of(self.store, self._current().rag.scope, known.project if known else None, directory)

    def _toolbox(self, reads_core_only: bool = False) -> Toolbox:
        from harken.chat.model_tools import core_tools, history_tools, memory_tools
        from harken.chat.tools import Toolbox

        history = history_tools(self.store, self._search)
        return Toolbox([*history, *core_tools(self.core, reads_core_only), *memory_tools(self.memories)])

    @lazy_part
    def _redactor(self) -> Redactor:
        from harken.redact.redactor import Redactor

        return Redactor(self.settings.redaction.patterns, self.settings.redaction.enabled)

    @lazy_part
    def _language_model(self) -> LanguageModel:
        from harken.jobs.spend import LanguageModel

        beside = self._beside
        whole = None if beside is None else lambda: beside._language_model.book()
        return LanguageModel(self.store, self._current, self._env, self._now, whole)

    @lazy_part
    def _searcher(self) -> Searcher:
        from harken.search.search import Searcher
        from harken.search.session import QueryModels, SearchSessions

        models = self._beside._searcher.sessions.models if self._beside else QueryModels()
        ports = self.store, lambda: self.settings.search, self.spaces.embedder_of, self._now
        return Searcher(SearchSessions(*ports, models, has_model=self.spaces.is_configured), self._open_reranker)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    @property
    def home(self) -> Path:
        """Where everything is kept."""
        return self.settings.home

    def _current(self) -> Settings:
        return self.loaded.settings

    def _wake(self) -> None:
        """Tell the workers of this process, where there are any, that there is work."""
        if background := vars(self).get("background"):
            background.wake()

    def _catch_up(self, on_replay: Callable[[int, int], None]) -> None:
        """Bring in what a dead process or a lost database left in the journal alone, and finish forgetting."""
        with self.store.reading() as tx:
            is_behind = self._journal is not None and self._journal.behind(journal_offsets(tx))
            is_scrub_due = get_setting(tx, SCRUB_DUE) is not None
        if self._journal is not None and is_behind:
            from harken.journal.replay import replay

            for done, total in replay(self.store, self._journal, self.recorder.ingest, self.replayed):
                on_replay(done, total)
        if is_scrub_due:
            from harken.record.forget import finish_forgetting

            finish_forgetting(self.store)

    def _open_reranker(self) -> Reranker:
        if self._beside is not None:
            return self._beside._open_reranker()
        if self._reranker is None:
            from harken.providers.registry import open_reranker

            self._reranker = open_reranker(self.home, self.settings.embedding.threads)
        return self._reranker

    def _follow_settings(self, loaded: LoadedSettings) -> None:
        before, self.loaded = self.settings.llm, loaded
        self._language_model.note(before)
        self._wake()
