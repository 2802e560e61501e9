"""An event loop in a thread of its own, so that plain functions can use clients that are asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")
_PATIENCE_SECONDS = 5.0
# A queue and an event cannot be waited for together; nobody notices so little.
_STOP_POLL_SECONDS = 0.05


class LoopThread:
    """Runs coroutines for any thread, whether or not that thread has a loop of its own.

    One loop for all calls keeps the connections of an asynchronous client usable: they belong to the loop in which
    they were opened.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result; it is cancelled when the waiting thread is interrupted."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            return future.result()
        finally:
            future.cancel()

    def iterate(self, source: Callable[[], AsyncIterator[_T]], stop: threading.Event | None = None) -> Iterator[_T]:
        """The items as they come; closing the iterator, or setting `stop`, cancels the source and ends it."""
        arrived: SimpleQueue[tuple[_T] | None] = SimpleQueue()

        async def pump() -> None:
            async for item in source():
                arrived.put((item,))

        future = asyncio.run_coroutine_threadsafe(pump(), self._started())
        # Not at the end of the pump: one that is cancelled before it begins never gets there.
        future.add_done_callback(lambda _done: arrived.put(None))
        try:
            while (item := _next(arrived, stop)) is not None:
                yield item[0]
            if stop is None or not stop.is_set():
                future.result()
        finally:
            future.cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what is still running, run `last` in the loop, end the thread. A second time does nothing."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        if thread is threading.current_thread():
            # Its owner was collected while the loop ran: waiting here would be waiting for oneself.
            loop.stop()
            return
        try:
            asyncio.run_coroutine_threadsafe(_finish(last), loop).result(_PATIENCE_SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE_SECONDS)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A process that was forked has the object without its thread.
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _next(arrived: SimpleQueue[tuple[_T] | None], stop: threading.Event | None) -> tuple[_T] | None:
    """What arrives next; None at the end, and once it is stopped."""
    if stop is None:
        return arrived.get()
    while not stop.is_set():
        try:
            return arrived.get(timeout=_STOP_POLL_SECONDS)
        except Empty:
            continue
    return None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last()
