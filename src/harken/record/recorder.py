"""The recorder: redact, append to the journal, write the rows in one transaction, wake the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import structlog

from harken.config.settings import RecordConfig
from harken.errors import HarkenError, NotFoundError, StoreError
from harken.journal.journal import Appended, Journal
from harken.journal.replay import replay_conversation
from harken.model.conversations import (
    CORE_MEMORY,
    EMPTY,
    Conversation,
    Event,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    SavedRecord,
    Segment,
    Titled,
    Trust,
)
from harken.record.ids import conversation_uid, derived_uid, new_uid
from harken.record.threads import Thread, read_thread
from harken.redact.redactor import CleanNames, Redactor
from harken.storage.conversations import find_known, find_tombstones, own_conversations, raised_trust
from harken.storage.enrichment.consent import last_exchange_numbers, note_imported
from harken.storage.events import Ingest
from harken.storage.ports import Store, Transaction
from harken.storage.state import REDACTED, journal_offset, put_journal_offset
from harken.storage.tables import messages
from harken.text.characters import sound_value, valid_utf8
from harken.text.fence import without_recall

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewConversation:
    """A conversation to record into; found again by channel and external id.

    Attributes:
        external_id: the id that the channel itself uses; within a channel it names one conversation.
        own_uid: the id under which it is kept, where it is kept already; else it is made of channel and external id.
    """

    channel: str
    external_id: str
    title: str = ""
    project: ProjectIdentity | None = None
    created_at: datetime | None = None
    parent_external_id: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    own_uid: str = ""

    @property
    def uid(self) -> str:
        """The id under which it is kept."""
        return self.own_uid or conversation_uid(self.channel, self.external_id)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to record.

    Attributes:
        created_at: None means now.
        origin: what makes the message itself where it was read from; None for one said now. Two messages of a
            conversation with the same origin, time and text are one.
        origin_at: the time that the origin states; None where it states none and `created_at` is a guess.
    """

    role: Role
    text: str
    type: MessageType = MessageType.TEXT
    created_at: datetime | None = None
    author: str | None = None
    trust: Trust = Trust.OWNER
    call_id: str | None = None
    tool_name: str | None = None
    external_id: str = ""
    origin: str | None = None
    origin_at: datetime | None = None
    metadata: Mapping[str, Any] = EMPTY


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one conversation, in its order.

    Attributes:
        after: the one that stands before them there, where it is known; it has been recorded.
        finish: nothing more will come for now: the last exchange is ended if it has its answer.
        as_mine: False for a stranger's file, which gives no new title to a conversation that is not a stranger's.
        is_import: an import brings them in, which no language model is to be paid for unasked.
    """

    conversation: NewConversation
    messages: Sequence[NewMessage]
    finish: bool = False
    after: NewMessage | None = None
    as_mine: bool = True
    is_import: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording did.

    Attributes:
        messages: those that are new, as they were kept.
        known: how many were there before.
        forgotten: how many were forgotten earlier, and stay so.
    """

    messages: tuple[Message, ...] = ()
    known: int = 0
    forgotten: int = 0


@dataclass(slots=True)
class Recorder:
    """Writes what was said, once and for all.

    Args:
        journal: None where the database itself is the truth (PostgreSQL, or a store in memory).
        wake: called after every commit that leaves work behind; must not block.
        now: the clock.
    """

    store: Store
    journal: Journal | None
    redactor: Redactor
    config: RecordConfig
    min_message_tokens: int
    wake: Callable[[], None] = lambda: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    names: CleanNames = field(init=False)

    def __post_init__(self) -> None:
        self.names = CleanNames(self.redactor)

    def record(self, batches: Sequence[Batch], within: Callable[[Transaction], None] | None = None) -> Recorded:
        """Record messages and give them their exchanges, all in one transaction.

        Args:
            batches: one per conversation.
            within: further writes of the same transaction.
        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        prepared = [[self.prepare(batch.conversation.uid, said) for said in batch.messages] for batch in batches]
        with self._writing([batch.conversation.uid for batch in batches]) as (tx, appended):
            ingest = self.ingest(tx)
            placed = [
                self._events(tx, batch, self._stamped(batch, ready), ingest)
                for batch, ready in zip(batches, prepared, strict=True)
            ]
            appended += self._write(tx, [event for events, _ in placed for event in events], ingest, within)
            fresh = tuple(message for _, recorded in placed for message in recorded.messages)
            imported = {batch.conversation.uid for batch in batches if batch.is_import}
            note_imported(tx, last_exchange_numbers(tx, imported & {message.conversation_uid for message in fresh}))
        done = [recorded for _, recorded in placed]
        outcome = Recorded(fresh, sum(each.known for each in done), sum(each.forgotten for each in done))
        if outcome.messages:
            self.wake()
        return outcome

    def end_exchange(self, uid: str, status: ExchangeStatus, error: str | None = None) -> None:
        """End the conversation's exchange in progress, well or not.

        Raises:
            NotFoundError: there is no such conversation.
        """
        with self._writing([uid]) as (tx, appended):
            thread = self._thread(tx, uid)
            thread.end(status, None if error is None else self.redactor.redact(valid_utf8(error)).text)
            appended += self._write(tx, thread.events, self.ingest(tx))

    def new_segment(self, uid: str) -> Segment:
        """Begin a new segment of a conversation.

        Raises:
            NotFoundError: there is no such conversation.
        """
        with self._writing([uid]) as (tx, appended):
            thread = self._thread(tx, uid)
            thread.end(ExchangeStatus.COMPLETED if thread.replied else ExchangeStatus.FAILED)
            moment = self.now()
            number = thread.segment.number + 1 if thread.segment else 1
            segment = Segment(new_uid(moment), uid, number, moment)
            appended += self._write(tx, [*thread.events, segment], self.ingest(tx))
        return segment

    def keep(self, events: Sequence[Event]) -> None:
        """Write events of core memory, which belong to no conversation, in one transaction.

        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        with self._writing([CORE_MEMORY]) as (tx, appended):
            appended += self._write(tx, events, self.ingest(tx))

    def journal_again(self, tx: Transaction, events: Sequence[Event]) -> None:
        """Give the journal back what it has lost and the rows still hold; nothing where there is no journal."""
        if self.journal is not None:
            for part in self._append(tx, self.journal, events):
                put_journal_offset(tx, part.path, part.end)

    def admit(self, conversations: Sequence[str], choose: Callable[[Transaction, Ingest], Sequence[Event]]) -> None:
        """Write whole events, which already have their ids and places, in one transaction.

        Args:
            conversations: ids of all that the events may belong to.
            choose: gives them under the write lock: those that the rows lack.
        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        with self._writing(conversations) as (tx, appended):
            ingest = self.ingest(tx)
            events = choose(tx, ingest)
            # Looked through once more by `apply`: appending may first bring in a dead writer's tail with the same ids.
            appended += self._write(tx, events, ingest, checked=False)
        if any(isinstance(event, Message | SavedRecord) for event in events):
            self.wake()

    def _write(
        self,
        tx: Transaction,
        events: Sequence[Event],
        ingest: Ingest,
        within: Callable[[Transaction], None] | None = None,
        checked: bool = True,
    ) -> list[Appended]:
        """Journal first, rows second; if the rows fail, the journal is taken back."""
        appended: list[Appended] = []
        if self.journal is not None and events:
            appended = self._append(tx, self.journal, events)
        try:
            if events:
                ingest.apply(events, checked)
            for part in appended:
                put_journal_offset(tx, part.path, part.end)
            if within is not None:
                within(tx)
        except BaseException:
            if self.journal is not None:
                self.journal.undo(appended)
            raise
        return appended

    @contextmanager
    def _writing(self, conversations: Sequence[str]) -> Iterator[tuple[Transaction, list[Appended]]]:
        """A transaction on these conversations, and what it appended to the journal: taken back if the commit fails.

        A full disk shows only then: the rows' pages are written with the commit, long after the journal's line.
        """
        appended: list[Appended] = []
        try:
            with self.store.writing(of=conversations) as tx:
                yield tx, appended
        except BaseException as error:
            kept = self._take_back(appended)
            if not (kept and isinstance(error, StoreError)):
                raise

    def _take_back(self, appended: Sequence[Appended]) -> bool:
        """Undo what the rows do not hold; whether they hold all of it, since another process has replayed it since."""
        if self.journal is None or not appended:
            return False
        try:
            with self.store.writing() as tx:
                lacking = [part for part in appended if journal_offset(tx, part.path) < part.end]
                self.journal.undo(lacking)
        except (HarkenError, OSError) as error:
            _log.warning("journal_not_taken_back", error_class=type(error).__name__)
            return False
        return not lacking

    def ingest(self, tx: Transaction) -> Ingest:
        """What turns events into rows, with this recorder's rules."""
        return Ingest(tx, self.min_message_tokens, self.config.tool_text_chars)

    def _append(self, tx: Transaction, journal: Journal, events: Sequence[Event]) -> list[Appended]:
        return journal.append(
            events,
            expected=lambda path: journal_offset(tx, path),
            repair=lambda path: replay_conversation(tx, journal, path.partition("/")[0], self.ingest(tx)),
        )

    def _thread(self, tx: Transaction, uid: str) -> Thread:
        thread = read_thread(tx, uid)
        if thread.title is None:
            raise NotFoundError(f"There is no conversation {uid}. Find one: harken search QUERY")
        return thread

    def _stamped(self, batch: Batch, prepared: Sequence[Message]) -> list[Message]:
        """What is said now gets its time and id under the write lock, so that several processes' times are in order."""
        stamped = []
        for ready, new in zip(prepared, batch.messages, strict=True):
            stamped.append(self.stamp(ready) if new.created_at is None and new.origin is None else ready)
        return stamped

    def stamp(self, message: Message) -> Message:
        """The message as said at this moment."""
        moment = self.now()
        return replace(message, uid=new_uid(moment), created_at=moment)

    def prepare(self, uid: str, message: NewMessage) -> Message:
        """A message as it is kept in the conversation of that id: without secrets, recalled blocks and an exchange."""
        raw = without_recall(valid_utf8(message.text))
        redacted = self.redactor.redact(raw)
        metadata: Mapping[str, Any] = EMPTY
        counts = dict(redacted.counts)
        if message.metadata:
            metadata, more = self.redactor.redact_value(sound_value(message.metadata))
            counts = {kind: counts.get(kind, 0) + more.get(kind, 0) for kind in {**counts, **more}}
        if counts:
            metadata = {**metadata, REDACTED: counts}
        moment = message.created_at or self.now()
        if message.origin is None:
            own_uid = new_uid(moment)
        else:
            parts = ("message", uid, message.origin, message.role.value, message.type.value, raw)
            own_uid = derived_uid(*parts, moment=message.origin_at)
        return Message(
            uid=own_uid,
            conversation_uid=uid,
            segment_uid="",
            exchange_uid="",
            role=message.role,
            type=message.type,
            text=redacted.text,
            created_at=moment,
            author=self.names.optional(message.author),
            trust=message.trust,
            call_id=self.names.optional(message.call_id),
            tool_name=self.names.optional(message.tool_name),
            external_id=self.names.text(message.external_id),
            metadata=metadata,
        )

    def _events(
        self, tx: Transaction, batch: Batch, prepared: Sequence[Message], ingest: Ingest
    ) -> tuple[list[Event], Recorded]:
        uid = batch.conversation.uid
        imported = [ready.uid for ready, new in zip(prepared, batch.messages, strict=True) if new.origin is not None]
        thread = read_thread(tx, uid)
        is_new = thread.title is None
        # One that has rows was not forgotten; one that is new has no messages yet, whose ids are made from its own.
        forgotten = find_tombstones(tx, [uid, *imported] if is_new else imported)
        if uid in forgotten:
            return [], Recorded(forgotten=len(prepared))
        known = set() if is_new else find_known(tx, messages, imported)
        fresh = list({m.uid: m for m in prepared if m.uid not in known and m.uid not in forgotten}.values())
        dropped = len({m.uid for m in prepared} & forgotten)
        ingest.remember(thread.row_ids, uid, thread.project_id)
        events: list[Event] = []
        if thread.title is not None and (batch.as_mine or not own_conversations(tx, [uid])):
            events.extend(self._retitled(batch.conversation, thread.title))
        elif fresh and is_new:
            events.append(self._conversation_event(batch.conversation, fresh[0].created_at))
        after = "" if batch.after is None else self.prepare(uid, batch.after).uid
        thread.place_all(tx, fresh, prepared, after)
        if batch.finish:
            thread.finish()
        events.extend(thread.events)
        if known and batch.as_mine:
            events.extend(raised_trust(tx, [ready for ready in prepared if ready.uid in known], self.now()))
        return events, Recorded(tuple(thread.messages), len(prepared) - len(fresh) - dropped, dropped)

    def _conversation_event(self, conversation: NewConversation, first: datetime) -> Conversation:
        created = conversation.created_at or first
        parent = conversation.parent_external_id
        return Conversation(
            uid=conversation.uid,
            channel=self.names.text(conversation.channel),
            external_id=self.names.text(conversation.external_id),
            title=self.redactor.redact(valid_utf8(conversation.title)).text,
            created_at=created,
            updated_at=created,
            project=self.names.project(conversation.project),
            parent_uid=None if parent is None else conversation_uid(conversation.channel, parent),
            metadata=self.redactor.redact_value(sound_value(conversation.metadata))[0],
        )

    def _retitled(self, conversation: NewConversation, present: str) -> list[Event]:
        title = self.redactor.redact(valid_utf8(conversation.title)).text if conversation.title else ""
        return [Titled(conversation.uid, title, self.now())] if title and title != present else []
