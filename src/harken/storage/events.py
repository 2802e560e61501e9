"""Events into rows, the one way in, and rows back into the events that make them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, Table, bindparam, insert, select, update

from harken.model.conversations import (
    CORE_MEMORY,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    MessageType,
    Role,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trusted,
)
from harken.storage.conversations import (
    each_message_of,
    find_conversation,
    find_known,
    find_tombstones,
    raise_trust,
    tombstones_of,
)
from harken.storage.entries import add_entries
from harken.storage.forgetting import forget_rows
from harken.storage.ports import Transaction, rows_in
from harken.storage.positions import STEP, last_position
from harken.storage.records.rows import KEPT, SOURCE_OF_FOLDER, apply_kept, each_kept, has_kept
from harken.storage.scopes import ensure_project, project_identity
from harken.storage.source_entries import MESSAGE_SOURCE, gets_vector
from harken.storage.state import apply_core_fact, core_facts, count_up, redaction_counts
from harken.storage.tables import conversations, exchanges, messages, projects, refers, segments, tombstones

_AT_ONCE = 1000


def known_conversations(tx: Transaction) -> list[str]:
    """Every conversation that the rows know, the forgotten ones included, by id."""
    present = select(conversations.c.uid).where(conversations.c.tenant == tx.tenant)
    gone = select(tombstones.c.conversation_uid).where(tombstones.c.tenant == tx.tenant)
    # Not by the database: engines differ in how they order texts.
    known = set(tx.connection.scalars(present.union(gone)))
    known |= {folder for folder, source in SOURCE_OF_FOLDER.items() if has_kept(tx, source)}
    return sorted(known | ({CORE_MEMORY} if core_facts(tx) else set()))


def events_of(tx: Transaction, uid: str) -> Iterator[Event]:
    """What the rows know of a conversation as events, in an order that can be replayed; always the same one.

    The conversation as it is now, its segments, exchanges, messages in their order, ends of exchanges, then what was
    forgotten. One at a time: a conversation may have more messages than fit in memory. A transaction that writes must
    take them all before it writes.
    """
    head = find_conversation(tx, uid)
    if head is not None:
        project = head.project and project_identity(tx, projects.c.key == head.project.key)
        yield replace(head, project=project)
        for row in _rows(tx, _segments(tx, uid)):
            yield Segment(row.uid, uid, row.number, row.started_at)
        placed = select_exchanges(tx, uid).order_by(exchanges.c.number, exchanges.c.started_at, exchanges.c.id)
        for row in _rows(tx, placed):
            begun = ExchangeStatus.IN_PROGRESS
            yield Exchange(row.uid, uid, row.segment_uid, row.number, begun, row.started_at)
        yield from each_message_of(tx, uid)
        ended = placed.where(exchanges.c.status != ExchangeStatus.IN_PROGRESS.value)
        for row in _rows(tx, ended):
            at = row.completed_at or row.started_at
            yield ExchangeEnd(row.uid, uid, ExchangeStatus(row.status), at, row.error)
    if uid == CORE_MEMORY:
        yield from core_facts(tx)
    if uid in SOURCE_OF_FOLDER:
        yield from each_kept(tx, SOURCE_OF_FOLDER[uid])
    yield from sorted(tombstones_of(tx, uid), key=lambda grave: (grave.at, grave.uid))


def select_exchanges(tx: Transaction, conversation_uid: str) -> Select[Any]:
    """The exchanges of a conversation, each with its segment's id as `segment_uid`."""
    placed = exchanges.join(conversations, refers(exchanges.c.conversation_id, conversations)).join(
        segments, refers(exchanges.c.segment_id, segments)
    )
    return (
        select(exchanges, segments.c.uid.label("segment_uid"))
        .select_from(placed)
        .where(exchanges.c.tenant == tx.tenant, conversations.c.uid == conversation_uid)
    )


def _segments(tx: Transaction, uid: str) -> Select[Any]:
    return (
        select(segments)
        .select_from(segments.join(conversations, refers(segments.c.conversation_id, conversations)))
        .where(segments.c.tenant == tx.tenant, conversations.c.uid == uid)
        .order_by(segments.c.number, segments.c.started_at, segments.c.id)
    )


def _rows(tx: Transaction, statement: Select[Any]) -> Iterator[Row[Any]]:
    yield from tx.connection.execute(statement, execution_options={"yield_per": _AT_ONCE})


_SEARCHABLE = (MessageType.TEXT, MessageType.TOOL_CALL, MessageType.TOOL_RESULT)


class Ingest:
    """Applies events to rows inside one transaction, remembering the row ids it has met.

    Args:
        tx: a writing transaction.
        min_message_tokens: shorter messages get no vector.
        tool_text_chars: how much of a tool call or result search sees.
    """

    def __init__(self, tx: Transaction, min_message_tokens: int, tool_text_chars: int) -> None:
        self._tx = tx
        self._min_message_tokens = min_message_tokens
        self._tool_text_chars = tool_text_chars
        self._row_ids: dict[str, int] = {}
        self._project_of: dict[str, int | None] = {}
        self._new_conversations: set[int] = set()

    def remember(self, row_ids: Mapping[str, int], conversation_uid: str, project_id: int | None) -> None:
        """Rows that the caller has just read, which saves reading them again."""
        self._row_ids.update(row_ids)
        if conversation_uid in row_ids:
            self._project_of[conversation_uid] = project_id

    def apply(self, events: Sequence[Event], checked: bool = False) -> int:
        """Write the events' rows, in order.

        Args:
            events: of any conversations.
            checked: the caller knows that none was applied before and none is of something forgotten.
        Returns:
            How many messages were new.
        """
        wanted = events if checked else self.unknown(events)
        for event in wanted:
            if isinstance(event, Conversation):
                self._conversation(event)
        self._insert(segments, [self._segment_row(event) for event in wanted if isinstance(event, Segment)])
        ends = {event.exchange_uid: event for event in wanted if isinstance(event, ExchangeEnd)}
        begun = [event for event in wanted if isinstance(event, Exchange)]
        self._insert(exchanges, [self._exchange_row(event, ends.pop(event.uid, None)) for event in begun])
        fresh = [event for event in wanted if isinstance(event, Message)]
        if fresh:
            self._messages(self._placed(fresh))
        self._end_exchanges(ends.values())
        raise_trust(self._tx, [event for event in wanted if isinstance(event, Trusted)])
        for event in wanted:
            if isinstance(event, Titled):
                self._title(event)
            elif isinstance(event, Tombstone):
                forget_rows(self._tx, event)
            elif isinstance(event, CoreFact):
                apply_core_fact(self._tx, event)
            elif isinstance(event, SavedRecord):
                apply_kept(self._tx, event)
        return len(fresh)

    def unknown(self, events: Sequence[Event]) -> list[Event]:
        """The events without those that were applied before or belong to something forgotten."""
        tables = ((conversations, Conversation), (segments, Segment), (exchanges, Exchange), (messages, Message))
        dropped: set[str] = set()
        for table, kind in tables:
            dropped |= find_known(self._tx, table, [event.uid for event in events if isinstance(event, kind)])
        uids = {
            event.uid
            for event in events
            if isinstance(event, Conversation | Segment | Exchange | Message | SavedRecord)
        }
        dropped |= find_tombstones(self._tx, uids)
        places = {event.conversation_uid for event in events if not isinstance(event, Conversation)}
        forgotten = find_tombstones(self._tx, places)
        seen: set[str] = set()
        wanted: list[Event] = []
        for event in events:
            if isinstance(event, Conversation | Segment | Exchange | Message):
                if event.uid in dropped or event.uid in seen:
                    continue
                seen.add(event.uid)
            if isinstance(event, SavedRecord) and event.uid in dropped:
                continue
            if isinstance(event, Conversation | Tombstone) or event.conversation_uid not in forgotten:
                wanted.append(event)
        return wanted

    def _conversation(self, event: Conversation) -> None:
        project_id = None if event.project is None else ensure_project(self._tx, event.project)
        row = {
            "uid": event.uid,
            "channel": event.channel,
            "external_id": event.external_id,
            "title": event.title,
            "project_id": project_id,
            "parent_uid": event.parent_uid,
            "created_at": event.created_at,
            "updated_at": event.updated_at,
            "metadata": event.metadata,
        }
        self._insert(conversations, [row])
        self._project_of[event.uid] = project_id
        self._new_conversations.add(self._row_ids[event.uid])

    def _insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            values = [{"tenant": self._tx.tenant, **row} for row in rows]
            found = self._tx.connection.execute(_INSERTED[table.name], values)
            self._row_ids.update((row[0], row[1]) for row in found)

    def _segment_row(self, event: Segment) -> dict[str, Any]:
        return {
            "uid": event.uid,
            "conversation_id": self._conversation_id(event.conversation_uid),
            "number": event.number,
            "started_at": event.started_at,
        }

    def _exchange_row(self, event: Exchange, end: ExchangeEnd | None) -> dict[str, Any]:
        return {
            "uid": event.uid,
            "conversation_id": self._conversation_id(event.conversation_uid),
            "segment_id": self._required(segments, event.segment_uid),
            "number": event.number,
            "status": (end or event).status.value,
            "started_at": event.started_at,
            "completed_at": _ended_at(end) if end else event.completed_at,
            "error": (end or event).error,
        }

    def _messages(self, fresh: Sequence[Message]) -> None:
        self._learn(exchanges, {event.exchange_uid for event in fresh})
        self._learn(segments, {event.segment_uid for event in fresh})
        rows = [self._message_row(event) for event in fresh]
        self._tx.connection.execute(_INSERT_MESSAGES, rows)
        entry_rows = [
            self._entry_row(event, row)
            for event, row in zip(fresh, rows, strict=True)
            if event.type in _SEARCHABLE and event.role is not Role.SYSTEM and event.text.strip()
        ]
        add_entries(self._tx, entry_rows, frozenset(self._new_conversations))
        self._new_conversations.clear()
        self._touch(fresh)
        count_up(self._tx, redaction_counts(event.metadata for event in fresh))

    def _placed(self, fresh: Sequence[Message]) -> Sequence[Message]:
        """The messages, those without a position behind everything that their conversation has."""
        unplaced = [event for event in fresh if not event.position]
        last = {uid: last_position(self._tx, uid) for uid in {event.conversation_uid for event in unplaced}}
        places: dict[str, int] = {}
        for event in unplaced:
            places[event.uid] = last[event.conversation_uid] = last[event.conversation_uid] + STEP
        return [replace(event, position=places[event.uid]) if event.uid in places else event for event in fresh]

    def _message_row(self, event: Message) -> dict[str, Any]:
        return {
            "tenant": self._tx.tenant,
            "uid": event.uid,
            "conversation_id": self._conversation_id(event.conversation_uid),
            "segment_id": self._required(segments, event.segment_uid),
            "exchange_id": self._required(exchanges, event.exchange_uid),
            "role": event.role.value,
            "type": event.type.value,
            "author": event.author,
            "trust": event.trust.value,
            "call_id": event.call_id,
            "tool_name": event.tool_name,
            "external_id": event.external_id,
            "created_at": event.created_at,
            "text": event.text,
            "metadata": event.metadata,
            "position": event.position,
        }

    def _entry_row(self, event: Message, row: Mapping[str, Any]) -> dict[str, Any]:
        is_text = event.type is MessageType.TEXT
        waits = gets_vector(is_text, event.role, event.text, self._min_message_tokens)
        return {
            "source": MESSAGE_SOURCE,
            "part": "",
            "ref_uid": event.uid,
            "conversation_id": row["conversation_id"],
            "segment_id": row["segment_id"],
            "exchange_id": row["exchange_id"],
            "project_id": self._project_id(event.conversation_uid),
            "role": row["role"],
            "author": event.author,
            "trust": row["trust"],
            "created_at": event.created_at,
            "text": event.text if is_text else event.text[: self._tool_text_chars],
            "weight": 1.0,
            "is_turn": is_text,
            "space_id": 0 if waits else None,
            "position": event.position,
        }

    def _touch(self, fresh: Sequence[Message]) -> None:
        latest: dict[str, datetime] = {}
        for event in fresh:
            uid, moment = event.conversation_uid, event.created_at
            latest[uid] = max(latest.get(uid, moment), moment)
        rows = [
            {"of_tenant": self._tx.tenant, "row_id": self._conversation_id(uid), "moment": moment}
            for uid, moment in latest.items()
        ]
        self._tx.connection.execute(_TOUCH, rows)

    def _end_exchanges(self, ends: Collection[ExchangeEnd]) -> None:
        rows = [
            {
                "of_tenant": self._tx.tenant,
                "of_uid": event.exchange_uid,
                "new_status": event.status.value,
                "moment": _ended_at(event),
                "new_error": event.error,
            }
            for event in ends
        ]
        if rows:
            self._tx.connection.execute(_END_EXCHANGE, rows)

    def _title(self, event: Titled) -> None:
        self._tx.connection.execute(
            update(conversations)
            .where(conversations.c.tenant == self._tx.tenant, conversations.c.uid == event.conversation_uid)
            .values(title=event.title)
        )

    def _conversation_id(self, uid: str) -> int:
        return self._required(conversations, uid)

    def _project_id(self, conversation_uid: str) -> int | None:
        if conversation_uid not in self._project_of:
            self._project_of[conversation_uid] = self._tx.connection.execute(
                select(conversations.c.project_id).where(
                    conversations.c.tenant == self._tx.tenant, conversations.c.uid == conversation_uid
                )
            ).scalar()
        return self._project_of[conversation_uid]

    def _required(self, table: Table, uid: str) -> int:
        row_id = self._row_id(table, uid)
        if row_id is None:
            raise KeyError(f"{table.name} has no {uid}")
        return row_id

    def _row_id(self, table: Table, uid: str) -> int | None:
        if uid not in self._row_ids:
            self._learn(table, {uid})
        return self._row_ids.get(uid)

    def _learn(self, table: Table, uids: Iterable[str]) -> None:
        missing = [uid for uid in uids if uid not in self._row_ids]
        if missing:
            statement = select(table.c.uid, table.c.id).where(table.c.tenant == self._tx.tenant)
            self._row_ids.update((row[0], row[1]) for row in rows_in(self._tx, statement, table.c.uid, missing))


def _ended_at(end: ExchangeEnd) -> datetime | None:
    return None if end.status is ExchangeStatus.IN_PROGRESS else end.at


# Built once, like those below: they run with every recorded message.
_INSERT_MESSAGES = insert(messages)
_INSERTED = {
    table.name: insert(table).returning(table.c.uid, table.c.id) for table in (conversations, segments, exchanges)
}
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
    .values(status=bindparam("new_status"), completed_at=bindparam("moment"), error=bindparam("new_error"))
)


EventName = tuple[str, str]


def name_of(event: Event) -> EventName:
    """The kind of an event and the id of what it tells of; no two of a conversation have the same."""
    kind = type(event).__name__
    if isinstance(event, ExchangeEnd):
        return kind, event.exchange_uid
    if isinstance(event, SavedRecord) and event.fields is None:
        return Tombstone.__name__, event.uid
    return kind, event.conversation_uid if isinstance(event, Titled) else event.uid


def names_held(tx: Transaction, uid: str) -> set[EventName]:
    """The names of everything that the rows hold of a conversation."""
    of_it = select(conversations.c.id).where(conversations.c.tenant == tx.tenant, conversations.c.uid == uid)
    conversation_id = of_it.scalar_subquery()
    held: set[EventName] = {(Tombstone.__name__, grave.uid) for grave in tombstones_of(tx, uid)}
    if tx.connection.execute(of_it).first() is not None:
        held.add((Conversation.__name__, uid))
    if uid in SOURCE_OF_FOLDER:
        kept = KEPT[SOURCE_OF_FOLDER[uid]].table
        known = tx.connection.scalars(select(kept.c.uid).where(kept.c.tenant == tx.tenant))
        held.update((SavedRecord.__name__, found) for found in known)
    for table, kind in ((segments, Segment), (exchanges, Exchange), (messages, Message)):
        rows = select(table.c.uid).where(table.c.tenant == tx.tenant, table.c.conversation_id == conversation_id)
        held.update((kind.__name__, found) for found in tx.connection.scalars(rows))
    ended = select(exchanges.c.uid).where(
        exchanges.c.tenant == tx.tenant,
        exchanges.c.conversation_id == conversation_id,
        exchanges.c.status != ExchangeStatus.IN_PROGRESS.value,
    )
    held.update((ExchangeEnd.__name__, found) for found in tx.connection.scalars(ended))
    return held
