"""Clusters of experiences as rows: derived, but kept, since values refer to them by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from sqlalchemy import Column, Float, LargeBinary, Row, Table, Text, delete, insert, select, update

from harken.storage.ports import StoredSpace, Transaction, rows_in
from harken.storage.records.experiences import experiences
from harken.storage.tables import _key, _moment, _tenant, _uid, entries, metadata
from harken.storage.vectors import Float32, read_vectors

clusters = Table(
    "clusters",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("axis", Text, nullable=False),
    Column("space", Text, nullable=False),
    Column("centroid", LargeBinary, nullable=False),
    Column("mean_distance", Float, nullable=False),
    Column("deviation", Float, nullable=False),
    _moment("created_at"),
    _moment("updated_at"),
    # Since when no cluster is found in its place; values may still refer to it.
    _moment("retired_at", nullable=True),
)

cluster_members = Table(
    "cluster_members",
    metadata,
    _key(),
    _tenant(),
    Column("cluster_uid", Text, nullable=False),
    Column("experience_uid", Text, nullable=False),
    Column("distance", Float, nullable=False),
)


@dataclass(frozen=True, slots=True, eq=False)
class StoredCluster:
    """A cluster as it was found last.

    Attributes:
        uid: the axis and a number that is never given again.
        space: the embedding space that it was found in.
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
    created_at: datetime
    members: tuple[tuple[str, float], ...]
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AxisVectors:
    """The vectors of an axis.

    Attributes:
        uids: experiences, one per row; `tiers` likewise.
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
        select(entries.c.id, entries.c.ref_uid, experiences.c.tier)
        .join(experiences, (experiences.c.tenant == entries.c.tenant) & (experiences.c.uid == entries.c.ref_uid))
        .where(entries.c.tenant == tx.tenant, entries.c.source == "experience", entries.c.part == axis)
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
    """The clusters of an axis, or of all, the largest first.

    Args:
        tx: the transaction.
        axis: None takes all.
        retired: those too that were found once and are not any more.
    """
    statement = select(clusters).where(clusters.c.tenant == tx.tenant)
    if axis is not None:
        statement = statement.where(clusters.c.axis == axis)
    if not retired:
        statement = statement.where(clusters.c.retired_at.is_(None))
    rows = tx.connection.execute(statement).all()
    members = _members(tx, [row.uid for row in rows])
    found = [_cluster(row, members.get(row.uid, ())) for row in rows]
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
    named = (clusters.c.tenant == tx.tenant, clusters.c.uid == one.uid)
    if tx.connection.execute(update(clusters).where(*named).values(**values)).rowcount == 0:
        tx.connection.execute(insert(clusters).values(tenant=tx.tenant, uid=one.uid, created_at=moment, **values))
    tx.connection.execute(
        delete(cluster_members).where(cluster_members.c.tenant == tx.tenant, cluster_members.c.cluster_uid == one.uid)
    )
    rows = [
        {"tenant": tx.tenant, "cluster_uid": one.uid, "experience_uid": uid, "distance": distance}
        for uid, distance in one.members
    ]
    tx.connection.execute(insert(cluster_members), rows)


def retire_clusters(tx: Transaction, uids: Sequence[str], moment: datetime) -> None:
    """Mark clusters that are found no more; what they were stays."""
    if uids:
        tx.connection.execute(
            update(clusters).where(clusters.c.tenant == tx.tenant, clusters.c.uid.in_(uids)).values(retired_at=moment)
        )


def _members(tx: Transaction, uids: Sequence[str]) -> dict[str, tuple[tuple[str, float], ...]]:
    """Members that are still there, the nearest first."""
    of_member = (experiences.c.tenant == cluster_members.c.tenant) & (
        experiences.c.uid == cluster_members.c.experience_uid
    )
    statement = (
        select(cluster_members.c.cluster_uid, cluster_members.c.experience_uid, cluster_members.c.distance)
        .join(experiences, of_member)
        .where(cluster_members.c.tenant == tx.tenant)
    )
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows_in(tx, statement, cluster_members.c.cluster_uid, uids):
        found.setdefault(row[0], []).append((row[1], row[2]))
    return {uid: tuple(sorted(each, key=lambda member: (member[1], member[0]))) for uid, each in found.items()}


def _cluster(row: Row[tuple[object, ...]], members: tuple[tuple[str, float], ...]) -> StoredCluster:
    return StoredCluster(
        uid=row.uid,
        axis=row.axis,
        space=row.space,
        centroid=np.frombuffer(row.centroid, dtype="<f4").astype(np.float32),
        mean_distance=row.mean_distance,
        deviation=row.deviation,
        created_at=row.created_at,
        members=members,
        retired_at=row.retired_at,
    )
