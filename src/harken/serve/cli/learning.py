"""`harken experience` and `harken values`: the operations on them, and what people alone do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harken.model.arguments import DEFAULT_AGENT
from harken.model.experiences import DOMAINS, STRATEGIES
from harken.serve.cli.commands import command_of
from harken.serve.cli.session import CommandSession, print_json, with_json, with_session
from harken.serve.operations import experiences
from harken.serve.operations import values as distilled
from harken.serve.operations.experiences import show_experience

if TYPE_CHECKING:
    from harken.sources.experiences.candidates import Candidate


@click.group()
def experience() -> None:
    """What was tried, on what hypothesis, and how it went."""


@click.group()
def values() -> None:
    """Principles that clusters of experiences bear out."""


for each in experiences.OPERATIONS:
    experience.add_command(command_of(each))
for one in distilled.OPERATIONS:
    values.add_command(command_of(one))


@experience.command()
@click.argument("uid", metavar="ID")
@with_json
def show(session: CommandSession, uid: str, as_json: bool) -> None:
    """Show a whole experience."""
    with session.engine() as harken:
        one = harken.experiences.show(uid)
    if as_json:
        print_json(one.view())
    else:
        show_experience(session, one)


@experience.command("forget")
@click.argument("uid", metavar="ID")
@with_session
def forget_experience(session: CommandSession, uid: str) -> None:
    """Forget an experience for good."""
    with session.engine() as harken:
        session.say(f"Forgot {harken.experiences.forget(uid)}.")


@experience.command()
@click.option("--accept", metavar="ID", help="Start an experience from this one, in the words that were said.")
@click.option("--dismiss", metavar="ID", help="Never show this one again.")
@click.option(
    "--domain", type=click.Choice(DOMAINS), default="debugging", show_default=True, help="Of what is accepted."
)
@click.option(
    "--strategy", type=click.Choice(STRATEGIES), default="read-the-error", show_default=True, help="Likewise."
)
@click.option("--goal", help="In place of what was said; likewise the next three.")
@click.option("--hypothesis")
@click.option("--action")
@click.option("--prediction")
@click.option("--agent", default=DEFAULT_AGENT, show_default=True, help="Whose.")
@click.option("--session", "session_id", default="", help="The agent's session, by which orphans are known.")
@with_json
def review(
    session: CommandSession, accept: str | None, dismiss: str | None, session_id: str, as_json: bool, **given: Any
) -> None:
    """Show tests and builds that failed while no experience was active; start one from them, or dismiss them."""
    with session.engine() as harken:
        if accept:
            begun = harken.experiences.accept(accept, session=session_id, **given)
            session.tell(as_json, begun.written_view(), f"Started {begun.uid}")
            return
        if dismiss:
            session.say(f"Dismissed {harken.experiences.dismiss(dismiss)}.")
            return
        found = harken.experiences.review()
    if as_json:
        print_json([one.view() for one in found])
        return
    for one in found:
        _print_candidate(session, one)
    if not found:
        session.say("Nothing to review: no test or build failed without an active experience.")


def _print_candidate(session: CommandSession, one: Candidate) -> None:
    """A failed check with what was said around it."""
    times = "once" if one.failures == 1 else f"{one.failures} times"
    since = ", passed since" if one.has_passed else ""
    session.say((f"{one.uid} · `{one.command}` failed {times}{since}", "bold"))
    session.say(one.printed)
    for name in ("goal", "hypothesis", "prediction"):
        session.say((f"  {name}: {' '.join(getattr(one, name).split()) or 'not said'}", "dim"))


@values.command("forget")
@click.argument("uid", metavar="ID")
@with_session
def forget_value(session: CommandSession, uid: str) -> None:
    """Forget a value for good."""
    with session.engine() as harken:
        session.say(f"Forgot {harken.values.forget(uid)}.")
