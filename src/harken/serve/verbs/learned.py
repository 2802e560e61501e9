"""Verbs for experiences: what was tried, on what hypothesis, and how it went; and for values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from harken.chat.tools import Arguments
from harken.engine import Harken
from harken.errors import UsageError
from harken.model.experiences import REPORT_CHARS, STATEMENT_CHARS, VALUE_CHARS, Experience, Lesson, RootCause
from harken.serve.facts.learned import (
    active_facts,
    cluster_facts,
    experience_facts,
    member_facts,
    value_facts,
    written_facts,
)
from harken.serve.verbs.known import AnyStatus, Axis, Cause, Domain, Outcome, Strategy
from harken.serve.verbs.reach import reached
from harken.serve.verbs.saved import DIRECTORY
from harken.serve.verbs.verb import Caller, Effect, Facts, Verb
from harken.sources.experiences.experiences import DEFAULT_AGENT
from harken.text.dates import parse_since


class _Placed(Arguments):
    directory: str | None = DIRECTORY
    agent: str = Field(DEFAULT_AGENT, min_length=1, max_length=100, description="Whose; a project has one for each.")


class Start(_Placed):
    """What `experience_start` takes."""

    domain: Domain = Field(description="What kind of work it is.")
    strategy: Strategy = Field(description="How it is gone about.")
    goal: str = Field(min_length=1, max_length=STATEMENT_CHARS, description="What is wanted.")
    hypothesis: str = Field(min_length=1, max_length=STATEMENT_CHARS, description="What is believed.")
    action: str = Field(min_length=1, max_length=STATEMENT_CHARS, description="What is done.")
    prediction: str = Field(
        min_length=1, max_length=STATEMENT_CHARS, description="What is to be seen then, if the hypothesis is right."
    )
    session: str = Field("", max_length=200, description="The agent's session, by which orphans are known.")


class Update(_Placed):
    """What `experience_update` takes."""

    id: str | None = Field(None, min_length=6, max_length=100, description="Which; left out, the active one.")
    hypothesis: str | None = Field(None, min_length=1, max_length=STATEMENT_CHARS, description="What is believed now.")
    action: str | None = Field(None, min_length=1, max_length=STATEMENT_CHARS, description="What is done now.")
    prediction: str | None = Field(
        None, min_length=1, max_length=STATEMENT_CHARS, description="What is to be seen now."
    )
    strategy: Strategy | None = Field(None, description="How it is gone about now.")
    note: str = Field("", max_length=REPORT_CHARS, description="A remark.")


class Resolve(_Placed):
    """What `experience_resolve` takes."""

    id: str | None = Field(None, min_length=6, max_length=100, description="Which; left out, the active one.")
    status: Outcome | None = Field(None, description="Left out, as the last test or build suggests.")
    result: str = Field("", max_length=REPORT_CHARS, description="What came of it; left out, what a test printed.")
    surprise: str = Field("", max_length=REPORT_CHARS, description="What was unexpected; required when falsified.")
    cause: Cause | None = Field(None, description="Why the hypothesis was wrong; required when falsified.")
    cause_description: str = Field("", max_length=REPORT_CHARS, description="The same in words; likewise.")
    worked: str = Field("", max_length=REPORT_CHARS, description="The lesson: what worked.")
    takeaway: str = Field("", max_length=REPORT_CHARS, description="The lesson: what to take from it.")


class AskActive(_Placed):
    """What `experience_active` takes."""

    session: str = Field("", max_length=200, description="The present one; one of another session is an orphan.")


class Adopt(AskActive):
    """What `experience_adopt` takes."""

    id: str | None = Field(None, min_length=6, max_length=100, description="Which; left out, the active one.")


class ListExperiences(Arguments):
    """What `experiences` takes."""

    domain: Domain | None = Field(None, description="Only of this one.")
    outcome: AnyStatus | None = Field(None, description="Only with this.")
    since: str | None = Field(None, max_length=100, description="Begun not before this: 2026-05-08, '2 weeks ago'.")
    project: str | None = Field(
        None, max_length=1000, description="Only of this project: its short name, key or folder."
    )
    limit: int = Field(20, ge=1, le=100, description="How many at most, newest first; for older ones raise it.")


class AskAxis(Arguments):
    """What `value_clusters` takes."""

    axis: Axis | None = Field(None, description="Left out, all of them.")


class ListValues(AskAxis):
    """What `values` takes."""

    limit: int = Field(20, ge=1, le=100, description="How many at most, newest first; for older ones raise it.")


class AskMembers(Arguments):
    """What `value_members` takes."""

    cluster_id: str = Field(min_length=1, max_length=200, description="Of value_clusters.")
    limit: int = Field(20, ge=1, le=200, description="How many at most, the nearest to the middle first.")


class AddValue(Arguments):
    """What `value_add` takes."""

    text: str = Field(min_length=1, max_length=VALUE_CHARS, description="The principle, in a sentence.")
    cluster_id: str = Field(min_length=1, max_length=200, description="Of value_clusters.")


class Written(Facts):
    """What became of an experience."""

    id: str
    status: str
    iteration_count: int
    confidence_tier: str | None
    auto_captured: bool


class ActiveExperience(Facts):
    """The active experience; null where there is none."""

    experience: dict[str, Any] | None


class ExperienceList(Facts):
    """Experiences, newest first; `show` has the whole of one."""

    experiences: list[dict[str, Any]]


class ClusterList(Facts):
    """Clusters of each axis."""

    axes: list[dict[str, Any]]


class MemberList(Facts):
    """Experiences of a cluster."""

    members: list[dict[str, Any]]


class ValueFacts(Facts):
    """A value with its provenance."""

    id: str
    text: str
    axis: str
    cluster_id: str
    cluster_size: int
    similarity_to_centroid: float
    distance: float
    distance_limit: float
    members: list[str]
    created_at: str


class ValueList(Facts):
    """Values, newest first."""

    values: list[ValueFacts]


class Added(Facts):
    """What was added."""

    id: str


def _start(harken: Harken, wanted: Start, caller: Caller) -> Written:
    words = wanted.model_dump(exclude={"directory"})
    return _written(harken.experiences.start(**words, directory=_place(harken, wanted, caller)))


def _update(harken: Harken, wanted: Update, caller: Caller) -> Written:
    words = wanted.model_dump(exclude={"directory", "id"})
    return _written(harken.experiences.update(wanted.id, **words, directory=_place(harken, wanted, caller)))


def _resolve(harken: Harken, wanted: Resolve, caller: Caller) -> Written:
    if bool(wanted.cause) != bool(wanted.cause_description):
        raise UsageError("cause and cause_description go together: give both or neither.")
    if wanted.takeaway and not wanted.worked:
        raise UsageError("takeaway needs worked: give both.")
    one = harken.experiences.resolve(
        wanted.status,
        wanted.result,
        surprise=wanted.surprise,
        root_cause=RootCause(wanted.cause, wanted.cause_description) if wanted.cause else None,
        lesson=Lesson(wanted.worked, wanted.takeaway) if wanted.worked else None,
        uid=wanted.id,
        directory=_place(harken, wanted, caller),
        agent=wanted.agent,
    )
    return _written(one)


def _active(harken: Harken, wanted: AskActive, caller: Caller) -> ActiveExperience:
    place = _place(harken, wanted, caller)
    found = harken.experiences.active(directory=place, agent=wanted.agent, session=wanted.session)
    return ActiveExperience(experience=active_facts(found) if found else None)


def _adopt(harken: Harken, wanted: Adopt, caller: Caller) -> Written:
    place = _place(harken, wanted, caller)
    return _written(harken.experiences.adopt(wanted.id, session=wanted.session, directory=place, agent=wanted.agent))


def _list(harken: Harken, wanted: ListExperiences, _caller: Caller) -> ExperienceList:
    since = parse_since(wanted.since, datetime.now(UTC)) if wanted.since else None
    found = harken.experiences.list(
        wanted.limit, domain=wanted.domain, outcome=wanted.outcome, since=since, project=wanted.project
    )
    return ExperienceList(experiences=[experience_facts(one, whole=False) for one in found])


def _clusters(harken: Harken, wanted: AskAxis, _caller: Caller) -> ClusterList:
    return ClusterList(axes=[cluster_facts(one) for one in harken.values.clusters(wanted.axis)])


def _members(harken: Harken, wanted: AskMembers, _caller: Caller) -> MemberList:
    return MemberList(members=[member_facts(one) for one in harken.values.members(wanted.cluster_id, wanted.limit)])


def _add_value(harken: Harken, wanted: AddValue, _caller: Caller) -> Added:
    return Added(id=harken.values.add(wanted.text, wanted.cluster_id).uid)


def _values(harken: Harken, wanted: ListValues, _caller: Caller) -> ValueList:
    found = harken.values.list(wanted.axis, wanted.limit)
    return ValueList.model_validate({"values": [value_facts(one) for one in found]})


def _place(harken: Harken, wanted: _Placed, caller: Caller) -> Path | None:
    return reached(caller, wanted.directory, harken.settings.serve.roots)


def _written(one: Experience) -> Written:
    return Written.model_validate(written_facts(one))


VERBS = (
    Verb(
        "experience_start",
        "Begin an experience",
        "Write down what you are about to try: goal, hypothesis, action and prediction. One is active at a time.",
        Start,
        Written,
        _start,
        Effect.ADDS,
    ),
    Verb(
        "experience_update",
        "Go on with an experience",
        "Change the active experience; another hypothesis, action or prediction is a new iteration.",
        Update,
        Written,
        _update,
        Effect.CHANGES,
    ),
    Verb(
        "experience_resolve",
        "End an experience",
        "Say how it went: confirmed, falsified (with surprise and cause) or abandoned.",
        Resolve,
        Written,
        _resolve,
        Effect.CHANGES,
    ),
    Verb(
        "experience_active",
        "Show the active experience",
        "Show the active experience, whether another session left it behind, and what a test or build says of it.",
        AskActive,
        ActiveExperience,
        _active,
    ),
    Verb(
        "experience_adopt",
        "Adopt an experience",
        "Go on with an active experience that another session left behind.",
        Adopt,
        Written,
        _adopt,
        Effect.CHANGES,
        is_idempotent=True,
    ),
    Verb(
        "experiences",
        "List experiences",
        "List what was tried and how it went.",
        ListExperiences,
        ExperienceList,
        _list,
    ),
    Verb(
        "value_clusters",
        "Find clusters",
        "Find clusters of experiences that values can be distilled from; one found before keeps its id.",
        AskAxis,
        ClusterList,
        _clusters,
        Effect.CHANGES,
        is_idempotent=True,
    ),
    Verb("value_members", "Show a cluster", "Show the experiences of a cluster.", AskMembers, MemberList, _members),
    Verb(
        "value_add",
        "Add a value",
        "Keep a principle, if the experiences of its cluster bear it out.",
        AddValue,
        Added,
        _add_value,
        Effect.ADDS,
    ),
    Verb("values", "List values", "List the principles that were distilled.", ListValues, ValueList, _values),
)
