"""The last runs of a task, as a context shows them to the next one.

Source: seed TASK-007b, component 3; design.md section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from harken.model.conversations import TASK_CHANNEL, ExchangeStatus, Message, MessageType, Role, Trust
from harken.record.ids import conversation_uid
from harken.record.prepared import NewMessage
from harken.storage.conversations import messages_of_exchange
from harken.storage.past import newest_exchanges
from harken.storage.ports import Readable


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
        return last_words(self.messages)

    @property
    def is_complete(self) -> bool:
        """True where it came to its answer, did not fail, and is no stranger's, of which nothing is to be learned."""
        is_own = all(message.trust is not Trust.IMPORTED for message in self.messages)
        return self.answer is not None and self.status is not ExchangeStatus.FAILED and is_own


def last_words(messages: Sequence[Message | NewMessage]) -> str | None:
    """What the assistant said last; None where messages do not end with it."""
    last = messages[-1] if messages else None
    return last.text if last and last.role is Role.ASSISTANT and last.type is MessageType.TEXT else None


def last_runs(store: Readable, name: str, count: int, only_complete: bool = True) -> list[Run]:
    """The last runs of a task, oldest first; empty for one that never ran.

    Args:
        store: read back from the newest run, no further than it must: a task may have run every hour for years.
        name: the task's, as it is kept.
        count: how many at most.
        only_complete: pass over those that failed, died or still go on, the last one as well.
    """
    with store.reading() as tx:
        runs = (
            Run(one.uid, one.status, one.started_at, one.completed_at, one.error, (*messages_of_exchange(tx, one.uid),))
            for one in newest_exchanges(tx, conversation_uid(TASK_CHANNEL, name))
        )
        return list(islice((run for run in runs if run.is_complete or not only_complete), count))[::-1]
