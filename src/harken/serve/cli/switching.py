"""`harken summarizer` and `harken embeddings`: background work switched on and off, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import click

from harken.background import EMBEDDINGS, SEGMENT, WorkerReport
from harken.errors import UsageError
from harken.serve.cli.session import Session, counted, json_option, print_json, with_session
from harken.storage.spend import Spent
from harken.storage.summaries import CONVERSATION, EXCHANGE

_SWITCHES = {"on": True, "off": False}
_SUMMARIZERS = (EXCHANGE, CONVERSATION)


@click.command()
@click.argument("words", nargs=-1, metavar="[conversation|exchange] [on|off]")
@json_option
@with_session
def summarizer(session: Session, words: tuple[str, ...], as_json: bool) -> None:
    """Show how summaries stand, or switch them on or off; both kinds unless one is named."""
    names = tuple(word for word in words if word in _SUMMARIZERS)
    _switch_and_show(session, names or _SUMMARIZERS, tuple(word for word in words if word not in names), as_json)


@click.command()
@click.argument("words", nargs=-1, metavar="[on|off]")
@json_option
@with_session
def embeddings(session: Session, words: tuple[str, ...], as_json: bool) -> None:
    """Show how embedding stands, or switch it on or off."""
    _switch_and_show(session, (EMBEDDINGS,), words, as_json)


def report_facts(report: WorkerReport) -> dict[str, Any]:
    """A worker's report as scripts get it."""
    counts = report.counts
    return {
        "name": report.name,
        "enabled": report.enabled,
        "done": report.done,
        "waiting": report.waiting,
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


def print_reports(session: Session, reports: Sequence[WorkerReport]) -> None:
    """A line for each worker, and what is unusual about it below."""
    for report in reports:
        session.out.print(report_line(report), markup=False)
        if report.counts.retrying:
            moment = report.counts.retry_at
            again = f", the first at {moment.astimezone(UTC):%H:%M:%S} UTC" if moment else ""
            session.out.print(f"  {report.counts.retrying} tried again after a failure{again}", markup=False)
        if report.halted:
            session.out.print(f"  stands still: {report.halted}", markup=False)


def report_line(report: WorkerReport) -> str:
    """`exchange: on, 3 waiting, 12 done, 0 given up`."""
    line = f"{_title(report.name)}: {'on' if report.enabled else 'off'}, {report.waiting} waiting, {report.done} done"
    line += f", {report.counts.given_up} given up"
    if report.counts.leased:
        line += f", {report.counts.leased} in hand"
    return line + (f", {_cost(report.spent)}" if report.spent.calls else "")


def _switch_and_show(session: Session, names: Sequence[str], words: Sequence[str], as_json: bool) -> None:
    if len(words) > 1 or any(word not in _SWITCHES for word in words):
        raise UsageError(f"'{' '.join(words)}' is not understood here. Say on or off, or nothing to see how it stands.")
    with session.engine() as harken:
        for name in names if words else ():
            harken.background.switch(name, _SWITCHES[words[0]])
        reports = [report for report in harken.background.status() if report.name in names]
    if as_json:
        print_json([report_facts(report) for report in reports])
    else:
        print_reports(session, reports)


def _title(name: str) -> str:
    return name if name == EMBEDDINGS else f"{name} summaries" if name != SEGMENT else "rolling summaries"


def _cost(spent: Spent) -> str:
    return f"${spent.usd:.4f} for {counted(spent.calls, 'call')}"
