"""Recording the runs of scheduled tasks: each is an exchange of its own, even while another is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harken.errors import NotFoundError
from harken.model import TASK_CHANNEL, Conversation, Event, Exchange, ExchangeEnd, ExchangeStatus, Message, Role, Trust
from harken.record.characters import sound
from harken.record.identity import conversation_uid
from harken.record.recorder import NewMessage, Recorder
from harken.record.threads import Thread, read_thread
from harken.storage.ingest import Ingest
from harken.storage.known import find_tombstones
from harken.storage.store import Transaction

_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a run's answer is said as well, and how.

    Attributes:
        task: who says it.
    """

    conversation_uid: str
    task: str
    text: str


@dataclass(slots=True)
class Runs:
    """Writes runs through a recorder, journal first."""

    recorder: Recorder

    def begin(self, name: str, request: str) -> tuple[Exchange, Message]:
        """Record what a task is asked, before anything answers: a run that dies leaves its request.

        Raises:
            NotFoundError: the task was forgotten.
        """
        uid = conversation_uid(TASK_CHANNEL, name)
        ready = self.recorder.prepare(uid, NewMessage(Role.USER, request))
        thread = Thread(uid)

        def opening(tx: Transaction, _ingest: Ingest) -> list[Event]:
            nonlocal thread
            thread = read_thread(tx, uid)
            if thread.title is None and find_tombstones(tx, [uid]):
                raise NotFoundError(f"The task {name} was forgotten; choose another name for a new one.")
            # Whatever exchange was the last: two runs of a task may overlap.
            thread.exchange = None
            asked = self.recorder.stamp(ready)
            head = Conversation(uid, TASK_CHANNEL, name, "", asked.created_at, asked.created_at)
            thread.place(asked)
            return [*([head] if thread.title is None else []), *thread.events]

        self.recorder.admit([uid], opening)
        assert thread.exchange is not None  # noqa: S101 - `place` has begun one
        return thread.exchange, thread.messages[0]

    def finish(
        self,
        run: Exchange,
        answers: Sequence[NewMessage],
        status: ExchangeStatus,
        error: str | None = None,
        delivery: Delivery | None = None,
    ) -> tuple[list[Message], ExchangeEnd, Message | None]:
        """Record what a run has brought and how it ended, and say it elsewhere, all in one transaction.

        Returns:
            The answers and the end as they were kept, and the message that was delivered.
        Raises:
            NotFoundError: the task, or the conversation to deliver to, was forgotten meanwhile.
        """
        uid = run.conversation_uid
        prepared = [self.recorder.prepare(uid, replace(answer, trust=_trust(answer))) for answer in answers]
        reason = None if error is None else self.recorder.redactor.redact(sound(error)).text[:_ERROR_CHARS]
        said: list[Message] = []
        ended: list[ExchangeEnd] = []
        delivered: list[Message] = []

        def closing(tx: Transaction, _ingest: Ingest) -> list[Event]:
            thread = read_thread(tx, uid)
            if thread.title is None:
                raise NotFoundError(f"{uid} was forgotten while it ran.")
            placed = [
                replace(message, segment_uid=run.segment_uid, exchange_uid=run.uid, position=thread.next_position())
                for message in prepared
            ]
            said.extend(self.recorder.stamp(message) for message in placed)
            ended.append(ExchangeEnd(run.uid, uid, status, self.recorder.now(), reason))
            elsewhere = [] if delivery is None else self._delivered(tx, delivery, run, delivered)
            return [*said, *ended, *elsewhere]

        self.recorder.admit([uid, *([delivery.conversation_uid] if delivery else [])], closing)
        return said, ended[0], delivered[0] if delivered else None

    def _delivered(self, tx: Transaction, delivery: Delivery, run: Exchange, delivered: list[Message]) -> list[Event]:
        thread = read_thread(tx, delivery.conversation_uid)
        if thread.title is None:
            raise NotFoundError(f"There is no conversation {delivery.conversation_uid}. Find one: harken search QUERY")
        facts = {"task": delivery.task, "run": run.uid}
        message = NewMessage(Role.ASSISTANT, delivery.text, author=delivery.task, trust=Trust.AGENT, metadata=facts)
        waits = thread.exchange is not None and thread.exchange.status is ExchangeStatus.IN_PROGRESS
        if not waits:
            # Nobody asked for it there, so it answers nothing that was asked before.
            thread.exchange = None
        thread.place(self.recorder.stamp(self.recorder.prepare(delivery.conversation_uid, message)))
        if not waits:
            thread.end(ExchangeStatus.COMPLETED)
        delivered.extend(thread.messages)
        return thread.events


def _trust(answer: NewMessage) -> Trust:
    return Trust.TOOL if answer.role is Role.TOOL else Trust.AGENT
