"""Who is answered next where more is asked for than the processors can do at once: who reads before who writes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_AT_ONCE = max(2, os.cpu_count() or 1)
# A write is put off by what is asked to be read within so many seconds of it, and by nothing that comes later.
_PATIENCE_SECONDS = 1.0
# What takes longer mostly waits for something else than a processor: a lock, a model, an endpoint.
_LONGEST_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class Turns:
    """Lets so many calls in at once; of those that wait, the one that is due first. Event loops may share it.

    Forty calls that are answered side by side all take as long as the forty take; in turn, half of that on average.

    Args:
        at_once: how many.
        longest_seconds: a call that takes longer goes on, and another one begins.
    """

    at_once: int = _AT_ONCE
    longest_seconds: float = _LONGEST_SECONDS
    _inside: int = field(default=0, init=False)
    _waiting: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list, init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @asynccontextmanager
    async def taken(self, is_read: bool) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the end or for the longest time that one lasts."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._inside < self.at_once:
                self._inside += 1
                turn.set_result(None)
            else:
                due = loop.time() + (0.0 if is_read else _PATIENCE_SECONDS)
                heapq.heappush(self._waiting, (due, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._pass_on()

        longest = loop.call_later(self.longest_seconds, end)
        try:
            yield
        finally:
            longest.cancel()
            end()

    def _pass_on(self) -> None:
        with self._lock:
            if not self._waiting:
                self._inside -= 1
                return
            turn = heapq.heappop(self._waiting)[2]
        try:
            turn.get_loop().call_soon_threadsafe(self._give, turn)
        except RuntimeError:
            # Its loop has ended, and nobody waits there any more.
            self._pass_on()

    def _give(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self._pass_on()
        else:
            turn.set_result(None)
