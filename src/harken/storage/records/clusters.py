"""Clusters of experiences as rows: derived, but kept, since values refer to them by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from harken.storage.ports import StoredSpace, Transaction, rows_in
from harken.storage.tables import cluster_members, clusters, entries, experiences, reader, same
from harken.storage.vectors import Float32, read_vectors


@dataclass(frozen=True, slots=True, eq=False)
class StoredCluster:
    """A cluster as it was found last.

    Attributes:
        uid: the axis and a number that is never given again.
        centroid: `(dims,)` float32, unit length.
        mean_distance: of the members to the centroid, Euclidean; `deviation` is their standard deviation.
        members: (experience, distance), the nearest first.
    """

    uid: str
    axis: str
    space: str
    centroid: Float32 = field(repr=False)
    mean_distance: float
    deviation: float
    members: tuple[tuple[str, float], ...]
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AxisVectors:
    """The vectors of an axis.

    Attributes:
        matrix: `(len(uids), dims)` float32, unit length.
        waiting: how many experiences of the axis have no vector in the space yet.
    """

    uids: tuple[str, ...]
    tiers: tuple[str, ...]
    matrix: Float32
    waiting: int


def axis_vectors(tx: Transaction, space: StoredSpace, axis: str) -> AxisVectors:
    """The vectors that experiences have on an axis, ordered by their ids."""
    rows = tx.connection.execute(
        tx.select(entries.c.id, entries.c.ref_uid, experiences.c.tier)
        .join(experiences, same(entries.c.ref_uid, experiences.c.uid))
        .where(entries.c.source == "experience", entries.c.part == axis)
    ).all()
    known = {row.id: row for row in rows}
    ids, matrix = read_vectors(tx, space, list(known))
    order = sorted(range(len(ids)), key=lambda number: known[int(ids[number])].ref_uid)
    found = [known[int(ids[number])] for number in order]
    return AxisVectors(
        tuple(row.ref_uid for row in found),
        tuple(row.tier or "" for row in found),
        matrix[order].reshape(len(order), space.dims),
        len(rows) - len(found),
    )


def stored_clusters(tx: Transaction, axis: str | None = None, retired: bool = False) -> list[StoredCluster]:
    """The clusters of an axis, or of all, the largest first; with `retired`, also those that are found no more."""
    statement = tx.select(clusters)
    if axis is not None:
        statement = statement.where(clusters.c.axis == axis)
    if not retired:
        statement = statement.where(clusters.c.retired_at.is_(None))
    rows = tx.connection.execute(statement).all()
    members = _members(tx, [row.uid for row in rows])
    found = [_cluster(row, members=members.get(row.uid, ())) for row in rows]
    return sorted(found, key=lambda one: (one.axis, -len(one.members), one.uid))


def put_cluster(tx: Transaction, one: StoredCluster, moment: datetime) -> None:
    """Write a cluster in place of what it was before."""
    values = {
        "axis": one.axis,
        "space": one.space,
        "centroid": one.centroid.astype("<f4").tobytes(),
        "mean_distance": one.mean_distance,
        "deviation": one.deviation,
        "updated_at": moment,
        "retired_at": None,
    }
    if not tx.update(clusters, clusters.c.uid == one.uid, **values):
        tx.insert(clusters, [{"uid": one.uid, "created_at": moment, **values}])
    tx.delete(cluster_members, cluster_members.c.cluster_uid == one.uid)
    members = [{"cluster_uid": one.uid, "experience_uid": uid, "distance": distance} for uid, distance in one.members]
    tx.insert(cluster_members, members)


def retire_clusters(tx: Transaction, uids: Sequence[str], moment: datetime) -> None:
    """Mark clusters that are found no more; what they were stays."""
    if uids:
        tx.update(clusters, clusters.c.uid.in_(uids), retired_at=moment)


def _members(tx: Transaction, uids: Sequence[str]) -> dict[str, tuple[tuple[str, float], ...]]:
    """Members that are still there, the nearest first."""
    columns = (cluster_members.c.cluster_uid, cluster_members.c.experience_uid, cluster_members.c.distance)
    alive = same(cluster_members.c.experience_uid, experiences.c.uid)
    statement = tx.select(*columns).join(experiences, alive)
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows_in(tx, statement, cluster_members.c.cluster_uid, uids):
        found.setdefault(row[0], []).append((row[1], row[2]))
    return {uid: tuple(sorted(each, key=lambda member: (member[1], member[0]))) for uid, each in found.items()}


_cluster = reader(StoredCluster, ("members",), centroid=lambda packed: np.frombuffer(packed, "<f4").astype(np.float32))
