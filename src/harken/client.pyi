"""Written by tools/clients.py: change the operations, then run it again."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, NotRequired, Self, TypedDict

import httpx

from harken.errors import EndpointError
from harken.serve.operations.operation import AnyOperation

class ApiError(EndpointError):
    status: int
    kind: str
    detail: str
    def __init__(self, status: int, kind: str, detail: str) -> None: ...

def required_of(operation: AnyOperation) -> list[str]: ...

class ActiveAnswer(TypedDict):
    experience: dict[str, Any] | None

class AddedAnswer(TypedDict):
    id: str

class AssembledView(TypedDict):
    markdown: str
    items: list[ItemView]
    token_count: int
    sources_used: dict[str, int]

class AuditAnswer(TypedDict):
    audit: list[AuditView]
    next_cursor: str | None

class AuditView(TypedDict):
    at: str
    principal: str
    key: str | None
    space: str | None
    verb: str
    via: str
    status: int
    ids: list[str]

class ClustersAnswer(TypedDict):
    axes: list[dict[str, Any]]

class CommitsView(TypedDict):
    project: str
    added: int
    known: int
    removed: int
    cut: int

class ContextView(TypedDict):
    conversation_id: str
    tokens: int
    budget_tokens: int
    messages: list[dict[str, Any]]
    layers: list[LayerView]
    notes: list[str]

class ConversationView(TypedDict):
    id: str
    channel: str
    title: str
    project: str | None
    created_at: str
    origin: ProvenanceView | None

class CutHitView(TypedDict):
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
    title: str | None
    truncated: bool

class CutMessageView(TypedDict):
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

class DayView(TypedDict):
    day: str
    questions: int

class DaysAnswer(TypedDict):
    days: list[DayView]

class DetailsView(TypedDict):
    kind: str
    id: str
    text: str
    next_cursor: str | None

class DigestAnswer(TypedDict):
    topics: list[DigestTopicView]
    next_cursor: str | None
    markdown: str

class DigestLineView(TypedDict):
    conversation_id: str
    at: str
    title: str
    decided: str
    open: str

class DigestTopicView(TypedDict):
    id: str
    name: str
    words: list[str]
    conversations: list[DigestLineView]

class DoneAnswer(TypedDict):
    done: bool

class DueAnswer(TypedDict):
    memories: list[MemoryView]

class ExperiencesAnswer(TypedDict):
    experiences: list[dict[str, Any]]
    next_cursor: str | None

class FailureView(TypedDict):
    kind: str
    item: int
    attempts: int
    error_class: str

class FailuresAnswer(TypedDict):
    failures: list[FailureView]
    next_cursor: str | None

class FilesView(TypedDict):
    project: str
    files: int
    indexed: int
    unchanged: int
    gone: int
    skipped: dict[str, int]
    added: int
    changed: int
    removed: int

class ForgetAnswer(TypedDict):
    done: bool
    ids: list[str]
    messages: int
    note: str
    matches: list[MatchView]

class GrantView(TypedDict):
    space: str
    to: str
    kind: str
    access: str

class GrantsAnswer(TypedDict):
    grants: list[GrantView]
    next_cursor: str | None

class HookLine(TypedDict):
    agent: str
    week: str
    count: int
    p50_ms: int
    p95_ms: int

class IndexedAnswer(TypedDict):
    indexed: list[IndexedView]

class IndexedView(TypedDict):
    project: str
    source: str
    parts: int

class InjectedView(TypedDict):
    id: str
    source: str
    text: str
    why: str | None
    conversation_id: str | None
    rated: str
    factor: float
    origin: ProvenanceView | None

class InjectionView(TypedDict):
    conversation_id: str
    title: str
    at: str
    event: str | None
    question: str
    items: list[InjectedView]

class ItemView(TypedDict):
    source: str
    content: str
    relevance: float
    metadata: dict[str, Any]

class KeyView(TypedDict):
    id: str
    prefix: str
    principal: str
    scopes: list[str]
    spaces: list[str] | None
    created: str
    expires: str | None
    last_used: str | None
    revoked: str | None

class KeysAnswer(TypedDict):
    keys: list[KeyView]
    next_cursor: str | None

class LabelView(TypedDict):
    id: str
    title: str
    tags: list[str]
    project: str | None
    titled: bool
    moved: bool

class LayerItemView(TypedDict):
    id: str | None
    tokens: int
    text: str
    why: str

class LayerView(TypedDict):
    name: str
    tokens: int
    items: list[LayerItemView]

class ListAnswer(TypedDict):
    conversations: list[ListedView]
    total: int
    next_cursor: str | None

class ListedView(TypedDict):
    id: str
    channel: str
    title: str
    project: str | None
    created_at: str
    origin: ProvenanceView | None
    updated_at: str
    messages: int
    chars: int
    tags: list[str]

class MatchView(TypedDict):
    id: str
    text: str
    created_at: str

class MembersAnswer(TypedDict):
    members: list[dict[str, Any]]

class MemoriesAnswer(TypedDict):
    memories: list[MemoryView]
    next_cursor: str | None

class MemoryView(TypedDict):
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

class NewKeyView(TypedDict):
    id: str
    prefix: str
    principal: str
    scopes: list[str]
    spaces: list[str] | None
    created: str
    expires: str | None
    last_used: str | None
    revoked: str | None
    key: str

class PlaceView(TypedDict):
    id: str
    title: str | None
    x: float
    y: float

class PrincipalView(TypedDict):
    id: str
    name: str
    kind: str
    email: str | None

class PrincipalsAnswer(TypedDict):
    principals: list[PrincipalView]
    next_cursor: str | None

class ProjectLine(TypedDict):
    key: str
    name: str
    conversations: int

class ProvenanceView(TypedDict):
    space: str
    by: str | None
    shared_by: str | None
    shared_on: str | None

class RatingView(TypedDict):
    id: str
    kind: str
    factor: float
    words: str
    question: str | None

class ReachedView(TypedDict):
    id: str
    name: str
    private: bool
    retention_days: int | None
    access: str

class ReadAnswer(TypedDict):
    conversation: ConversationView
    parent: str | None
    messages: list[SaidView]
    offset: int
    total: int
    next_cursor: str | None
    subagents: list[ListedView]
    recalls: list[InjectionView]

class ReasonView(TypedDict):
    name: str
    value: float
    note: str
    added: bool

class RecallAnswer(TypedDict):
    text: str
    items: list[RecalledView]

class RecalledView(TypedDict):
    id: str
    why: str

class RecallsAnswer(TypedDict):
    recalls: list[InjectionView]
    next_cursor: str | None

class RecordedView(TypedDict):
    id: str
    conversation_id: str
    exchange_id: str
    created_at: str

class RuleView(TypedDict):
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

class RulesAnswer(TypedDict):
    rules: list[RuleView]

class SaidView(TypedDict):
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
    segment_id: str
    branch: str | None

class SavedView(TypedDict):
    id: str
    outcome: str
    superseded: list[str]

class SearchAnswer(TypedDict):
    hits: list[CutHitView]
    threshold: float | None
    notes: list[str]
    next_cursor: str | None

class SharedAnswer(TypedDict):
    id: str

class ShowAnswer(TypedDict):
    conversation: ConversationView | None
    before: int
    messages: list[CutMessageView]
    after: int
    next_cursor: str | None
    memory: MemoryView | None
    experience: dict[str, Any] | None
    item: ItemView | None

class SpaceView(TypedDict):
    id: str
    name: str
    private: bool
    retention_days: int | None

class SpacesAnswer(TypedDict):
    spaces: list[ReachedView]
    next_cursor: str | None

class StatsAnswer(TypedDict):
    agents: list[StatsLine]
    projects: list[StatsLine]
    months: list[StatsLine]
    weeks: list[StatsLine]
    total: StatsLine
    hooks: list[HookLine]

class StatsLine(TypedDict):
    name: str
    conversations: int
    messages: int
    prompts: int
    recalls: int
    recall_tokens: int
    judged: int
    useful_share: float | None
    used: int
    spend_usd: float

class StatusAnswer(TypedDict):
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
    max_usd_per_day: float | None
    workers: list[WorkerView]
    projects: NotRequired[list[ProjectLine]]

class TagCount(TypedDict):
    tag: str
    conversations: int
    memories: int

class TaggedAnswer(TypedDict):
    id: str
    kind: str
    tags: list[str]

class TagsAnswer(TypedDict):
    tags: list[TagCount]

class TopicView(TypedDict):
    id: str
    name: str
    words: list[str]
    named_by: str
    updated_at: str
    conversations: list[PlaceView]

class TopicsAnswer(TypedDict):
    topics: list[TopicView]

class UnsharedAnswer(TypedDict):
    ids: list[str]

class ValueView(TypedDict):
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

class ValuesAnswer(TypedDict):
    values: list[ValueView]
    next_cursor: str | None

class WhoamiAnswer(TypedDict):
    principal: PrincipalView
    team: str
    key: KeyView | None
    scopes: list[str]
    spaces: list[ReachedView]

class WorkerView(TypedDict):
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

class WrittenView(TypedDict):
    id: str
    status: str
    iteration_count: int
    confidence_tier: str | None
    auto_captured: bool

class HarkenClient:
    def __init__(
        self,
        url: str,
        key: str,
        space: str | None = ...,
        *,
        attempts: int = ...,
        timeout_seconds: float = ...,
        transport: httpx.BaseTransport | None = ...,
    ) -> None: ...
    def in_space(self, space: str | None) -> Self: ...
    def call(self, verb: str, /, **given: Any) -> dict[str, Any]: ...
    def pages(self, verb: str, /, **given: Any) -> Iterator[dict[str, Any]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_error: object) -> None: ...
    def search(
        self,
        query: str,
        *,
        sources: list[
            Literal[
                "message",
                "memory",
                "experience",
                "value",
                "code",
                "commit",
                "document",
                "exchange",
                "conversation",
                "tools",
            ]
        ]
        | None = ...,
        project: str | None = ...,
        conversation: str | None = ...,
        roles: list[Literal["user", "assistant", "tool"]] | None = ...,
        tags: list[str] | None = ...,
        since: str | None = ...,
        until: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
        mode: Literal["hybrid", "keyword", "semantic"] | None = ...,
        threshold: float | None = ...,
        include_untrusted: bool | None = ...,
        text_chars: int | None = ...,
    ) -> SearchAnswer: ...
    def show(
        self, id: str, *, around: int | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> ShowAnswer: ...
    def record(
        self,
        conversation: str,
        role: Literal["user", "assistant", "tool", "system"],
        text: str,
        *,
        channel: str | None = ...,
        author: str | None = ...,
        type: Literal["text", "tool_call", "tool_result"] | None = ...,
        call_id: str | None = ...,
        tool_name: str | None = ...,
        once: str | None = ...,
        ends: bool | None = ...,
    ) -> RecordedView: ...
    def conversations(
        self,
        *,
        project: str | None = ...,
        agent: str | None = ...,
        since: str | None = ...,
        until: str | None = ...,
        tags: list[str] | None = ...,
        subagents: bool | None = ...,
        parent: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ListAnswer: ...
    def read_conversation(self, id: str, *, cursor: str | None = ..., limit: int | None = ...) -> ReadAnswer: ...
    def days(self, *, since: str | None = ...) -> DaysAnswer: ...
    def context(
        self,
        *,
        text: str | None = ...,
        conversation: str | None = ...,
        budget: int | None = ...,
        include_untrusted: bool | None = ...,
        project: str | None = ...,
    ) -> ContextView: ...
    def fetch_conversation_details(
        self,
        *,
        conversation_id: str | None = ...,
        exchange_id: str | None = ...,
        include_full_transcript: bool | None = ...,
        cursor: str | None = ...,
    ) -> DetailsView: ...
    def status(self, *, projects: bool | None = ...) -> StatusAnswer: ...
    def stats(self) -> StatsAnswer: ...
    def failures(self, *, limit: int | None = ..., cursor: str | None = ...) -> FailuresAnswer: ...
    def assemble_context(
        self,
        query: str,
        *,
        types: list[Literal["memories", "code", "experiences", "values", "commits", "documents", "conversations"]]
        | None = ...,
        include_untrusted: bool | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        max_tokens: int | None = ...,
        include_items: bool | None = ...,
    ) -> AssembledView: ...
    def premortem(
        self,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ],
        *,
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ]
        | None = ...,
        limit: int | None = ...,
        max_tokens: int | None = ...,
        project: str | None = ...,
        include_items: bool | None = ...,
    ) -> AssembledView: ...
    def recall(
        self, text: str, *, conversation: str | None = ..., channel: str | None = ..., max_tokens: int | None = ...
    ) -> RecallAnswer: ...
    def remember(
        self,
        content: str,
        *,
        category: Literal["preference", "fact", "event", "workflow", "context", "error", "decision"] | None = ...,
        importance: float | None = ...,
        tags: list[str] | None = ...,
        directory: str | None = ...,
    ) -> SavedView: ...
    def memories(
        self,
        *,
        category: Literal["preference", "fact", "event", "workflow", "context", "error", "decision"] | None = ...,
        tags: list[str] | None = ...,
        project: str | None = ...,
        superseded: bool | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> MemoriesAnswer: ...
    def forget(
        self,
        *,
        ids: list[str] | None = ...,
        query: str | None = ...,
        kind: Literal["memory", "message", "conversation", "experience", "value"] | None = ...,
        confirm: bool | None = ...,
    ) -> ForgetAnswer: ...
    def memory_confirm(self, id: str) -> MemoryView: ...
    def memory_review(self, id: str, *, by: str | None = ..., never: bool | None = ...) -> MemoryView: ...
    def memory_due(self, *, within: int | None = ...) -> DueAnswer: ...
    def rules(self, *, everything: bool | None = ...) -> RulesAnswer: ...
    def rule_confirm(self, id: str) -> RuleView: ...
    def rule_drop(self, id: str) -> RuleView: ...
    def rate(
        self,
        id: str,
        verdict: Literal["useful", "useless", "wrong", "none"],
        *,
        question: str | None = ...,
        conversation: str | None = ...,
    ) -> RatingView: ...
    def recalls(
        self, *, conversation: str | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> RecallsAnswer: ...
    def topics(self) -> TopicsAnswer: ...
    def topic_rename(self, id: str, name: str) -> TopicView: ...
    def digest(
        self,
        *,
        since: str | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        newest: int | None = ...,
        cursor: str | None = ...,
    ) -> DigestAnswer: ...
    def tags(self) -> TagsAnswer: ...
    def tag(self, id: str, *, add: list[str] | None = ..., remove: list[str] | None = ...) -> TaggedAnswer: ...
    def conversation_title(self, *, title: str | None = ..., on: str | None = ...) -> LabelView: ...
    def conversation_project(self, *, project: str | None = ..., on: str | None = ...) -> LabelView: ...
    def experience_start(
        self,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ],
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ],
        goal: str,
        hypothesis: str,
        action: str,
        prediction: str,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        session: str | None = ...,
    ) -> WrittenView: ...
    def experience_update(
        self,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        id: str | None = ...,
        hypothesis: str | None = ...,
        action: str | None = ...,
        prediction: str | None = ...,
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ]
        | None = ...,
        note: str | None = ...,
    ) -> WrittenView: ...
    def experience_resolve(
        self,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        id: str | None = ...,
        status: Literal["confirmed", "falsified", "abandoned"] | None = ...,
        result: str | None = ...,
        surprise: str | None = ...,
        cause: Literal[
            "wrong-assumption",
            "missing-knowledge",
            "oversight",
            "environment-issue",
            "misleading-symptom",
            "incomplete-fix",
            "wrong-scope",
            "test-isolation",
            "timing-issue",
        ]
        | None = ...,
        cause_description: str | None = ...,
        worked: str | None = ...,
        takeaway: str | None = ...,
    ) -> WrittenView: ...
    def experience_active(
        self, *, directory: str | None = ..., agent: str | None = ..., session: str | None = ...
    ) -> ActiveAnswer: ...
    def experience_adopt(
        self, *, directory: str | None = ..., agent: str | None = ..., session: str | None = ..., id: str | None = ...
    ) -> WrittenView: ...
    def experiences(
        self,
        *,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ]
        | None = ...,
        outcome: Literal["active", "confirmed", "falsified", "abandoned"] | None = ...,
        since: str | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ExperiencesAnswer: ...
    def value_clusters(
        self, *, axis: Literal["full", "strategy", "surprise", "root_cause"] | None = ...
    ) -> ClustersAnswer: ...
    def value_members(self, cluster_id: str, *, limit: int | None = ...) -> MembersAnswer: ...
    def value_add(self, cluster_id: str, text: str) -> AddedAnswer: ...
    def values(
        self,
        *,
        axis: Literal["full", "strategy", "surprise", "root_cause"] | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ValuesAnswer: ...
    def index_code(self, *, path: str | None = ..., drop: bool | None = ...) -> FilesView: ...
    def index_commits(
        self, *, path: str | None = ..., drop: bool | None = ..., since: str | None = ..., limit: int | None = ...
    ) -> CommitsView: ...
    def index_documents(self, *, path: str | None = ..., drop: bool | None = ...) -> FilesView: ...
    def indexed(self) -> IndexedAnswer: ...
    def spaces(self, *, limit: int | None = ..., cursor: str | None = ...) -> SpacesAnswer: ...
    def space_create(self, name: str, *, retention_days: int | None = ...) -> SpaceView: ...
    def grants(self, space: str, *, limit: int | None = ..., cursor: str | None = ...) -> GrantsAnswer: ...
    def grant(self, space: str, to: str, *, access: Literal["read", "write", "admin"] | None = ...) -> GrantView: ...
    def revoke(self, space: str, of: str) -> DoneAnswer: ...
    def share(self, id: str, to: str) -> SharedAnswer: ...
    def unshare(self, id: str, *, space: str | None = ...) -> UnsharedAnswer: ...
    def whoami(self) -> WhoamiAnswer: ...
    def keys(self, *, limit: int | None = ..., cursor: str | None = ..., principal: str | None = ...) -> KeysAnswer: ...
    def key_create(
        self,
        *,
        principal: str | None = ...,
        scopes: list[Literal["read", "record", "remember", "forget", "index", "admin", "keys"]] | None = ...,
        spaces: list[str] | None = ...,
        days: int | None = ...,
    ) -> NewKeyView: ...
    def key_revoke(self, id: str) -> KeyView: ...
    def key_rotate(self, id: str, *, overlap_seconds: int | None = ...) -> NewKeyView: ...
    def principals(self, *, limit: int | None = ..., cursor: str | None = ...) -> PrincipalsAnswer: ...
    def principal_create(
        self, name: str, *, kind: Literal["user", "agent", "service"] | None = ..., email: str | None = ...
    ) -> PrincipalView: ...
    def audit(
        self,
        *,
        principal: str | None = ...,
        verb: str | None = ...,
        since: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> AuditAnswer: ...

class AsyncHarkenClient:
    def __init__(
        self,
        url: str,
        key: str,
        space: str | None = ...,
        *,
        attempts: int = ...,
        timeout_seconds: float = ...,
        transport: httpx.AsyncBaseTransport | None = ...,
    ) -> None: ...
    def in_space(self, space: str | None) -> Self: ...
    async def call(self, verb: str, /, **given: Any) -> dict[str, Any]: ...
    def pages(self, verb: str, /, **given: Any) -> AsyncIterator[dict[str, Any]]: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_error: object) -> None: ...
    async def search(
        self,
        query: str,
        *,
        sources: list[
            Literal[
                "message",
                "memory",
                "experience",
                "value",
                "code",
                "commit",
                "document",
                "exchange",
                "conversation",
                "tools",
            ]
        ]
        | None = ...,
        project: str | None = ...,
        conversation: str | None = ...,
        roles: list[Literal["user", "assistant", "tool"]] | None = ...,
        tags: list[str] | None = ...,
        since: str | None = ...,
        until: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
        mode: Literal["hybrid", "keyword", "semantic"] | None = ...,
        threshold: float | None = ...,
        include_untrusted: bool | None = ...,
        text_chars: int | None = ...,
    ) -> SearchAnswer: ...
    async def show(
        self, id: str, *, around: int | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> ShowAnswer: ...
    async def record(
        self,
        conversation: str,
        role: Literal["user", "assistant", "tool", "system"],
        text: str,
        *,
        channel: str | None = ...,
        author: str | None = ...,
        type: Literal["text", "tool_call", "tool_result"] | None = ...,
        call_id: str | None = ...,
        tool_name: str | None = ...,
        once: str | None = ...,
        ends: bool | None = ...,
    ) -> RecordedView: ...
    async def conversations(
        self,
        *,
        project: str | None = ...,
        agent: str | None = ...,
        since: str | None = ...,
        until: str | None = ...,
        tags: list[str] | None = ...,
        subagents: bool | None = ...,
        parent: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ListAnswer: ...
    async def read_conversation(self, id: str, *, cursor: str | None = ..., limit: int | None = ...) -> ReadAnswer: ...
    async def days(self, *, since: str | None = ...) -> DaysAnswer: ...
    async def context(
        self,
        *,
        text: str | None = ...,
        conversation: str | None = ...,
        budget: int | None = ...,
        include_untrusted: bool | None = ...,
        project: str | None = ...,
    ) -> ContextView: ...
    async def fetch_conversation_details(
        self,
        *,
        conversation_id: str | None = ...,
        exchange_id: str | None = ...,
        include_full_transcript: bool | None = ...,
        cursor: str | None = ...,
    ) -> DetailsView: ...
    async def status(self, *, projects: bool | None = ...) -> StatusAnswer: ...
    async def stats(self) -> StatsAnswer: ...
    async def failures(self, *, limit: int | None = ..., cursor: str | None = ...) -> FailuresAnswer: ...
    async def assemble_context(
        self,
        query: str,
        *,
        types: list[Literal["memories", "code", "experiences", "values", "commits", "documents", "conversations"]]
        | None = ...,
        include_untrusted: bool | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        max_tokens: int | None = ...,
        include_items: bool | None = ...,
    ) -> AssembledView: ...
    async def premortem(
        self,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ],
        *,
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ]
        | None = ...,
        limit: int | None = ...,
        max_tokens: int | None = ...,
        project: str | None = ...,
        include_items: bool | None = ...,
    ) -> AssembledView: ...
    async def recall(
        self, text: str, *, conversation: str | None = ..., channel: str | None = ..., max_tokens: int | None = ...
    ) -> RecallAnswer: ...
    async def remember(
        self,
        content: str,
        *,
        category: Literal["preference", "fact", "event", "workflow", "context", "error", "decision"] | None = ...,
        importance: float | None = ...,
        tags: list[str] | None = ...,
        directory: str | None = ...,
    ) -> SavedView: ...
    async def memories(
        self,
        *,
        category: Literal["preference", "fact", "event", "workflow", "context", "error", "decision"] | None = ...,
        tags: list[str] | None = ...,
        project: str | None = ...,
        superseded: bool | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> MemoriesAnswer: ...
    async def forget(
        self,
        *,
        ids: list[str] | None = ...,
        query: str | None = ...,
        kind: Literal["memory", "message", "conversation", "experience", "value"] | None = ...,
        confirm: bool | None = ...,
    ) -> ForgetAnswer: ...
    async def memory_confirm(self, id: str) -> MemoryView: ...
    async def memory_review(self, id: str, *, by: str | None = ..., never: bool | None = ...) -> MemoryView: ...
    async def memory_due(self, *, within: int | None = ...) -> DueAnswer: ...
    async def rules(self, *, everything: bool | None = ...) -> RulesAnswer: ...
    async def rule_confirm(self, id: str) -> RuleView: ...
    async def rule_drop(self, id: str) -> RuleView: ...
    async def rate(
        self,
        id: str,
        verdict: Literal["useful", "useless", "wrong", "none"],
        *,
        question: str | None = ...,
        conversation: str | None = ...,
    ) -> RatingView: ...
    async def recalls(
        self, *, conversation: str | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> RecallsAnswer: ...
    async def topics(self) -> TopicsAnswer: ...
    async def topic_rename(self, id: str, name: str) -> TopicView: ...
    async def digest(
        self,
        *,
        since: str | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        newest: int | None = ...,
        cursor: str | None = ...,
    ) -> DigestAnswer: ...
    async def tags(self) -> TagsAnswer: ...
    async def tag(self, id: str, *, add: list[str] | None = ..., remove: list[str] | None = ...) -> TaggedAnswer: ...
    async def conversation_title(self, *, title: str | None = ..., on: str | None = ...) -> LabelView: ...
    async def conversation_project(self, *, project: str | None = ..., on: str | None = ...) -> LabelView: ...
    async def experience_start(
        self,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ],
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ],
        goal: str,
        hypothesis: str,
        action: str,
        prediction: str,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        session: str | None = ...,
    ) -> WrittenView: ...
    async def experience_update(
        self,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        id: str | None = ...,
        hypothesis: str | None = ...,
        action: str | None = ...,
        prediction: str | None = ...,
        strategy: Literal[
            "systematic-elimination",
            "trial-and-error",
            "research-first",
            "divide-and-conquer",
            "root-cause-analysis",
            "copy-from-similar",
            "check-assumptions",
            "read-the-error",
            "ask-user",
        ]
        | None = ...,
        note: str | None = ...,
    ) -> WrittenView: ...
    async def experience_resolve(
        self,
        *,
        directory: str | None = ...,
        agent: str | None = ...,
        id: str | None = ...,
        status: Literal["confirmed", "falsified", "abandoned"] | None = ...,
        result: str | None = ...,
        surprise: str | None = ...,
        cause: Literal[
            "wrong-assumption",
            "missing-knowledge",
            "oversight",
            "environment-issue",
            "misleading-symptom",
            "incomplete-fix",
            "wrong-scope",
            "test-isolation",
            "timing-issue",
        ]
        | None = ...,
        cause_description: str | None = ...,
        worked: str | None = ...,
        takeaway: str | None = ...,
    ) -> WrittenView: ...
    async def experience_active(
        self, *, directory: str | None = ..., agent: str | None = ..., session: str | None = ...
    ) -> ActiveAnswer: ...
    async def experience_adopt(
        self, *, directory: str | None = ..., agent: str | None = ..., session: str | None = ..., id: str | None = ...
    ) -> WrittenView: ...
    async def experiences(
        self,
        *,
        domain: Literal[
            "debugging",
            "refactoring",
            "feature",
            "testing",
            "configuration",
            "documentation",
            "performance",
            "security",
            "integration",
        ]
        | None = ...,
        outcome: Literal["active", "confirmed", "falsified", "abandoned"] | None = ...,
        since: str | None = ...,
        project: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ExperiencesAnswer: ...
    async def value_clusters(
        self, *, axis: Literal["full", "strategy", "surprise", "root_cause"] | None = ...
    ) -> ClustersAnswer: ...
    async def value_members(self, cluster_id: str, *, limit: int | None = ...) -> MembersAnswer: ...
    async def value_add(self, cluster_id: str, text: str) -> AddedAnswer: ...
    async def values(
        self,
        *,
        axis: Literal["full", "strategy", "surprise", "root_cause"] | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> ValuesAnswer: ...
    async def index_code(self, *, path: str | None = ..., drop: bool | None = ...) -> FilesView: ...
    async def index_commits(
        self, *, path: str | None = ..., drop: bool | None = ..., since: str | None = ..., limit: int | None = ...
    ) -> CommitsView: ...
    async def index_documents(self, *, path: str | None = ..., drop: bool | None = ...) -> FilesView: ...
    async def indexed(self) -> IndexedAnswer: ...
    async def spaces(self, *, limit: int | None = ..., cursor: str | None = ...) -> SpacesAnswer: ...
    async def space_create(self, name: str, *, retention_days: int | None = ...) -> SpaceView: ...
    async def grants(self, space: str, *, limit: int | None = ..., cursor: str | None = ...) -> GrantsAnswer: ...
    async def grant(
        self, space: str, to: str, *, access: Literal["read", "write", "admin"] | None = ...
    ) -> GrantView: ...
    async def revoke(self, space: str, of: str) -> DoneAnswer: ...
    async def share(self, id: str, to: str) -> SharedAnswer: ...
    async def unshare(self, id: str, *, space: str | None = ...) -> UnsharedAnswer: ...
    async def whoami(self) -> WhoamiAnswer: ...
    async def keys(
        self, *, limit: int | None = ..., cursor: str | None = ..., principal: str | None = ...
    ) -> KeysAnswer: ...
    async def key_create(
        self,
        *,
        principal: str | None = ...,
        scopes: list[Literal["read", "record", "remember", "forget", "index", "admin", "keys"]] | None = ...,
        spaces: list[str] | None = ...,
        days: int | None = ...,
    ) -> NewKeyView: ...
    async def key_revoke(self, id: str) -> KeyView: ...
    async def key_rotate(self, id: str, *, overlap_seconds: int | None = ...) -> NewKeyView: ...
    async def principals(self, *, limit: int | None = ..., cursor: str | None = ...) -> PrincipalsAnswer: ...
    async def principal_create(
        self, name: str, *, kind: Literal["user", "agent", "service"] | None = ..., email: str | None = ...
    ) -> PrincipalView: ...
    async def audit(
        self,
        *,
        principal: str | None = ...,
        verb: str | None = ...,
        since: str | None = ...,
        limit: int | None = ...,
        cursor: str | None = ...,
    ) -> AuditAnswer: ...
