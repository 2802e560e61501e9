"""The state of a store and of its background work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from typing_extensions import TypedDict

from harken.model.arguments import OFFSET, Argument, Spelling
from harken.model.views import StatusView, WorkerView
from harken.serve.operations.operation import Caller, NoArguments, Operation, Printer, paged
from harken.text.shown import counted, readable_bytes

if TYPE_CHECKING:
    from decimal import Decimal

    from harken.engine import Harken
    from harken.engine.maintenance import StoreStatus
    from harken.jobs.workers import WorkerReport
    from harken.model.lookups import Activity

# So many weeks are printed; programs get all.
_WEEKS = 8
# Workers, and what they make, as reports name them.
CONVERSATION, EXCHANGE, TOOLS, SEGMENT, EMBEDDINGS = "conversation", "exchange", "tools", "segment", "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusArguments:
    """Nothing has to be named."""

    projects: Annotated[
        bool, Argument("List the projects as well.", is_rare=True), Spelling(help="List the projects.")
    ] = False


class ProjectLine(TypedDict):
    """A project, and how many conversations it has."""

    key: str
    name: str
    conversations: int


class StatusAnswer(StatusView):
    """How much a store holds, how it stands, and its background work."""

    max_usd_per_day: float | None
    workers: list[WorkerView]
    projects: NotRequired[list[ProjectLine]]


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a store.

    Attributes:
        max_usd_per_day: what calls of language models may cost in a day; None for any amount.
        projects: (key, name, conversations) of each; None unless they were asked for.
        has_model: whether the settings name an embedding model.
    """

    store: StoreStatus
    workers: Sequence[WorkerReport]
    max_usd_per_day: Decimal | None
    projects: Sequence[tuple[str, str, int]] | None
    has_model: bool

    def view(self) -> dict[str, Any]:
        """A `StatusAnswer`, and projects where they were asked for."""
        limit = None if self.max_usd_per_day is None else float(self.max_usd_per_day)
        view = {**self.store.view(), "max_usd_per_day": limit, "workers": [report.view() for report in self.workers]}
        if self.projects is not None:
            names = ("key", "name", "conversations")
            view["projects"] = [dict(zip(names, project, strict=True)) for project in self.projects]
        return view


def _show_status(session: Printer, found: Status) -> None:
    store, counts = found.store, found.store.counts
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(store.redactions.items()))
    talks = counted(counts.conversations, "conversation")
    languages = f"{store.languages_space}, {store.languages_queue:,} waiting"
    waiting = "waiting" if found.has_model else "without a vector, for no embedding model is set"
    for name, value in (
        ("home", str(store.home)),
        ("messages", f"{counts.messages:,} in {talks}, {counted(counts.projects, 'project')}"),
        ("entries", f"{counts.entries:,} searchable by word"),
        ("embedded", f"{counts.embedded:,} of {counts.embeddable:,}" + (f" ({store.space})" if store.space else "")),
        *([("languages", languages)] if store.languages_space else []),
        ("queue", f"{store.queue:,} {waiting}, {counts.failed:,} given up"),
        ("redactions", f"{sum(store.redactions.values()):,}" + (f" ({kinds})" if kinds else "")),
        ("forgotten", f"{counts.forgotten:,}"),
        ("size", ", ".join(f"{part} {readable_bytes(size)}" for part, size in store.sizes.items())),
        *_spend_lines(store, found.max_usd_per_day),
        *_worker_lines([each for each in found.workers if found.has_model or each.name != EMBEDDINGS]),
    ):
        session.say(f"{name:<14} {value}")
    for key, name, count in found.projects or ():
        session.say(f"  {name}  {key}  {counted(count, 'conversation')}")


def _spend_lines(found: StoreStatus, limit: Decimal | None) -> list[tuple[str, str]]:
    """The cost of language models, and below it whatever is unusual."""
    spent = found.spent
    line = "nothing; no language model was called"
    if spent.calls or spent.unsettled:
        today = f"${found.spent_today.usd:.4f} today (UTC)"
        line = f"${spent.usd:.4f} for {counted(spent.calls, 'call')}, {today}, {limit_words(limit)}"
    if spent.unpriced:
        line += f"; {spent.unpriced} calls of models without a known price"
    if spent.unsettled:
        line += f"; at most ${spent.unsettled_usd:.4f} more for {spent.unsettled} calls whose end was not seen"
    lines = [("spend", line)]
    if found.filling:
        lines.append(("re-embedding", f"to {found.filling}; {found.space} answers meanwhile"))
    if found.stale_leases:
        lines.append(("leases", f"{found.stale_leases} left by a process that is gone: harken doctor --fix"))
    if found.torn:
        lines.append(("torn lines", f"{found.torn} set aside in {found.home / 'torn'}"))
    return lines


def _worker_lines(reports: Sequence[WorkerReport]) -> list[tuple[str, str]]:
    """Summaries in one line, states in one; what is off, stands still or is tried again in one of its own."""
    made = {report.name: report.done for report in reports}
    waiting = sum(report.waiting for report in reports if report.name != EMBEDDINGS)
    kinds = f"{made[EXCHANGE]:,} of exchanges, {made[CONVERSATION]:,} of conversations, {waiting:,} waiting"
    if older := sum(report.older for report in reports):
        kinds += f", {older:,} older than the model by extraction (harken summarizer backfill)"
    lines = [("summaries", kinds)] if waiting or made[EXCHANGE] or made[CONVERSATION] else []
    unusual = [report for report in reports if not report.enabled or report.blocked_reason or report.counts.retrying]
    lines.append(("workers", ", ".join(f"{report.name} {report.state_name}" for report in reports)))
    for report in unusual:
        lines += [("worker", report_line(report)), *(("", f"  {why}") for why in troubles_of(report))]
    return lines


def limit_words(limit: Decimal | None) -> str:
    """`at most $1.00 a day`."""
    return "without a daily limit" if limit is None else f"at most ${limit:,.2f} a day"


def troubles_of(report: WorkerReport) -> list[str]:
    """Work that is tried again, and the reason why a worker stands still; empty where all goes well."""
    troubles = []
    if report.counts.retrying:
        moment = report.counts.retry_at
        again = f", the first at {moment.astimezone(UTC):%H:%M:%S} UTC" if moment else ""
        troubles.append(f"{report.counts.retrying} tried again after a failure{again}")
    if report.blocked_reason:
        troubles.append(f"stands still: {report.blocked_reason}")
    return troubles


def report_line(report: WorkerReport) -> str:
    """`exchange: on, 3 waiting, 12 done, 0 given up`."""
    name = {EMBEDDINGS: EMBEDDINGS, SEGMENT: "rolling summaries"}.get(report.name, f"{report.name} summaries")
    line = f"{name}: {'on' if report.enabled else 'off'}, {report.waiting:,} waiting, {report.done:,} done"
    line += f", {report.counts.given_up:,} given up"
    line += f", {report.counts.leased} in hand" if report.counts.leased else ""
    spent = f", ${report.spent.usd:.4f} for {counted(report.spent.calls, 'call')}" if report.spent.calls else ""
    return line + spent


class StatsLine(TypedDict):
    """What there was of an agent or a project, or in a month or a week of UTC; of all where it has no name.

    `useful_share` is that of what was judged, null where nothing was; `used` counts answers that used what came back.
    """

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


class HookLine(TypedDict):
    """How long hooks of an agent took in a week, in milliseconds."""

    agent: str
    week: str
    count: int
    p50_ms: int
    p95_ms: int


class StatsAnswer(TypedDict):
    """What was said, what came back by itself and of what use it was, what models cost, how long hooks took."""

    agents: list[StatsLine]
    projects: list[StatsLine]
    months: list[StatsLine]
    weeks: list[StatsLine]
    total: StatsLine
    hooks: list[HookLine]


def _stats(harken: Harken, _wanted: NoArguments, _caller: Caller) -> StatsAnswer:
    activity = harken.maintenance.activity()
    months, weeks = (sorted(_by(activity, name), key=itemgetter("name")) for name in ("month", "week"))
    hooks = [
        HookLine(
            agent=each.agent,
            week=each.week,
            count=sum(each.counts.values()),
            p50_ms=each.percentile(0.5),
            p95_ms=each.percentile(0.95),
        )
        for each in harken.feedback.hook_times()
    ]
    return StatsAnswer(
        agents=_by(activity, "channel"),
        projects=_by(activity, "project"),
        months=months,
        weeks=weeks,
        total=_sum("", activity),
        hooks=hooks,
    )


def _by(activity: Sequence[Activity], name: str) -> list[StatsLine]:
    """A line for each, those first of which most was said."""
    groups: dict[str, list[Activity]] = {}
    for each in activity:
        if key := getattr(each, name):
            groups.setdefault(key, []).append(each)
    return sorted((_sum(group, lines) for group, lines in groups.items()), key=lambda line: -line["messages"])


def _sum(name: str, lines: Sequence[Activity]) -> StatsLine:
    judged = sum(each.judged for each in lines)
    return StatsLine(
        name=name,
        conversations=len({each.conversation_uid for each in lines if each.messages}),
        messages=sum(each.messages for each in lines),
        prompts=sum(each.prompts for each in lines),
        recalls=sum(each.recalls for each in lines),
        recall_tokens=sum(each.recall_tokens for each in lines),
        judged=judged,
        useful_share=round(sum(each.useful for each in lines) / judged, 4) if judged else None,
        used=sum(each.used for each in lines),
        spend_usd=float(sum(each.usd for each in lines)),
    )


def _show_stats(session: Printer, found: StatsAnswer) -> None:
    tables = {name: found[name] for name in ("agents", "projects", "months")} | {"weeks": found["weeks"][-_WEEKS:]}
    width = max(len(name) for lines in tables.values() for name in ("projects", *(line["name"] for line in lines)))
    heads = ("messages", "conversations", "prompts", "recalls", "their tokens", "useful", "used", "spend")
    for title, lines in {**tables, "in all": [found["total"]]}.items():
        session.say((f"{title:<{width}}  " + "  ".join(f"{head:>13}" for head in heads), "bold"))
        for line in lines:
            counts = (line["messages"], line["conversations"], line["prompts"], line["recalls"], line["recall_tokens"])
            share = "" if line["useful_share"] is None else f"{line['useful_share']:.0%} of {line['judged']:,}"
            cells = [*(f"{count:,}" for count in counts), share, f"{line['used']:,}", f"${line['spend_usd']:,.4f}"]
            session.say(f"{line['name']:<{width}}  " + "  ".join(f"{cell:>13}" for cell in cells))
        session.say()
    for each in found["hooks"][:_WEEKS]:
        times = f"{each['p50_ms']} ms, 95 % within {each['p95_ms']} ms"
        session.say(f"hooks of {each['agent']}, {each['week']}: {each['count']:,} answered, half within {times}")


class FailureView(TypedDict):
    """Work that was given up."""

    kind: str
    item: int
    attempts: int
    error_class: str


class FailuresAnswer(TypedDict):
    """Work that was given up, newest first."""

    failures: list[FailureView]
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresArguments:
    """How many."""

    limit: Annotated[int, Argument("How many at most.", 1, 1000)] = 100
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000)] = 0


OPERATIONS = (
    Operation(
        "status",
        "Say how much is remembered, and how it stands.",
        StatusArguments,
        lambda harken, wanted, _caller: Status(
            harken.maintenance.status(),
            harken.background.status(),
            harken.settings.llm.max_usd_per_day,
            harken.maintenance.projects() if wanted.projects else None,
            harken.settings.embedder != "none",
        ),
        "Status",
        StatusAnswer,
        # It tells of the machine as well: folders, and what the whole database takes.
        scope="admin",
        help="Show how much there is, and how it stands.",
        show=_show_status,
    ),
    Operation(
        "stats",
        "Count what was said, came back by itself and was useful, and what models cost: by agent, project, month and "
        "week.",
        NoArguments,
        _stats,
        "Statistics",
        StatsAnswer,
        show=_show_stats,
    ),
    Operation(
        "failures",
        "List background work that was given up after repeated failures, newest first.",
        FailuresArguments,
        lambda harken, wanted, _caller: harken.maintenance.failures(wanted.offset + wanted.limit + 1)[wanted.offset :],
        "Failures",
        FailuresAnswer,
        paged("failures"),
    ),
)
