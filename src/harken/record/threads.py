"""Puts messages into segments and exchanges: the same way when they are said and when they are imported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from harken.model.conversations import Event, Exchange, ExchangeEnd, ExchangeStatus, Message, MessageType, Role, Segment
from harken.record.ids import derived_uid
from harken.storage.ports import Transaction
from harken.storage.positions import STEP, Place, find_places, newest_of, position_of
from harken.storage.tables import from_microseconds, interpret


@dataclass(slots=True)
class Thread:
    """The state of a conversation, and the events by which it goes on.

    Attributes:
        segment: the newest; None before the first message.
        exchange: the last one of that segment, as it began; None where it has none.
        status: how far that one has come.
        last_role: who spoke last in the exchange, markers left aside; `last_type` and `last_at`: what and when.
        last_position: of the conversation's last message; 0 where it has none.
        row_ids: rows of the conversation, its segment and its exchange by uid, which saves looking for them.
        tags: that its owner has given it; `is_named` where they have given it a title.
        events: what `place` and `finish` add: new segments, exchanges, messages, ends.
        messages: the messages that `place` put in their places.
    """

    conversation_uid: str
    segment: Segment | None = None
    exchange: Exchange | None = None
    status: ExchangeStatus | None = None
    exchange_count: int = 0
    last_role: Role | None = None
    last_type: MessageType | None = None
    last_at: datetime | None = None
    last_position: int = 0
    title: str | None = None
    row_ids: dict[str, int] = field(default_factory=dict)
    project_id: int | None = None
    tags: tuple[str, ...] = ()
    is_named: bool = False
    events: list[Event] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    @property
    def replied(self) -> bool:
        """True where the agent has done or said anything in the exchange."""
        return self.last_role in (Role.ASSISTANT, Role.TOOL)

    def place(self, message: Message) -> None:
        """Give a message its segment and exchange.

        A user's words begin an exchange, unless the one in progress has no reply yet: then they belong to it. What
        comes before anybody asked begins one as well, so that every reply is in an exchange. One that was completed
        and goes on is in progress again: its transcript was read in the middle of a turn.
        """
        if self.segment is None:
            uid = derived_uid("segment", self.conversation_uid, "1")
            self.segment = Segment(uid, self.conversation_uid, 1, message.created_at)
            self.events.append(self.segment)
        asks = message.role is Role.USER and message.type is MessageType.TEXT
        exchange = self.exchange
        if exchange is None or (asks and (self.replied or self.status is not ExchangeStatus.IN_PROGRESS)):
            self.end(ExchangeStatus.COMPLETED if self.replied else ExchangeStatus.FAILED)
            self.exchange_count += 1
            uid, number, moment = derived_uid("exchange", message.uid), self.exchange_count, message.created_at
            self.status = ExchangeStatus.IN_PROGRESS
            exchange = Exchange(uid, self.conversation_uid, self.segment.uid, number, self.status, moment)
            self.exchange = exchange
            self.events.append(exchange)
            self.last_role, self.last_type, self.last_at = None, None, moment
        if message.role is not Role.SYSTEM and self.status is ExchangeStatus.COMPLETED:
            self.status = ExchangeStatus.IN_PROGRESS
            # The moment of its end, so that both stand in one file of the journal, in this order.
            at = self.last_at or exchange.started_at
            self.events.append(ExchangeEnd(exchange.uid, self.conversation_uid, ExchangeStatus.IN_PROGRESS, at))
        self._put(message.placed(self.segment.uid, exchange.uid, self.next_position()))
        if message.role is not Role.SYSTEM:
            # Ends stand in files by day: one that comes later is to stand behind those before it.
            latest = max(message.created_at, self.last_at or message.created_at)
            self.last_role, self.last_type, self.last_at = message.role, message.type, latest

    def place_all(self, tx: Transaction, fresh: Sequence[Message], sequence: Sequence[Message], after: str) -> None:
        """Place what is new of a transcript (`fresh`, a part of `sequence`), which stands behind the message `after`.

        What was found late, between others, belongs to their exchange.
        """
        places: dict[str, Place] = {}
        is_known = len(fresh) < len(sequence) or (after and position_of(tx, after) != self.last_position)
        if fresh and self.title is not None and is_known:
            places = find_places(tx, self.conversation_uid, sequence, {message.uid for message in fresh}, after)
        for message in fresh:
            place = places.get(message.uid)
            if place is None or place.beside is None:
                self.place(message)
            else:
                beside = place.beside
                self._put(message.placed(beside.segment_uid, beside.exchange_uid, place.position))

    def next_position(self) -> int:
        """The position behind everything that was said so far, which whoever asks takes."""
        self.last_position += STEP
        return self.last_position

    def finish(self) -> None:
        """End the exchange if the agent's words are the last in it, since no more messages are to come for now."""
        if self.last_role is Role.ASSISTANT and self.last_type is MessageType.TEXT:
            self.end(ExchangeStatus.COMPLETED)

    def end(self, status: ExchangeStatus, error: str | None = None) -> None:
        """End the exchange in progress; one that is ended, or none, is left alone."""
        if self.exchange is not None and self.status is ExchangeStatus.IN_PROGRESS and self.last_at:
            self.events.append(ExchangeEnd(self.exchange.uid, self.conversation_uid, status, self.last_at, error))
            self.status = status

    def _put(self, message: Message) -> None:
        self.messages.append(message)
        self.events.append(message)


def read_thread(tx: Transaction, conversation_uid: str) -> Thread:
    """Read a conversation's state from the rows, in one look; an empty thread for one that is new."""
    thread = Thread(conversation_uid)
    row = newest_of(tx, conversation_uid)
    if row is None:
        return thread
    thread.title, thread.project_id = row.title, row.project_id
    if row.label:
        said = json.loads(row.label)
        thread.tags, thread.is_named = tuple(said["tags"]), bool(said["title"])
    thread.row_ids[conversation_uid] = row.conversation_id
    thread.last_position = row.last_position or 0
    if row.segment_id is None:
        return thread
    began_at = from_microseconds(row.segment_started_at)
    thread.segment = Segment(row.segment_uid, conversation_uid, row.segment_number, began_at)
    thread.row_ids[row.segment_uid] = row.segment_id
    thread.exchange_count = row.number or 0
    if row.number and row.exchange_segment_id == row.segment_id:
        uid, began_at = row.exchange_uid, from_microseconds(row.started_at)
        thread.status = interpret(ExchangeStatus, row.status)
        thread.exchange = Exchange(uid, conversation_uid, row.segment_uid, row.number, thread.status, began_at)
        thread.row_ids[uid] = row.exchange_id
        thread.last_role = Role(row.role) if row.role else None
        thread.last_type = MessageType(row.type) if row.type else None
        thread.last_at = began_at if row.said_at is None else from_microseconds(row.said_at)
    return thread
