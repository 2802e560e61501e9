"""The JSON of each record, as scripts, MCP and HTTP get it; the records make it themselves (`Hit.view()`).

Moments are ISO 8601; what is not known is null.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar, cast

# Not from `typing`: pydantic reads it only from here before Python 3.12.
from typing_extensions import TypedDict

from harken.model.provenance import Provenance, ProvenanceView


def format_moment(moment: datetime) -> str:
    """Return ISO 8601 in UTC with microseconds and `Z`."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat("T", "microseconds")[:26] + "Z"


def parse_moment(text: str) -> datetime:
    """Return the moment of `format_moment`, timezone-aware in UTC.

    Raises:
        ValueError: the text is no moment.
    """
    return datetime.fromisoformat(text).astimezone(UTC)


_View = TypeVar("_View")


def view_of(form: type[_View], *records: object, **given: object) -> _View:
    """Return the form as JSON: each key as it is given, else from the first record with a field of that name.

    `conversation_id` is also the field `conversation_uid`, and `id` is `uid`.
    """
    view = {}
    for key in cast("Any", form).__annotations__:
        names = (key, key.removesuffix("id") + "uid")
        values = (getattr(record, name) for record in records for name in names if hasattr(record, name))
        value = given[key] if key in given else next(values)
        if isinstance(value, StrEnum):
            value = value.value
        elif isinstance(value, datetime):
            value = value.isoformat()
        elif isinstance(value, Provenance):
            value = value.view()
        view[key] = list(value) if isinstance(value, tuple) else value
    return cast("_View", view)


class ReasonView(TypedDict):
    """What a hit's score is made of: a factor, or a share that is added before them."""

    name: str
    value: float
    note: str
    added: bool


class HitView(TypedDict):
    """One thing that was found."""

    id: str
    source: str
    part: str
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
    origin: ProvenanceView | None


class ConversationView(TypedDict):
    """The conversation that messages are of."""

    id: str
    channel: str
    title: str
    project: str | None
    created_at: str
    origin: ProvenanceView | None


class ListedView(ConversationView):
    """A conversation in a list, when something was said in it last, and how much it holds."""

    updated_at: str
    messages: int
    chars: int
    tags: list[str]


class MessageView(TypedDict):
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


class SurroundingsView(TypedDict):
    """Messages of a conversation, oldest first."""

    conversation: ConversationView
    before: int
    messages: list[MessageView]
    after: int


class RetrievalView(TypedDict):
    """One look at past conversations."""

    query_hash: str
    conversations: int
    exchanges: int
    best_conversation: float | None
    best_exchange: float | None
    duration_ms: float
    error_class: str | None
    at: str


class InjectedView(TypedDict):
    """One thing that came back by itself, as it stands now; without a source where nothing of that id is there.

    Its score is multiplied by `factor` for what was said of it (`rated`, in words); `origin` where it stands elsewhere.
    """

    id: str
    source: str
    text: str
    why: str | None
    conversation_id: str | None
    rated: str
    factor: float
    origin: ProvenanceView | None


class InjectionView(TypedDict):
    """What an agent's model was told at one moment, and at which event of the agent."""

    conversation_id: str
    title: str
    at: str
    event: str | None
    question: str
    items: list[InjectedView]


class MemoryView(TypedDict):
    """A saved memory."""

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
    confirmed_at: str | None
    review_by: str | None
    suggested_review: str | None
    supersedes: list[str]
    superseded_by: str | None
    origin: ProvenanceView | None


class ValueView(TypedDict):
    """A value with its provenance."""

    id: str
    text: str
    axis: str
    cluster_id: str
    cluster_size: int
    similarity_to_centroid: float
    distance: float
    distance_limit: float
    members: list[str]
    created_at: str


class WrittenView(TypedDict):
    """The state of an experience after a change."""

    id: str
    status: str
    iteration_count: int
    confidence_tier: str | None
    auto_captured: bool


class RuleView(TypedDict):
    """A rule or a preference that holds from now on; `state` is `found`, `confirmed` or `dropped`."""

    id: str
    text: str
    state: str
    holds: bool
    created_at: str
    trust: str
    conversation_id: str
    superseded_by: str
    project: str | None
    origin: ProvenanceView | None


class LabelView(TypedDict):
    """A conversation as its owner calls it; `titled` and `moved` where title and project are of theirs."""

    id: str
    title: str
    tags: list[str]
    project: str | None
    titled: bool
    moved: bool


class PlaceView(TypedDict):
    """A conversation's place on the map, -1 to 1 each."""

    id: str
    title: str | None
    x: float
    y: float


class TopicView(TypedDict):
    """Conversations that are about the same; that of all others has no name."""

    id: str
    name: str
    words: list[str]
    named_by: str
    updated_at: str
    conversations: list[PlaceView]


class DigestLineView(TypedDict):
    """What a conversation came to; empty where nothing says so."""

    conversation_id: str
    at: str
    title: str
    decided: str
    open: str


class DigestTopicView(TypedDict):
    """A topic with what its conversations came to, oldest first."""

    id: str
    name: str
    words: list[str]
    conversations: list[DigestLineView]


class RatingView(TypedDict):
    """What all verdicts on something say together; its score is multiplied by the factor."""

    id: str
    kind: str
    factor: float
    words: str
    question: str | None


class ItemView(TypedDict):
    """One thing of an assembled context."""

    source: str
    content: str
    relevance: float
    metadata: dict[str, Any]


class AssembledView(TypedDict):
    """A context as Markdown; empty where nothing was found."""

    markdown: str
    items: list[ItemView]
    token_count: int
    sources_used: dict[str, int]


class LayerItemView(TypedDict):
    """One thing in a layer; some have more facts."""

    id: str | None
    tokens: int
    text: str
    why: str


class LayerView(TypedDict):
    """A layer of a context."""

    name: str
    tokens: int
    items: list[LayerItemView]


class ContextView(TypedDict):
    """A chat's context: what a model would get to see."""

    conversation_id: str
    tokens: int
    budget_tokens: int
    messages: list[dict[str, Any]]
    layers: list[LayerView]
    notes: list[str]


class FilesView(TypedDict):
    """A report on indexed files; `added`, `changed` and `removed` count parts of files."""

    project: str
    files: int
    indexed: int
    unchanged: int
    gone: int
    skipped: dict[str, int]
    added: int
    changed: int
    removed: int


class CommitsView(TypedDict):
    """A report on indexed commits; `cut` ones of a shallow clone were left out, for want of their parents."""

    project: str
    added: int
    known: int
    removed: int
    cut: int


class WorkerView(TypedDict):
    """The state of one kind of background work."""

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


class StatusView(TypedDict):
    """How much a store holds, and how it stands."""

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
    space: str | None
    filling_space: str | None
    languages_space: str | None
    languages_queue: int
    bytes: dict[str, int]
    stale_leases: int
    torn_lines: int
    home: str
    store: str


class WebhookView(TypedDict):
    """An address that is told of events; never with its secret."""

    id: str
    url: str
    events: list[str]
    created_at: str
    waiting: int
    failed: int
    paused_until: str | None
    halted: str | None


class DeliveryView(TypedDict):
    """One event on its way to one webhook."""

    id: str
    webhook_id: str
    event: str
    state: str
    attempts: int
    created_at: str
    due_at: str
    status: int | None
    error: str | None
    ended_at: str | None


class PrincipalView(TypedDict):
    """A person, an agent or a service."""

    id: str
    name: str
    kind: str
    email: str | None


class KeyView(TypedDict):
    """A key without its secret; `spaces` are the only ones that it reaches, null for all of its principal's."""

    id: str
    prefix: str
    principal: str
    scopes: list[str]
    spaces: list[str] | None
    created: str
    expires: str | None
    last_used: str | None
    revoked: str | None


class SpaceView(TypedDict):
    """A space."""

    id: str
    name: str
    private: bool
    retention_days: int | None


class GrantView(TypedDict):
    """What a principal or a group may do in a space."""

    space: str
    to: str
    kind: str
    access: str


class AuditView(TypedDict):
    """One request: who asked for what, of which ids, when, by which door, and how it was answered."""

    at: str
    principal: str
    key: str | None
    space: str | None
    verb: str
    via: str
    status: int
    ids: list[str]
