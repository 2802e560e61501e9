"""The recorder: redact, append to the journal, write the rows in one transaction, wake the workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

from harken.config.sections import RecordConfig
from harken.errors import HarkenError, NotFoundError, StoreError
from harken.journal.journal import Appended, Journal
from harken.journal.replay import replay_conversation, superseded
from harken.log import Log
from harken.model.conversations import (
    KEPT_FOLDERS,
    Conversation,
    Event,
    ExchangeStatus,
    Message,
    SavedRecord,
    Segment,
    Titled,
)
from harken.record.forget import ForgetPlan, Forgotten, forget, plan_saved
from harken.record.ids import derived_uid, new_uid
from harken.record.prepared import NewConversation as NewConversation
from harken.record.prepared import NewMessage as NewMessage
from harken.record.prepared import Prepared, Preparer
from harken.record.threads import Thread, read_thread
from harken.redact.redactor import Redactor
from harken.storage.conversations import (
    find_known,
    find_tombstones,
    foresee_tombstones,
    own_conversations,
    raised_trust,
    tombstones_of,
)
from harken.storage.enrichment.consent import note_imported
from harken.storage.enrichment.webhooks import foresee_webhooks
from harken.storage.events import Ingest
from harken.storage.ports import Store, Transaction
from harken.storage.records.rows import find_kept
from harken.storage.state import journal_offset, journal_offsets, put_journal_offsets
from harken.storage.tables import messages
from harken.text.characters import sound_value, valid_utf8

_log = Log(__name__)
TICK = timedelta(microseconds=1)
Written = TypeVar("Written", bound=Event)


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one conversation, in its order.

    Attributes:
        after: the id of the one that stands before them there, where it is known; it has been recorded.
        finish: nothing more will come for now: the last exchange is ended if it has its answer.
        as_mine: False for a stranger's file, which gives no new title to a conversation that is not a stranger's.
        is_import: an import brings them in, which no language model is to be paid for unasked.
    """

    conversation: NewConversation
    messages: Sequence[NewMessage | Prepared]
    finish: bool = False
    after: str = ""
    as_mine: bool = True
    is_import: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of recording: the new messages, as they were kept, and how many were known or forgotten before.

    Attributes:
        held_seconds: for how long nobody else could write.
    """

    messages: tuple[Message, ...] = ()
    known: int = 0
    forgotten: int = 0
    held_seconds: float = 0.0


@dataclass(slots=True)
class _Writing:
    """A transaction under way, what it has appended to the journal so far, and what the rows hold of its folders.

    Attributes:
        superseding: folders of the journal whose earlier words it writes others in place of.
    """

    recorder: Recorder
    tx: Transaction
    ingest: Ingest
    superseding: set[str] = field(default_factory=set)
    appended: list[Appended] = field(default_factory=list)
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)

    def write(self, events: Sequence[Event], checked: bool = True) -> None:
        """Write events in order, to the journal first and then to the rows.

        `checked` says that none was applied before and none is of something forgotten.
        """
        journal, appended = self.recorder.journal, list[Appended]()
        self.recorder.changing(self.tx, events)
        if journal is not None and events:
            repair = partial(self._bring_in, journal)
            appended = journal.append(events, lambda path: self._held(path).get(path, 0), repair)
            self.appended += appended
        if events:
            self.ingest.apply(events, checked)
            self.recorder.written(self.tx, events)
        for part in appended:
            self._held(part.path)[part.path] = part.end
        put_journal_offsets(self.tx, {part.path: part.end for part in appended})

    def bring_in_tails(self, journal: Journal, folders: Sequence[str]) -> None:
        """Bring in what a dead writer has left in the journal alone, before anything is numbered behind it."""
        for folder in folders:
            if journal.behind(self._held(folder), folder):
                self._bring_in(journal, folder)

    def _bring_in(self, journal: Journal, path: str) -> None:
        replay_conversation(self.tx, journal, path.partition("/")[0], self.recorder.ingest(self.tx))
        self.offsets.clear()

    def _held(self, path: str) -> dict[str, int]:
        """How many bytes the rows hold of each file of a path's folder, which is read once."""
        folder = path.partition("/")[0]
        if folder not in self.offsets:
            self.offsets[folder] = journal_offsets(self.tx, folder)
        return self.offsets[folder]


@dataclass(slots=True)
class RecordTransaction:
    """A transaction in which records of one source are saved."""

    writing: _Writing
    source: str
    saved: list[SavedRecord] = field(default_factory=list)

    @property
    def tx(self) -> Transaction:
        """To read in what the records depend on."""
        return self.writing.tx

    def save(self, *drafts: SavedRecord) -> SavedRecord:
        """Write records as they are to stand, secrets taken out; the first of them, as it was written.

        Each gets the present moment, or a later one where it has been changed since: a clock that was set back may not
        make a change count for older than what it changes.
        """
        recorder = self.writing.recorder
        before = find_kept(self.tx, self.source, [draft.uid for draft in drafts])
        written = []
        for draft in drafts:
            now = recorder.now()
            moment = max(now, before[draft.uid].at + TICK) if draft.uid in before else now
            fields, _ = recorder.redactor.redact_value(sound_value(draft.fields))
            written.append(replace(draft, at=moment, fields=fields))
        # Looked through once more by `apply`: appending may first bring in a dead writer's tail with the same ids.
        self.writing.write(written, checked=False)
        self.saved += written
        if any(is_reworded(one, before) for one in written):
            self.writing.superseding.add(KEPT_FOLDERS[self.source])
        return written[0]


def is_reworded(record: SavedRecord, before: Mapping[str, SavedRecord]) -> bool:
    """True where a memory has other words of its own than it had before."""
    was, new = ((one.fields or {}).get("content") if one else None for one in (before.get(record.uid), record))
    return was not in (None, new)


@dataclass(slots=True)
class Recorder:
    """Writes what was said, saved or learned, once and for all.

    Args:
        journal: None where the database itself is the truth (PostgreSQL, or a store in memory).
        wake: called after every commit that leaves work behind; must not block.
        changing: called with events before they are written or carried out; raises where whoever writes may not.
        written: called with all events in the transaction that has written them.
        others: which records of a shared space somebody else has brought.
        member: the id of who writes in a shared space.
    """

    store: Store
    journal: Journal | None
    redactor: Redactor
    config: RecordConfig
    min_message_tokens: int
    wake: Callable[[], None] = lambda: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    changing: Callable[[Transaction, Sequence[Event]], None] = lambda _tx, _events: None
    written: Callable[[Transaction, Sequence[Event]], None] = lambda _tx, _events: None
    others: Callable[[Transaction, Collection[str]], Collection[str]] = lambda _tx, _uids: ()
    member: str = ""
    preparer: Preparer = field(init=False)

    def __post_init__(self) -> None:
        self.preparer = Preparer(self.redactor, self.config.tool_text_chars)

    def record(self, batches: Sequence[Batch], within: Callable[[Transaction], None] | None = None) -> Recorded:
        """Record messages, a batch per conversation, and give them their exchanges, in one transaction with `within`.

        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        prepared: list[list[Prepared]] = []
        for batch in batches:
            made = partial(self.preparer.prepare, batch.conversation.uid, now=self.now)
            prepared.append([new if isinstance(new, Prepared) else made(new) for new in batch.messages])
        with self._writing([batch.conversation.uid for batch in batches]) as writing:
            tx, began = writing.tx, monotonic()
            exchanges: dict[str, int] = {}
            for batch in batches:
                tx.text.foresee_end(tx, batch.conversation.uid)
                foresee_tombstones(tx, [batch.conversation.uid])
            each = zip(batches, prepared, strict=True)
            placed = [self._placed(tx, batch, ready, writing.ingest, exchanges) for batch, ready in each]
            writing.write([event for events, _ in placed for event in events])
            if within is not None:
                within(tx)
            fresh = tuple(message for _, recorded in placed for message in recorded.messages)
            imported = {batch.conversation.uid for batch in batches if batch.is_import}
            if heard := imported & {message.conversation_uid for message in fresh}:
                note_imported(tx, {uid: exchanges[uid] for uid in heard})
        held = monotonic() - began
        if fresh:
            self.wake()
        known, forgotten = (sum(getattr(one, name) for _, one in placed) for name in ("known", "forgotten"))
        return Recorded(fresh, known, forgotten, held)

    def end_exchange(self, uid: str, status: ExchangeStatus, error: str | None = None, named: str = "") -> None:
        """End the exchange in progress of a conversation, well or not; errors say how it was `named`.

        Raises:
            NotFoundError: there is no such conversation.
        """
        with self._writing([uid]) as writing:
            thread = self._thread(writing.tx, uid, named)
            thread.end(status, self.clean(error))
            writing.write(thread.events)

    def new_segment(self, uid: str, named: str = "") -> Segment:
        """Begin a new segment of a conversation; errors say how it was `named`.

        Raises:
            NotFoundError: there is no such conversation.
        """
        with self._writing([uid]) as writing:
            thread = self._thread(writing.tx, uid, named)
            thread.end(ExchangeStatus.COMPLETED if thread.replied else ExchangeStatus.FAILED)
            moment = self.now()
            number = thread.segment.number + 1 if thread.segment else 1
            segment = Segment(new_uid(moment), uid, number, moment)
            writing.write([*thread.events, segment])
        return segment

    def admit(
        self,
        conversations: Sequence[str],
        choose: Callable[[Transaction, Ingest], Sequence[Written]],
        superseding: Collection[str] = (),
    ) -> Sequence[Written]:
        """Write whole events, which already have their ids and places, in one transaction; those that were chosen.

        Args:
            conversations: ids of all that the events may belong to.
            choose: gives them under the write lock: those that the rows lack.
            superseding: folders of the journal whose earlier words they stand in place of; `choose` may add to them.
        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        with self._writing(conversations) as writing:
            # The journal takes nothing of what was forgotten while somebody thought about it.
            events = cast(Sequence[Written], writing.ingest.unknown(choose(writing.tx, writing.ingest)))
            # Looked through once more by `apply`: appending may first bring in a dead writer's tail with the same ids.
            writing.write(events, checked=False)
            writing.superseding.update(superseding)
        if any(isinstance(event, Message | SavedRecord) for event in events):
            self.wake()
        return events

    @contextmanager
    def saving(self, source: str) -> Iterator[RecordTransaction]:
        """A transaction on the records of a source; what is read in it still holds when they are saved.

        Raises:
            StoreError: nothing of it was kept; it may be repeated.
        """
        with self._writing([KEPT_FOLDERS[source]]) as writing:
            records = RecordTransaction(writing, source)
            yield records
        if records.saved:
            self.wake()

    def forget(self, source: str, uids: Sequence[str]) -> Forgotten:
        """Forget saved records for good: rows, full text, vectors and journal; their ids remain as tombstones."""
        with self.store.reading() as tx:
            plan = plan_saved(tx, source, uids, self.now())
        return self.forget_planned(plan)

    def forget_planned(
        self, plan: ForgetPlan, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> Forgotten:
        """Forget for good what was planned; see `harken.record.forget.forget`."""
        with self.store.reading() as tx:
            self.changing(tx, plan.tombstones)
        return forget(self.store, self.journal, plan, self.ingest, progress)

    def clean(self, value: Any) -> Any:
        """A value as it may be kept: secrets taken out, and characters that no database knows."""
        return self.redactor.redact_value(sound_value(value))[0]

    def new_uid(self, kind: str = "", once: str = "") -> str:
        """An id for a record that comes into being now; by the caller's own name for the call always the same one."""
        return derived_uid(kind, once) if once else new_uid(self.now())

    def ingest(self, tx: Transaction) -> Ingest:
        """Make what turns events into rows, with this recorder's rules."""
        return Ingest(tx, self.min_message_tokens, self.config.tool_text_chars, self.now)

    @contextmanager
    def _writing(self, conversations: Sequence[str]) -> Iterator[_Writing]:
        """A transaction on these conversations; where it fails, the journal is taken back as well.

        A full disk shows only with the commit: the rows' pages are written then, long after the journal's line.
        """
        writing: _Writing | None = None
        try:
            with self.store.writing(of=conversations) as tx:
                writing = _Writing(self, tx, self.ingest(tx))
                foresee_webhooks(tx)
                if self.journal is not None:
                    writing.bring_in_tails(self.journal, conversations)
                try:
                    yield writing
                except BaseException:
                    if self.journal is not None:
                        self.journal.undo(writing.appended)
                    writing.appended = []
                    raise
                if self.journal is not None:
                    for folder in writing.superseding:
                        superseded(tx, self.journal, folder)
        except BaseException as error:
            is_kept = writing is not None and self._is_replayed(writing.appended)
            if not (is_kept and isinstance(error, StoreError)):
                raise
        for folder in writing.superseding if writing else ():
            self._erase_superseded(folder)

    def _erase_superseded(self, folder: str) -> None:
        if self.journal is not None:
            with self.store.writing() as tx:
                replay_conversation(tx, self.journal, folder, self.ingest(tx))

    def _is_replayed(self, appended: Sequence[Appended]) -> bool:
        """Take back what the rows lack; whether they lack nothing, since another process has replayed it since."""
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

    def _thread(self, tx: Transaction, uid: str, named: str = "") -> Thread:
        thread = read_thread(tx, uid)
        if thread.title is None:
            raise NotFoundError(f"There is no conversation {named or uid}. Find one: harken list")
        return thread

    def stamp(self, message: Message) -> Message:
        """The message as said at this moment; `replace` takes three times as long."""
        moment, said = self.now(), message
        return Message(
            new_uid(moment), said.conversation_uid, said.segment_uid, said.exchange_uid, said.role, said.type,
            said.text, moment, said.author, said.trust, said.call_id, said.tool_name, said.external_id,
            said.metadata, said.position,
        )  # fmt: skip

    def prepare(self, uid: str, message: NewMessage) -> Message:
        """A message as it is kept in the conversation of that id, before it has its place there."""
        return self.preparer.prepare(uid, message, self.now).message

    def _placed(
        self, tx: Transaction, batch: Batch, ready: Sequence[Prepared], ingest: Ingest, exchanges: dict[str, int]
    ) -> tuple[list[Event], Recorded]:
        """Events and counts of a batch; to `exchanges`, the number of its conversation's last one is added."""
        uid = batch.conversation.uid
        thread = read_thread(tx, uid)
        # What is said now gets its time and id under the write lock, so that several processes' times are in order; it
        # is held once something was read.
        prepared = [self.stamp(one.message) if one.is_said_now else one.message for one in ready]
        ingest.studied.update((said.uid, one.studied) for said, one in zip(prepared, ready, strict=True))
        imported = [one.message.uid for one in ready if one.is_derived]
        is_new = thread.title is None
        # One that has rows was not forgotten; one that is new has no messages yet, whose ids are made from its own.
        heads = {uid, batch.conversation.parent_uid or uid} if is_new else set[str]()
        forgotten = find_tombstones(tx, [*heads, *imported])
        if not forgotten.isdisjoint(heads):
            return [], Recorded(forgotten=len(prepared))
        known = set() if is_new else find_known(tx, messages, imported)
        here = known | forgotten
        fresh = list({m.uid: m for m in prepared if m.uid not in here}.values())
        dropped = len(forgotten.intersection(m.uid for m in prepared)) if forgotten else 0
        ingest.remember(thread.row_ids, uid, thread.project_id, thread.tags)
        events = [] if thread.is_named else self._head_events(tx, batch, thread.title, fresh)
        thread.place_all(tx, fresh, prepared, batch.after)
        exchanges[uid] = thread.exchange_count
        if batch.finish:
            thread.finish()
        events.extend(thread.events)
        if known and batch.as_mine:
            events.extend(raised_trust(tx, [ready for ready in prepared if ready.uid in known], self.now()))
        return events, Recorded(tuple(thread.messages), len(prepared) - len(fresh) - dropped, dropped)

    def _head_events(self, tx: Transaction, batch: Batch, present: str | None, fresh: Sequence[Message]) -> list[Event]:
        """A new title of a conversation that has the present one; the conversation itself where it is new."""
        conversation, names = batch.conversation, self.preparer.names
        title = self.redactor.redact(valid_utf8(conversation.title)).text
        if present is not None:
            mine = title not in ("", present) and (batch.as_mine or not own_conversations(tx, [conversation.uid]))
            # It went with what was forgotten.
            mine = mine and bool(present or not tombstones_of(tx, conversation.uid))
            return [Titled(conversation.uid, title, self.now())] if mine else []
        if not fresh:
            return []
        created = conversation.created_at or fresh[0].created_at
        return [
            Conversation(
                uid=conversation.uid,
                channel=names.text(conversation.channel),
                external_id=names.text(conversation.external_id),
                title=title,
                created_at=created,
                updated_at=created,
                project=names.project(conversation.project),
                parent_uid=conversation.parent_uid,
                metadata=self.clean(conversation.metadata),
            )
        ]
