"""Messages on their way in, and what is made of them before the store is asked: no secrets, ids, traits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harken.model.conversations import EMPTY, REDACTED, Message, MessageType, ProjectIdentity, Role, Trust
from harken.record.ids import conversation_uid, derived_uid, new_uid
from harken.redact.redactor import CleanNames, Redactor
from harken.text.characters import sound_value, valid_utf8
from harken.text.fence import without_recall
from harken.text.traits import Studied, study


@dataclass(frozen=True, slots=True)
class NewConversation:
    """A conversation to record into; found again by channel and external id.

    Attributes:
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

    @property
    def parent_uid(self) -> str | None:
        """The id of the conversation that it is a side of, and is forgotten with."""
        return None if self.parent_external_id is None else conversation_uid(self.channel, self.parent_external_id)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to record.

    Attributes:
        created_at: timezone-aware; None means now, or that a transcript has no time of it.
        external_id: the agent's own id of the message, else empty.
        origin: what makes the message itself where it was read from; None for one said now. Two messages of a
            conversation with the same origin, time and text are one.
        origin_at: the time that the origin states; None where it states none and `created_at` is a guess.
        metadata: small facts worth keeping (model, branch, is_error); never text of the conversation.
        conversation: where a transcript has it, the `external_id` of the conversation there.
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
    conversation: str = ""

    def read(self, at: datetime, trust: Trust, origin: str) -> NewMessage:
        """The message as one of a transcript, said then; `replace` takes three times as long, of each message."""
        said = self.role, self.text, self.type, at, self.author, trust, self.call_id, self.tool_name
        return NewMessage(*said, self.external_id, origin, self.created_at, self.metadata, self.conversation)


@dataclass(slots=True)
class Prepared:
    """A message as it is kept, but for its segment and exchange.

    Attributes:
        is_said_now: it gets its time and id when it is written.
        is_derived: its id is made of its origin, so that it may be here already, or be forgotten.
        studied: of what search is to see of its text.
    """

    message: Message
    is_said_now: bool
    is_derived: bool
    studied: Studied

    def __reduce__(self) -> tuple[Callable[..., Prepared], tuple[Any, ...]]:
        """Pickle it as plain values: field by field, as records are, takes three times as long."""
        said, studied = self.message, self.studied
        named = said.uid, said.conversation_uid, said.role, said.type, said.text, said.created_at, said.author
        more = said.trust, said.call_id, said.tool_name, said.external_id, dict(said.metadata) or EMPTY
        return _prepared, (*named, *more, self.is_said_now, self.is_derived, studied.rules, studied.traits)


def _prepared(*values: Any) -> Prepared:
    uid, conversation_uid, *rest = values[:-4]
    is_said_now, is_derived, rules, traits = values[-4:]
    return Prepared(Message(uid, conversation_uid, "", "", *rest), is_said_now, is_derived, Studied(rules, traits))


@dataclass(slots=True)
class Preparer:
    """Prepares messages; it needs no store, so that any process can.

    Args:
        tool_text_chars: how much of a tool call or result search sees.
    """

    redactor: Redactor
    tool_text_chars: int
    names: CleanNames = field(init=False)

    def __post_init__(self) -> None:
        self.names = CleanNames(self.redactor)

    def __reduce__(self) -> tuple[type[Preparer], tuple[Redactor, int]]:
        """Pickle it without what it remembers."""
        return Preparer, (self.redactor, self.tool_text_chars)

    def prepare(
        self, uid: str, message: NewMessage, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> Prepared:
        """A message as it is kept in the conversation of that id: without secrets, recalled blocks and an exchange."""
        raw = without_recall(valid_utf8(message.text))
        moment = message.created_at or now()
        is_said_now = message.created_at is None and message.origin is None
        if message.origin is None:
            own_uid = "" if is_said_now else new_uid(moment)
        else:
            parts = ("message", uid, message.origin, message.role.value, message.type.value, raw)
            own_uid = derived_uid(*parts, moment=message.origin_at)
        fields = self.cleaned(message, raw, sound_value(message.metadata) if message.metadata else EMPTY)
        is_text = message.type is MessageType.TEXT
        seen = fields["text"] if is_text else fields["text"][: self.tool_text_chars]
        whole = Message(
            uid=own_uid,
            conversation_uid=uid,
            segment_uid="",
            exchange_uid="",
            role=message.role,
            type=message.type,
            created_at=moment,
            trust=message.trust,
            **fields,
        )
        studied = study(seen, is_text and message.role is Role.USER)
        return Prepared(whole, is_said_now, message.origin is not None, studied)

    def cleaned(
        self, message: NewMessage | Message, text: str, metadata: Mapping[str, Any], before: Mapping[str, int] = EMPTY
    ) -> dict[str, Any]:
        """The fields of a message that others fill, without secrets; `before` counts what was taken out earlier."""
        redacted = self.redactor.redact(text)
        metadata, more = self.redactor.redact_value(metadata) if metadata else (EMPTY, EMPTY)
        if before or redacted.counts or more:
            counts: Counter[str] = Counter()
            for taken in (before, redacted.counts, more):
                counts.update(taken)
            metadata = {**metadata, REDACTED: dict(counts)}
        names = self.names
        return {
            "text": redacted.text,
            "metadata": metadata,
            "author": names.optional(message.author),
            "call_id": names.optional(message.call_id),
            "tool_name": names.optional(message.tool_name),
            "external_id": names.text(message.external_id),
        }
