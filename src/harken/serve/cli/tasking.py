"""`harken task`: runs of scheduled tasks."""

from __future__ import annotations

import sys
from typing import Any

import click

from harken.context.task_history import Run
from harken.errors import UsageError
from harken.journal.events import format_time
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, with_session


@click.group()
def task() -> None:
    """Run scheduled tasks, each with what it did before, and see what they did."""


@task.command()
@click.argument("name")
@click.argument("message")
@click.option("--answer", metavar="TEXT|-", help="What another program has answered; - reads it from stdin.")
@click.option("--deliver", metavar="CONVERSATION", help="Record the answer in this conversation too, by its id.")
@json_option
@with_session
def run(
    session: CommandSession, name: str, message: str, answer: str | None, deliver: str | None, as_json: bool
) -> None:
    """Run a task once and record it: what it was asked, what was answered, how it ended.

    The answer is silent: it stands in the task's own history, and nowhere else unless it is delivered.
    """
    given = sys.stdin.read() if answer == "-" else answer
    if given is not None and not given.strip():
        raise UsageError("The answer is empty. Nothing was recorded.")
    with session.engine() as harken:
        done = harken.run_task(name, message, None if given is None else lambda _context: given, deliver)
    delivered = done.delivered.uid if done.delivered else None
    if as_json:
        print_json({"task": done.task, **_facts(done.run), "delivered": delivered})
    else:
        said = f", delivered as {delivered}" if delivered else ""
        session.out.print(f"Recorded run {done.run.uid} of {done.task}{said}.", markup=False)


@task.command("list")
@json_option
@with_session
def list_tasks(session: CommandSession, as_json: bool) -> None:
    """List the tasks that have run."""
    with session.engine() as harken:
        found = harken.tasks.list()
    if as_json:
        print_json(
            [
                {
                    **{"name": one.name, "id": one.uid, "runs": one.runs, "completed": one.completed},
                    **{"last_at": format_time(one.last_at), "last_status": one.last_status.value},
                }
                for one in found
            ]
        )
        return
    for one in found:
        last = f"{one.last_status.value} {one.last_at:%Y-%m-%d %H:%M}"
        session.out.print(
            f"{one.name}  {counted(one.runs, 'run')}, {one.completed} completed, last {last}", markup=False
        )
    if not found:
        session.out.print("No task has run. Run one: harken task run NAME MESSAGE --answer TEXT", markup=False)


@task.command()
@click.argument("name")
@click.option("--runs", type=int, help="How many at most; the setting context.subagent_history unless given.")
@click.option("--complete", is_flag=True, help="Only what the next run will see: runs that came to their answer.")
@json_option
@with_session
def history(session: CommandSession, name: str, runs: int | None, complete: bool, as_json: bool) -> None:
    """Show a task's last runs, oldest first."""
    with session.engine() as harken:
        found = harken.tasks.history(name, runs, complete)
    if as_json:
        print_json([_facts(one) for one in found])
        return
    for one in found:
        error = f": {one.error}" if one.error else ""
        session.out.print(f"{one.started_at:%Y-%m-%d %H:%M}  {one.status.value}{error}  {one.uid}", markup=False)
        for message in one.messages:
            session.out.print(f"  {message.role.value}: {message.text}", markup=False)


def _facts(found: Run) -> dict[str, Any]:
    return {
        "id": found.uid,
        "status": found.status.value,
        "started_at": format_time(found.started_at),
        "ended_at": None if found.ended_at is None else format_time(found.ended_at),
        "error": found.error,
        "messages": [
            {"id": one.uid, "role": one.role.value, "type": one.type.value, "text": one.text} for one in found.messages
        ],
    }
