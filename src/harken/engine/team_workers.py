"""Background work in all spaces of a team: whoever has something to do is served in turn, one batch at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from harken.errors import HarkenError, NotFoundError
from harken.jobs.job import Worker
from harken.jobs.workers import EMBEDDINGS, WORKERS
from harken.log import Log
from harken.model.team import COMMON, TeamSpace
from harken.record.forget import plan_messages, plan_saved
from harken.storage.conversations import messages_before
from harken.storage.enrichment.webhooks import DELIVER
from harken.storage.records.rows import kept_before

if TYPE_CHECKING:
    from harken.engine.engine import Harken

_SUMMARIES = tuple(name for name in WORKERS if name != EMBEDDINGS)
# A space is looked at when its work is signalled, and for as long afterwards as summaries may fall due; all of them now
# and then, for a signal may have been lost.
_POLL_SECONDS, _RECENT_SECONDS, _EVERY_SECONDS = 5.0, 3600.0, 600.0
_LOOKED_AGAIN_SECONDS = 30.0
# What falls due by time alone is not looked for after each message, nor without a pause: looking through forty spaces
# in which people talk takes seconds, and a tenth of the time is enough for it.
_PATIENCE_SECONDS, _MOST_PATIENCE_SECONDS, _LOOKING_SHARE = 5.0, 60.0, 0.1
# One VACUUM frees what all spaces have forgotten since the last one.
_RETAINED_EVERY_SECONDS = 600.0
_KEPT_SOURCES = ("memory", "experience", "value")
_FORGOTTEN_AT_ONCE = 1000

_log = Log(__name__)


@dataclass(slots=True, eq=False)
class SpacesWork:
    """One kind of work in all spaces, of which each is served one batch in its turn.

    Args:
        name: of the work, for the log.
        kinds: the workers whose work it is.
        opened: opens a space.
        spaces: lists all of them.
        beside: called while nothing is to be done.
        patience_seconds: how long signals are gathered, at the least, before their spaces have a turn.
        share: of its time that it works where signals come all the while.
    """

    name: str
    kinds: Collection[str]
    opened: Callable[[TeamSpace], Harken]
    spaces: Callable[[], Sequence[TeamSpace]]
    beside: Callable[[], None] = lambda: None
    patience_seconds: float = 0.0
    share: float = 1.0
    blocked_reason: str = field(default="", init=False)
    is_drained: bool = field(default=False, init=False)
    _turns: dict[str, TeamSpace] = field(default_factory=dict, init=False)
    _heard: dict[str, tuple[TeamSpace, float]] = field(default_factory=dict, init=False)
    _signalled: dict[str, TeamSpace] = field(default_factory=dict, init=False)
    _signalled_at: float = field(default=0.0, init=False)
    _spent: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _looked_at: float = field(default=-_EVERY_SECONDS, init=False)
    _again_at: float = field(default=0.0, init=False)

    def hear(self, space: TeamSpace | None) -> None:
        """There is work in a space; None: in any of them, for signals may have been lost."""
        if space is None:
            self._looked_at = -_EVERY_SECONDS
            return
        with self._lock:
            self._heard[space.id] = space, time.monotonic()
            self._signalled.setdefault(space.id, space)

    def run_once(self) -> int:
        """Do one batch in the space whose turn it is; how many items were taken on, 0 where nobody waits."""
        self._look()
        while True:
            with self._lock:
                if not self._turns:
                    break
                space = self._turns.pop(next(iter(self._turns)))
            began = time.monotonic()
            done, is_drained = self._batch(space)
            self._spent += time.monotonic() - began
            if done:
                if not is_drained:
                    with self._lock:
                        self._turns.setdefault(space.id, space)
                return done
        self.beside()
        return 0

    def _batch(self, space: TeamSpace) -> tuple[int, bool]:
        """How many items were taken on in a space, and whether these were all."""
        try:
            background = self.opened(space).background
            works = [background.work_of(kind) for kind in self.kinds if background.has(kind)]
            return sum(work.run_once() for work in works), all(work.is_drained for work in works)
        except HarkenError as error:
            # The next space may fare better; this one is looked at again with its next signal.
            _log.warning("space_work_failed", work=self.name, error_class=type(error).__name__)
            return 0, False

    def _look(self) -> None:
        """Let all spaces have a turn now and then, and sooner those in which something was said."""
        now = time.monotonic()
        if now - self._signalled_at >= max(
            self.patience_seconds, min(self._spent / self.share, _MOST_PATIENCE_SECONDS)
        ):
            with self._lock:
                for space in self._signalled.values():
                    self._turns.setdefault(space.id, space)
                self._signalled, self._signalled_at, self._spent = {}, now, 0.0
        if now - self._looked_at >= _EVERY_SECONDS:
            self._looked_at = now
            found = self.spaces()
        elif now - self._again_at >= _LOOKED_AGAIN_SECONDS:
            self._again_at = now
            with self._lock:
                self._heard = {uid: heard for uid, heard in self._heard.items() if now - heard[1] < _RECENT_SECONDS}
                found = [space for space, _ in self._heard.values()]
        else:
            return
        with self._lock:
            for space in found:
                self._turns.setdefault(space.id, space)

    def waiting(self) -> int:
        """How many spaces wait for their turn."""
        return len(self._turns.keys() | self._signalled.keys())

    def give_back(self) -> None:
        """No-op: every batch is finished, or given back by itself."""


@dataclass(slots=True, eq=False)
class TeamWorkers:
    """Embeds and summarizes in all spaces of a team, and forgets there what is kept no longer.

    Args:
        team: its name.
        listen: calls what it is given with the tenant of each space in which work is left.
        retain: forgets what is older than its space keeps it, and frees what was forgotten.
    """

    team: str
    opened: Callable[[TeamSpace], Harken]
    spaces: Callable[[], Sequence[TeamSpace]]
    listen: Callable[[Callable[[str], None]], Callable[[], None]]
    retain: Callable[[], int]
    _workers: list[Worker] = field(default_factory=list, init=False)
    _works: list[SpacesWork] = field(default_factory=list, init=False)
    _stop_listening: Callable[[], None] | None = field(default=None, init=False)
    _retained_at: float = field(default=-_RETAINED_EVERY_SECONDS, init=False)

    def start(self) -> None:
        """Begin; what is begun already goes on."""
        if self._workers:
            return
        ports = self.opened, self.spaces
        self._works = [
            SpacesWork("team-embeddings", (EMBEDDINGS,), *ports),
            SpacesWork("team-summaries", _SUMMARIES, *ports, self._retain, _PATIENCE_SECONDS, _LOOKING_SHARE),
            SpacesWork("team-webhooks", (DELIVER,), *ports),
        ]
        self._workers = [Worker(work, _POLL_SECONDS) for work in self._works]
        self._stop_listening = self.listen(self._hear)
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Finish the batches in hand and end."""
        if self._stop_listening is not None:
            self._stop_listening()
        for worker in self._workers:
            worker.stop()
        self._workers, self._works, self._stop_listening = [], [], None

    def _hear(self, tenant: str) -> None:
        team, _, space = tenant.partition("/")
        if team in ("", self.team):
            for work in self._works:
                work.hear(TeamSpace(space or COMMON, team, "") if team else None)
            for worker in self._workers:
                worker.wake()

    def _retain(self) -> None:
        if time.monotonic() - self._retained_at >= _RETAINED_EVERY_SECONDS:
            self._retained_at = time.monotonic()
            self.retain()


def retain(harken: Harken, days: int, now: datetime) -> int:
    """Forget what was said, or saved and not changed since, more than so many days ago; how many records that was."""
    before, count = now - timedelta(days=days), 0
    while True:
        with harken.store.reading() as tx:
            uids = messages_before(tx, before, _FORGOTTEN_AT_ONCE)
            plan = plan_messages(tx, uids, now) if uids else None
        if plan is None:
            break
        try:
            harken.maintenance.forget(plan)
        except NotFoundError:
            continue
        count += len(uids)
    for source in _KEPT_SOURCES:
        with harken.store.reading() as tx:
            uids = [each.uid for each in plan_saved(tx, source, kept_before(tx, source, before), now).tombstones]
        if uids:
            harken.recorder.forget(source, uids)
            count += len(uids)
    return count
