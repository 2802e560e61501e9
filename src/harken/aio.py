"""AsyncHarken: every verb of Harken, awaited; each call runs in a worker thread, so no event loop waits for a disk.

The verbs are those of the classes named here, whatever they are; their types stand in `aio.pyi`, which
`tools/async_stub.py` writes.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from functools import partial, wraps
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from harken.bench.bench import Bench
from harken.chat.tasks import Tasks
from harken.chat.turn import Chat
from harken.config.settings import LoadedSettings
from harken.context.assembler import ContextAssembler
from harken.context.chats import Chats
from harken.context.rules import Rules
from harken.engine import Harken
from harken.engine.archive import Archive
from harken.engine.maintenance import Maintenance
from harken.engine.runtime_settings import RunTimeSettings
from harken.errors import UsageError
from harken.jobs.webhooks import Webhooks
from harken.jobs.workers import Background
from harken.journal.journal import Replayed
from harken.record.core_memory import CoreMemory
from harken.record.feedback import Feedback
from harken.record.labels import Labels
from harken.sources.experiences.experiences import Experiences
from harken.sources.experiences.values import Values
from harken.sources.memories.memories import Memories
from harken.sources.searches import SourceSearcher
from harken.sources.topics.topics import Topics
from harken.sources.workspace.code import CodeIndex
from harken.sources.workspace.commits import CommitIndex
from harken.sources.workspace.documents import DocumentIndex

Result = TypeVar("Result")
_END: Any = object()
# What `Harken` is made of; each has a class here whose verbs are awaited.
PARTS: dict[str, type] = {
    "archive": Archive,
    "assembler": ContextAssembler,
    "background": Background,
    "bench": Bench,
    "chat": Chat,
    "chats": Chats,
    "code": CodeIndex,
    "commits": CommitIndex,
    "core": CoreMemory,
    "feedback": Feedback,
    "labels": Labels,
    "documents": DocumentIndex,
    "experiences": Experiences,
    "maintenance": Maintenance,
    "memories": Memories,
    "rules": Rules,
    "topics": Topics,
    "webhooks": Webhooks,
    "run_time": RunTimeSettings,
    "sources": SourceSearcher,
    "tasks": Tasks,
    "values": Values,
}


class Calls:
    """Runs calls in worker threads, and counts those under way: what nobody awaits any more ends all the same."""

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


class AsyncPart:
    """Has the public verbs of a part of Harken, or, without a name, of Harken itself, each awaited."""

    def __init__(self, engine: Callable[[], Harken], name: str, calls: Calls) -> None:
        self._engine = engine
        self._name = name
        self._calls = calls

    def __init_subclass__(cls, of: type) -> None:
        for name, member in inspect.getmembers_static(of):
            if name.startswith("_") or name in vars(cls):
                continue
            if isinstance(member, property):
                setattr(cls, name, _read(name, member))
            elif inspect.isgeneratorfunction(member):
                setattr(cls, name, _in_steps(member))
            elif inspect.isfunction(member):
                setattr(cls, name, _awaited(member))

    def _ready(self, verb: Callable[..., Result], *args: Any, **kwargs: Any) -> Callable[[], Result]:
        """The verb as a worker thread calls it; the part is opened there too."""
        engine = self._engine()
        return lambda: verb(getattr(engine, self._name) if self._name else engine, *args, **kwargs)


def _read(name: str, member: property) -> property:
    return property(lambda self: self._ready(getattr, name)(), doc=member.__doc__)


def _awaited(verb: Callable[..., Any]) -> Callable[..., Any]:
    """What the verb calls back, it calls in its worker thread."""

    @wraps(verb)
    async def call(self: AsyncPart, /, *args: Any, **kwargs: Any) -> Any:
        return await self._calls.run(self._ready(verb, *args, **kwargs))

    return call


def _in_steps(verb: Callable[..., Iterator[Any]]) -> Callable[..., AsyncGenerator[Any, None]]:
    """Each step is taken in a worker thread."""

    @wraps(verb)
    async def call(self: AsyncPart, /, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        begin = self._ready(verb, *args, **kwargs)

        def stepwise() -> Generator[Any, None, None]:
            yield from begin()

        steps = stepwise()
        # A step that nobody awaits any more is still being taken when the iterator is closed.
        one_at_a_time = threading.Lock()

        def take() -> Any:
            with one_at_a_time:
                return next(steps, _END)

        def close() -> None:
            with one_at_a_time:
                steps.close()

        try:
            while (step := await self._calls.run(take)) is not _END:
                yield step
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(close)

    return call


_ASYNC_PARTS: dict[str, type[AsyncPart]] = {
    name: type(f"Async{kind.__name__}", (AsyncPart,), {"__module__": __name__, "__doc__": kind.__doc__}, of=kind)
    for name, kind in PARTS.items()
}
# By their names they can be imported, for annotations.
globals().update({kind.__name__: kind for kind in _ASYNC_PARTS.values()})


class AsyncHarken(AsyncPart, of=Harken):
    """Harken for programs with an event loop: `async with AsyncHarken(home) as harken`.

    Takes what `Harken` takes, opens with the block, and has the same verbs, each awaited; those that yield are async
    iterators. Any number of tasks may use it at once. What a verb is given to call back (`progress`, a task's `answer`)
    it calls in its worker thread; from there `anyio.from_thread.run` reaches the event loop.

    A task that is cancelled goes on at once, and what was acknowledged stays. What it had begun goes on to its own end,
    and closing waits for that.
    """

    @wraps(Harken.__init__)  # type: ignore[misc] # its parameters, for whoever asks at run time
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._opening = partial(Harken, *args, **kwargs)
        self._opened: Harken | None = None
        self._turn = threading.Lock()
        super().__init__(lambda: self.engine, "", Calls())
        for name, kind in _ASYNC_PARTS.items():
            setattr(self, name, kind(self._engine, name, self._calls))

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

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def _open(self) -> None:
        with self._turn:
            self._opened = self._opened or self._opening()

    def _close(self) -> None:
        self._calls.finish()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
