"""The state of a store and of its background work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any

from harken.model.arguments import Argument
from harken.model.views import StatusView, WorkerView
from harken.serve.operations.operation import Caller, Operation, Printer, ShellCommand
from harken.text.shown import counted, readable_bytes

if TYPE_CHECKING:
    from decimal import Decimal

    from harken.engine import Harken
    from harken.engine.maintenance import StoreStatus
    from harken.jobs.workers import WorkerReport

# Workers, and what they make, as reports name them.
CONVERSATION, EXCHANGE, TOOLS, SEGMENT, EMBEDDINGS = "conversation", "exchange", "tools", "segment", "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusArguments:
    """Nothing has to be named."""

    projects: Annotated[bool, Argument("List the projects.", is_shared=False)] = False


class StatusAnswer(StatusView):
    """How much a store holds, how it stands, and its background work."""

    max_usd_per_day: float | None
    workers: list[WorkerView]


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a store.

    Attributes:
        max_usd_per_day: what calls of language models may cost in a day; None for any amount.
        projects: (key, name, conversations) of each; None unless they were asked for.
    """

    store: StoreStatus
    workers: Sequence[WorkerReport]
    max_usd_per_day: Decimal | None
    projects: Sequence[tuple[str, str, int]] | None

    def view(self) -> StatusAnswer:
        """The status as JSON, without projects."""
        limit = None if self.max_usd_per_day is None else float(self.max_usd_per_day)
        workers = [report.view() for report in self.workers]
        return {**self.store.view(), "max_usd_per_day": limit, "workers": workers}


def _status(harken: Harken, wanted: StatusArguments, _caller: Caller) -> Status:
    projects = harken.maintenance.projects() if wanted.projects else None
    limit = harken.settings.llm.max_usd_per_day
    return Status(harken.maintenance.status(), harken.background.status(), limit, projects)


def _shell_view(found: Status) -> dict[str, Any]:
    if found.projects is None:
        return {**found.view()}
    listed = [{"key": key, "name": name, "conversations": count} for key, name, count in found.projects]
    return {**found.view(), "projects": listed}


def _show_status(session: Printer, found: Status, _wanted: StatusArguments) -> None:
    for name, value in [
        *_store_lines(found.store),
        *_spend_lines(found.store, found.max_usd_per_day),
        *_worker_lines(found.workers),
    ]:
        session.say(f"{name:<14} {value}")
    for key, name, count in found.projects or ():
        session.say(f"  {name}  {key}  {count} conversations")


def _store_lines(found: StoreStatus) -> list[tuple[str, str]]:
    counts = found.counts
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.redactions.items()))
    return [
        ("home", str(found.home)),
        ("messages", f"{counts.messages} in {counts.conversations} conversations, {counts.projects} projects"),
        ("entries", f"{counts.entries} searchable by word"),
        ("embedded", f"{counts.embedded} of {counts.embeddable}" + (f" ({found.space})" if found.space else "")),
        ("queue", f"{found.queue} waiting, {counts.failed} given up"),
        ("redactions", f"{sum(found.redactions.values())}" + (f" ({kinds})" if kinds else "")),
        ("forgotten", str(counts.forgotten)),
        ("size", ", ".join(f"{part} {readable_bytes(size)}" for part, size in found.sizes.items())),
    ]


def _spend_lines(found: StoreStatus, limit: Decimal | None) -> list[tuple[str, str]]:
    """The cost of language models, and below it whatever is unusual."""
    spent = found.spent
    line = "nothing; no language model was called"
    if spent.calls or spent.unsettled:
        today = f"${found.spent_today.usd:.4f} today (UTC)"
        line = f"${spent.usd:.4f} for {spent.calls} calls, {today}, {limit_words(limit)}"
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
    kinds = f"{made[EXCHANGE]} of exchanges, {made[CONVERSATION]} of conversations, {waiting} waiting"
    if older := sum(report.older for report in reports):
        kinds += f", {older} older than the model by extraction (harken summarizer backfill)"
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
    """What is tried again, and why a worker stands still; nothing where all goes well."""
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
    name = report.name if report.name == EMBEDDINGS else f"{report.name} summaries"
    if report.name == SEGMENT:
        name = "rolling summaries"
    line = f"{name}: {'on' if report.enabled else 'off'}, {report.waiting} waiting, {report.done} done"
    line += f", {report.counts.given_up} given up"
    if report.counts.leased:
        line += f", {report.counts.leased} in hand"
    spent = f", ${report.spent.usd:.4f} for {counted(report.spent.calls, 'call')}" if report.spent.calls else ""
    return line + spent


STATUS = Operation(
    "status",
    "Status",
    "Say how much is remembered, and how it stands.",
    StatusArguments,
    _status,
    StatusAnswer,
    command=ShellCommand("status", "Show how much there is, and how it stands.", _show_status, view=_shell_view),
)
OPERATIONS = (STATUS,)
