"""Clusters of unit vectors by density, and how they are followed from one run to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harken.errors import MissingExtraError
from harken.providers.embedder import Vectors

MIN_CLUSTER_SIZE = 5
MIN_SAMPLES = 3
LEAST_OVERLAP = 0.3
_AT_ONCE = 1_000
# Of a map's layout: how many each is drawn to and pushed from at a step, how strongly, and how often.
_NEAREST, _PUSHED, _STEPS = 8, 6, 150
_DRAW, _PUSH, _SOFT, _KEPT_PACE = 0.25, 0.004, 0.02, 0.02
# So far apart are neighbours that neither draw nor push each other, or all of a topic would lie in one point.
_REST = 0.05
Float32 = NDArray[np.float32]


def density_clusters(matrix: Vectors, least: int = MIN_CLUSTER_SIZE) -> list[list[int]]:
    """The rows of each cluster, the largest first; rows that belong to none are left out.

    HDBSCAN by excess of mass, Euclidean on unit vectors, from which what all have in common is taken first: sentence
    vectors lie in a narrow cone, and without it one cluster swallows most (measured on 200 experiences: 145 of them).

    Args:
        matrix: `(n, dims)`, unit length.
        least: of how many a cluster is.
    Raises:
        MissingExtraError: scikit-learn is not installed.
    Source: Campello et al. 2013.
    """
    try:
        from sklearn.cluster import HDBSCAN
    except ImportError as error:
        raise MissingExtraError("Finding clusters", "clusters") from error
    if len(matrix) <= least:
        return []
    finder = HDBSCAN(
        min_cluster_size=least, min_samples=MIN_SAMPLES, metric="euclidean", cluster_selection_method="eom", copy=True
    )
    apart = matrix.astype(np.float64) - matrix.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(apart, axis=1, keepdims=True)
    labels = finder.fit(apart / np.where(lengths > 0, lengths, 1.0)).labels_
    found = [np.flatnonzero(labels == label).tolist() for label in sorted({int(each) for each in labels if each >= 0})]
    return sorted(found, key=lambda rows: (-len(rows), rows))


def reduced(matrix: Vectors, dims: int) -> Float32:
    """Unit vectors in the few directions in which they differ most, again of unit length: `(n, at most dims)` float32.

    What all have in common is taken away first. Clusters are found in it in a tenth of the time.
    """
    apart = matrix.astype(np.float64) - matrix.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(apart.T @ apart)
    few = apart @ directions[:, ::-1][:, : min(dims, *matrix.shape)]
    lengths = np.linalg.norm(few, axis=1, keepdims=True)
    scaled: Float32 = (few / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return scaled


def neighbours_of(matrix: Float32, count: int) -> NDArray[np.int64]:
    """The rows nearest to each row, nearest first: `(n, count)`; fewer where there are not so many."""
    count = min(count, len(matrix) - 1)
    found = np.empty((len(matrix), count), dtype=np.int64)
    for start in range(0, len(matrix), _AT_ONCE):
        likeness = matrix[start : start + _AT_ONCE] @ matrix.T
        likeness[np.arange(len(likeness)), np.arange(start, start + len(likeness))] = -np.inf
        best = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(likeness, best, axis=1), axis=1)
        found[start : start + _AT_ONCE] = np.take_along_axis(best, order, axis=1)
    return found


def map_layout(matrix: Float32, before: Mapping[int, tuple[float, float]]) -> Float32:
    """Places on a map, `(n, 2)` float32 within -1 to 1: rows that are alike lie near each other.

    Each is drawn to its nearest and pushed away from some others. Rows that had a place start from there and are moved
    little; a new one starts among those that it is like.

    Args:
        matrix: `(n, dims)`, unit length.
        before: places of some rows in the layout before.
    Source: McInnes et al. 2018 (UMAP), the forces of its layout.
    """
    count = len(matrix)
    if count < 3:
        return np.array([[before.get(row, (float(row), 0.0))] for row in range(count)], np.float32).reshape(count, 2)
    near = neighbours_of(matrix, _NEAREST)
    known = np.zeros(count, dtype=bool)
    known[list(before)] = True
    places = matrix[:, :2].astype(np.float64) if matrix.shape[1] > 1 else np.zeros((count, 2))
    for row, place in before.items():
        places[row] = place
    if before:
        for row in np.flatnonzero(~known).tolist():
            beside = near[row][known[near[row]]]
            if len(beside):
                places[row] = places[beside].mean(axis=0)
    random = np.random.default_rng(0)
    places += random.normal(0.0, 1e-3, places.shape) * ~known[:, None]
    # Those that have a place keep it, but for what new ones beside them ask.
    pace = np.where(known, _KEPT_PACE, 1.0)[:, None] if before else np.ones((count, 1))
    steps = _STEPS if not before else _STEPS // 2
    for step in range(steps):
        toward = places[near] - places[:, None]
        length = np.linalg.norm(toward, axis=2, keepdims=True)
        drawn = (toward * (length - _REST) / (length + _REST)).mean(axis=1)
        others = random.integers(0, count, (count, _PUSHED))
        apart = places[:, None] - places[others]
        pushed = (apart / (_SOFT + (apart**2).sum(axis=2, keepdims=True))).mean(axis=1)
        places += pace * (1.0 - step / steps) * (_DRAW * drawn + _PUSH * pushed)
    if not before:
        places -= places.mean(axis=0)
        places /= max(1e-9, float(np.abs(places).max()))
    bounded: Float32 = np.clip(places, -1.0, 1.0).astype(np.float32)
    return bounded


def weighted_centroid(matrix: Vectors, weights: Sequence[float]) -> Float32:
    """The weighted mean of unit vectors, `(dims,)` float32, of unit length."""
    mean = np.asarray(weights, dtype=np.float64) @ matrix.astype(np.float64)
    length = float(np.linalg.norm(mean))
    centroid: Float32 = (mean / length if length else mean).astype(np.float32)
    return centroid


def distances(matrix: Vectors, centroid: Float32) -> Float32:
    """Euclidean distance of each row to the centroid, 0 to 2 on unit vectors; `(n,)` float32."""
    found: Float32 = np.linalg.norm(matrix - centroid, axis=1).astype(np.float32)
    return found


def follow(before: Mapping[str, frozenset[str]], found: Sequence[frozenset[str]]) -> list[str | None]:
    """The earlier cluster that each of those found now is; None for a new one.

    Those pairs are taken that share the most members in all (Jaccard), each cluster once; a pair that shares less than
    `LEAST_OVERLAP` is none. Members that are not there any more, or were not then, count against it.

    Raises:
        MissingExtraError: scipy, which comes with scikit-learn, is not installed.
    Source: Kuhn 1955 (assignment), Jaccard 1912 (overlap).
    """
    if not before or not found:
        return [None] * len(found)
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("Finding clusters", "clusters") from error
    names = sorted(before)
    shared = np.array([[len(one & before[name]) / max(1, len(one | before[name])) for name in names] for one in found])
    taken: list[str | None] = [None] * len(found)
    for row, column in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        if shared[row, column] >= LEAST_OVERLAP:
            taken[row] = names[column]
    return taken
