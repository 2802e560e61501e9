"""Values: clusters of experiences, and the principles that are validated against them and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from textwrap import shorten
from typing import Any

import numpy as np

from harken.errors import NotFoundError, UsageError
from harken.jobs.spaces import OpenSpace
from harken.model.arguments import check_limit
from harken.model.experience_texts import in_a_sentence
from harken.model.experiences import (
    AXES,
    EXPERIENCE,
    VALUE,
    VALUE_CHARS,
    Experience,
    Value,
    check_one_of,
    check_text,
    kept_value,
    read_experience,
    read_value,
)
from harken.providers.clusters import density_clusters, distances, follow, weighted_centroid
from harken.record.recorder import Recorder
from harken.sources.experiences.experiences import TIER_WEIGHTS
from harken.storage.ports import Store, StoredSpace, Transaction
from harken.storage.records import clusters as stored
from harken.storage.records.rows import each_kept, find_kept, kept_uid
from harken.text.shown import counted

LEAST_EXPERIENCES = 20
_MOST_SENTENCES, _SAID_CHARS = 64, 300
DEVIATIONS = 0.5


@dataclass(frozen=True, slots=True)
class AxisClusters:
    """The clusters of an axis, of so many experiences; the note says why there are none, or what is missing."""

    axis: str
    experiences: int
    clusters: tuple[stored.StoredCluster, ...] = ()
    note: str = ""

    def view(self) -> dict[str, Any]:
        """The clusters as JSON."""
        clusters = [
            {"id": each.uid, "size": len(each.members), "mean_distance": each.mean_distance}
            | {"deviation": each.deviation, "members": [uid for uid, _ in each.members]}
            for each in self.clusters
        ]
        return {"axis": self.axis, "experiences": self.experiences, "clusters": clusters, "note": self.note or None}


@dataclass(frozen=True, slots=True)
class Member:
    """An experience of a cluster, its Euclidean distance to the centroid, and its sentence on the cluster's axis."""

    experience: Experience
    distance: float
    said: str

    def view(self) -> dict[str, Any]:
        """The experience as JSON, cut to what a list shows."""
        said = shorten(self.said, _SAID_CHARS, placeholder=" …")
        return {**self.experience.view(is_whole=False), "said": said, "distance": self.distance}


@dataclass(frozen=True, slots=True)
class Validity:
    """A text compared with a cluster.

    Attributes:
        similarity: cosine to the centroid, -1 to 1.
        distance: Euclidean to the centroid, both of unit length.
        limit: mean plus half a standard deviation of the distances of its members' sentences.
        nearest: the cluster of the axis whose centroid is nearest.
    """

    cluster_id: str
    similarity: float
    distance: float
    limit: float
    nearest: str

    @property
    def is_valid(self) -> bool:
        """True where the cluster bears the text out."""
        return self.distance <= self.limit and self.nearest == self.cluster_id


@dataclass(slots=True)
class Values:
    """Clusters of experiences and the values distilled from them; reached as `Harken.values`."""

    store: Store
    recorder: Recorder
    answering: Callable[[], OpenSpace | None]

    def clusters(self, axis: str | None = None) -> Sequence[AxisClusters]:
        """Find the clusters of an axis, or of all; one that was found before keeps its id.

        Raises:
            UsageError: there is no such axis, or no model by which texts are compared.
            MissingExtraError: scikit-learn is not installed.
        """
        if axis is not None:
            check_one_of("axis", axis, AXES)
        reader = self._space()
        return [self._find(each, reader.space) for each in ((axis,) if axis else AXES)]

    def members(self, cluster_id: str, limit: int = 50) -> Sequence[Member]:
        """The experiences of a cluster as it was found last, the nearest to its centroid first.

        Raises:
            UsageError: the limit is not possible.
            NotFoundError: there is no such cluster.
        """
        check_limit(limit)
        with self.store.reading() as tx:
            one = _cluster(tx, cluster_id)
            known = find_kept(tx, EXPERIENCE, [uid for uid, _ in one.members[:limit]])
            each = [(read_experience(known[uid]), distance) for uid, distance in one.members[:limit]]
        return [Member(experience, distance, in_a_sentence(experience, one.axis)) for experience, distance in each]

    def validate(self, text: str, cluster_id: str) -> Validity:
        """Compare a text with a cluster: valid where it is within the limit, and no other cluster is nearer.

        Sentences are compared with sentences: a principle lies farther from whole stories than any of them from the
        others, however apt it is (measured: 0.63 to 0.79, where stories end at 0.53; what is not apt begins at 0.8).

        Raises:
            UsageError: the text is empty or too long, or the cluster is of another embedding model.
            NotFoundError: there is no such cluster.
        """
        check_text("value", text, VALUE_CHARS)
        with self.store.reading() as tx:
            one = _cluster(tx, cluster_id)
            others = [each for each in stored.stored_clusters(tx, one.axis) if each.space == one.space]
            known = find_kept(tx, EXPERIENCE, [uid for uid, _ in one.members[:_MOST_SENTENCES]])
        reader = self._space()
        if reader.space.name != one.space:
            raise UsageError(
                f"{cluster_id} was found with another embedding model. Find it anew: harken values clusters"
            )
        sentences = [in_a_sentence(read_experience(kept), one.axis) for kept in known.values()]
        vectors = reader.embedder.embed_passages([text.strip(), *sentences])
        away = distances(vectors, one.centroid)
        of_members = away[1:] if sentences else np.asarray([one.mean_distance])
        nearest = min([one, *others], key=lambda each: float(distances(vectors[:1], each.centroid)[0]))
        limit = float(of_members.mean() + DEVIATIONS * of_members.std())
        return Validity(one.uid, float(vectors[0] @ one.centroid), float(away[0]), limit, nearest.uid)

    def add(self, text: str, cluster_id: str, *, once: str = "") -> Value:
        """Keep a value that its cluster bears out, with the cluster and members that it came from.

        What the cluster has in the same words already is given back as it is. `once` is the caller's own name for this
        very call: what it has added already is not added again.

        Raises:
            UsageError: the text is empty, too long, or too far from the cluster.
            NotFoundError: there is no such cluster.
        """
        validity = self.validate(text, cluster_id)
        if validity.distance > validity.limit:
            raise UsageError(
                f"The value is too far from {cluster_id}: distance {validity.distance:.3f}, at most "
                f"{validity.limit:.3f}. Say what its members have in common: harken values members {cluster_id}"
            )
        if not validity.is_valid:
            raise UsageError(
                f"The value is nearer to {validity.nearest} than to {cluster_id}. Add it there: "
                f"harken values add {validity.nearest}"
            )
        uid = self.recorder.new_uid(VALUE, once)
        with self.recorder.saving(VALUE) as records:
            if done := find_kept(records.tx, VALUE, [uid]):
                return read_value(done[uid])
            one, words = _cluster(records.tx, cluster_id), text.casefold().split()
            for there in map(read_value, each_kept(records.tx, VALUE)):
                if there.cluster_id == one.uid and there.text.casefold().split() == words:
                    return there
            members = tuple(uid for uid, _ in one.members)
            kept = find_kept(records.tx, EXPERIENCE, members).values()
            known, projects = [read_experience(each) for each in kept], {each.project for each in kept}
            # What several projects bear out belongs to none.
            project = projects.pop() if len(projects) == 1 else None
            value = Value(
                uid=uid,
                project=project.key if project else "",
                created_at=self.recorder.now(),
                text=text.strip(),
                axis=one.axis,
                cluster_id=one.uid,
                cluster_size=len(members),
                similarity_to_centroid=round(validity.similarity, 6),
                distance=round(validity.distance, 6),
                distance_limit=round(validity.limit, 6),
                space=one.space,
                members=members,
                domains=_frequent(each.domain for each in known),
                strategies=_frequent(each.strategy for each in known),
            )
            return read_value(records.save(kept_value(value, project)))

    def list(self, axis: str | None = None, limit: int = 20) -> Sequence[Value]:
        """Values, the newest first.

        Raises:
            UsageError: there is no such axis, or the limit is not possible.
        """
        if axis is not None:
            check_one_of("axis", axis, AXES)
        check_limit(limit)
        with self.store.reading() as tx:
            found = [read_value(kept) for kept in each_kept(tx, VALUE)]
        return [one for one in reversed(found) if axis in (None, one.axis)][:limit]

    def forget(self, uid: str) -> str:
        """Forget a value for good; its id.

        Raises:
            NotFoundError: it names nothing, or more than one.
        """
        with self.store.reading() as tx:
            whole = kept_uid(tx, VALUE, uid)
        self.recorder.forget(VALUE, [whole])
        return whole

    def _space(self) -> OpenSpace:
        reader = self.answering()
        if reader is None:
            raise UsageError(
                "Clusters need vectors, and nothing is embedded. Name a model (harken config set embedder …) and run: "
                "harken worker run --until-idle"
            )
        return reader

    def _find(self, axis: str, space: StoredSpace) -> AxisClusters:
        with self.store.reading() as tx:
            vectors = stored.axis_vectors(tx, space, axis)
        known, total = len(vectors.uids), len(vectors.uids) + vectors.waiting
        waiting = f"{vectors.waiting} of its experiences wait for a vector: harken worker run --until-idle"
        if known < LEAST_EXPERIENCES:
            # Vectors are no help where there are too few experiences to have them.
            more = f" {waiting}" if total >= LEAST_EXPERIENCES else ""
            note = f"Axis {axis} has {counted(total, 'experience')}; clusters need {LEAST_EXPERIENCES}.{more}"
            return AxisClusters(axis, total, note=note)
        clusters = density_clusters(vectors.matrix)
        moment = self.recorder.now()
        with self.store.writing() as tx:
            before, every = _earlier(tx, axis)
            names = follow(before, [frozenset(vectors.uids[row] for row in rows) for rows in clusters])
            numbers = [uid.removeprefix(f"{axis}_") for uid in every]
            # Ids behind the highest that was ever given.
            fresh = count(max((int(number) for number in numbers if number.isdigit()), default=0) + 1)
            made = [
                _made(name or f"{axis}_{next(fresh)}", axis, space, vectors, rows)
                for name, rows in zip(names, clusters, strict=True)
            ]
            for one in made:
                stored.put_cluster(tx, one, moment)
            stored.retire_clusters(tx, sorted(before.keys() - {one.uid for one in made}), moment)
        return AxisClusters(axis, known, tuple(made), waiting if vectors.waiting else "")


def _made(
    uid: str, axis: str, space: StoredSpace, vectors: stored.AxisVectors, rows: Sequence[int]
) -> stored.StoredCluster:
    matrix = vectors.matrix[list(rows)]
    centroid = weighted_centroid(matrix, [TIER_WEIGHTS.get(vectors.tiers[row], 0.5) for row in rows])
    away = distances(matrix, centroid)
    members = sorted(zip([vectors.uids[row] for row in rows], map(float, away), strict=True), key=lambda one: one[::-1])
    spread = float(away.mean()), float(away.std())
    return stored.StoredCluster(uid, axis, space.name, centroid, *spread, tuple(members))


def _earlier(tx: Transaction, axis: str) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Members of the clusters that were found last, and every id that was ever given.

    Where the rows were lost, what the values say of their clusters stands for them.
    """
    rows = stored.stored_clusters(tx, axis, retired=True)
    known = [read_value(kept) for kept in each_kept(tx, VALUE)]
    named = {one.cluster_id: frozenset(one.members) for one in known if one.axis == axis}
    present = {one.uid for one in rows}
    before = {uid: members for uid, members in named.items() if uid not in present}
    before |= {one.uid: frozenset(uid for uid, _ in one.members) for one in rows if one.retired_at is None}
    return before, present | named.keys()


def _cluster(tx: Transaction, cluster_id: str) -> stored.StoredCluster:
    found = next((one for one in stored.stored_clusters(tx, retired=True) if one.uid == cluster_id), None)
    if found is None:
        raise NotFoundError(f"There is no cluster '{cluster_id}'. Find them: harken values clusters")
    return found


def _frequent(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word, _ in Counter(words).most_common())
