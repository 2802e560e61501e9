"""Values: clusters of experiences, and the principles distilled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.model.arguments import Argument
from harken.model.experiences import AXES, VALUE_CHARS
from harken.model.views import ValueView
from harken.serve.operations.operation import (
    WORD,
    Effect,
    IdArguments,
    Operation,
    Printer,
    ShellCommand,
    Spelling,
    command_alone,
    show_each,
    view_of,
)
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.sources.experiences.values import AxisClusters, Member

_Cluster = Annotated[str, Argument("Of value_clusters.", 1, 200)]
_CLUSTER = Spelling(is_word=True, metavar="CLUSTER")
_LIMIT_HELP = "At most so many."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersArguments:
    """Where clusters are looked for."""

    axis: Annotated[str | None, Argument("Left out, all of them.", choices=AXES)] = None


class ClustersAnswer(TypedDict):
    """Clusters of each axis."""

    axes: list[dict[str, Any]]


def _show_clusters(session: Printer, found: Sequence[AxisClusters], _wanted: ClustersArguments) -> None:
    for one in found:
        session.say(f"{one.axis}: {counted(len(one.clusters), 'cluster')} in {one.experiences} experiences")
        for each in one.clusters:
            session.say(f"  {each.uid}  {len(each.members)} members, mean distance {each.mean_distance:.3f}")
        if one.note:
            session.say((f"  {one.note}", "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersArguments:
    """Which cluster to show."""

    cluster_id: _Cluster
    limit: Annotated[int, Argument("How many at most, the nearest to the middle first.", 1, 200)] = 20


class MembersAnswer(TypedDict):
    """Experiences of a cluster."""

    members: list[dict[str, Any]]


def _show_members(session: Printer, found: Sequence[Member], _wanted: MembersArguments) -> None:
    for one in found:
        session.say(f"{one.distance:.3f}  {one.experience.uid}  {one.experience.goal}")
        if one.said != one.experience.goal:
            session.say((f"       {one.said}", "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddValueArguments:
    """A value to be kept."""

    cluster_id: _Cluster
    text: Annotated[str, Argument("The principle, in a sentence.", 1, VALUE_CHARS)]


class AddedAnswer(TypedDict):
    """The value that was added."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesArguments(ClustersArguments):
    """Which values to list."""

    limit: Annotated[int, Argument("How many at most, newest first; for older ones raise it.", 1, 100)] = 20


class ValuesAnswer(TypedDict):
    """Values, newest first."""

    values: list[ValueView]


CLUSTERS = Operation(
    "value_clusters",
    "Find clusters",
    "Find clusters of experiences that values can be distilled from; one found before keeps its id.",
    ClustersArguments,
    lambda harken, wanted, _caller: harken.values.clusters(wanted.axis),
    ClustersAnswer,
    lambda found, _wanted: ClustersAnswer(axes=view_of(found)),
    Effect.CHANGES,
    is_idempotent=True,
    command=ShellCommand(
        "values clusters",
        "Find clusters of experiences; one that was found before keeps its id.",
        _show_clusters,
        {"axis": Spelling(help="Only of this one.")},
    ),
)
MEMBERS = Operation(
    "value_members",
    "Show a cluster",
    "Show the experiences of a cluster.",
    MembersArguments,
    lambda harken, wanted, _caller: harken.values.members(wanted.cluster_id, wanted.limit),
    MembersAnswer,
    lambda found, _wanted: MembersAnswer(members=view_of(found)),
    command=ShellCommand(
        "values members",
        "Show the experiences of a cluster and what each says on its axis, the nearest to its centroid first.",
        _show_members,
        {"cluster_id": _CLUSTER, "limit": Spelling(default=50, limits=(None, None), help=_LIMIT_HELP)},
    ),
)
ADD = Operation(
    "value_add",
    "Add a value",
    "Keep a principle, if the experiences of its cluster bear it out.",
    AddValueArguments,
    lambda harken, wanted, _caller: harken.values.add(wanted.text, wanted.cluster_id),
    AddedAnswer,
    lambda found, _wanted: AddedAnswer(id=found.uid),
    Effect.ADDS,
    command=ShellCommand(
        "values add",
        "Keep a value, if the cluster bears it out.",
        lambda session, found, _wanted: session.say(f"Added {found.uid}"),
        {"cluster_id": _CLUSTER, "text": Spelling(is_word=True, metavar="TEXT...")},
    ),
)
VALUES = Operation(
    "values",
    "List values",
    "List the principles that were distilled.",
    ValuesArguments,
    lambda harken, wanted, _caller: harken.values.list(wanted.axis, wanted.limit),
    ValuesAnswer,
    lambda found, _wanted: ValuesAnswer(values=view_of(found)),
    command=ShellCommand(
        "values list",
        "List values, the newest first.",
        show_each(
            lambda one: f"{one.uid}  {one.cluster_id}  {one.text}",
            "No values. Find clusters for them: harken values clusters",
        ),
        {"axis": Spelling(help="Only of this one."), "limit": Spelling(limits=(None, None), help=_LIMIT_HELP)},
    ),
)
OPERATIONS = (
    CLUSTERS,
    MEMBERS,
    ADD,
    VALUES,
    command_alone(
        "values forget",
        "Forget a value for good.",
        IdArguments,
        lambda harken, wanted, _caller: harken.values.forget(wanted.id),
        lambda session, gone, _wanted: session.say(f"Forgot {gone}."),
        {"id": WORD},
        lambda gone: {"forgotten": [gone]},
        Effect.DESTROYS,
    ),
)
