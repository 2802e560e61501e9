"""What verbs for what was said answer; the keys are those of the command line's `--json`."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from harken.serve.verbs.verb import Facts


class ReasonView(Facts):
    """Why a hit stands where it does."""

    name: str
    value: float
    note: str


class HitFacts(Facts):
    """One thing that was found."""

    id: str
    source: str
    conversation_id: str | None
    exchange_id: str | None
    project: str | None
    role: str | None
    author: str | None
    trust: str
    untrusted: bool
    created_at: str
    text: str
    score: float
    similarity: float | None
    keyword_rank: int | None
    vector_rank: int | None
    fused: float
    reasons: list[ReasonView]
    part: str
    truncated: bool


class SearchView(Facts):
    """What was found, best first."""

    hits: list[HitFacts]
    notes: list[str]
    next_offset: int | None


class ConversationFacts(Facts):
    """The conversation that messages are of."""

    id: str
    channel: str
    title: str
    project: str | None
    created_at: str


class MessageFacts(Facts):
    """A message."""

    id: str
    conversation_id: str
    exchange_id: str | None
    role: str
    type: str
    author: str | None
    tool_name: str | None
    call_id: str | None
    trust: str
    untrusted: bool
    created_at: str
    text: str
    truncated: bool


class MemoryFacts(Facts):
    """A memory."""

    id: str
    content: str
    category: str
    importance: float
    tags: list[str]
    project: str | None
    trust: str
    untrusted: bool
    created_at: str
    updated_at: str
    accessed_at: str | None
    supersedes: list[str]
    superseded_by: str | None


class Shown(Facts):
    """Messages of a conversation, oldest first; or a memory; or an experience."""

    conversation: ConversationFacts | None = None
    before: int = 0
    messages: list[MessageFacts] = Field(default_factory=list)
    after: int = 0
    next_offset: int | None = None
    memory: MemoryFacts | None = None
    experience: dict[str, Any] | None = None


class LayerItemFacts(Facts):
    """One thing in a layer; more is told of some."""

    model_config = ConfigDict(extra="allow")

    id: str | None
    tokens: int
    text: str
    why: str


class LayerFacts(Facts):
    """A layer of a context."""

    name: str
    tokens: int
    items: list[LayerItemFacts]


class ContextFacts(Facts):
    """What a model would get to see."""

    conversation_id: str
    tokens: int
    budget_tokens: int
    messages: list[dict[str, Any]]
    layers: list[LayerFacts]
    notes: list[str]


class DetailsView(Facts):
    """A page of a conversation or an exchange, fenced as a quotation."""

    kind: str
    id: str
    text: str
    next_offset: int | None


class WorkerFacts(Facts):
    """How a worker stands."""

    name: str
    enabled: bool
    state: str
    done: int
    outlived: int
    older: int
    waiting: int
    current: str | None
    in_hand: int
    retrying: int
    retry_at: str | None
    given_up: int
    last_error: str | None
    halted: str | None
    calls: int
    spend_usd: float
    spend_today_usd: float


class StandingView(Facts):
    """How much there is, and how it stands."""

    messages: int
    conversations: int
    exchanges: int
    project_count: int
    entries: int
    embeddable: int
    embedded: int
    queue: int
    failed: int
    forgotten: int
    redactions: int
    redactions_by_kind: dict[str, int]
    spend_usd: float
    spend_today_usd: float
    spend_unsettled_usd: float
    spend_unpriced_calls: int
    max_usd_per_day: float | None
    space: str | None
    filling_space: str | None
    bytes: dict[str, int]
    stale_leases: int
    torn_lines: int
    home: str
    store: str
    workers: list[WorkerFacts]
