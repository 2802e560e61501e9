"""Verbs that block, awaited: two wrappers make a verb's twin from the verb itself."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from harken.errors import UsageError

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
