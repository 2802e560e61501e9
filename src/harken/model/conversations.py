"""The records that travel through Harken: frozen, slotted, and free of behaviour that touches a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from harken.errors import UsageError
from harken.model.arguments import several
from harken.model.marks import Rated
from harken.model.provenance import Provenance
from harken.model.views import ConversationView, HitView, ItemView, MessageView, ReasonView, view_of


class _Nothing(Mapping[str, Any]):
    """A mapping with nothing in it; hashable, which Python 3.11 asks of a record's default and no proxy is there."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0


EMPTY: Mapping[str, Any] = _Nothing()
# The key of a message's metadata that says how many secrets of each kind were taken out of it.
REDACTED = "redacted"


class Choice(StrEnum):
    """One of a few words."""

    @classmethod
    def of(cls, value: str) -> Self:
        """Return the member that a caller's word names.

        Raises:
            UsageError: it is none of them.
        """
        if value not in cls._value2member_map_:
            raise UsageError(f"{value!r} is no {cls.__name__}. Give one of: {', '.join(cls)}")
        return cls(value)


class Trust(Choice):
    """Where words came from, and so how far they may be believed."""

    OWNER = "owner"
    AGENT = "agent"
    TOOL = "tool"
    IMPORTED = "imported"
    UNTRUSTED = "untrusted"

    @property
    def is_untrusted(self) -> bool:
        """Whether anybody may have written it: a recalled one must be nearer, stands lower, and says what it is.

        What a tool brought counts whatever the tool: a page, an issue, a file of somebody else's, a foreign server's
        answer all come as its result, and no name of a tool tells which. It stays `tool` on record, so that what was
        recorded before counts the same. What was exported elsewhere, or read from the disk because its owner asked for
        it, is `imported`: chosen by the owner, if not written by them.
        """
        return self in UNTRUSTED

    @property
    def label(self) -> str:
        """As it is shown: `tool, untrusted`."""
        return f"{self.value}, untrusted" if self.is_untrusted and self is not Trust.UNTRUSTED else self.value


@dataclass(frozen=True, slots=True)
class Trusted:
    """A message that came as `imported` is the owner's or an agent's own after all."""

    uid: str
    conversation_uid: str
    trust: Trust
    at: datetime


UNTRUSTED = (Trust.TOOL, Trust.UNTRUSTED)
_ORDER = (Trust.OWNER, Trust.AGENT, Trust.IMPORTED, Trust.TOOL, Trust.UNTRUSTED)


def least_trusted(found: Iterable[Trust]) -> Trust:
    """Return the one that may be believed least; of none, `AGENT`."""
    return max(found, key=_ORDER.index, default=Trust.AGENT)


class Role(Choice):
    """Who a message speaks for."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class MessageType(Choice):
    """What a message is."""

    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    MARKER = "marker"
    SUMMARY = "summary"


TASK_CHANNEL, TASK_UID = "task", "scheduler_"
"""The channel of a scheduled task's runs, and what the id of a task's conversation begins with; its name follows."""


class ExchangeStatus(Choice):
    """How far an exchange has come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """What makes a working directory the same project over time.

    Attributes:
        key: `git:host/owner/name` from the remote, else `path:/real/path`.
        name: short, for people.
        aliases: other keys under which the same project may be found, most specific first.
    """

    key: str
    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread with one agent in one channel."""

    uid: str
    channel: str
    external_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    project: ProjectIdentity | None = None
    parent_uid: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    origin: Provenance | None = None

    def view(self) -> ConversationView:
        """Return the conversation as JSON."""
        return view_of(ConversationView, self, project=self.project.key if self.project else None)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a conversation between two `/new`s; numbers count from 1."""

    uid: str
    conversation_uid: str
    number: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Exchange:
    """One user request up to the final assistant answer; numbers count from 1 in the conversation."""

    uid: str
    conversation_uid: str
    segment_uid: str
    number: int
    status: ExchangeStatus
    started_at: datetime
    completed_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it stands in the store: redacted, whole, never changed again.

    Attributes:
        call_id: links a tool call with its result, as the agent named it.
        external_id: the id in the transcript it was read from, else empty.
        position: ascends in the order of the conversation's transcript; 0 until it has its place.
    """

    uid: str
    conversation_uid: str
    segment_uid: str
    exchange_uid: str
    role: Role
    type: MessageType
    text: str
    created_at: datetime
    author: str | None = None
    trust: Trust = Trust.OWNER
    call_id: str | None = None
    tool_name: str | None = None
    external_id: str = ""
    metadata: Mapping[str, Any] = EMPTY
    position: int = 0

    def placed(self, segment_uid: str, exchange_uid: str, position: int) -> Message:
        """Return the message with its place in the conversation; `replace` takes twice as long, of each message."""
        named = self.uid, self.conversation_uid, segment_uid, exchange_uid, self.role, self.type, self.text
        more = self.created_at, self.author, self.trust, self.call_id, self.tool_name, self.external_id
        return Message(*named, *more, self.metadata, position)

    def view(self) -> MessageView:
        """Return the message as JSON."""
        return view_of(MessageView, self, untrusted=self.trust.is_untrusted)


@dataclass(frozen=True, slots=True)
class Entry:
    """One searchable item.

    Attributes:
        id: the row, stable while the database lives; never shown to people.
        source: `message` here; other sources bring their own names.
        ref_uid: the record it was made from; what people paste into the next command.
        text: what search sees, clipped, without the author's name.
        weight: importance, 1.0 is neutral.
        part: which of a record's several entries it is, such as the axis of an experience; else empty.
        position: its message's, in the conversation.
    """

    id: int
    source: str
    ref_uid: str
    conversation_uid: str | None
    exchange_uid: str | None
    project: str | None
    role: str | None
    author: str | None
    created_at: datetime
    trust: Trust
    text: str
    weight: float = 1.0
    part: str = ""
    position: int = 0

    @property
    def spoken(self) -> str:
        """The text as it is embedded and indexed: `Author: text` where an author is known."""
        return spoken(self.author, self.text)


def spoken(author: str | None, text: str) -> str:
    """Return the words with their speaker before them: `Author: text`, or the text alone."""
    return f"{author}: {text}" if author else text


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What search is to see of a record, or of one part of it.

    Attributes:
        part: tells a record's entries apart; empty where it has one.
        facets: words `name:value` that a search can be limited by, such as `category:decision`.
        weight: importance, 1.0 is neutral.
        is_embedded: whether it is to be found by meaning as well as by its words.
    """

    part: str
    text: str
    facets: tuple[str, ...] = ()
    weight: float = 1.0
    is_embedded: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """What a hit's score is made of: a name, a value, and words for a person.

    Attributes:
        is_added: whether the value is a share of `Hit.fused` that a feature adds or takes; else a factor of the score.
    """

    name: str
    value: float
    note: str = ""
    is_added: bool = False

    def view(self) -> ReasonView:
        """Return the reason as JSON."""
        return view_of(ReasonView, self, value=round(self.value, 4), added=self.is_added)

    def __str__(self) -> str:
        if self.is_added:
            return f"{self.value:+.2f} {self.note}"
        return f"{self.name} x{self.value:.2f}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that answers a query, with why.

    Attributes:
        similarity: cosine to the query, -1 to 1; None while the entry has no vector.
        keyword_rank: rank in the keyword list from 1; None when no word matched.
        vector_rank: rank in the similarity list from 1; None when it was not among the nearest.
        fused: what words and meaning, and by learned fusion every feature, say; compares only within one search.
        score: `fused` after every weight; higher is better.
        reasons: every weight that was applied, the threshold it passed, and which features of learned fusion say most.
        origin: whose words it is, where several people's memory is read; None where it is one's own.
    """

    entry: Entry
    score: float
    fused: float
    similarity: float | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    reasons: tuple[Reason, ...] = ()
    origin: Provenance | None = None

    def view(self) -> HitView:
        """Return the hit as JSON, flat with its entry."""
        return view_of(
            HitView,
            self,
            self.entry,
            id=self.entry.ref_uid,
            untrusted=self.entry.trust.is_untrusted,
            score=round(self.score, 6),
            similarity=None if self.similarity is None else round(self.similarity, 4),
            fused=round(self.fused, 6),
            reasons=[reason.view() for reason in self.reasons],
        )


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Which entries a search may see; None or empty means no limit.

    Attributes:
        since: inclusive, timezone-aware.
        until: exclusive, timezone-aware.
        facets: words `name:value`, all of which an entry must have.
        without_sources: kinds of entries that are left out.
        without_untrusted: whether what is not to be trusted is left out (`Trust.is_untrusted`).
    """

    sources: tuple[str, ...] = ()
    project: str | None = None
    conversation: str | None = None
    segment: str | None = None
    roles: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    facets: tuple[str, ...] = ()
    without_sources: tuple[str, ...] = ()
    without_untrusted: bool = False

    def __post_init__(self) -> None:
        """Take lists and lone texts for tuples; raise UsageError for a role that there is not."""
        for name in ("sources", "roles", "facets", "without_sources"):
            object.__setattr__(self, name, tuple(several(getattr(self, name))))
        _ = [Role.of(role) for role in self.roles]


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One thing that a context shows.

    Attributes:
        source: `memory`, `code`, `experience`, `value`, `commit`, `document` or `conversation`.
        content: Markdown.
        relevance: likeness to what was asked, 0 to 1.
        metadata: facts of its source.
    Source: SPEC-002-18.
    """

    source: str
    content: str
    relevance: float
    metadata: Mapping[str, Any]

    def view(self) -> ItemView:
        """Return the item as JSON."""
        return view_of(ItemView, self, metadata=dict(self.metadata))


@dataclass(frozen=True, slots=True)
class ExchangeEnd:
    """An exchange has ended, well or not; or, where it is in progress once more, has not ended after all."""

    exchange_uid: str
    conversation_uid: str
    status: ExchangeStatus
    at: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Titled:
    """A conversation has a new title."""

    conversation_uid: str
    title: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Labelled:
    """What its owner has said of a conversation: all of it, in place of what was said before.

    A title and a project stand in place of its own; `tags` in the order in which they were given.
    """

    conversation_uid: str
    at: datetime
    title: str = ""
    tags: tuple[str, ...] = ()
    project: ProjectIdentity | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Something was forgotten, by its kind a `message` or a `conversation`; nothing remains but its id."""

    uid: str
    conversation_uid: str
    kind: str
    at: datetime


CORE_MEMORY = "core"


@dataclass(frozen=True, slots=True)
class CoreFact:
    """A core memory was set, or deleted where it has no value.

    Attributes:
        section: `user` or `agent`.
        at: when it was last set.
    """

    section: str
    key: str
    value: str | None
    at: datetime

    @property
    def uid(self) -> str:
        """What names it among the others."""
        return f"{self.section}/{self.key}"

    @property
    def conversation_uid(self) -> str:
        """The journal's folder for all of them; no conversation is called so."""
        return CORE_MEMORY


DERIVED_SOURCES = ("code", "commit", "document")
"""The sources that are read from the disk; a search sees them where it names them."""
KEPT_FOLDERS = {"memory": "memories", "experience": "experiences", "value": "values", "topic": "topics"}
"""The sources whose truth is the journal, each with its folder; no conversation is called so."""


@dataclass(frozen=True, slots=True)
class SavedRecord:
    """A record of a source as it stands after a change, or, without fields, that it was forgotten.

    Attributes:
        source: one of `KEPT_FOLDERS`.
        at: when it changed; of two states the later one holds, and one that was forgotten never comes back.
        fields: the whole record, JSON-able; moments as ISO 8601.
    """

    source: str
    uid: str
    at: datetime
    fields: Mapping[str, Any] | None
    project: ProjectIdentity | None = None

    @property
    def conversation_uid(self) -> str:
        """The journal's folder for all of its source."""
        return KEPT_FOLDERS[self.source]


Grave = Tombstone | SavedRecord
"""What is left of something forgotten; of a kept record, the one without fields."""
_Said = Conversation | Segment | Exchange | Message | ExchangeEnd | Trusted
Event = _Said | Titled | Labelled | Rated | Tombstone | CoreFact | SavedRecord
