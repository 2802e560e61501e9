"""`harken worker`: background work, by hand or as a service."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import click

from harken.engine import Harken
from harken.errors import HarkenError, UsageError
from harken.serve.cli.session import Session, counted, json_option, print_json, with_session


@click.group()
def worker() -> None:
    """Run and watch the background work."""


@worker.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left to do.")
@with_session
def run(session: Session, until_idle: bool) -> None:
    """Embed what waits for it, the newest first, and summarize what has left a window."""
    with session.engine() as harken:
        if until_idle:
            _until_idle(session, harken)
        else:
            _serve(session, harken)


def _until_idle(session: Session, harken: Harken) -> None:
    with session.progress("Embedding", "messages") as show:
        done = harken.embed(show, patient=True)
    session.out.print(f"Embedded {counted(done, 'message')}.")
    if taken_in := harken.chats.summarize():
        session.out.print(f"Summarized {counted(taken_in, 'message')} that left a window.")
    failures = harken.upkeep.failures()
    if failures:
        failed = counted(harken.upkeep.status().counts.failed, "message")
        raise HarkenError(
            f"{failed} given up after repeated failures, lastly {failures[0].error_class}. Again: harken worker retry"
        )


def _serve(session: Session, harken: Harken) -> None:
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if harken.start_worker() is None:
        raise UsageError("The settings name no embedding model, so there is no work. Set embedder to onnx.")
    session.note("Working; stop with Ctrl-C.")
    while not stopping.wait(1.0):
        pass


@worker.command()
@json_option
@with_session
def status(session: Session, as_json: bool) -> None:
    """Show what waits, what is being worked on, and what was given up."""
    with session.engine() as harken:
        found = harken.upkeep.status()
        failures = harken.upkeep.failures()
    facts = {
        "queue": found.queue,
        "embedded": found.counts.embedded,
        "failed": found.counts.failed,
        "stale_leases": found.stale_leases,
        "failures": [
            {"kind": f.kind, "item": f.item_id, "attempts": f.attempts, "error_class": f.error_class} for f in failures
        ],
    }
    if as_json:
        print_json(facts)
        return
    session.out.print(f"embed: {found.queue} waiting, {found.counts.embedded} done, {found.counts.failed} given up")
    for failure in failures:
        session.out.print(f"  entry {failure.item_id}: {failure.error_class} after {failure.attempts} attempts")


@worker.command()
@with_session
def retry(session: Session) -> None:
    """Try again what was given up."""
    with session.engine() as harken:
        count = harken.upkeep.retry_failed()
    session.out.print(f"{counted(count, 'item')} wait again. Work on them: harken worker run --until-idle")
