"""AsyncHarken: every verb of Harken, awaited; each call runs in a worker thread, so no event loop waits for a disk.

The twins are made by two wrappers from the verbs themselves: names, signatures and documentation cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

import anyio
import anyio.to_thread

from harken.assemble.assembler import ContextAssembler
from harken.async_calls import Calls, Twin, in_steps, in_thread
from harken.background import Background
from harken.chat.orchestrator import Chat
from harken.chats import Chats
from harken.config import LoadedSettings, Settings
from harken.engine import Harken
from harken.errors import UsageError
from harken.index.code import CodeIndex
from harken.index.commits import CommitIndex
from harken.index.documents import DocumentIndex
from harken.record.core import CoreMemory
from harken.record.replay import Replayed
from harken.run_time import RunTimeSettings
from harken.sources.experiences import Experiences
from harken.sources.memories import Memories
from harken.sources.searcher import SourceSearcher
from harken.sources.values import Values
from harken.tasks import Tasks
from harken.upkeep import Upkeep

Parameters = ParamSpec("Parameters")


def _opened_like(
    opening: Callable[Concatenate[Harken, Parameters], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, Parameters], None]]:
    """Gives a constructor the parameters of another."""
    return wraps(opening)


class AsyncUpkeep(Twin[Upkeep]):
    """What a store needs now and then; reached as `AsyncHarken.upkeep`. See `harken.upkeep.Upkeep`."""

    status = in_thread(Upkeep.status)
    projects = in_thread(Upkeep.projects)
    failures = in_thread(Upkeep.failures)
    retry_failed = in_thread(Upkeep.retry_failed)
    doctor = in_thread(Upkeep.doctor)
    reindex_from_journal = in_steps(Upkeep.reindex_from_journal)
    plan_embedding = in_thread(Upkeep.plan_embedding)
    embed_again = in_thread(Upkeep.embed_again)
    plan_forget = in_thread(Upkeep.plan_forget)
    forget = in_thread(Upkeep.forget)
    backup = in_thread(Upkeep.backup)
    export = in_thread(Upkeep.export)


class AsyncTasks(Twin[Tasks]):
    """Scheduled tasks; reached as `AsyncHarken.tasks`. See `harken.tasks.Tasks`."""

    run = in_thread(Tasks.run)
    context = in_thread(Tasks.context)
    list = in_thread(Tasks.list)
    history = in_thread(Tasks.history)


class AsyncCoreMemory(Twin[CoreMemory]):
    """Core memory; reached as `AsyncHarken.core`. See `harken.record.core.CoreMemory`."""

    list = in_thread(CoreMemory.list)
    get = in_thread(CoreMemory.get)
    update = in_thread(CoreMemory.update)
    delete = in_thread(CoreMemory.delete)


class AsyncMemories(Twin[Memories]):
    """Saved memories; reached as `AsyncHarken.memories`. See `harken.sources.memories.Memories`."""

    add = in_thread(Memories.add)
    list = in_thread(Memories.list)
    get = in_thread(Memories.get)
    search = in_thread(Memories.search)
    edit = in_thread(Memories.edit)
    forget = in_thread(Memories.forget)
    merge = in_thread(Memories.merge)


class AsyncExperiences(Twin[Experiences]):
    """The life cycle of experiences; reached as `AsyncHarken.experiences`. See `harken.sources.experiences`."""

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
    """Clusters and values; reached as `AsyncHarken.values`. See `harken.sources.values`."""

    clusters = in_thread(Values.clusters)
    members = in_thread(Values.members)
    validate = in_thread(Values.validate)
    add = in_thread(Values.add)
    list = in_thread(Values.list)
    forget = in_thread(Values.forget)


class AsyncSourceSearcher(Twin[SourceSearcher]):
    """Searches of single sources; reached as `AsyncHarken.sources`. See `harken.sources.searcher.SourceSearcher`."""

    search_memories = in_thread(SourceSearcher.search_memories)
    search_code = in_thread(SourceSearcher.search_code)
    search_experiences = in_thread(SourceSearcher.search_experiences)
    search_values = in_thread(SourceSearcher.search_values)
    search_commits = in_thread(SourceSearcher.search_commits)
    search_documents = in_thread(SourceSearcher.search_documents)


class AsyncContextAssembler(Twin[ContextAssembler]):
    """Contexts; reached as `AsyncHarken.assembler`. See `harken.assemble.assembler.ContextAssembler`."""

    assemble_context = in_thread(ContextAssembler.assemble_context)
    get_premortem_context = in_thread(ContextAssembler.get_premortem_context)


class AsyncCodeIndex(Twin[CodeIndex]):
    """Units of code; reached as `AsyncHarken.code`. See `harken.index.code.CodeIndex`."""

    index = in_thread(CodeIndex.index)
    search = in_thread(CodeIndex.search)
    similar = in_thread(CodeIndex.similar)


class AsyncCommitIndex(Twin[CommitIndex]):
    """The history of repositories; reached as `AsyncHarken.commits`. See `harken.index.commits.CommitIndex`."""

    index = in_thread(CommitIndex.index)
    search = in_thread(CommitIndex.search)
    history = in_thread(CommitIndex.history)
    churn = in_thread(CommitIndex.churn)
    authors = in_thread(CommitIndex.authors)


class AsyncDocumentIndex(Twin[DocumentIndex]):
    """Passages of documents; reached as `AsyncHarken.documents`. See `harken.index.documents.DocumentIndex`."""

    index = in_thread(DocumentIndex.index)
    search = in_thread(DocumentIndex.search)


class AsyncChats(Twin[Chats]):
    """Contexts of chats; reached as `AsyncHarken.chats`. See `harken.chats.Chats`."""

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
    """Talks with the configured model; reached as `AsyncHarken.chat`. See `harken.chat.orchestrator.Chat`."""

    begin = in_thread(Chat.begin)
    context = in_thread(Chat.context)
    turn = in_thread(Chat.turn)

    @property
    def model_name(self) -> str | None:
        """Vendor and model that answer; None where no model is configured."""
        return self._part().model_name


class AsyncBackground(Twin[Background]):
    """Background work; reached as `AsyncHarken.background`. See `harken.background.Background`."""

    embed = in_thread(Background.embed)
    summarize = in_thread(Background.summarize)
    start = in_thread(Background.start)
    stop = in_thread(Background.stop)
    wake = in_thread(Background.wake)
    switch = in_thread(Background.switch)
    status = in_thread(Background.status)
    vectors = in_thread(Background.vectors)


class AsyncRunTimeSettings(Twin[RunTimeSettings]):
    """Settings set at run time; reached as `AsyncHarken.run_time`. See `harken.run_time.RunTimeSettings`."""

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
        self.upkeep = AsyncUpkeep(lambda: self.engine.upkeep, self._calls)
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
        self.assemble_context = self.assembler.assemble_context
        self.get_premortem_context = self.assembler.get_premortem_context
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
