"""Harken: opens everything, and has the verbs that the command line, servers and libraries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harken.chat.model_tools import core_tools, history_tools, memory_tools
from harken.chat.tasks import Answer, TaskRun, Tasks
from harken.chat.turn import Chat
from harken.config.settings import LoadedSettings, Settings, environment, load_settings
from harken.context.assembler import ContextAssembler
from harken.context.builder import ContextSession
from harken.context.chats import Chats
from harken.context.layers import ChatContext
from harken.context.pending import Pending
from harken.context.task_history import TaskHistory
from harken.errors import NotFoundError, UsageError
from harken.importers.formats import formats
from harken.importers.importer import Importer, ImportReport, Progress
from harken.importers.parsed import TranscriptFormat
from harken.jobs.job import Worker
from harken.jobs.spaces import open_spaces
from harken.jobs.spend import LanguageModel
from harken.jobs.workers import Background
from harken.journal.backup import DATABASE_NAME, JOURNAL_NAME
from harken.journal.journal import Journal
from harken.journal.replay import Replayed, replay
from harken.maintenance import Upkeep
from harken.model.conversations import (
    ExchangeStatus,
    Message,
    MessageType,
    Role,
    SearchResult,
    SearchScope,
    Segment,
    Trust,
)
from harken.model.lookups import Surroundings
from harken.providers.embedder import Embedder, Reranker
from harken.providers.options import RerankerOptions
from harken.providers.registry import open_reranker
from harken.record.core_memory import CoreMemory
from harken.record.forget import finish_forgetting
from harken.record.project import identify_project
from harken.record.recorder import Batch, NewConversation, NewMessage, Recorder
from harken.redact.redactor import Redactor
from harken.search.recall import Recall
from harken.search.search import Searcher
from harken.sources.verbs import SourceVerbs, said_or_saved
from harken.storage.conversations import look_up
from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.storage.runtime_settings import RunTimeSettings


class Harken:
    """Memory in one place: records, imports, embeds, searches, forgets.

    Safe to use from several threads; several processes may open the same home at once.

    Args:
        home: where everything is kept; None takes `HARKEN_HOME`, else the platform's data directory.
        settings: values that stand above the settings file and the environment; nested or with dotted keys.
        embedder: stands in place of the configured model.
        reranker: likewise for the cross-encoder.
        env: the environment; None takes the process's own.
        on_replay: called with (conversations done, in all) when the journal has what the database lacks.
        now: the clock.
    Raises:
        ConfigError: a setting is unknown or out of range.
        StoreError: the store cannot be opened.
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
    ) -> None:
        self._env = environment() if env is None else env
        self.loaded = load_settings(home, self._env, settings)
        self._now = now
        self._given_embedder = embedder
        self._reranker = reranker
        self.store = self._open_store()
        self.run_time = RunTimeSettings(
            self.store, partial(load_settings, home, self._env, settings), changed=self._follow_settings
        )
        self.loaded = self.run_time.load()
        redactor = Redactor(self.settings.redaction.patterns, self.settings.redaction.enabled)
        self._journal = self._open_journal()
        self.replayed = Replayed(0, 0, [])
        self.spaces = open_spaces(self.store, self.settings, embedder)
        self.recorder = Recorder(
            store=self.store,
            journal=self._journal,
            redactor=redactor,
            config=self.settings.record,
            min_message_tokens=self.settings.embedding.min_message_tokens,
            wake=lambda: self.background.wake(),
            now=now,
        )
        self._searcher = Searcher(self.store, self.settings.search, self.spaces.answering, self._open_reranker, now)
        self.upkeep = Upkeep(self.store, self._journal, self.recorder, self.spaces, self.home, now)
        self.core = CoreMemory(self.recorder)
        remembered = SourceVerbs(self.recorder, self._found, self.spaces)
        self.memories, self.experiences, self.values = remembered.kept
        self.code, self.commits, self.documents = remembered.indexes
        self.sources = remembered.sources
        self.assembler = ContextAssembler(self.store, self._searcher, lambda: self.settings, now)
        self.assemble_context = self.assembler.assemble_context
        self.get_premortem_context = self.assembler.get_premortem_context
        history = TaskHistory(self.store, self._journal)
        self.chats = Chats(self.store, self.recorder, lambda: self.settings, self.spaces.answering, history, now)
        self._language_model = LanguageModel(self.store, lambda: self.settings, self._env, now)
        self.background = Background(
            self.store, self.spaces, self.chats.work, lambda: self.settings, self._language_model, now
        )
        self.tasks = Tasks(
            self.recorder, history, lambda: self.settings.context.subagent_history, self.chats.task_context
        )
        tools = [*history_tools(self.store, self.search), *core_tools(self.core), *memory_tools(self.memories)]
        self.chat = Chat(self.recorder, self.chats, self._language_model, lambda: self.settings, tools)
        try:
            self._replay_tail(on_replay)
        except BaseException:
            self.store.close()
            raise

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    @property
    def home(self) -> Path:
        """Where everything is kept."""
        return self.settings.home

    def record_message(
        self,
        conversation: str,
        role: Role | str,
        text: str,
        *,
        channel: str = "library",
        author: str | None = None,
        type: MessageType | str = MessageType.TEXT,
        call_id: str | None = None,
        tool_name: str | None = None,
        directory: str | Path | None = None,
        trust: Trust | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """Record one message; when this returns it survives the process.

        Args:
            conversation: the caller's own name for the conversation; made if it is new.
            role: who it speaks for.
            text: kept whole, secrets and `<private>` parts taken out first.
            channel: what kind of place the conversation is held in.
            author: a person's or an agent's name, if known.
            type: what it is.
            call_id: links a tool call with its result.
            tool_name: for tool calls and results.
            directory: the working directory, which tells the project; only looked at when the conversation is new.
            trust: None takes the role's own: a person is believed more than a tool.
            metadata: small facts, JSON-able.
        Raises:
            StoreError: it was not kept; the call may be repeated.
            UsageError: there is no such role or type.
        """
        who, kind = Role.of(role), MessageType.of(type)
        by_tool = who is Role.TOOL or kind is MessageType.TOOL_RESULT
        trusted = trust or (Trust.TOOL if by_tool else Trust.OWNER if who is Role.USER else Trust.AGENT)
        project = identify_project(directory) if directory is not None else None
        message = NewMessage(
            role=who,
            text=text,
            type=kind,
            author=author,
            trust=trusted,
            call_id=call_id,
            tool_name=tool_name,
            metadata=metadata or {},
        )
        head = NewConversation(channel, conversation, project=project)
        recorded = self.recorder.record([Batch(head, [message])])
        if not recorded.messages:
            raise NotFoundError(f"Conversation {conversation} was forgotten; choose another name for a new one.")
        return recorded.messages[0]

    def end_exchange(
        self,
        conversation: str,
        status: ExchangeStatus | str = ExchangeStatus.COMPLETED,
        *,
        channel: str = "library",
        error: str | None = None,
    ) -> None:
        """End the conversation's exchange in progress.

        Raises:
            NotFoundError: there is no such conversation.
            UsageError: there is no such status.
        """
        self.recorder.end_exchange(NewConversation(channel, conversation).uid, ExchangeStatus.of(status), error)

    def new_segment(self, conversation: str, *, channel: str = "library") -> Segment:
        """Begin a new segment of a conversation.

        Raises:
            NotFoundError: there is no such conversation.
        """
        return self.recorder.new_segment(NewConversation(channel, conversation).uid)

    def run_task(
        self, name: str, message: str, answer: Answer | None = None, deliver: str | None = None, *, system: str = ""
    ) -> TaskRun:
        """Run a scheduled task once, and record the run; see `harken.chat.tasks.Tasks.run`.

        Raises:
            ConfigError: there is nothing that answers.
            NotFoundError: there is no conversation to deliver to, or the task was forgotten.
        """
        return self.tasks.run(name, message, answer, deliver, system=system)

    def transcript_formats(self) -> dict[str, TranscriptFormat]:
        """Every format that can be imported, by name."""
        return formats(self._env, Path.home())

    def import_transcripts(
        self,
        format_name: str,
        paths: Sequence[str | Path],
        *,
        progress: Callable[[Progress], None] = lambda _progress: None,
        report: ImportReport | None = None,
    ) -> ImportReport:
        """Import transcripts; what was imported before is known and not added again.

        Args:
            format_name: one of `transcript_formats`.
            paths: files or folders.
            progress: called after every batch.
            report: filled as the work goes on.
        Raises:
            UsageError: there is no such format, or a path does not exist.
            ExportError: a file is an export of Harken (of format `jsonl`), and not whole.
        """
        known = self.transcript_formats()
        if format_name not in known:
            raise UsageError(f"There is no format '{format_name}'. Formats: {', '.join(known)}")
        places = [Path(path).expanduser() for path in paths]
        for place in places:
            if not place.exists():
                raise UsageError(f"{place} does not exist.")
        return Importer(self.recorder, progress, self.upkeep.forget).run(known[format_name], places, report)

    def embed(self, progress: Callable[[int, int], None] = lambda _done, _all: None, patient: bool = False) -> int:
        """Give every entry that waits for one its vector, in this thread.

        Args:
            progress: called with (done, in all) after each batch.
            patient: wait for what backs off after a failure, or is leased to another process, until all is settled.
        Returns:
            How many vectors were stored; 0 also where the settings name no model.
        Raises:
            ProviderError: the model cannot be opened, or, unless patient, its endpoint fails.
            MissingExtraError: what it needs is not installed.
        """
        return self.background.embed(progress, patient)

    def start_worker(self) -> Worker | None:
        """Embed and summarize in the background from now on; gives the embedder's worker, None where there is no model.

        Raises:
            ProviderError: the model cannot be opened.
            MissingExtraError: what it needs is not installed.
        """
        return self.background.start()

    def build_context(
        self,
        session: str | ContextSession,
        pending: Sequence[Pending],
        is_subagent: bool = False,
        task_name: str | None = None,
        *,
        channel: str = "library",
        budget_tokens: int | None = None,
        system_prompt: str | None = None,
        include_untrusted: bool = True,
    ) -> ChatContext:
        """Everything that the model gets to see in its next call; see `ContextBuilder.build_context`.

        Args:
            session: the caller's own name for the conversation, or one that `chats` found.
            pending: what the user says now, recorded already or not.
            is_subagent: whether a task asks.
            task_name: the task.
            channel: of the conversation.
            budget_tokens: None takes the setting.
            system_prompt: None takes the setting.
            include_untrusted: whether what is not to be trusted may be recalled, where the settings allow that.
        Raises:
            UsageError: the budget is none, or a subagent has no task.
        """
        found = self.chats.session(session, channel) if isinstance(session, str) else session
        options = (pending, is_subagent, task_name)
        return self.chats.build(
            found,
            *options,
            budget_tokens=budget_tokens,
            system_prompt=system_prompt,
            include_untrusted=include_untrusted,
        )

    def auto_rag(
        self, session: str | ContextSession, query: str, *, channel: str = "library", excluded: Sequence[str] = ()
    ) -> Recall:
        """What was said earlier in the conversation's segment and matters now; ids in `excluded` never come back."""
        found = self.chats.session(session, channel) if isinstance(session, str) else session
        return self.chats.recall(found, query, excluded)

    def search(
        self,
        query: str,
        *,
        scope: SearchScope | None = None,
        limit: int | None = None,
        mode: str = "hybrid",
        rerank: bool | None = None,
    ) -> SearchResult:
        """Find what answers a query, best first; see `harken.search.search.Searcher`.

        What was said or saved is searched; code, commits and documents where the scope names them as sources.

        Raises:
            UsageError: the limit or the mode is not possible.
        """
        if mode == "hybrid" and self.settings.embedder == "none" and self._given_embedder is None:
            # Without a model this is what was asked for, so no note says that meaning was left out.
            mode = "keyword"
        return self._searcher.search(query, said_or_saved(scope), limit, mode, rerank)

    def show(self, uid: str, reach: int = 5) -> Surroundings:
        """A message among its neighbours, an exchange, or a whole conversation, by id or the beginning of one.

        Raises:
            NotFoundError: it names nothing, or more than one thing.
        """
        with self.store.reading() as tx:
            return look_up(tx, uid, reach)

    def close(self) -> None:
        """Stop the workers, keep what was derived, give everything back."""
        self.background.stop()
        self._language_model.close()
        self.store.nearest.save()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _found(self, query: str, scope: SearchScope, limit: int, mode: str) -> SearchResult:
        return self.search(query, scope=scope, limit=limit, mode=mode)

    def _replay_tail(self, on_replay: Callable[[int, int], None]) -> None:
        """Bring in what a process that died, or a database that was lost, left in the journal alone."""
        if self._journal is not None:
            for done, total in replay(self.store, self._journal, self.recorder.ingest, self.replayed):
                on_replay(done, total)
        finish_forgetting(self.store)

    def _open_store(self) -> Store:
        place = self.settings.store or self.home / DATABASE_NAME
        return open_store(place, self.home / "cache", self.settings.tenant)

    def _open_journal(self) -> Journal | None:
        if self.settings.store is not None:
            return None
        return Journal(self.home / JOURNAL_NAME, self.home / "torn", self.settings.record.fsync)

    def _open_reranker(self) -> Reranker:
        if self._reranker is None:
            self._reranker = open_reranker(RerankerOptions(self.home, threads=self.settings.embedding.threads))
        return self._reranker

    def _follow_settings(self, loaded: LoadedSettings) -> None:
        self.loaded = loaded
        self._searcher.config = loaded.settings.search
