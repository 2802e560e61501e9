"""`harken experience` and `harken values`: what was tried, how it went, and what it teaches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harken.errors import UsageError
from harken.model.experiences import (
    AXES,
    DOMAINS,
    OUTCOMES,
    ROOT_CAUSES,
    STRATEGIES,
    ExperienceStatus,
    Lesson,
    RootCause,
)
from harken.serve.cli.learning_shown import print_candidate, print_experience
from harken.serve.cli.session import CommandSession, counted, json_option, print_json, with_session
from harken.serve.facts.learned import (
    active_facts,
    candidate_facts,
    cluster_facts,
    experience_facts,
    member_facts,
    value_facts,
    written_facts,
)
from harken.sources.experiences.experiences import DEFAULT_AGENT
from harken.text.dates import parse_since

_DOMAIN, _STRATEGY = click.Choice(DOMAINS), click.Choice(STRATEGIES)
_AXIS = click.Choice(AXES)


def _agent_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--agent", default=DEFAULT_AGENT, show_default=True, help="Whose.")(command)


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    directory = click.Path(path_type=Path)
    option = click.option("--directory", type=directory, help="Its project's, in place of the current one.")
    return option(_agent_option(command))


def _session_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--session", "session_id", default="", help="The agent's session, by which orphans are known.")(
        command
    )


@click.group()
def experience() -> None:
    """What was tried, on what hypothesis, and how it went."""


@experience.command()
@click.option("--domain", type=_DOMAIN, required=True, help="What kind of work it is.")
@click.option("--strategy", type=_STRATEGY, required=True, help="How it is gone about.")
@click.option("--goal", required=True, help="What is wanted.")
@click.option("--hypothesis", required=True, help="What is believed.")
@click.option("--action", required=True, help="What is done.")
@click.option("--prediction", required=True, help="What is to be seen then, if the hypothesis is right.")
@_place_options
@_session_option
@json_option
@with_session
def start(
    session: CommandSession, directory: Path | None, agent: str, session_id: str, as_json: bool, **words: str
) -> None:
    """Begin an experience; a project and an agent have one at a time."""
    with session.engine() as harken:
        one = harken.experiences.start(**words, directory=directory or Path.cwd(), agent=agent, session=session_id)
    _say_written(session, one, as_json, "Started")


@experience.command()
@click.option("--hypothesis", help="What is believed now.")
@click.option("--action", help="What is done now.")
@click.option("--prediction", help="What is to be seen now.")
@click.option("--strategy", type=_STRATEGY, help="How it is gone about now.")
@click.option("--note", default="", help="A remark.")
@click.option("--id", "uid", help="Which; the active one unless given.")
@_place_options
@json_option
@with_session
def update(session: CommandSession, directory: Path | None, agent: str, as_json: bool, **given: Any) -> None:
    """Change the active experience; another hypothesis, action or prediction is a new iteration."""
    with session.engine() as harken:
        one = harken.experiences.update(**given, directory=directory or Path.cwd(), agent=agent)
    _say_written(session, one, as_json, f"Iteration {one.iteration_count} of")


@experience.command()
@click.argument("status", type=click.Choice(OUTCOMES), required=False)
@click.option("--result", default="", help="What came of it; what a test or build printed unless given.")
@click.option("--surprise", default="", help="What was unexpected; required where it is falsified.")
@click.option("--cause", type=click.Choice(ROOT_CAUSES), help="Why the hypothesis was wrong; likewise.")
@click.option("--cause-description", default="", help="The same in words; likewise.")
@click.option("--worked", default="", help="The lesson: what worked.")
@click.option("--takeaway", default="", help="The lesson: what to take from it.")
@click.option("--id", "uid", help="Which; the active one unless given.")
@_place_options
@json_option
@with_session
def resolve(
    session: CommandSession,
    status: str | None,
    cause: str | None,
    cause_description: str,
    worked: str,
    takeaway: str,
    directory: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """End the active experience; without STATUS as the last test or build suggests."""
    if bool(cause) != bool(cause_description):
        raise UsageError("--cause and --cause-description go together.")
    if takeaway and not worked:
        raise UsageError("--takeaway needs --worked.")
    root_cause = RootCause(cause, cause_description) if cause else None
    lesson = Lesson(worked, takeaway) if worked else None
    with session.engine() as harken:
        one = harken.experiences.resolve(
            status, root_cause=root_cause, lesson=lesson, directory=directory or Path.cwd(), **given
        )
    _say_written(session, one, as_json, f"{one.status.value.capitalize()} ({one.tier})")


@experience.command()
@_place_options
@_session_option
@json_option
@with_session
def active(session: CommandSession, directory: Path | None, agent: str, session_id: str, as_json: bool) -> None:
    """Show the active experience, whether it is an orphan, and what a test or build has said of it."""
    with session.engine() as harken:
        found = harken.experiences.active(directory=directory or Path.cwd(), agent=agent, session=session_id)
    if as_json:
        print_json(found and active_facts(found))
        return
    if found is None:
        session.out.print("No experience is active. Begin one: harken experience start")
        return
    print_experience(session, found.experience)
    if found.is_orphan:
        session.out.print("An orphan of another session. Go on with it: harken experience adopt. Or give it up: "
                          "harken experience resolve abandoned")  # fmt: skip
    if found.suggestion:
        session.out.print(Text(f"suggested: {found.suggestion.status.value}, by `{found.suggestion.command}`", "bold"))
        session.out.print(Text(found.suggestion.result))


@experience.command()
@click.argument("uid", metavar="ID", required=False)
@_place_options
@_session_option
@json_option
@with_session
def adopt(
    session: CommandSession, uid: str | None, directory: Path | None, agent: str, session_id: str, as_json: bool
) -> None:
    """Go on with an experience that another session began."""
    with session.engine() as harken:
        one = harken.experiences.adopt(uid, session=session_id, directory=directory or Path.cwd(), agent=agent)
    _say_written(session, one, as_json, "Adopted")


@experience.command("list")
@click.option("--domain", type=_DOMAIN, help="Only of this one.")
@click.option("--outcome", type=click.Choice([status.value for status in ExperienceStatus]), help="Only with this one.")
@click.option("--since", help="Not begun before this: 2026-05-08, yesterday, '2 weeks ago', 'May 2023'.")
@click.option("--project", help="Only of this project: its short name, key or folder.")
@click.option("--limit", type=int, default=20, show_default=True, help="At most so many, up to 500.")
@json_option
@with_session
def list_experiences(
    session: CommandSession, limit: int, as_json: bool, since: str | None, **wanted: str | None
) -> None:
    """List experiences, the newest first."""
    from_then = parse_since(since, datetime.now(UTC)) if since else None
    with session.engine() as harken:
        found = harken.experiences.list(limit, since=from_then, **wanted)
    if as_json:
        print_json([experience_facts(one, whole=False) for one in found])
        return
    for one in found:
        session.out.print(Text(f"{one.uid}  {one.domain} | {one.strategy}  {one.status.value} {one.tier}  {one.goal}"))
    if not found:
        session.out.print("No experiences. Begin one: harken experience start")


@experience.command()
@click.argument("uid", metavar="ID")
@json_option
@with_session
def show(session: CommandSession, uid: str, as_json: bool) -> None:
    """Show a whole experience."""
    with session.engine() as harken:
        one = harken.experiences.show(uid)
    if as_json:
        print_json(experience_facts(one))
    else:
        print_experience(session, one)


@experience.command("forget")
@click.argument("uid", metavar="ID")
@with_session
def forget_experience(session: CommandSession, uid: str) -> None:
    """Forget an experience for good."""
    with session.engine() as harken:
        session.out.print(f"Forgot {harken.experiences.forget(uid)}.")


@experience.command()
@click.option("--accept", metavar="ID", help="Start an experience from this one, in the words that were said.")
@click.option("--dismiss", metavar="ID", help="Never show this one again.")
@click.option("--domain", type=_DOMAIN, default="debugging", show_default=True, help="Of what is accepted.")
@click.option("--strategy", type=_STRATEGY, default="read-the-error", show_default=True, help="Likewise.")
@click.option("--goal", help="In place of what was said; likewise the next three.")
@click.option("--hypothesis")
@click.option("--action")
@click.option("--prediction")
@_agent_option
@_session_option
@json_option
@with_session
def review(
    session: CommandSession, accept: str | None, dismiss: str | None, session_id: str, as_json: bool, **given: Any
) -> None:
    """Show tests and builds that failed while no experience was active; start one from them, or dismiss them."""
    with session.engine() as harken:
        if accept:
            _say_written(session, harken.experiences.accept(accept, session=session_id, **given), as_json, "Started")
            return
        if dismiss:
            session.out.print(f"Dismissed {harken.experiences.dismiss(dismiss)}.")
            return
        found = harken.experiences.review()
    if as_json:
        print_json([candidate_facts(one) for one in found])
        return
    for one in found:
        print_candidate(session, one)
    if not found:
        session.out.print("Nothing to review: no test or build failed without an active experience.")


@click.group()
def values() -> None:
    """Principles that clusters of experiences bear out."""


@values.command()
@click.option("--axis", type=_AXIS, help="Only of this one.")
@json_option
@with_session
def clusters(session: CommandSession, axis: str | None, as_json: bool) -> None:
    """Find clusters of experiences; one that was found before keeps its id."""
    with session.engine() as harken:
        found = harken.values.clusters(axis)
    if as_json:
        print_json([cluster_facts(one) for one in found])
        return
    for one in found:
        session.out.print(f"{one.axis}: {counted(len(one.clusters), 'cluster')} in {one.experiences} experiences")
        for each in one.clusters:
            session.out.print(f"  {each.uid}  {len(each.members)} members, mean distance {each.mean_distance:.3f}")
        if one.note:
            session.out.print(Text(f"  {one.note}", "dim"))


@values.command()
@click.argument("cluster_id", metavar="CLUSTER")
@click.option("--limit", type=int, default=50, show_default=True, help="At most so many.")
@json_option
@with_session
def members(session: CommandSession, cluster_id: str, limit: int, as_json: bool) -> None:
    """Show the experiences of a cluster and what each says on its axis, the nearest to its centroid first."""
    with session.engine() as harken:
        found = harken.values.members(cluster_id, limit)
    if as_json:
        print_json([member_facts(one) for one in found])
        return
    for one in found:
        session.out.print(Text(f"{one.distance:.3f}  {one.experience.uid}  {one.experience.goal}"))
        if one.said != one.experience.goal:
            session.out.print(Text(f"       {one.said}", "dim"))


@values.command()
@click.argument("cluster_id", metavar="CLUSTER")
@click.argument("text", nargs=-1, required=True)
@json_option
@with_session
def add(session: CommandSession, cluster_id: str, text: tuple[str, ...], as_json: bool) -> None:
    """Keep a value, if the cluster bears it out."""
    with session.engine() as harken:
        one = harken.values.add(" ".join(text), cluster_id)
    if as_json:
        print_json(value_facts(one))
    else:
        session.out.print(f"Added {one.uid}", markup=False)


@values.command("list")
@click.option("--axis", type=_AXIS, help="Only of this one.")
@click.option("--limit", type=int, default=20, show_default=True, help="At most so many.")
@json_option
@with_session
def list_values(session: CommandSession, axis: str | None, limit: int, as_json: bool) -> None:
    """List values, the newest first."""
    with session.engine() as harken:
        found = harken.values.list(axis, limit)
    if as_json:
        print_json([value_facts(one) for one in found])
        return
    for one in found:
        session.out.print(Text(f"{one.uid}  {one.cluster_id}  {one.text}"))
    if not found:
        session.out.print("No values. Find clusters for them: harken values clusters")


@values.command("forget")
@click.argument("uid", metavar="ID")
@with_session
def forget_value(session: CommandSession, uid: str) -> None:
    """Forget a value for good."""
    with session.engine() as harken:
        session.out.print(f"Forgot {harken.values.forget(uid)}.")


def _say_written(session: CommandSession, one: Any, as_json: bool, did: str) -> None:
    if as_json:
        print_json(written_facts(one))
    else:
        session.out.print(f"{did} {one.uid}", markup=False)
