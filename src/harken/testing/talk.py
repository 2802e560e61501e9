"""Conversations made for tests: the events that a recorder would write, with ids that follow from their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from harken.model.conversations import (
    EMPTY,
    Conversation,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    Segment,
    Tombstone,
    Trust,
)
from harken.record.ids import conversation_uid, derived_uid
from harken.storage.positions import STEP

START = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)


class Talk:
    """One conversation, told message by message, a minute apart.

        talk = Talk("garden")
        talk.say("When do I plant tomatoes?")
        talk.say("In May.", Role.ASSISTANT)
        ...  # talk.events

    Args:
        name: makes the conversation's id and is its external id.
        channel: where it is held; a task's runs are in `task`.

    Attributes:
        events: everything so far, in order; the head, a segment and an exchange come first.
    """

    def __init__(
        self, name: str, project: ProjectIdentity | None = None, start: datetime = START, channel: str = "test"
    ) -> None:
        uid = conversation_uid(channel, name)
        self.conversation = Conversation(uid, channel, name, "", start, start, project)
        self.events: list[Event] = [self.conversation]
        self.messages: list[Message] = []
        self._at = start
        self._segments = self._exchanges = 0
        self.begin_segment()

    @property
    def uid(self) -> str:
        """The conversation's id."""
        return self.conversation.uid

    def begin_segment(self) -> Segment:
        """A new segment, with an exchange in it."""
        self._segments += 1
        self.segment = Segment(f"{self.uid}/s{self._segments}", self.uid, self._segments, self._at)
        self.events.append(self.segment)
        self.begin_exchange()
        return self.segment

    def begin_exchange(self) -> Exchange:
        """A new exchange in the present segment."""
        self._exchanges += 1
        uid = derived_uid("exchange", self.uid, str(self._exchanges))
        progress = ExchangeStatus.IN_PROGRESS
        self.exchange = Exchange(uid, self.uid, self.segment.uid, self._exchanges, progress, self._at)
        self.events.append(self.exchange)
        return self.exchange

    def end_exchange(self, status: ExchangeStatus = ExchangeStatus.COMPLETED, error: str | None = None) -> ExchangeEnd:
        """The present exchange ends."""
        end = ExchangeEnd(self.exchange.uid, self.uid, status, self._at, error)
        self.events.append(end)
        return end

    def say(
        self,
        text: str,
        role: Role = Role.USER,
        *,
        at: datetime | None = None,
        author: str | None = None,
        type: MessageType = MessageType.TEXT,
        metadata: Mapping[str, Any] = EMPTY,
        position: int = 0,
    ) -> Message:
        """The next message, behind the one before and a minute after it, unless `position` or `at` says otherwise."""
        moment = at or self._at
        self._at = max(self._at, moment) + timedelta(minutes=1)
        message = Message(
            uid=derived_uid("message", self.uid, str(len(self.messages))),
            conversation_uid=self.uid,
            segment_uid=self.segment.uid,
            exchange_uid=self.exchange.uid,
            role=role,
            type=type,
            text=text,
            created_at=moment,
            author=author,
            trust={Role.USER: Trust.OWNER, Role.TOOL: Trust.TOOL}.get(role, Trust.AGENT),
            metadata=metadata,
            position=position or (len(self.messages) + 1) * STEP,
        )
        self.messages.append(message)
        self.events.append(message)
        return message

    def forget(self, message: Message | None = None) -> Tombstone:
        """What is left of a message, or of the whole conversation, once it is forgotten; no part of `events`."""
        if message is None:
            return Tombstone(self.uid, self.uid, "conversation", self._at)
        return Tombstone(message.uid, self.uid, "message", self._at)

    def titled(self, title: str) -> Conversation:
        """The head with a title from the beginning on."""
        self.conversation = replace(self.conversation, title=title)
        self.events[0] = self.conversation
        return self.conversation


def talk_of(name: str, *texts: str, project: ProjectIdentity | None = None, start: datetime = START) -> Talk:
    """A conversation in which user and assistant say these texts in turn."""
    talk = Talk(name, project, start)
    for number, text in enumerate(texts):
        talk.say(text, Role.ASSISTANT if number % 2 else Role.USER)
    return talk
