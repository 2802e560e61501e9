"""Written by tools/async_stub.py: change the blocking classes, then run it again."""

import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from harken.bench.bench import MineReport
from harken.chat.details import DetailsPage
from harken.chat.rounds import Listen
from harken.chat.tasks import Answer as TasksAnswer
from harken.chat.tasks import TaskRun, TaskState
from harken.chat.turn import Turn
from harken.config.settings import LoadedSettings, Settings, SettingValue
from harken.context.builder import ContextSession
from harken.context.compose import FormattedContext
from harken.context.layers import ChatContext, ContextMessage, Pending
from harken.context.render import Quote
from harken.context.task_history import Run
from harken.engine import Harken
from harken.engine.maintenance import EmbeddingPlan, StoreStatus
from harken.engine.parts import Parts
from harken.importers.importer import ImportReport
from harken.importers.importer import Progress as ImporterProgress
from harken.importers.parsed import TranscriptFormat
from harken.jobs.job import AnyWork, Worker
from harken.jobs.post import Answer
from harken.jobs.webhooks import DeliverWork
from harken.jobs.workers import VectorsBySource, WorkerReport
from harken.journal.export import Exported
from harken.journal.journal import Replayed
from harken.model.arguments import DetailsWanted
from harken.model.conversations import (
    ContextItem,
    CoreFact,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    SavedRecord,
    SearchScope,
    Segment,
    Trust,
)
from harken.model.experiences import Experience, Lesson, RootCause, Value
from harken.model.lookups import (
    Activity,
    ConversationFilter,
    HookTimes,
    Injected,
    Injection,
    ListedConversation,
    Page,
    Retrieval,
    Rule,
    SearchResult,
    Surroundings,
)
from harken.model.marks import Verdict
from harken.model.webhooks import Delivery, Webhook
from harken.model.workspace import Commit
from harken.providers.embedder import Embedder, Reranker
from harken.record.doctor import Finding
from harken.record.feedback import Judged
from harken.record.forget import ForgetPlan, Forgotten
from harken.record.labels import ConversationLabel
from harken.search.past import PastRecall
from harken.search.recall import Recall
from harken.sources.experiences.candidates import Candidate
from harken.sources.experiences.experiences import Active
from harken.sources.experiences.values import AxisClusters, Member, Validity
from harken.sources.memories.memories import FoundMemories, SavedMemory
from harken.sources.memories.memory import Memory
from harken.sources.source import SourceHit
from harken.sources.topics.topics import DigestTopic, Topic
from harken.sources.workspace.commits import CommitReport
from harken.sources.workspace.tree import IndexReport, Progress
from harken.storage.enrichment.jobs import FailedWork
from harken.storage.ports import Store
from harken.storage.workspace.commits import Authorship, Churn

Result = TypeVar("Result")

class Calls:
    async def run(self, call: Callable[[], Result]) -> Result: ...
    def finish(self) -> None: ...

class AsyncArchive:
    async def page(self, uid: str, offset: int | None = ..., limit: int = ...) -> Page: ...
    async def details(self, wanted: DetailsWanted) -> DetailsPage: ...
    async def days(self, since: datetime | None = ...) -> dict[date, int]: ...
    async def recalls(
        self,
        limit: int = ...,
        before: datetime | None = ...,
        conversation_uid: str | None = ...,
        with_questions: bool = ...,
    ) -> list[Injection]: ...
    async def injected(self, uids: Collection[str]) -> dict[str, Injected]: ...
    async def indexed(self) -> list[tuple[str, str, int]]: ...

class AsyncContextAssembler:
    async def assemble_context(
        self,
        query: str,
        context_types: Sequence[str],
        limit: int = ...,
        max_tokens: int = ...,
        *,
        include_untrusted: bool = ...,
        project: str | None = ...,
        directory: str | Path | None = ...,
    ) -> FormattedContext: ...
    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = ...,
        limit: int = ...,
        max_tokens: int = ...,
        about: str = ...,
        *,
        project: str | None = ...,
        directory: str | Path | None = ...,
    ) -> FormattedContext: ...

class AsyncBackground:
    async def embed(self, progress: Callable[[int, int], None] = ..., patient: bool = ...) -> int: ...
    async def summarize(self, progress: Callable[[int], None] = ...) -> dict[str, int]: ...
    async def start(self, names: Collection[str] = ...) -> Worker | None: ...
    async def stop(self) -> None: ...
    @property
    def is_busy(self) -> bool: ...
    @property
    def blocked_reasons(self) -> dict[str, str]: ...
    async def wake(self) -> None: ...
    async def hold(self, conversation_uid: str) -> None: ...
    async def switch(self, name: str, enabled: bool, store: Store | None = ...) -> None: ...
    async def status(self, name: str | None = ...) -> tuple[WorkerReport, ...]: ...
    async def is_summarizing(self) -> bool: ...
    async def vectors(self) -> VectorsBySource: ...
    async def has(self, name: str) -> bool: ...
    async def work_of(self, name: str) -> AnyWork: ...

class AsyncBench:
    async def mine(
        self,
        limit: int = ...,
        seed: int = ...,
        *,
        progress: Callable[[int, int], None] = ...,
        report: MineReport | None = ...,
    ) -> MineReport: ...

class AsyncChat:
    @property
    def model_name(self) -> str | None: ...
    async def begin(self, directory: str | Path | None = ...) -> ContextSession: ...
    async def context(self, session: ContextSession, text: str) -> ChatContext: ...
    async def turn(
        self, session: ContextSession, text: str, listen: Listen = ..., stop: threading.Event | None = ...
    ) -> Turn: ...

class AsyncChats:
    async def session(self, conversation: str | ContextSession, channel: str) -> ContextSession: ...
    async def find(self, beginning: str | None = ..., channel: str | None = ...) -> ContextSession: ...
    async def newest(self, conversation_uid: str) -> ContextSession: ...
    async def build(
        self,
        session: ContextSession,
        pending: Sequence[Pending],
        is_subagent: bool = ...,
        task_name: str | None = ...,
        *,
        budget_tokens: int | None = ...,
        system_prompt: str | None = ...,
        is_preview: bool = ...,
        past_note: str = ...,
        include_untrusted: bool = ...,
        project: str | None = ...,
        directory: str | Path | None = ...,
    ) -> ChatContext: ...
    async def recall(self, session: ContextSession, query: str, excluded: Collection[str] = ...) -> Recall: ...
    async def past(
        self,
        query: str,
        session: ContextSession | None = ...,
        directory: str | Path | None = ...,
        *,
        is_logged: bool = ...,
    ) -> PastRecall: ...
    async def warm_up(self) -> Future[None] | None: ...
    async def quotes_about(
        self, prompt: str, conversation_uid: str, directory: str | None = ..., by_words: bool = ...
    ) -> list[Quote]: ...
    async def always_known(
        self, conversation_uid: str, directory: str | Path | None = ...
    ) -> tuple[list[CoreFact], list[Quote]]: ...
    async def latest(self, directory: str, conversation_uid: str) -> list[Quote]: ...
    async def given(self, conversation_uid: str) -> set[str]: ...
    async def note_given(
        self,
        conversation_uid: str,
        reasons: Mapping[str, str],
        unless: Callable[[], bool],
        tokens: int = ...,
        took: Sequence[tuple[str, float]] = ...,
        event: str | None = ...,
        once: bool = ...,
    ) -> bool: ...
    async def past_log(self, limit: int = ...) -> list[Retrieval]: ...
    async def summarize(self) -> int: ...

class AsyncCodeIndex:
    async def search(
        self, query: str, *, language: str | None = ..., project: str | None = ..., limit: int = ..., mode: str = ...
    ) -> SourceHit: ...
    async def similar(
        self, snippet: str, *, language: str | None = ..., project: str | None = ..., limit: int = ...
    ) -> SourceHit: ...
    async def index(
        self, path: str | Path = ..., progress: Progress = ..., report: IndexReport | None = ..., drop: bool = ...
    ) -> IndexReport: ...

class AsyncCommitIndex:
    async def index(
        self,
        path: str | Path = ...,
        *,
        since: datetime | None = ...,
        limit: int = ...,
        progress: Progress = ...,
        report: CommitReport | None = ...,
        drop: bool = ...,
    ) -> CommitReport: ...
    async def search(
        self,
        query: str,
        *,
        author: str | None = ...,
        since: datetime | None = ...,
        project: str | None = ...,
        limit: int = ...,
        mode: str = ...,
    ) -> SourceHit: ...
    async def history(self, path: str | Path, limit: int = ...) -> list[Commit]: ...
    async def churn(self, path: str | Path = ..., days: int = ..., limit: int = ...) -> list[Churn]: ...
    async def authors(self, path: str | Path = ...) -> list[Authorship]: ...

class AsyncCoreMemory:
    async def list(self, section: str | None = ...) -> list[CoreFact]: ...
    async def get(self, section: str, key: str) -> str: ...
    async def update(self, section: str, key: str, value: str) -> CoreFact: ...
    async def delete(self, section: str, key: str) -> None: ...
    async def put(self, section: str, key: str, value: str | None) -> CoreFact: ...

class AsyncFeedback:
    async def rate(
        self,
        uid: str,
        verdict: Verdict | str,
        *,
        by: str = ...,
        question: str = ...,
        given_to: str = ...,
        once: str = ...,
    ) -> Judged: ...
    async def show(self, uid: str) -> Judged: ...
    async def hook_times(self) -> list[HookTimes]: ...
    async def notice(self) -> int: ...

class AsyncLabels:
    async def show(self, conversation: str) -> ConversationLabel: ...
    async def tag(
        self, conversation: str, add: Iterable[str] = ..., remove: Iterable[str] = ...
    ) -> ConversationLabel: ...
    async def entitle(self, conversation: str, title: str) -> ConversationLabel: ...
    async def move(self, conversation: str, project: str | None) -> ConversationLabel: ...
    async def used(self) -> dict[str, int]: ...

class AsyncDocumentIndex:
    async def search(
        self, query: str, *, project: str | None = ..., limit: int = ..., mode: str = ...
    ) -> SourceHit: ...
    async def index(
        self, path: str | Path = ..., progress: Progress = ..., report: IndexReport | None = ..., drop: bool = ...
    ) -> IndexReport: ...

class AsyncExperiences:
    async def start(
        self,
        domain: str,
        strategy: str,
        goal: str,
        hypothesis: str,
        action: str,
        prediction: str,
        *,
        directory: str | Path | None = ...,
        agent: str = ...,
        session: str = ...,
        once: str = ...,
    ) -> Experience: ...
    async def update(
        self,
        uid: str | None = ...,
        *,
        hypothesis: str | None = ...,
        action: str | None = ...,
        prediction: str | None = ...,
        strategy: str | None = ...,
        note: str = ...,
        directory: str | Path | None = ...,
        agent: str = ...,
    ) -> Experience: ...
    async def resolve(
        self,
        status: str | None = ...,
        result: str = ...,
        *,
        surprise: str = ...,
        root_cause: RootCause | None = ...,
        lesson: Lesson | None = ...,
        uid: str | None = ...,
        directory: str | Path | None = ...,
        agent: str = ...,
    ) -> Experience: ...
    async def active(
        self, *, directory: str | Path | None = ..., agent: str = ..., session: str = ...
    ) -> Active | None: ...
    async def adopt(
        self, uid: str | None = ..., *, session: str = ..., directory: str | Path | None = ..., agent: str = ...
    ) -> Experience: ...
    async def list(
        self,
        limit: int = ...,
        *,
        domain: str | None = ...,
        outcome: str | None = ...,
        since: datetime | None = ...,
        project: str | None = ...,
        offset: int = ...,
    ) -> Sequence[Experience]: ...
    async def show(self, uid: str) -> Experience: ...
    async def forget(self, uid: str) -> str: ...
    async def review(self) -> Sequence[Candidate]: ...
    async def accept(
        self,
        uid: str,
        *,
        domain: str,
        strategy: str,
        agent: str = ...,
        session: str = ...,
        goal: str | None = ...,
        hypothesis: str | None = ...,
        action: str | None = ...,
        prediction: str | None = ...,
    ) -> Experience: ...
    async def dismiss(self, uid: str) -> str: ...

class AsyncMaintenance:
    async def status(self) -> StoreStatus: ...
    async def projects(self) -> list[tuple[str, str, int]]: ...
    async def conversations(self, wanted: ConversationFilter) -> tuple[list[ListedConversation], int]: ...
    async def activity(self) -> list[Activity]: ...
    async def titles(self, conversation_uids: Sequence[str], space: str = ...) -> dict[str, str]: ...
    async def failures(self, limit: int = ...) -> list[FailedWork]: ...
    async def retry_failed(self) -> int: ...
    async def doctor(self, fix: bool = ...) -> list[Finding]: ...
    def reindex_from_journal(self) -> AsyncGenerator[tuple[int, int]]: ...
    async def plan_embedding(self, sources: Sequence[str] = ...) -> EmbeddingPlan: ...
    async def embed_again(self, progress: Callable[[int], None] = ..., sources: Sequence[str] = ...) -> int: ...
    async def plan_forget(
        self,
        *,
        messages: Sequence[str] = ...,
        conversations: Sequence[str] = ...,
        project: str | None = ...,
        query: str | None = ...,
        saved: tuple[str, Sequence[str]] = ...,
    ) -> ForgetPlan: ...
    async def forget(self, doomed: ForgetPlan, progress: Callable[[int, int], None] = ...) -> Forgotten: ...
    async def backup(self, target: str | Path) -> int: ...
    async def export(
        self, target: str | Path | BinaryIO, progress: Callable[[int, int], None] = ..., with_vectors: bool = ...
    ) -> Exported: ...

class AsyncMemories:
    async def add(
        self,
        content: str,
        category: str = ...,
        importance: float | None = ...,
        tags: Iterable[str] = ...,
        *,
        directory: str | Path | None = ...,
        project: ProjectIdentity | None = ...,
        trust: Trust = ...,
    ) -> SavedMemory: ...
    async def list(
        self,
        category: str | None = ...,
        tags: Iterable[str] = ...,
        *,
        project: str | None = ...,
        superseded: bool = ...,
        limit: int = ...,
        offset: int = ...,
    ) -> list[Memory]: ...
    async def get(self, uid: str) -> Memory: ...
    async def search(
        self,
        query: str,
        *,
        limit: int = ...,
        category: str | None = ...,
        tags: Iterable[str] = ...,
        min_importance: float = ...,
        project: str | None = ...,
        mode: str = ...,
        directory: str | Path | None = ...,
        conversation: str | None = ...,
    ) -> FoundMemories: ...
    async def edit(
        self,
        uid: str,
        *,
        content: str | None = ...,
        category: str | None = ...,
        importance: float | None = ...,
        tags: Iterable[str] | None = ...,
    ) -> Memory: ...
    async def review(self, uid: str, by: datetime | None = ..., *, confirmed: bool = ...) -> Memory: ...
    async def confirm(self, uid: str) -> Memory: ...
    async def due(self, at: datetime | None = ...) -> Sequence[Memory]: ...
    async def used_tags(self) -> Mapping[str, int]: ...
    async def forget(self, uids: Sequence[str]) -> Sequence[str]: ...
    async def merge(self, uids: Sequence[str], content: str | None = ...) -> SavedMemory: ...

class AsyncRules:
    async def list(self, everything: bool = ...) -> list[Rule]: ...
    async def confirm(self, uid: str) -> Rule: ...
    async def drop(self, uid: str) -> Rule: ...

class AsyncTopics:
    async def list(self) -> Sequence[Topic]: ...
    async def titles(self) -> dict[str, str]: ...
    async def is_due(self) -> bool: ...
    async def refresh(self, by_model: bool = ...) -> Sequence[Topic]: ...
    async def rename(self, uid: str, name: str) -> Topic: ...
    async def suggested_tags(self, conversation_uid: str) -> tuple[str, ...]: ...
    async def digest(
        self,
        since: datetime | None = ...,
        project: str | None = ...,
        *,
        limit: int | None = ...,
        offset: int = ...,
        newest: int | None = ...,
    ) -> Sequence[DigestTopic]: ...

class AsyncWebhooks:
    async def add(self, url: str, events: Sequence[str] = ..., allow_http: bool = ...) -> tuple[Webhook, str]: ...
    async def all(self) -> list[Webhook]: ...
    async def find(self, beginning: str) -> Webhook: ...
    async def remove(self, beginning: str) -> str: ...
    async def resume(self, beginning: str) -> tuple[Webhook, int]: ...
    async def test(self, beginning: str) -> tuple[Webhook, Answer]: ...
    async def deliveries(
        self, beginning: str | None = ..., state: str | None = ..., limit: int = ...
    ) -> list[Delivery]: ...
    async def work(self) -> DeliverWork: ...
    async def deliver(self) -> int: ...

class AsyncRunTimeSettings:
    async def load(self) -> LoadedSettings: ...
    async def refresh(self) -> bool: ...
    async def get(self, key: str) -> SettingValue: ...
    async def set(self, key: str, value: Any) -> SettingValue: ...
    async def unset(self, key: str) -> SettingValue: ...

class AsyncSourceSearcher:
    async def records(self, wanted: Iterable[tuple[str, str]]) -> list[SavedRecord]: ...
    async def show(self, uid: str) -> ContextItem: ...
    async def search_memories(
        self, query: str, limit: int = ..., *, category: str | None = ..., mode: str = ...
    ) -> SourceHit: ...
    async def search_indexed(
        self, source: str, query: str, limit: int = ..., *, project: str | None = ..., mode: str = ...
    ) -> SourceHit: ...
    async def search_experiences(
        self,
        query: str,
        axis: str = ...,
        domain: str | None = ...,
        strategy: str | None = ...,
        outcome: str | None = ...,
        limit: int = ...,
        *,
        mode: str = ...,
        is_filled: bool = ...,
    ) -> SourceHit: ...
    async def search_values(
        self,
        query: str,
        limit: int = ...,
        *,
        axis: str | None = ...,
        domain: str | None = ...,
        mode: str = ...,
        is_filled: bool = ...,
    ) -> SourceHit: ...

class AsyncTasks:
    @property
    def prompt(self) -> str: ...
    async def run(
        self,
        name: str,
        message: str,
        answer: TasksAnswer | None = ...,
        deliver: str | None = ...,
        *,
        system: str = ...,
        listen: Listen = ...,
    ) -> TaskRun: ...
    async def context(self, name: str, message: str, *, system: str = ...) -> list[ContextMessage]: ...
    async def list(self) -> list[TaskState]: ...
    async def history(self, name: str, runs: int | None = ..., only_complete: bool = ...) -> Sequence[Run]: ...

class AsyncValues:
    async def clusters(self, axis: str | None = ...) -> Sequence[AxisClusters]: ...
    async def members(self, cluster_id: str, limit: int = ...) -> Sequence[Member]: ...
    async def validate(self, text: str, cluster_id: str) -> Validity: ...
    async def add(self, text: str, cluster_id: str, *, once: str = ...) -> Value: ...
    async def list(self, axis: str | None = ..., limit: int = ...) -> Sequence[Value]: ...
    async def forget(self, uid: str) -> str: ...

class AsyncHarken:
    archive: AsyncArchive
    assembler: AsyncContextAssembler
    background: AsyncBackground
    bench: AsyncBench
    chat: AsyncChat
    chats: AsyncChats
    code: AsyncCodeIndex
    commits: AsyncCommitIndex
    core: AsyncCoreMemory
    feedback: AsyncFeedback
    labels: AsyncLabels
    documents: AsyncDocumentIndex
    experiences: AsyncExperiences
    maintenance: AsyncMaintenance
    memories: AsyncMemories
    rules: AsyncRules
    topics: AsyncTopics
    webhooks: AsyncWebhooks
    run_time: AsyncRunTimeSettings
    sources: AsyncSourceSearcher
    tasks: AsyncTasks
    values: AsyncValues
    def __init__(
        self,
        home: str | Path | None = ...,
        *,
        settings: Mapping[str, Any] | None = ...,
        embedder: Embedder | None = ...,
        reranker: Reranker | None = ...,
        env: Mapping[str, str] | None = ...,
        on_replay: Callable[[int, int], None] = ...,
        now: Callable[[], datetime] = ...,
        store: Store | None = ...,
        beside: Parts | None = ...,
    ) -> None: ...
    async def record_message(
        self,
        conversation: str,
        role: Role | str,
        text: str,
        *,
        channel: str = ...,
        author: str | None = ...,
        type: MessageType | str = ...,
        call_id: str | None = ...,
        tool_name: str | None = ...,
        directory: str | Path | None = ...,
        trust: Trust | None = ...,
        metadata: Mapping[str, Any] | None = ...,
        once: str | None = ...,
    ) -> Message: ...
    async def end_exchange(
        self, conversation: str, status: ExchangeStatus | str = ..., *, channel: str = ..., error: str | None = ...
    ) -> None: ...
    async def new_segment(self, conversation: str, *, channel: str = ...) -> Segment: ...
    async def run_task(
        self, name: str, message: str, answer: TasksAnswer | None = ..., deliver: str | None = ..., *, system: str = ...
    ) -> TaskRun: ...
    async def transcript_formats(self) -> dict[str, TranscriptFormat]: ...
    async def import_transcripts(
        self,
        format_name: str,
        paths: Sequence[str | Path],
        *,
        progress: Callable[[ImporterProgress], None] = ...,
        report: ImportReport | None = ...,
        as_mine: bool = ...,
        is_live: bool = ...,
    ) -> ImportReport: ...
    async def embed(self, progress: Callable[[int, int], None] = ..., patient: bool = ...) -> int: ...
    async def start_worker(self) -> Worker | None: ...
    async def build_context(
        self,
        session: str | ContextSession,
        pending: Sequence[Pending],
        is_subagent: bool = ...,
        task_name: str | None = ...,
        *,
        channel: str = ...,
        budget_tokens: int | None = ...,
        system_prompt: str | None = ...,
        include_untrusted: bool = ...,
        directory: str | Path | None = ...,
    ) -> ChatContext: ...
    async def assemble_context(
        self,
        query: str,
        context_types: Sequence[str],
        limit: int = ...,
        max_tokens: int = ...,
        *,
        include_untrusted: bool = ...,
        project: str | None = ...,
        directory: str | Path | None = ...,
    ) -> FormattedContext: ...
    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = ...,
        limit: int = ...,
        max_tokens: int = ...,
        about: str = ...,
        *,
        project: str | None = ...,
        directory: str | Path | None = ...,
    ) -> FormattedContext: ...
    async def auto_rag(
        self, session: str | ContextSession, query: str, *, channel: str = ..., excluded: Sequence[str] = ...
    ) -> Recall: ...
    async def search(
        self,
        query: str,
        *,
        scope: SearchScope | None = ...,
        limit: int | None = ...,
        mode: str = ...,
        rerank: bool | None = ...,
        directory: str | Path | None = ...,
        conversation: str | None = ...,
        threshold: float | None = ...,
    ) -> SearchResult: ...
    async def show(self, uid: str, reach: int = ...) -> Surroundings: ...
    async def close(self) -> None: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def home(self) -> Path: ...
    @property
    def engine(self) -> Harken: ...
    @property
    def loaded(self) -> LoadedSettings: ...
    @property
    def replayed(self) -> Replayed: ...
    async def open(self) -> Self: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_error: object) -> None: ...
