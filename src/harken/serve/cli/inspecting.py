"""`harken status`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import click

from harken.engine.maintenance import StoreStatus
from harken.jobs.workers import EMBEDDINGS, WorkerReport
from harken.serve.cli.reporting import limit_words, report_line, troubles_of
from harken.serve.cli.session import CommandSession, json_option, print_json, readable_bytes, with_session
from harken.serve.facts.standing import report_facts, state_of, status_facts
from harken.storage.enrichment.spend import Spent
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE


@click.command()
@click.option("--projects", is_flag=True, help="List the projects.")
@json_option
@with_session
def status(session: CommandSession, projects: bool, as_json: bool) -> None:
    """Show how much there is, and how it stands."""
    with session.engine() as harken:
        found = harken.upkeep.status()
        known = harken.upkeep.projects() if projects else []
        reports = harken.background.status()
        limit = harken.settings.llm.max_usd_per_day
    if as_json:
        listed = [{"key": key, "name": name, "conversations": count} for key, name, count in known]
        workers = [report_facts(report) for report in reports]
        print_json({**status_facts(found, limit), "workers": workers, **({"projects": listed} if projects else {})})
        return
    for name, value in [*_lines(found, limit), *_worker_lines(reports)]:
        session.out.print(f"{name:<14} {value}", markup=False)
    for key, name, count in known:
        session.out.print(f"  {name}  {key}  {count} conversations", markup=False)


def _lines(found: StoreStatus, limit: Decimal | None) -> list[tuple[str, str]]:
    counts = found.counts
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.redactions.items()))
    lines = [
        ("home", str(found.home)),
        ("messages", f"{counts.messages} in {counts.conversations} conversations, {counts.projects} projects"),
        ("entries", f"{counts.entries} searchable by word"),
        ("embedded", f"{counts.embedded} of {counts.embeddable}" + (f" ({found.space})" if found.space else "")),
        ("queue", f"{found.queue} waiting, {counts.failed} given up"),
        ("redactions", f"{sum(found.redactions.values())}" + (f" ({kinds})" if kinds else "")),
        ("forgotten", str(counts.forgotten)),
        ("size", ", ".join(f"{part} {readable_bytes(size)}" for part, size in found.sizes.items())),
    ]
    if found.spent.calls or found.spent.unsettled:
        lines.append(("spend", _spend_line(found.spent, found.spent_today, limit)))
    else:
        lines.append(("spend", "nothing; no language model was called"))
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
    unusual = [report for report in reports if not report.enabled or report.halted or report.counts.retrying]
    states = ", ".join(f"{report.name} {state_of(report)}" for report in reports)
    lines.append(("workers", states))
    for report in unusual:
        lines += [("worker", report_line(report)), *(("", f"  {why}") for why in troubles_of(report))]
    return lines


def _spend_line(spent: Spent, today: Spent, limit: Decimal | None) -> str:
    line = f"${spent.usd:.4f} for {spent.calls} calls, ${today.usd:.4f} today (UTC), {limit_words(limit)}"
    if spent.unpriced:
        line += f"; {spent.unpriced} calls of models without a known price"
    if spent.unsettled:
        line += f"; at most ${spent.unsettled_usd:.4f} more for {spent.unsettled} calls whose end was not seen"
    return line
