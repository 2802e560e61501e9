"""Values: clusters of experiences, and the principles distilled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.model.arguments import Argument
from harken.model.experiences import AXES, VALUE_CHARS, Value
from harken.model.views import ValueView
from harken.serve.operations.caller import Caller
from harken.serve.operations.operation import Effect, Operation, ShellCommand, Spelling
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.serve.cli.session import CommandSession
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


def _clusters(harken: Harken, wanted: ClustersArguments, _caller: Caller) -> Sequence[AxisClusters]:
    return harken.values.clusters(wanted.axis)


def _cluster_views(found: Sequence[AxisClusters]) -> list[dict[str, Any]]:
    return [one.view() for one in found]


def _show_clusters(session: CommandSession, found: Sequence[AxisClusters], _wanted: ClustersArguments) -> None:
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


def _members(harken: Harken, wanted: MembersArguments, _caller: Caller) -> Sequence[Member]:
    return harken.values.members(wanted.cluster_id, wanted.limit)


def _member_views(found: Sequence[Member]) -> list[dict[str, Any]]:
    return [one.view() for one in found]


def _show_members(session: CommandSession, found: Sequence[Member], _wanted: MembersArguments) -> None:
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


def _add(harken: Harken, wanted: AddValueArguments, _caller: Caller) -> Value:
    return harken.values.add(wanted.text, wanted.cluster_id)


def _show_added(session: CommandSession, one: Value, _wanted: AddValueArguments) -> None:
    session.say(f"Added {one.uid}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesArguments(ClustersArguments):
    """Which values to list."""

    limit: Annotated[int, Argument("How many at most, newest first; for older ones raise it.", 1, 100)] = 20


class ValuesAnswer(TypedDict):
    """Values, newest first."""

    values: list[ValueView]


def _list(harken: Harken, wanted: ValuesArguments, _caller: Caller) -> Sequence[Value]:
    return harken.values.list(wanted.axis, wanted.limit)


def _value_views(found: Sequence[Value]) -> list[ValueView]:
    return [one.view() for one in found]


def _show_values(session: CommandSession, found: Sequence[Value], _wanted: ValuesArguments) -> None:
    for one in found:
        session.say(f"{one.uid}  {one.cluster_id}  {one.text}")
    if not found:
        session.say("No values. Find clusters for them: harken values clusters")


CLUSTERS = Operation(
    "value_clusters",
    "Find clusters",
    "Find clusters of experiences that values can be distilled from; one found before keeps its id.",
    ClustersArguments,
    _clusters,
    lambda found, _wanted: ClustersAnswer(axes=_cluster_views(found)),
    ClustersAnswer,
    Effect.CHANGES,
    is_idempotent=True,
    command=ShellCommand(
        "values clusters",
        "Find clusters of experiences; one that was found before keeps its id.",
        _show_clusters,
        _cluster_views,
        {"axis": Spelling(help="Only of this one.")},
    ),
)
MEMBERS = Operation(
    "value_members",
    "Show a cluster",
    "Show the experiences of a cluster.",
    MembersArguments,
    _members,
    lambda found, _wanted: MembersAnswer(members=_member_views(found)),
    MembersAnswer,
    command=ShellCommand(
        "values members",
        "Show the experiences of a cluster and what each says on its axis, the nearest to its centroid first.",
        _show_members,
        _member_views,
        {"cluster_id": _CLUSTER, "limit": Spelling(default=50, limits=(None, None), help=_LIMIT_HELP)},
    ),
)
ADD = Operation(
    "value_add",
    "Add a value",
    "Keep a principle, if the experiences of its cluster bear it out.",
    AddValueArguments,
    _add,
    lambda found, _wanted: AddedAnswer(id=found.uid),
    AddedAnswer,
    Effect.ADDS,
    command=ShellCommand(
        "values add",
        "Keep a value, if the cluster bears it out.",
        _show_added,
        lambda found: found.view(),
        {"cluster_id": _CLUSTER, "text": Spelling(is_word=True, metavar="TEXT...")},
    ),
)
VALUES = Operation(
    "values",
    "List values",
    "List the principles that were distilled.",
    ValuesArguments,
    _list,
    lambda found, _wanted: ValuesAnswer(values=_value_views(found)),
    ValuesAnswer,
    command=ShellCommand(
        "values list",
        "List values, the newest first.",
        _show_values,
        _value_views,
        {"axis": Spelling(help="Only of this one."), "limit": Spelling(limits=(None, None), help=_LIMIT_HELP)},
    ),
)
OPERATIONS = (CLUSTERS, MEMBERS, ADD, VALUES)
