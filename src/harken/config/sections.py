"""The sections of the settings: what each may hold, and what stands where nothing is said."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from harken.config.section import DEFAULTS, AnyText, Field, SecretText, SettingsSection

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]
Positive = Annotated[int, Field(gt=0)]


class EmbeddingConfig(SettingsSection):
    """How texts become vectors; which model is `Settings.embedder`'s matter.

    Attributes:
        model: the model's name; `openai-compatible` needs one.
        path: a folder with `model.onnx` and `tokenizer.json`, for the embedder `onnx`.
        url: base URL of an OpenAI-compatible endpoint, up to and including `/v1`.
        threshold: stands in place of the model's calibrated one; `search.relevance_threshold` stands above it.
        allow_download: whether a local model that is nowhere on this machine may be fetched.
        multilingual: whether a second model finds what is not English, and what is asked in another language; None
            where its extra is installed and the first one was made for English.
        usd_per_million: price of a million tokens at an endpoint, in place of the list's.
    """

    model: str | None = None
    path: Path | None = None
    url: str | None = None
    api_key: SecretText | None = None
    dims: Annotated[int, Field(ge=1, le=8192)] | None = None
    max_tokens: Annotated[int, Field(ge=16, le=32768)] | None = None
    query_prefix: AnyText | None = None
    passage_prefix: AnyText | None = None
    threshold: Cosine | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    allow_download: bool = False
    download_url: str | None = None
    download_sha256: str | None = None
    min_message_tokens: Annotated[int, Field(ge=0, le=1000)] = 10
    usd_per_million: Annotated[Decimal, Field(ge=0)] | None = None
    multilingual: bool | None = None


class SearchConfig(SettingsSection):
    """How a search weighs what it finds.

    Attributes:
        fusion: `convex` is a sum of both scores, `rrf` of reciprocal ranks; `learned` orders the best of the convex sum
            anew, by all that is known of them.
        vector_weight: share of similarity in the convex fusion; the rest is the keyword score's.
        candidates: how many of each list are fused.
        relevance_threshold: cosine similarity that a hit without a matching word needs; None takes the
            embedding model's own calibration.
        author_lift: what a message gains, as a factor over 1, when the query names its author; learned fusion weighs
            that by itself.
        recency_half_life_days: age at which a message counts half; None ignores age.
        include_untrusted: whether what is not to be trusted (`Trust.is_untrusted`: what tools brought) is found and
            comes back at all. What a search asks for can leave it out, never bring it back.
        untrusted_weight: what its score is multiplied by.
        untrusted_margin: by how much less cosine similarity it counts: so much more it needs where some is asked for.
    """

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    fusion: Literal["learned", "convex", "rrf"] = "learned"
    vector_weight: Ratio = 0.5
    rrf_k: Annotated[int, Field(ge=1, le=1000)] = 60
    candidates: Annotated[int, Field(ge=10, le=5000)] = 200
    relevance_threshold: Cosine | None = None
    min_query_tokens: Annotated[int, Field(ge=0, le=100)] = 1
    author_lift: Annotated[float, Field(ge=0.0, le=2.0)] = 0.15
    recency_half_life_days: Annotated[float, Field(gt=0)] | None = None
    include_untrusted: bool = True
    untrusted_weight: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    untrusted_margin: Ratio = 0.1
    context_window: bool = True
    rerank: bool = False
    rerank_top: Annotated[int, Field(ge=2, le=100)] = 12
    rerank_blend: Ratio = 0.3


class LlmConfig(SettingsSection):
    """The language model, if any; without `model` none is ever called.

    Attributes:
        model: vendor and model: `openai:…`, `anthropic:…`, `google:…`, `ollama:…`.
        url: base URL of another endpoint that speaks the vendor's protocol, for OpenAI's up to and including `/v1`.
        api_key: None takes the vendor's own variable, e.g. OPENAI_API_KEY, unless `url` is set.
        max_tokens: longest answer.
        max_input_tokens: longer material is clipped from its middle.
        max_usd_per_day: no worker and no chat calls a paid model beyond it until the next day (UTC), be it for chat,
            summaries or embeddings; `none`: no limit.
        input_usd_per_million: price of a million tokens, in place of the list's; both prices or neither.
    """

    model: str | None = None
    url: str | None = None
    api_key: SecretText | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    max_tokens: Annotated[int, Field(ge=16, le=200_000)] = 2048
    max_input_tokens: Annotated[int, Field(ge=256, le=2_000_000)] = 8000
    max_usd_per_day: Annotated[Decimal, Field(ge=0)] | None = Decimal("1.00")
    input_usd_per_million: Annotated[Decimal, Field(ge=0)] | None = None
    output_usd_per_million: Annotated[Decimal, Field(ge=0)] | None = None


class RedactionConfig(SettingsSection):
    """What is taken out before anything touches a disk.

    Attributes:
        patterns: further rules, kind to regular expression.
    """

    enabled: bool = True
    patterns: dict[str, str] = DEFAULTS


class WorkerConfig(SettingsSection):
    """How background work runs.

    Attributes:
        batch_size: also how many texts one call of an embedding endpoint gets at most.
        poll_seconds: how often work is looked for that nobody has signalled; `summary_poll_seconds` for summaries.
        rest_seconds: how long nothing must have been said in a conversation before it is summarized.
        gentle: whether workers do half while the machine runs on its battery, or others leave less than one of its
            cores; what somebody asks for and waits on is done at full speed.
        embedding_max_retries: how often embedding a text is tried again before it is given up.
        min_messages_for_exchange_summary: exchanges with fewer messages, tool calls included, get none.
        min_exchanges_for_conversation_summary: conversations with fewer exchanges get none.
    """

    batch_size: Annotated[int, Field(ge=1, le=100)] = 100
    poll_seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0
    summary_poll_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    rest_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 600.0
    lease_seconds: Annotated[float, Field(ge=5, le=3600)] = 120.0
    gentle: bool = True
    embedding_max_retries: Annotated[int, Field(ge=1, le=100)] = 6
    min_messages_for_exchange_summary: Annotated[int, Field(ge=1, le=10_000)] = 1
    min_exchanges_for_conversation_summary: Annotated[int, Field(ge=1, le=10_000)] = 1


class RecordConfig(SettingsSection):
    """How messages are kept.

    Attributes:
        tool_text_chars: tool calls and results are searched by this much of their text; all of it is kept.
        fsync: force every journal line to the disk before it is acknowledged; survives power loss, costs speed.
    """

    tool_text_chars: Annotated[int, Field(ge=0, le=100_000)] = 2000
    fsync: bool = False


class AutoRagConfig(SettingsSection):
    """How what was said earlier in a conversation comes back by itself.

    Attributes:
        top_k: how many messages come back at most.
        top_k_several: how many where many are asked for ("what have we tried"), in the same `max_tokens`.
        max_tokens: what they may take of the context, with everything around them.
        relevance_threshold: cosine similarity, 0 to 1, that each one needs; None takes the embedding model's own
            calibration. In the camelCase spelling, `relevanceThreshold`, it is a cosine distance.
        min_message_tokens: shorter messages get no vector and come back by their words alone; stands for
            `embedding.min_message_tokens` where that is not set.
    Source: seed TASK-007a, stage 1.
    """

    enabled: bool = True
    top_k: Positive = 4
    top_k_several: Positive = 12
    max_tokens: Positive = 400
    relevance_threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    min_message_tokens: Positive = 10


class ContextConfig(SettingsSection):
    """What a model call gets to see.

    Attributes:
        sliding_window: how many of the newest messages at most.
        subagent_history: how many earlier runs of its task a subagent sees.
        summary_tokens: what the summary of what left the window may take.
        system_prompt: stands first in every context; empty for callers that bring their own.
    Source: seed TASK-007a, stage 1.
    """

    default_budget_tokens: Positive = 8000
    sliding_window: Positive = 20
    subagent_history: Positive = 5
    summary_tokens: Positive = 300
    system_prompt: str = ""


class RagConfig(SettingsSection):
    """How past conversations come back by themselves.

    Attributes:
        conversation_limit: how many at most.
        exchange_limit_per_conversation: how many exchanges of each.
        share_places: whether a conversation that answers better may take exchanges' places of one that answers worse,
            which keeps its summary, or one exchange where it has none; the number of all stays within both limits. Off,
            no conversation has more than its own.
        min_similarity: cosine similarity, 0 to 1, that each one needs; None takes the embedding model's own
            calibration.
        saved: whether memories, experiences, values, documents, code and commits come back in chats as well.
        scope: what comes back by itself in a project: `prefer` its own and what belongs to none first, others' behind
            it where that is nearer by a margin, named; `project` never others'; `all` without a difference.
        rules: whether rules and preferences that the user has stated come back wherever they touch the task.
        without_tags: what has any of these tags never comes back by itself; search finds it.
    Source: seed 003, configuration (`rag_enabled`, `rag_conversation_limit`…).
    """

    enabled: bool = True
    conversation_limit: Annotated[int, Field(ge=1, le=50)] = 3
    exchange_limit_per_conversation: Annotated[int, Field(ge=1, le=20)] = 2
    share_places: bool = True
    min_similarity: Ratio | None = None
    saved: bool = True
    scope: Literal["prefer", "project", "all"] = "prefer"
    rules: bool = True
    without_tags: tuple[str, ...] = ()


class HooksConfig(SettingsSection):
    """What hooks of coding agents do.

    Attributes:
        recall: whether a prompt brings back what other conversations say about it.
        brief: whether a session begins with what its project's memory has.
        premortem: whether a test or build that fails brings back what earlier work says about such a failure.
        max_tokens: what one event may bring back at most; agents' own limits stand below it.
        deadline_seconds: a hook that takes longer ends without a word. Read from the environment alone
            (`HARKEN_HOOKS__DEADLINE_SECONDS`): the hook's process reads no file.
    """

    recall: bool = True
    brief: bool = True
    premortem: bool = True
    max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 1500
    deadline_seconds: Annotated[float, Field(ge=0.05, le=30)] = 1.5


class ServeConfig(SettingsSection):
    """The daemon.

    Attributes:
        idle_seconds: it leaves when nobody has asked for so long and no work is left; 0 keeps it, and so does TCP.
        roots: folders that MCP and clients over TCP may have indexed, beside the project that they work in.
        hosts: names by which clients over TCP may call this machine, beside its own.
        rate: how often in a minute one key of a team may ask; 0 sets no limit.
        audit_days: for how long a team's server keeps who asked for what.
        host, port: where a team's server listens; likewise `tls_cert` and `tls_key`, files in PEM.
        metrics_port: where it answers `/metrics` to who has no key; 0 answers nowhere.
        trusted_proxies: addresses and networks (`10.0.0.0/8`) of proxies that end TLS before a team's server. It
            listens without TLS then, believes what they say of who asks, and answers nobody else.
        drain_seconds: how long a team's server that is told to end goes on, no longer ready, before it takes no more.
    """

    idle_seconds: Annotated[float, Field(ge=0)] = 1800.0
    roots: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    rate: Annotated[int, Field(ge=0)] = 600
    audit_days: Annotated[int, Field(ge=1)] = 365
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 4275
    tls_cert: Path | None = None
    tls_key: Path | None = None
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    trusted_proxies: tuple[str, ...] = ()
    drain_seconds: Annotated[float, Field(ge=0, le=300)] = 5.0


class OidcConfig(SettingsSection):
    """Signing in to a team's pages by an OpenID provider.

    Attributes:
        issuer: its URL, as it writes it itself; None offers no such login.
        client_id, client_secret: by what it knows this server; a public client has no secret.
        name: of the link that signs in.
        public_url: where browsers find this server, `https://memory.example.com`; None takes what they call it.
        domains: whoever has a verified address of these becomes a member with the first login; of others only members.
        require_verified: whether the provider has to say that the address is verified.
    """

    issuer: str | None = None
    client_id: str | None = None
    client_secret: SecretText | None = None
    name: str = "Sign in with your organization"
    public_url: str | None = None
    domains: tuple[str, ...] = ()
    require_verified: bool = True


class WebhooksConfig(SettingsSection):
    """Who may be told of what happens.

    Attributes:
        allow_hosts: hosts, `name` or `name:port`, that webhooks may call though they are private, and without TLS.
    """

    allow_hosts: tuple[str, ...] = ()


class ChatConfig(SettingsSection):
    """How a chat answers; its system prompt is `context.system_prompt`, and one of its own where that is empty.

    Attributes:
        max_tool_rounds: how often in one turn the model may call tools before it has to answer.
        tool_result_tokens: what one result of a tool may take; the model can ask for what follows.
    """

    max_tool_rounds: Annotated[int, Field(ge=1, le=100)] = 10
    tool_result_tokens: Annotated[int, Field(ge=200, le=100_000)] = 1500


Weight = Annotated[float, Field(gt=0.0, le=10.0)]


class SourceWeights(SettingsSection):
    """What share of a context each type gets, against the others that have something to show.

    Source: SPEC-002-18, "Token Budget Distribution"; documents and conversations are ours.
    """

    memories: Weight = 1.0
    code: Weight = 2.0
    experiences: Weight = 3.0
    values: Weight = 1.0
    commits: Weight = 2.0
    documents: Weight = 2.0
    conversations: Weight = 2.0


class TierWeights(SettingsSection):
    """What an experience's relevance is multiplied by, by how far it may be believed."""

    gold: Weight = 1.0
    silver: Weight = 0.95
    bronze: Weight = 0.85
    abandoned: Weight = 0.7


class AssembleConfig(SettingsSection):
    """How a context is put together from many sources.

    Attributes:
        item_share: what one item may take of what its source has.
        min_item_tokens: what one item may take however little that is.
        duplicate_similarity: texts from here on, 0 to 1, say the same; the less relevant one is left out.
        importance_lift: what a memory of importance 1 gains, as a factor over 1, and one of importance 0 loses.
        recency_lift: what a commit or an experience of today gains, as a factor over 1; half of it at the half-life.
    Source: SPEC-002-18; the numbers that it leaves open stand in docs/adr/0012-assembler.md.
    """

    weights: SourceWeights = DEFAULTS
    tiers: TierWeights = DEFAULTS
    item_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    min_item_tokens: Annotated[int, Field(ge=40, le=10_000)] = 120
    duplicate_similarity: Annotated[float, Field(ge=0.5, le=1.0)] = 0.9
    importance_lift: Ratio = 0.1
    recency_lift: Ratio = 0.1
    recency_half_life_days: Annotated[float, Field(gt=0)] = 30.0
