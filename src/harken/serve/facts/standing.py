"""How a store and its background work stand, as scripts get it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from harken.engine.maintenance import StoreStatus
from harken.jobs.job import WorkerState
from harken.jobs.workers import WorkerReport


def status_facts(found: StoreStatus, limit: Decimal | None) -> dict[str, Any]:
    """The status as scripts get it; the limit is what models may cost in a day, in USD."""
    counts = found.counts
    return {
        "max_usd_per_day": None if limit is None else float(limit),
        "messages": counts.messages,
        "conversations": counts.conversations,
        "exchanges": counts.exchanges,
        "project_count": counts.projects,
        "entries": counts.entries,
        "embeddable": counts.embeddable,
        "embedded": counts.embedded,
        "queue": found.queue,
        "failed": counts.failed,
        "forgotten": counts.forgotten,
        "redactions": sum(found.redactions.values()),
        "redactions_by_kind": found.redactions,
        "spend_usd": float(found.spent.usd),
        "spend_today_usd": float(found.spent_today.usd),
        "spend_unsettled_usd": float(found.spent.unsettled_usd),
        "spend_unpriced_calls": found.spent.unpriced,
        "space": found.space,
        "filling_space": found.filling,
        "bytes": found.sizes,
        "stale_leases": found.stale_leases,
        "torn_lines": found.torn,
        "home": str(found.home),
        "store": found.store,
    }


def report_facts(report: WorkerReport) -> dict[str, Any]:
    """A worker's report as scripts get it."""
    counts = report.counts
    return {
        "name": report.name,
        "enabled": report.enabled,
        "state": state_of(report),
        "done": report.done,
        "outlived": report.outlived,
        "older": report.older,
        "waiting": report.waiting,
        "current": report.current or None,
        "in_hand": counts.leased,
        "retrying": counts.retrying,
        "retry_at": counts.retry_at.isoformat() if counts.retry_at else None,
        "given_up": counts.given_up,
        "last_error": counts.last_error,
        "halted": report.halted,
        "calls": report.spent.calls,
        "spend_usd": float(report.spent.usd),
        "spend_today_usd": float(report.spent_today.usd),
    }


def state_of(report: WorkerReport) -> str:
    """`OFF`, `HALTED`, `RUNNING`, `WAITING` (there is work, and nobody here does any) or `IDLE`."""
    if not report.enabled:
        return "OFF"
    if report.halted:
        return "HALTED"
    if report.counts.leased or (report.waiting and report.state is WorkerState.PROCESSING):
        return "RUNNING"
    return "WAITING" if report.waiting and report.state is WorkerState.STOPPED else "IDLE"
