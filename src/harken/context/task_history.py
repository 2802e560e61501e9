"""What a task did before: its last runs, from the journal where there is one, else from the rows.

Source: seed TASK-007b, component 3; design.md section 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from harken.errors import JournalError
from harken.journal.journal import Journal
from harken.log import Log
from harken.model.conversations import (
    TASK_CHANNEL,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    MessageType,
    Role,
    Tombstone,
    Trust,
    Trusted,
)
from harken.record.ids import conversation_uid
from harken.storage.conversations import messages_of_exchange, tombstones_of
from harken.storage.past import newest_exchanges
from harken.storage.ports import Store, Transaction

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a task: what it was asked, what it did, what it answered.

    Attributes:
        uid: the exchange's id.
        ended_at: None while it goes on, or where the process died.
        error: why it failed.
        messages: oldest first; without what was forgotten.
    """

    uid: str
    status: ExchangeStatus
    started_at: datetime
    ended_at: datetime | None
    error: str | None
    messages: tuple[Message, ...]

    @property
    def answer(self) -> str | None:
        """The assistant's last words; None where the run does not end with them."""
        last = self.messages[-1] if self.messages else None
        return last.text if last and last.role is Role.ASSISTANT and last.type is MessageType.TEXT else None

    @property
    def is_complete(self) -> bool:
        """Whether it came to its answer, did not fail, and is no stranger's, of which nothing is to be learned."""
        is_own = all(message.trust is not Trust.IMPORTED for message in self.messages)
        return self.answer is not None and self.status is not ExchangeStatus.FAILED and is_own


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """The runs of tasks.

    Args:
        journal: None where the database itself is the truth.
    """

    store: Store
    journal: Journal | None

    def last_runs(self, name: str, count: int, only_complete: bool = True) -> list[Run]:
        """The last runs of a task, oldest first; empty for one that never ran.

        Args:
            name: the task's, as it is kept.
            count: how many at most.
            only_complete: pass over those that failed, died or still go on, the last one as well.
        """
        uid = conversation_uid(TASK_CHANNEL, name)
        with self.store.reading() as tx:
            if self.journal is None:
                found = (run for run in _from_rows(tx, uid) if run.is_complete or not only_complete)
                return list(islice(found, count))[::-1]
            forgotten = {grave.uid for grave in tombstones_of(tx, uid)}
        return _from_journal(self.journal, uid, count, only_complete, forgotten)


def _from_rows(tx: Transaction, uid: str) -> Iterator[Run]:
    for begun in newest_exchanges(tx, uid):
        spoken = tuple(messages_of_exchange(tx, begun.uid))
        yield Run(begun.uid, begun.status, begun.started_at, begun.completed_at, begun.error, spoken)


def _from_journal(journal: Journal, uid: str, count: int, only_complete: bool, forgotten: set[str]) -> list[Run]:
    """Reads back from the newest day, no further than it must: a task may have run every hour for years."""
    found = _Gathered(forgotten)
    for path, _ in reversed(journal.files(uid)):
        found.take(list(_events(journal, path)))
        # A run may have begun on an earlier day than it ended.
        whole = [run for run in found.runs(only_begun=True) if run.is_complete or not only_complete]
        if len(whole) >= count:
            return whole[-count:]
    return [run for run in found.runs() if run.is_complete or not only_complete][-count:]


def _events(journal: Journal, path: str) -> Iterator[Event]:
    for event, offset in journal.read(path):
        if event is None:
            _log.warning("task_line_skipped", file=path, offset=offset, error_class=JournalError.__name__)
        else:
            yield event


@dataclass(slots=True)
class _Gathered:
    """What the files read so far hold, the newest file first.

    Attributes:
        spoken: by run, oldest first.
        raised: messages that came as `imported` and are the owner's after all.
    """

    forgotten: set[str]
    begun: dict[str, Exchange] = field(default_factory=dict)
    ends: dict[str, ExchangeEnd] = field(default_factory=dict)
    spoken: dict[str, list[Message]] = field(default_factory=dict)
    raised: dict[str, Trust] = field(default_factory=dict)

    def take(self, events: list[Event]) -> None:
        """Add what an earlier day's file holds."""
        spoken: dict[str, list[Message]] = {}
        for event in events:
            if isinstance(event, Tombstone):
                self.forgotten.add(event.uid)
            elif isinstance(event, Trusted):
                self.raised[event.uid] = event.trust
            elif isinstance(event, Exchange):
                self.begun[event.uid] = event
            elif isinstance(event, ExchangeEnd):
                known = self.ends.get(event.exchange_uid, event)
                self.ends[event.exchange_uid] = event if known.at <= event.at else known
            elif isinstance(event, Message):
                spoken.setdefault(event.exchange_uid, []).append(event)
        for uid, earlier in spoken.items():
            self.spoken[uid] = earlier + self.spoken.get(uid, [])

    def runs(self, only_begun: bool = False) -> list[Run]:
        """What is known of each run, oldest first; `only_begun` leaves out those that began in a file not yet read."""
        found = []
        for uid in self.begun if only_begun else {**self.begun, **self.spoken}:
            messages = {
                message.uid: replace(message, trust=self.raised.get(message.uid, message.trust))
                for message in self.spoken.get(uid, [])
                if message.uid not in self.forgotten
            }
            begun, end = self.begun.get(uid), self.ends.get(uid)
            started = begun.started_at if begun else self.spoken[uid][0].created_at
            status, at, error = (end.status, end.at, end.error) if end else (ExchangeStatus.IN_PROGRESS, None, None)
            run = Run(uid, status, started, at, error, tuple(messages.values()))
            found.append((started, begun.number if begun else 0, run))
        return [run for *_, run in sorted(found, key=lambda one: one[:2])]
