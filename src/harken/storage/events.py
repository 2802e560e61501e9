"""Events into rows, the one way in; out of them, what was forgotten; and rows back into the events that make them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from sqlalchemy import ColumnElement, Row, Select, Table, bindparam, delete, func, update
from sqlalchemy.exc import DBAPIError

from harken.errors import StoreCorruptError
from harken.model.conversations import (
    CORE_MEMORY,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Grave,
    Labelled,
    Message,
    MessageType,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trusted,
)
from harken.model.marks import Rated
from harken.storage.conversations import (
    each_message_of,
    find_conversation,
    find_known,
    find_tombstones,
    raise_trust,
    select_exchanges,
    tombstones_of,
)
from harken.storage.enrichment.segments import drop_orphans, drop_segment_summaries
from harken.storage.enrichment.summaries import drop_summaries_of, drop_summaries_with, drop_summary_work
from harken.storage.enrichment.webhooks import tell
from harken.storage.entries import BLANK_ENTRY, add_entries, gets_vector, is_searchable, remove_entries
from harken.storage.ports import MESSAGE_SOURCE, Transaction, batches, rows_by
from harken.storage.positions import STEP, last_position
from harken.storage.projects import ensure_project
from harken.storage.records.marks import (
    apply_label,
    apply_ratings,
    drop_ratings,
    facets_of,
    own_label,
    ratings_in,
    retitle,
    tags_of,
    untitle,
    weigh_anew_in,
)
from harken.storage.records.rows import SOURCE_OF_FOLDER, KeptChange, apply_kept, each_kept, forget_kept, has_kept
from harken.storage.state import apply_core_fact, core_facts, count_up, drop_given, redaction_counts
from harken.storage.tables import (
    REPAIR,
    conversations,
    entries,
    exchanges,
    interpret,
    joined,
    messages,
    reader,
    same,
    segments,
    tombstones,
    writer,
)
from harken.text.traits import Studied

_AT_ONCE = 1000


def known_conversations(tx: Transaction) -> list[str]:
    """Every conversation that the rows know, the forgotten ones included, by id."""
    present, gone = tx.select(conversations.c.uid), tx.select(tombstones.c.conversation_uid)
    # Not by the database: engines differ in how they order texts.
    known = set(tx.connection.scalars(present.union(gone)))
    known |= {folder for folder, source in SOURCE_OF_FOLDER.items() if has_kept(tx, source)}
    return sorted(known | ({CORE_MEMORY} if core_facts(tx) else set()))


def events_of(tx: Transaction, uid: str) -> Iterator[Event]:
    """Yield the events that make a conversation's rows, in an order that can be replayed; always the same one.

    The conversation as it is now, its segments, exchanges, messages in their order, ends of exchanges, then what was
    forgotten. One at a time: a conversation may have more messages than fit in memory. A transaction that writes must
    take them all before it writes.
    """
    head = find_conversation(tx, uid)
    if head is not None:
        said = own_label(tx, uid)
        yield said.of(tx, head)
        if said.label is not None:
            yield said.label
        of_it = tx.select(segments).select_from(joined(segments, conversations)).where(conversations.c.uid == uid)
        for row in _rows(tx, of_it.order_by(segments.c.number, segments.c.started_at, segments.c.id)):
            yield _segment(row, conversation_uid=uid)
        placed = select_exchanges(tx, uid).order_by(exchanges.c.number, exchanges.c.started_at, exchanges.c.id)
        for row in _rows(tx, placed):
            begun = ExchangeStatus.IN_PROGRESS
            yield Exchange(row.uid, uid, row.segment_uid, row.number, begun, row.started_at)
        yield from each_message_of(tx, uid)
        ended = placed.where(exchanges.c.status != ExchangeStatus.IN_PROGRESS.value)
        for row in _rows(tx, ended):
            at = row.completed_at or row.started_at
            yield ExchangeEnd(row.uid, uid, interpret(ExchangeStatus, row.status), at, row.error)
    if uid == CORE_MEMORY:
        yield from core_facts(tx)
    if uid in SOURCE_OF_FOLDER:
        yield from each_kept(tx, SOURCE_OF_FOLDER[uid])
    yield from ratings_in(tx, uid)
    yield from sorted(tombstones_of(tx, uid), key=lambda grave: (grave.at, grave.uid))


_segment = reader(Segment, ("conversation_uid",))


def _rows(tx: Transaction, statement: Select[Any]) -> Iterator[Row[Any]]:
    yield from tx.connection.execute(statement, execution_options={"yield_per": _AT_ONCE})


_Placed = Conversation | Segment | Exchange | Message
_Identified = Conversation | Segment | Exchange | Message | SavedRecord
_TABLES: dict[type[_Placed], Table] = {
    Conversation: conversations,
    Segment: segments,
    Exchange: exchanges,
    Message: messages,
}


# Their rows are written kind by kind.
_OF_TALK = frozenset({*_TABLES, ExchangeEnd, Trusted})


class Ingest:
    """Applies events to rows inside one transaction, remembering the row ids it has met.

    Args:
        min_message_tokens: shorter messages get no vector.
        tool_text_chars: how much of a tool call or result search sees.
        now: the moment, for webhooks; None where nobody is to be told of what is applied.
    """

    def __init__(
        self, tx: Transaction, min_message_tokens: int, tool_text_chars: int, now: Callable[[], datetime] | None = None
    ) -> None:
        self._tx = tx
        self._min_message_tokens = min_message_tokens
        self._tool_text_chars = tool_text_chars
        self.now = now
        self._saved: list[tuple[SavedRecord, bool]] = []
        self._row_ids: dict[str, int] = {}
        self._place_of: dict[str, tuple[int | None, tuple[str, ...]]] = {}
        self._new_conversations: set[int] = set()
        # What whoever prepared messages has found in their texts, by their ids; of others it is found on the way.
        self.studied: dict[str, Studied] = {}

    def remember(
        self, row_ids: Mapping[str, int], conversation_uid: str, project_id: int | None, tags: tuple[str, ...]
    ) -> None:
        """Rows that the caller has just read, which saves reading them again."""
        self._row_ids.update(row_ids)
        if conversation_uid in row_ids:
            self._place_of[conversation_uid] = project_id, tags

    def apply(self, events: Sequence[Event], checked: bool = False) -> int:
        """Write the events' rows, in order, and give the number of new messages.

        `checked` says that none was applied before and none is of something forgotten.
        """
        wanted = events if checked else self.unknown(events)
        of_kind: dict[type, list[Any]] = {}
        for event in wanted:
            of_kind.setdefault(type(event), []).append(event)
        for event in of_kind.get(Conversation, ()):
            self._conversation(event)
        new = [self._row(event, _segment_row, _IN_EXCHANGE[:1]) for event in of_kind.get(Segment, ())]
        self._insert(segments, new)
        ends = {event.exchange_uid: event for event in of_kind.get(ExchangeEnd, ())}
        rows = [self._row(event, _exchange_row, _IN_EXCHANGE[:2]) for event in of_kind.get(Exchange, ())]
        for row in rows:
            if row["uid"] in ends:
                row.update(_end_row(ends.pop(row["uid"])))
        self._insert(exchanges, rows)
        fresh: list[Message] = of_kind.get(Message, [])
        if fresh:
            self._messages(self._placed(fresh))
        self._end_exchanges(ends.values())
        if raised := of_kind.get(Trusted):
            raise_trust(self._tx, raised)
        if not checked and fresh:
            weigh_anew_in(self._tx, {event.conversation_uid for event in fresh})
        if of_kind.keys() - _OF_TALK:
            self._say(event for event in wanted if type(event) not in _OF_TALK)
        if self.now is not None and (fresh or self._saved):
            tell(self._tx, self.now(), fresh, self._saved, project_of=lambda uid: self._place(uid)[0])
            self._saved = []
        return len(fresh)

    def _say(self, events: Iterable[Event]) -> None:
        """What is said of records: that they are forgotten, what they are called, how they are judged."""
        for kind, run in groupby(events, key=type):
            if kind is Rated:
                apply_ratings(self._tx, cast(list[Rated], list(run)))
            elif kind is Tombstone:
                forget_rows(self._tx, cast(list[Grave], list(run)))
            else:
                self._change(run)

    def _change(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Titled):
                retitle(self._tx, event.conversation_uid, event.title)
            elif isinstance(event, Labelled):
                apply_label(self._tx, event)
                self._place_of.pop(event.conversation_uid, None)
            elif isinstance(event, CoreFact):
                apply_core_fact(self._tx, event)
            elif isinstance(event, SavedRecord) and (change := apply_kept(self._tx, event)):
                self._saved.append((event, change is KeptChange.NEW))

    def unknown(self, events: Sequence[Event]) -> list[Event]:
        """The events without those that were applied before or belong to something forgotten."""
        named = {
            event.ref_uid if isinstance(event, Rated) else event.uid
            for event in events
            if isinstance(event, _Identified | Rated)
        }
        places = {event.conversation_uid for event in events if not isinstance(event, Conversation)}
        gone = find_tombstones(self._tx, named | places)
        dropped = set(gone)
        for kind, table in _TABLES.items():
            dropped |= find_known(self._tx, table, [event.uid for event in events if isinstance(event, kind)])
        wanted: list[Event] = []
        for event in events:
            if isinstance(event, Rated):
                if event.ref_uid in gone:
                    continue
            elif isinstance(event, _Identified) and event.uid in dropped:
                continue
            if isinstance(event, _Placed):
                # A second one of the same id is known by then.
                dropped.add(event.uid)
            if isinstance(event, Conversation | Tombstone) or event.conversation_uid not in gone:
                wanted.append(event)
        return wanted

    def _conversation(self, event: Conversation) -> None:
        project_id = None if event.project is None else ensure_project(self._tx, event.project)
        self._insert(conversations, [{**self._row(event, _conversation_row), "project_id": project_id}])
        self._place_of[event.uid] = project_id, ()
        self._new_conversations.add(self._row_ids[event.uid])

    def _insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        ids = self._tx.dialect.add_rows(self._tx.connection, table, rows)
        self._row_ids.update(zip((row["uid"] for row in rows), ids, strict=True))

    def _row(
        self, event: Any, write: Callable[[Any], dict[str, Any]], references: Iterable[_Reference] = ()
    ) -> dict[str, Any]:
        """An event's row, with the rows of what it refers to in place of their ids."""
        row = write(event)
        row["tenant"] = self._tx.tenant
        for table, uid_of, column in references:
            uid = uid_of(event)
            row[column] = self._row_ids.get(uid) or self._required(table, uid)
        return row

    def _messages(self, fresh: Sequence[Message]) -> None:
        self._learn(exchanges, {event.exchange_uid for event in fresh})
        self._learn(segments, {event.segment_uid for event in fresh})
        rows = [self._row(event, _message_row, _IN_EXCHANGE) for event in fresh]
        self._tx.dialect.add_rows(self._tx.connection, messages, rows)
        seen = [(event, row) for event, row in zip(fresh, rows, strict=True) if is_searchable(event)]
        studied = [self.studied.get(event.uid) for event, _ in seen]
        entry_rows = [self._entry_row(event, row, known) for (event, row), known in zip(seen, studied, strict=True)]
        facets = [facets_of(self._place(event.conversation_uid)[1]) for event, _ in seen]
        spoken_in = {event.conversation_uid for event in fresh}
        only = next(iter(spoken_in)) if len(spoken_in) == 1 else ""
        new = frozenset(self._new_conversations)
        given = facets if any(facets) else ()
        add_entries(self._tx, entry_rows, new, given, studied, conversation_uid=only)
        self._new_conversations.clear()
        self._touch(fresh)
        count_up(self._tx, redaction_counts(event.metadata for event in fresh))

    def _entry_row(self, event: Message, row: Mapping[str, Any], studied: Studied | None) -> dict[str, Any]:
        """What search is to see of a message that has this row."""
        is_text = event.type is MessageType.TEXT
        entry = dict(BLANK_ENTRY)
        for name in _SHARED:
            entry[name] = row[name]
        entry["source"], entry["ref_uid"] = MESSAGE_SOURCE, event.uid
        entry["project_id"] = self._place(event.conversation_uid)[0]
        entry["text"] = event.text if is_text else event.text[: self._tool_text_chars]
        entry["is_turn"] = is_text
        waits = gets_vector(is_text, event.role, event.text, self._min_message_tokens, studied)
        entry["space_id"] = 0 if waits else None
        return entry

    def _placed(self, fresh: Sequence[Message]) -> Sequence[Message]:
        """The messages, those without a position behind everything that their conversation has."""
        unplaced = [event for event in fresh if not event.position]
        last = {uid: last_position(self._tx, uid) for uid in {event.conversation_uid for event in unplaced}}
        places: dict[str, int] = {}
        for event in unplaced:
            places[event.uid] = last[event.conversation_uid] = last[event.conversation_uid] + STEP
        return [replace(event, position=places[event.uid]) if event.uid in places else event for event in fresh]

    def _touch(self, fresh: Sequence[Message]) -> None:
        latest: dict[str, datetime] = {}
        for event in fresh:
            uid, moment = event.conversation_uid, event.created_at
            latest[uid] = max(latest.get(uid, moment), moment)
        rows = [
            {"of_tenant": self._tx.tenant, "row_id": self._required(conversations, uid), "moment": moment}
            for uid, moment in latest.items()
        ]
        self._tx.dialect.execute_each(self._tx.connection, _TOUCH, rows)

    def _end_exchanges(self, ends: Collection[ExchangeEnd]) -> None:
        rows = [{"of_tenant": self._tx.tenant, "of_uid": end.exchange_uid, **_end_row(end, "new_")} for end in ends]
        self._tx.dialect.execute_each(self._tx.connection, _END_EXCHANGE, rows)

    def _place(self, conversation_uid: str) -> tuple[int | None, tuple[str, ...]]:
        if conversation_uid not in self._place_of:
            columns = (conversations.c.project_id, conversations.c.label)
            place = self._tx.select(*columns).where(conversations.c.uid == conversation_uid)
            row = self._tx.connection.execute(place).first()
            self._place_of[conversation_uid] = (row.project_id, tags_of(row.label)) if row else (None, ())
        return self._place_of[conversation_uid]

    def _required(self, table: Table, uid: str) -> int:
        if uid not in self._row_ids:
            self._learn(table, (uid,))
        if uid not in self._row_ids:
            raise StoreCorruptError(f"The database is damaged: {table.name} has no {uid}. {REPAIR}")
        return self._row_ids[uid]

    def _learn(self, table: Table, uids: Iterable[str]) -> None:
        missing = [uid for uid in uids if uid not in self._row_ids]
        if missing:
            rows = rows_by(self._tx, table.c.uid, missing, table.c.uid, table.c.id)
            self._row_ids.update((row[0], row[1]) for row in rows)


def _end_row(end: ExchangeEnd, prefix: str = "") -> dict[str, Any]:
    ended_at = None if end.status is ExchangeStatus.IN_PROGRESS else end.at
    return {f"{prefix}status": end.status.value, f"{prefix}completed_at": ended_at, f"{prefix}error": end.error}


_Reference = tuple[Table, Callable[[Any], str], str]
# A message's; the first is a segment's, the first two an exchange's.
_IN_EXCHANGE: Sequence[_Reference] = [
    (table, attrgetter(f"{name}_uid"), f"{name}_id")
    for name, table in (("conversation", conversations), ("segment", segments), ("exchange", exchanges))
]
# Of a message's row, its entry's has these as well.
_SHARED = ("conversation_id", "segment_id", "exchange_id", "role", "author", "trust", "created_at", "position")
_conversation_row, _segment_row = writer(Conversation, conversations), writer(Segment, segments)
_exchange_row = writer(Exchange, exchanges, "status")
_message_row = writer(Message, messages, "role", "type", "trust")
# Built once: they run with every recorded message.
_TOUCH = (
    update(conversations)
    .where(
        conversations.c.tenant == bindparam("of_tenant"),
        conversations.c.id == bindparam("row_id"),
        conversations.c.updated_at < bindparam("moment"),
    )
    .values(updated_at=bindparam("moment"))
)
_END_EXCHANGE = (
    update(exchanges)
    .where(exchanges.c.tenant == bindparam("of_tenant"), exchanges.c.uid == bindparam("of_uid"))
    .values({name: bindparam(f"new_{name}") for name in ("status", "completed_at", "error")})
)


EventName = tuple[str, str]


def name_of(event: Event) -> EventName:
    """The kind of an event and the id of what it tells of; no two of a conversation have the same."""
    kind = type(event).__name__
    if isinstance(event, ExchangeEnd):
        return kind, event.exchange_uid
    if isinstance(event, SavedRecord) and event.fields is None:
        return Tombstone.__name__, event.uid
    return kind, event.conversation_uid if isinstance(event, Titled | Labelled) else event.uid


def forget_rows(tx: Transaction, graves: Sequence[Grave]) -> None:
    """Remove every row of what was forgotten and leave the tombstones."""
    tombs = [grave for grave in graves if isinstance(grave, Tombstone)]
    for grave in graves:
        if isinstance(grave, SavedRecord):
            forget_kept(tx, grave)
            drop_ratings(tx, ref_uids=[grave.uid])
        elif grave.kind != "message":
            drop_summaries_of(tx, grave.uid)
            drop_given(tx, grave.uid)
            delete_conversation_rows(tx, grave.uid)
    doomed: dict[str, list[str]] = {}
    for tomb in tombs:
        if tomb.kind == "message":
            doomed.setdefault(tomb.conversation_uid, []).append(tomb.uid)
    for conversation_uid, uids in doomed.items():
        for batch in batches(uids):
            _forget_messages(tx, conversation_uid, batch)
    if tombs:
        rows = [{"tenant": tx.tenant, **_tombstone_row(tomb)} for tomb in tombs]
        tx.connection.execute(tx.dialect.upsert(tombstones, {}, ("uid",)), rows)


def _forget_messages(tx: Transaction, conversation_uid: str, uids: Sequence[str]) -> None:
    """Remove messages of a conversation, all at once: one by one each would take twenty statements."""
    named = tx.dialect.one_of(messages.c.uid, uids)
    said = tx.connection.execute(tx.select(messages.c.created_at, messages.c.text).where(named)).all()
    drop_summaries_with(tx, uids)
    drop_segment_summaries(tx, named)
    remove_entries(tx, tx.dialect.one_of(entries.c.ref_uid, uids))
    drop_ratings(tx, ref_uids=uids)
    _delete_messages(tx, named)
    if said:
        _date(tx, conversation_uid, max(row.created_at for row in said))
        untitle(tx, conversation_uid, [row.text for row in said])


_tombstone_row = writer(Tombstone, tombstones)


def delete_conversation_rows(tx: Transaction, uid: str) -> None:
    """Remove a conversation with everything in it but its summaries; one that is not there is no error."""
    drop_ratings(tx, folder=uid)
    conversation_id = tx.connection.scalar(tx.select(conversations.c.id).where(conversations.c.uid == uid))
    if conversation_id is None:
        return
    remove_entries(tx, entries.c.conversation_id == conversation_id)
    _delete_messages(tx, messages.c.conversation_id == conversation_id)
    drop_summary_work(tx, conversation_id)
    of_it = tx.select(segments.c.id).where(segments.c.conversation_id == conversation_id)
    drop_orphans(tx, list(tx.connection.scalars(of_it)))
    for table in (exchanges, segments):
        tx.delete(table, table.c.conversation_id == conversation_id)
    tx.delete(conversations, conversations.c.id == conversation_id)


def drop_damaged_rows(tx: Transaction, folder: str, names: Collection[EventName]) -> None:
    """Remove a folder's rows, and those of these names wherever a damaged reference has put them, whatever is in them.

    Full text is to be rebuilt afterwards.
    """
    of_it = tx.select(conversations.c.id).where(conversations.c.uid == folder).scalar_subquery()
    source = SOURCE_OF_FOLDER.get(folder)
    mine = entries.c.source == source if source else entries.c.conversation_id == of_it
    remove_entries(tx, mine, is_indexed=False)
    delete_conversation_rows(tx, folder)
    for kind, table in _TABLES.items():
        for uids in batches(uid for name, uid in names if name == kind.__name__):
            if kind is Message:
                remove_entries(tx, entries.c.ref_uid.in_(uids), is_indexed=False)
            tx.connection.execute(delete(table).where(*tx.dialect.of_tenant(table, tx.tenant), table.c.uid.in_(uids)))


def _date(tx: Transaction, conversation_uid: str, moment: datetime) -> None:
    """Say of a conversation what it would say had a message of that moment never been: it is as new as its newest."""
    row = tx.connection.execute(
        tx.select(conversations.c.id, conversations.c.created_at, func.max(messages.c.created_at).label("newest"))
        .select_from(conversations.outerjoin(messages, same(conversations.c.id, messages.c.conversation_id)))
        .where(conversations.c.uid == conversation_uid, conversations.c.updated_at <= moment)
        .group_by(conversations.c.id, conversations.c.created_at)
    ).first()
    if row is not None:
        newest = max(row.created_at, row.newest or row.created_at)
        tx.update(conversations, conversations.c.id == row.id, updated_at=newest)


def _delete_messages(tx: Transaction, condition: ColumnElement[bool]) -> None:
    facts = tx.connection.scalars(tx.select(messages.c.metadata).where(condition, messages.c.metadata.is_not(None)))
    # What cannot be read was counted, and stays so.
    with suppress(StoreCorruptError, DBAPIError):
        count_up(tx, {name: -amount for name, amount in redaction_counts(facts).items()})
    tx.delete(messages, condition)
