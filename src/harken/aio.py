"""AsyncHarken: every verb of Harken, awaited; each call runs in a worker thread, so no event loop waits for a disk."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import anyio
import anyio.to_thread

from harken.chat.tasks import Tasks
from harken.chat.turn import Chat
from harken.config.settings import LoadedSettings, Settings
from harken.context.assembler import ContextAssembler
from harken.context.chats import Chats
from harken.engine import Harken
from harken.engine.maintenance import Maintenance
from harken.engine.runtime_settings import RunTimeSettings
from harken.errors import UsageError
from harken.jobs.workers import Background
from harken.journal.replay import Replayed
from harken.record.core_memory import CoreMemory
from harken.sources.experiences.experiences import Experiences
from harken.sources.experiences.values import Values
from harken.sources.memories.memories import Memories
from harken.sources.searches import SourceSearcher
from harken.sources.workspace.code import CodeIndex
from harken.sources.workspace.commits import CommitIndex
from harken.sources.workspace.documents import DocumentIndex

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Part = TypeVar("Part")
_END: Any = object()


class Calls:
    """Runs calls in worker threads, and knows which are under way: what nobody awaits any more ends all the same."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._closed = False

    async def run(self, call: Callable[[], Result]) -> Result:
        """The call's result.

        A task that is cancelled goes on at once; what it had begun is done whole, or not at all, behind its back.

        Raises:
            UsageError: `finish` was called before.
        """
        return await anyio.to_thread.run_sync(self._counted, call, abandon_on_cancel=True)

    def finish(self) -> None:
        """Let no call begin any more, and wait in this thread for those that have."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._running == 0)

    def _counted(self, call: Callable[[], Result]) -> Result:
        with self._changed:
            if self._closed:
                raise UsageError("This AsyncHarken is closed. Open another one: async with AsyncHarken(…) as harken")
            self._running += 1
        try:
            return call()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()


class Twin(Generic[Part]):
    """Something whose verbs are awaited.

    Args:
        part: gives what has the verbs.
        calls: runs them.
    """

    def __init__(self, part: Callable[[], Part], calls: Calls) -> None:
        self._part = part
        self._calls = calls


def in_thread(
    verb: Callable[Concatenate[Part, Parameters], Result],
) -> Callable[Concatenate[Twin[Part], Parameters], Coroutine[Any, Any, Result]]:
    """A verb's twin that is awaited. What it calls back, it calls in its worker thread."""

    @wraps(verb)
    async def twin(self: Twin[Part], /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await self._calls.run(partial(verb, self._part(), *args, **kwargs))

    return twin


def in_steps(
    verb: Callable[Concatenate[Part, Parameters], Iterator[Result]],
) -> Callable[Concatenate[Twin[Part], Parameters], AsyncGenerator[Result, None]]:
    """The twin of a verb that yields as it works: an async iterator, each step in a worker thread."""

    @wraps(verb)
    async def twin(
        self: Twin[Part], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> AsyncGenerator[Result, None]:
        steps = verb(self._part(), *args, **kwargs)
        # A step that nobody awaits any more is still being taken when the iterator is closed.
        one_at_a_time = threading.Lock()

        def take() -> Result:
            with one_at_a_time:
                return next(steps, _END)

        def close() -> None:
            with one_at_a_time:
                getattr(steps, "close", lambda: None)()

        try:
            while (step := await self._calls.run(take)) is not _END:
                yield step
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(close)

    return twin


CallParameters = ParamSpec("CallParameters")


def _opened_like(
    opening: Callable[Concatenate[Harken, CallParameters], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, CallParameters], None]]:
    """Gives a constructor the parameters of another."""
    return wraps(opening)


class AsyncUpkeep(Twin[Maintenance]):
    """What a store needs now and then; reached as `AsyncHarken.maintenance`."""

    status = in_thread(Maintenance.status)
    projects = in_thread(Maintenance.projects)
    failures = in_thread(Maintenance.failures)
    retry_failed = in_thread(Maintenance.retry_failed)
    doctor = in_thread(Maintenance.doctor)
    reindex_from_journal = in_steps(Maintenance.reindex_from_journal)
    plan_embedding = in_thread(Maintenance.plan_embedding)
    embed_again = in_thread(Maintenance.embed_again)
    plan_forget = in_thread(Maintenance.plan_forget)
    forget = in_thread(Maintenance.forget)
    backup = in_thread(Maintenance.backup)
    export = in_thread(Maintenance.export)


class AsyncTasks(Twin[Tasks]):
    """Scheduled tasks; reached as `AsyncHarken.tasks`."""

    run = in_thread(Tasks.run)
    context = in_thread(Tasks.context)
    list = in_thread(Tasks.list)
    history = in_thread(Tasks.history)


class AsyncCoreMemory(Twin[CoreMemory]):
    """Core memory; reached as `AsyncHarken.core`."""

    list = in_thread(CoreMemory.list)
    get = in_thread(CoreMemory.get)
    update = in_thread(CoreMemory.update)
    delete = in_thread(CoreMemory.delete)


class AsyncMemories(Twin[Memories]):
    """Saved memories; reached as `AsyncHarken.memories`."""

    add = in_thread(Memories.add)
    list = in_thread(Memories.list)
    get = in_thread(Memories.get)
    search = in_thread(Memories.search)
    edit = in_thread(Memories.edit)
    forget = in_thread(Memories.forget)
    merge = in_thread(Memories.merge)


class AsyncExperiences(Twin[Experiences]):
    """The life cycle of experiences; reached as `AsyncHarken.experiences`."""

    start = in_thread(Experiences.start)
    update = in_thread(Experiences.update)
    resolve = in_thread(Experiences.resolve)
    active = in_thread(Experiences.active)
    adopt = in_thread(Experiences.adopt)
    list = in_thread(Experiences.list)
    show = in_thread(Experiences.show)
    forget = in_thread(Experiences.forget)
    review = in_thread(Experiences.review)
    accept = in_thread(Experiences.accept)
    dismiss = in_thread(Experiences.dismiss)


class AsyncValues(Twin[Values]):
    """Clusters and values; reached as `AsyncHarken.values`."""

    clusters = in_thread(Values.clusters)
    members = in_thread(Values.members)
    validate = in_thread(Values.validate)
    add = in_thread(Values.add)
    list = in_thread(Values.list)
    forget = in_thread(Values.forget)


class AsyncSourceSearcher(Twin[SourceSearcher]):
    """Searches of single sources; reached as `AsyncHarken.sources`."""

    search_memories = in_thread(SourceSearcher.search_memories)
    search_code = in_thread(SourceSearcher.search_code)
    search_experiences = in_thread(SourceSearcher.search_experiences)
    search_values = in_thread(SourceSearcher.search_values)
    search_commits = in_thread(SourceSearcher.search_commits)
    search_documents = in_thread(SourceSearcher.search_documents)
    are_present = in_thread(SourceSearcher.are_present)
    records = in_thread(SourceSearcher.records)


class AsyncContextAssembler(Twin[ContextAssembler]):
    """Contexts; reached as `AsyncHarken.assembler`."""

    assemble_context = in_thread(ContextAssembler.assemble_context)
    get_premortem_context = in_thread(ContextAssembler.get_premortem_context)


class AsyncCodeIndex(Twin[CodeIndex]):
    """Units of code; reached as `AsyncHarken.code`."""

    index = in_thread(CodeIndex.index)
    search = in_thread(CodeIndex.search)
    similar = in_thread(CodeIndex.similar)


class AsyncCommitIndex(Twin[CommitIndex]):
    """The history of repositories; reached as `AsyncHarken.commits`."""

    index = in_thread(CommitIndex.index)
    search = in_thread(CommitIndex.search)
    history = in_thread(CommitIndex.history)
    churn = in_thread(CommitIndex.churn)
    authors = in_thread(CommitIndex.authors)


class AsyncDocumentIndex(Twin[DocumentIndex]):
    """Passages of documents; reached as `AsyncHarken.documents`."""

    index = in_thread(DocumentIndex.index)
    search = in_thread(DocumentIndex.search)


class AsyncChats(Twin[Chats]):
    """Contexts of chats; reached as `AsyncHarken.chats`."""

    session = in_thread(Chats.session)
    find = in_thread(Chats.find)
    build = in_thread(Chats.build)
    recall = in_thread(Chats.recall)
    past = in_thread(Chats.past)
    past_log = in_thread(Chats.past_log)
    summarize = in_thread(Chats.summarize)
    work = in_thread(Chats.work)
    newest = in_thread(Chats.newest)
    task_context = in_thread(Chats.task_context)
    titles = in_thread(Chats.titles)


class AsyncChat(Twin[Chat]):
    """Talks with the configured model; reached as `AsyncHarken.chat`."""

    begin = in_thread(Chat.begin)
    context = in_thread(Chat.context)
    turn = in_thread(Chat.turn)

    @property
    def model_name(self) -> str | None:
        """Vendor and model that answer; None where no model is configured."""
        return self._part().model_name


class AsyncBackground(Twin[Background]):
    """Background work; reached as `AsyncHarken.background`."""

    embed = in_thread(Background.embed)
    summarize = in_thread(Background.summarize)
    start = in_thread(Background.start)
    stop = in_thread(Background.stop)
    wake = in_thread(Background.wake)
    hold = in_thread(Background.hold)
    switch = in_thread(Background.switch)
    status = in_thread(Background.status)
    is_summarizing = in_thread(Background.is_summarizing)
    vectors = in_thread(Background.vectors)


class AsyncRunTimeSettings(Twin[RunTimeSettings]):
    """Settings set at run time; reached as `AsyncHarken.run_time`."""

    load = in_thread(RunTimeSettings.load)
    refresh = in_thread(RunTimeSettings.refresh)
    get = in_thread(RunTimeSettings.get)
    set = in_thread(RunTimeSettings.set)
    unset = in_thread(RunTimeSettings.unset)


class AsyncHarken(Twin[Harken]):
    """Harken for programs with an event loop: `async with AsyncHarken(home) as harken`.

    Takes what `Harken` takes, opens with the block, and has the same verbs, each awaited; those that yield are async
    iterators. Any number of tasks may use it at once. What a verb is given to call back (`progress`, a task's `answer`)
    it calls in its worker thread; from there `anyio.from_thread.run` reaches the event loop.

    A task that is cancelled goes on at once, and what was acknowledged stays. What it had begun goes on to its own end,
    and closing waits for that.
    """

    @_opened_like(Harken.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._opening = partial(Harken, *args, **kwargs)
        self._opened: Harken | None = None
        super().__init__(lambda: self.engine, Calls())
        self.maintenance = AsyncUpkeep(lambda: self.engine.maintenance, self._calls)
        self.chats = AsyncChats(lambda: self.engine.chats, self._calls)
        self.chat = AsyncChat(lambda: self.engine.chat, self._calls)
        self.background = AsyncBackground(lambda: self.engine.background, self._calls)
        self.run_time = AsyncRunTimeSettings(lambda: self.engine.run_time, self._calls)
        self.core = AsyncCoreMemory(lambda: self.engine.core, self._calls)
        self.memories = AsyncMemories(lambda: self.engine.memories, self._calls)
        self.experiences = AsyncExperiences(lambda: self.engine.experiences, self._calls)
        self.values = AsyncValues(lambda: self.engine.values, self._calls)
        self.sources = AsyncSourceSearcher(lambda: self.engine.sources, self._calls)
        self.assembler = AsyncContextAssembler(lambda: self.engine.assembler, self._calls)
        self.code = AsyncCodeIndex(lambda: self.engine.code, self._calls)
        self.commits = AsyncCommitIndex(lambda: self.engine.commits, self._calls)
        self.documents = AsyncDocumentIndex(lambda: self.engine.documents, self._calls)
        self.tasks = AsyncTasks(lambda: self.engine.tasks, self._calls)

    record_message = in_thread(Harken.record_message)
    end_exchange = in_thread(Harken.end_exchange)
    new_segment = in_thread(Harken.new_segment)
    run_task = in_thread(Harken.run_task)
    transcript_formats = in_thread(Harken.transcript_formats)
    import_transcripts = in_thread(Harken.import_transcripts)
    embed = in_thread(Harken.embed)
    start_worker = in_thread(Harken.start_worker)
    build_context = in_thread(Harken.build_context)
    assemble_context = in_thread(Harken.assemble_context)
    get_premortem_context = in_thread(Harken.get_premortem_context)
    auto_rag = in_thread(Harken.auto_rag)
    search = in_thread(Harken.search)
    show = in_thread(Harken.show)

    @property
    def engine(self) -> Harken:
        """The Harken underneath, whose verbs block.

        Raises:
            UsageError: it is not open.
        """
        if self._opened is None:
            raise UsageError("This AsyncHarken is not open: async with AsyncHarken(…) as harken, or await open().")
        return self._opened

    @property
    def loaded(self) -> LoadedSettings:
        """The settings in force, each with its origin."""
        return self.engine.loaded

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.engine.settings

    @property
    def home(self) -> Path:
        """Where everything is kept."""
        return self.engine.home

    @property
    def replayed(self) -> Replayed:
        """What opening brought from the journal into the database."""
        return self.engine.replayed

    async def open(self) -> Self:
        """Open everything; see `Harken` for what it raises."""
        try:
            await self._calls.run(self._open)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Wait for what is under way, stop the worker, keep what was derived, give everything back."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> None:
        if self._opened is None:
            self._opened = self._opening()

    def _close(self) -> None:
        self._calls.finish()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
