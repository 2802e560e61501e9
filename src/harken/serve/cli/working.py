"""`harken worker`: background work, by hand or as a service."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from types import FrameType

import click

from harken.engine import Harken
from harken.errors import HarkenError, UsageError
from harken.jobs.workers import EMBEDDINGS, SEGMENT
from harken.serve.cli.reporting import print_reports
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, with_session
from harken.serve.facts.standing import report_facts
from harken.storage.enrichment.jobs import EMBED
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE


@click.group()
def worker() -> None:
    """Run and watch the background work."""


@worker.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left to do.")
@json_option
@with_session
def run(session: CommandSession, until_idle: bool, as_json: bool) -> None:
    """Summarize what ended, rests or has left a window, and embed what waits for it, the newest first."""
    if as_json and not until_idle:
        raise UsageError("Only what ends has facts to print. Give --json together with --until-idle.")
    with session.engine() as harken:
        if until_idle:
            _until_idle(session, harken, as_json)
        else:
            _serve(session, harken)


def _until_idle(session: CommandSession, harken: Harken, as_json: bool) -> None:
    if harken.background.status(EMBEDDINGS)[0].enabled:
        # A model that cannot be opened is said before anything is done, not after minutes of summaries.
        harken.spaces.filled()
    made = harken.background.summarize()
    if not as_json:
        _tell(session, made)
    done = 0
    if harken.background.status(EMBEDDINGS)[0].enabled:
        with session.progress("Embedding", "texts") as show:
            done = harken.embed(show, patient=True)
    if as_json:
        print_json({"summarized": made, "embedded": done})
    else:
        session.out.print(f"Embedded {counted(done, 'text')}.")
    for report in harken.background.status():
        if report.halted:
            session.note(f"{report.name}: {report.halted}")
    failures = harken.upkeep.failures()
    if failures:
        failed = counted(harken.upkeep.status().counts.failed, "item")
        raise HarkenError(
            f"{failed} given up after repeated failures, lastly {failures[0].error_class}. Again: harken worker retry"
        )


def _tell(session: CommandSession, made: Mapping[str, int]) -> None:
    if taken_in := made[SEGMENT]:
        session.out.print(f"Summarized {counted(taken_in, 'message')} that left a window.")
    if made[EXCHANGE] or made[CONVERSATION]:
        summarized = f"{counted(made[EXCHANGE], 'exchange')} and {counted(made[CONVERSATION], 'conversation')}"
        session.out.print(f"Summarized {summarized}.")


def _serve(session: CommandSession, harken: Harken) -> None:
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if harken.start_worker() is None:
        session.note("The settings name no embedding model: only summaries are made.")
    session.note("Working; stop with Ctrl-C.")
    while not stopping.wait(1.0):
        pass


@worker.command()
@json_option
@with_session
def status(session: CommandSession, as_json: bool) -> None:
    """Show what waits, what is being worked on, and what was given up."""
    with session.engine() as harken:
        found = harken.upkeep.status()
        failures = harken.upkeep.failures()
        reports = harken.background.status()
    facts = {
        "queue": found.queue,
        "embedded": found.counts.embedded,
        "failed": found.counts.failed,
        "stale_leases": found.stale_leases,
        "workers": [report_facts(report) for report in reports],
        "failures": [
            {"kind": f.kind, "item": f.item_id, "attempts": f.attempts, "error_class": f.error_class} for f in failures
        ],
    }
    if as_json:
        print_json(facts)
        return
    print_reports(session, reports)
    for failure in failures:
        what = "entry" if failure.kind == EMBED else failure.kind
        session.out.print(f"  {what} {failure.item_id}: {failure.error_class} after {failure.attempts} attempts")


@worker.command()
@json_option
@with_session
def retry(session: CommandSession, as_json: bool) -> None:
    """Try again what was given up."""
    with session.engine() as harken:
        count = harken.upkeep.retry_failed()
    if as_json:
        print_json({"waiting": count})
        return
    session.out.print(f"{counted(count, 'item')} wait again. Work on them: harken worker run --until-idle")
