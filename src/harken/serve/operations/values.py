"""Values: clusters of experiences, and the principles distilled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.model.arguments import OFFSET, Argument, Spelling
from harken.model.experiences import AXES, VALUE_CHARS
from harken.model.views import ValueView
from harken.serve.operations.operation import (
    AT_MOST,
    HIDDEN,
    Effect,
    Operation,
    Printer,
    changing,
    forgetting,
    listed,
    paged,
    show_each,
)
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.sources.experiences.values import AxisClusters, Member

_Cluster = Annotated[str, Argument("Of value_clusters.", 1, 200), Spelling(is_word=True, metavar="CLUSTER")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersArguments:
    """Where clusters are looked for."""

    axis: Annotated[
        str | None, Argument("Left out, all of them.", choices=AXES), Spelling(help="Only of this one.")
    ] = None


class ClustersAnswer(TypedDict):
    """Clusters of each axis."""

    axes: list[dict[str, Any]]


def _show_clusters(session: Printer, found: Sequence[AxisClusters]) -> None:
    for one in found:
        session.say(f"{one.axis}: {counted(len(one.clusters), 'cluster')} in {counted(one.experiences, 'experience')}")
        for each in one.clusters:
            session.say(f"  {each.uid}  {counted(len(each.members), 'member')}, mean distance {each.mean_distance:.3f}")
        if one.note:
            session.say((f"  {one.note}", "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersArguments:
    """Which cluster to show."""

    cluster_id: _Cluster
    limit: Annotated[
        int, Argument("How many at most, the nearest to the middle first.", 1, 200), replace(AT_MOST, default=50)
    ] = 20


class MembersAnswer(TypedDict):
    """Experiences of a cluster."""

    members: list[dict[str, Any]]


def _show_members(session: Printer, found: Sequence[Member]) -> None:
    for one in found:
        session.say(f"{one.distance:.3f}  {one.experience.uid}  {one.experience.goal}")
        if one.said != one.experience.goal:
            session.say((f"       {one.said}", "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddValueArguments:
    """A value to be kept."""

    cluster_id: _Cluster
    text: Annotated[
        str, Argument("The principle, in a sentence.", 1, VALUE_CHARS), Spelling(is_word=True, metavar="TEXT...")
    ]


class AddedAnswer(TypedDict):
    """The value that was added."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesArguments(ClustersArguments):
    """Which values to list."""

    limit: Annotated[int, Argument("How many at most, newest first; for older ones raise it.", 1, 100), AT_MOST] = 20
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000), HIDDEN] = 0


class ValuesAnswer(TypedDict):
    """Values, newest first."""

    values: list[ValueView]
    next_offset: int | None


OPERATIONS = (
    changing(
        "value_clusters",
        "Find clusters of experiences that values can be distilled from; one found before keeps its id.",
        ClustersArguments,
        lambda harken, wanted, _caller: harken.values.clusters(wanted.axis),
        "Find clusters",
        ClustersAnswer,
        view=listed("axes"),
        command="values clusters",
        help="Find clusters of experiences; one that was found before keeps its id.",
        show=_show_clusters,
    ),
    Operation(
        "value_members",
        "Show the experiences of a cluster.",
        MembersArguments,
        lambda harken, wanted, _caller: harken.values.members(wanted.cluster_id, wanted.limit),
        "Show a cluster",
        MembersAnswer,
        listed("members"),
        command="values members",
        help="Show the experiences of a cluster and what each says on its axis, the nearest to its centroid first.",
        show=_show_members,
    ),
    Operation(
        "value_add",
        "Keep a principle, if the experiences of its cluster bear it out.",
        AddValueArguments,
        lambda harken, wanted, caller: harken.values.add(wanted.text, wanted.cluster_id, once=caller.once),
        "Add a value",
        AddedAnswer,
        lambda found, _wanted: AddedAnswer(id=found.uid),
        Effect.ADDS,
        scope="remember",
        command="values add",
        help="Keep a value, if the cluster bears it out.",
        show=lambda printer, found: printer.say(f"Added {found.uid}"),
    ),
    Operation(
        "values",
        "List the principles that were distilled.",
        ValuesArguments,
        lambda harken, wanted, caller: harken.values.list(wanted.axis, caller.read_ahead(wanted.offset + wanted.limit))[
            wanted.offset :
        ],
        "List values",
        ValuesAnswer,
        paged("values"),
        command="values list",
        help="List values, the newest first.",
        show=show_each(
            lambda one: f"{one.uid}  {one.cluster_id}  {one.text}",
            "No values. Find clusters for them: harken values clusters",
        ),
    ),
    forgetting("values forget", "Forget a value for good.", lambda harken, uid: harken.values.forget(uid)),
)
