"""What looking something up gives: hits, messages among their neighbours, and the record of a look at past talk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from harken.model.conversations import Choice, Conversation, Hit, Message, Trust
from harken.model.provenance import Provenance
from harken.model.views import (
    InjectedView,
    InjectionView,
    ListedView,
    RetrievalView,
    RuleView,
    SurroundingsView,
    format_moment,
    view_of,
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, and what it could not look at.

    Attributes:
        hits: best first.
        terms: the query's words that the keyword part looked for, for highlighting.
        threshold: the cosine similarity that vector-only hits had to reach; None without vectors.
        notes: one sentence for each part that could not answer (no embedder, no vectors yet…).
    """

    hits: tuple[Hit, ...]
    terms: tuple[str, ...] = ()
    threshold: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """Which conversations are listed: those in which something was said last from `since` on, and before `until`.

    Attributes:
        project: its key, an alias or its short name.
        channel: the agent's.
        tags: all of these.
        parent: the id of the conversation whose subagents' they are.
    """

    project: str | None = None
    channel: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    with_subagents: bool = False
    tags: tuple[str, ...] = ()
    parent: str | None = None
    limit: int = 30
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A conversation in a list.

    Attributes:
        conversation: with a title for people, made of its first words where it has none of its own.
        short_id: a beginning of its id that is no other's.
    """

    conversation: Conversation
    short_id: str
    messages: int
    chars: int
    tags: tuple[str, ...] = ()

    def view(self) -> ListedView:
        """Return the conversation and its size as JSON."""
        head = self.conversation
        return view_of(ListedView, self, head, project=head.project.key if head.project else None)


UNKNOWN, NO_PROJECT = "unknown", "no project"


@dataclass(frozen=True, slots=True)
class Activity:
    """What there was of a conversation on a day; `UNKNOWN` where it is not, or no more, recorded.

    Attributes:
        week: `2026-W48`; empty of what was counted by the month.
        prompts: what persons said.
        recalls: how often something came back in it by itself, and in how many tokens.
        judged: how often somebody has judged what came back, and how often it was useful.
        used: how often an answer has used what came back.
        usd: what models cost for it.
    """

    conversation_uid: str
    channel: str
    project: str
    month: str
    week: str = ""
    messages: int = 0
    prompts: int = 0
    recalls: int = 0
    recall_tokens: int = 0
    judged: int = 0
    useful: int = 0
    used: int = 0
    usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class HookTimes:
    """How long hooks of an agent took in a week, from the daemon's first byte to its last; to the next step of a scale.

    Attributes:
        counts: how many took at most so many milliseconds.
    """

    agent: str
    week: str
    counts: Mapping[int, int]

    def percentile(self, share: float) -> int:
        """The milliseconds in which this share of them was answered, 0 to 1."""
        wanted, seen = share * sum(self.counts.values()), 0
        for milliseconds in sorted(self.counts):
            seen += self.counts[milliseconds]
            if seen >= wanted:
                return milliseconds
        return 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Some messages of a conversation, oldest first.

    Attributes:
        message: the one that was asked for; None where the whole conversation was.
        before: how many earlier messages there are that are not shown; `after` of later ones.
    """

    conversation: Conversation
    messages: tuple[Message, ...]
    message: Message | None = None
    before: int = 0
    after: int = 0

    def view(self) -> SurroundingsView:
        """Return the messages and their conversation as JSON."""
        messages = [message.view() for message in self.messages]
        return view_of(SurroundingsView, self, conversation=self.conversation.view(), messages=messages)


@dataclass(frozen=True, slots=True)
class Injected:
    """One thing that came back by itself.

    Attributes:
        source: what it is, `message`, `exchange`, `memory`…; empty where nothing of that id is there any more.
        text: as it stands now, cut.
        why: the reason for which it came back; None where that was not kept.
        conversation_uid: that it was said in, or is.
        rated: what was said of it, in words; empty where nothing was.
        factor: what its score is multiplied by for that, 0.8 to 1.2.
        origin: whose it is, where it stands in another space of a team.
    """

    uid: str
    source: str
    text: str
    why: str | None
    conversation_uid: str | None = None
    rated: str = ""
    factor: float = 1.0
    origin: Provenance | None = None

    def view(self) -> InjectedView:
        """Return it as JSON."""
        return view_of(InjectedView, self)


@dataclass(frozen=True, slots=True)
class Injection:
    """What an agent's model was told at one moment.

    Attributes:
        event: of the agent, at which it was told: `UserPromptSubmit`, `SessionStart`…; None where that was not kept.
        title: of the conversation in which it was told.
        question: what a person had said last; empty where that is not recorded.
    """

    conversation_uid: str
    at: datetime
    event: str | None
    title: str
    items: tuple[Injected, ...]
    question: str = ""

    def view(self) -> InjectionView:
        """Return it as JSON; its moment to the microsecond, by which the ones before it are asked for."""
        return view_of(InjectionView, self, at=format_moment(self.at), items=[item.view() for item in self.items])


@dataclass(frozen=True, slots=True)
class Page:
    """Some messages of a conversation, oldest first, and where they stand in the whole."""

    conversation: Conversation
    messages: tuple[Message, ...]
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """Where the rest begins; None where that is all."""
        end = self.offset + len(self.messages)
        return end if end < self.total else None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One look at past conversations.

    Attributes:
        query_hash: of the words that were looked for; the words themselves are not kept.
        best_conversation: cosine similarity of the nearest conversation shown; None where none was, or none has a
            vector; likewise of the exchanges.
        error_class: what failed, if anything did.
    """

    query_hash: str
    conversations: int
    exchanges: int
    best_conversation: float | None
    best_exchange: float | None
    duration_microseconds: int
    at: datetime
    error_class: str | None = None

    def view(self) -> RetrievalView:
        """Return the look as JSON."""
        return view_of(RetrievalView, self, duration_ms=self.duration_microseconds / 1000)


class RuleState(Choice):
    """What was decided about a rule."""

    FOUND = "found"
    CONFIRMED = "confirmed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule or a preference that a person stated in a message, to hold from now on.

    Attributes:
        uid: the message's, and where in its text the rule begins.
        trust: the message's; what was imported holds once it is confirmed.
        entry_id: the message's entry.
        superseded_by: the id of a later one on the same matter; empty where there is none.
        project: the key of the conversation's project, if it has one.
        origin: whose it is, in a space of a team that is shared; None elsewhere.
    """

    uid: str
    text: str
    state: RuleState
    created_at: datetime
    trust: Trust
    conversation_uid: str
    message_uid: str
    entry_id: int
    superseded_by: str = ""
    project: str | None = None
    origin: Provenance | None = None

    @property
    def counts(self) -> bool:
        """Whether the owner has stated it, or has decided about it."""
        return self.trust is Trust.OWNER or self.state is not RuleState.FOUND

    @property
    def holds(self) -> bool:
        """Whether contexts are to have it."""
        return self.counts and self.state is not RuleState.DROPPED and not self.superseded_by

    def view(self) -> RuleView:
        """Return the rule as JSON."""
        return view_of(RuleView, self)


@dataclass(frozen=True, slots=True)
class PastExchange:
    """An exchange that came back.

    Attributes:
        similarity: cosine, -1 to 1, of the nearest of its messages and its summary; None where none has a vector.
        score: compares within one recall.
        user: what was asked: of several messages the one that matters most; likewise `assistant`.
        message_uids: those two.
        trust: the lower one of theirs; an agent's where both may be believed more.
        said_before: the user has said otherwise since, in another exchange that came back.
        said_by: the name of somebody else who asked; empty where it is the user's own.
        authors: the names that those who asked and answered were recorded with, if any; `Agent` asked a subagent.
    """

    uid: str
    at: datetime
    similarity: float | None
    score: float
    user: str
    assistant: str
    message_uids: tuple[str, ...]
    trust: Trust = Trust.AGENT
    said_before: bool = False
    said_by: str = ""
    authors: tuple[str, ...] = ("", "")

    def view(self) -> dict[str, Any]:
        """The exchange as JSON."""
        return {
            "id": self.uid,
            "at": self.at.isoformat(),
            "similarity": self.similarity,
            "score": self.score,
            "user": self.user,
            "assistant": self.assistant,
            "authors": list(self.authors),
            "trust": self.trust.value,
            "untrusted": self.trust.is_untrusted,
            "said_before": self.said_before,
        }


@dataclass(frozen=True, slots=True)
class PastConversation:
    """A conversation that came back, with its best exchanges, best first.

    Attributes:
        title: empty where it has none.
        summary: empty where nobody has made one yet.
        similarity: cosine, -1 to 1, of its summary or of its nearest exchange; None where none has a vector.
        trust: of title and summary.
        project: its key; empty where it belongs to none.
        other_project: the name of the other project that it is of; empty where it is of the one at hand, or of none.
        origin: where it stands and whose it is, in a team; None where it is one's own.
    """

    uid: str
    title: str
    summary: str
    at: datetime
    exchange_count: int
    similarity: float | None
    score: float
    exchanges: tuple[PastExchange, ...]
    trust: Trust = Trust.AGENT
    project: str = ""
    other_project: str = ""
    origin: Provenance | None = None

    def view(self) -> dict[str, Any]:
        """The conversation as JSON, with its exchanges."""
        return {
            "id": self.uid,
            "title": self.title,
            "summary": self.summary,
            "at": self.at.isoformat(),
            "exchange_count": self.exchange_count,
            "similarity": self.similarity,
            "score": self.score,
            "trust": self.trust.value,
            "untrusted": self.trust.is_untrusted,
            "project": self.project or None,
            "other_project": bool(self.other_project),
            "origin": self.origin.view() if self.origin else None,
            "exchanges": [each.view() for each in self.exchanges],
        }
