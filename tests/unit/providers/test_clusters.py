from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harken.providers.clusters import density_clusters, map_layout, neighbours_of, reduced

GROUPS, EACH = 6, 12


@pytest.fixture
def matrix() -> NDArray[np.float32]:
    """Six groups of twelve vectors, one behind the other."""
    random = np.random.default_rng(7)
    centers = np.repeat(random.normal(size=(GROUPS, 64)), EACH, axis=0)
    found = centers + 0.3 * random.normal(size=centers.shape) + 2.0
    unit: NDArray[np.float32] = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return unit


def test_groups_are_found_in_a_few_directions_as_well(matrix: NDArray[np.float32]) -> None:
    pytest.importorskip("sklearn")
    few = reduced(matrix, 8)
    assert few.shape == (GROUPS * EACH, 8)
    assert np.allclose(np.linalg.norm(few, axis=1), 1.0, atol=1e-5)
    assert sorted(density_clusters(few, 3)) == [list(range(at, at + EACH)) for at in range(0, GROUPS * EACH, EACH)]


def test_the_nearest_are_those_of_the_same_group(matrix: NDArray[np.float32]) -> None:
    near = neighbours_of(reduced(matrix, 8), 5)
    assert (near // EACH == np.arange(GROUPS * EACH)[:, None] // EACH).all()


def test_a_map_shows_groups_apart_and_is_the_same_each_time(matrix: NDArray[np.float32]) -> None:
    few = reduced(matrix, 8)
    places = map_layout(few, {})
    assert np.array_equal(places, map_layout(few, {}))
    assert np.abs(places).max() <= 1.0
    centers = places.reshape(GROUPS, EACH, 2).mean(axis=1)
    within = np.linalg.norm(places - np.repeat(centers, EACH, axis=0), axis=1).mean()
    between = np.mean([np.linalg.norm(one - other) for one in centers for other in centers if one is not other])
    assert within < between / 3


def test_what_had_a_place_keeps_it_when_others_come(matrix: NDArray[np.float32]) -> None:
    known = list(range(GROUPS * EACH - EACH // 2))
    before = map_layout(reduced(matrix[known], 8), {})
    after = map_layout(reduced(matrix, 8), {row: tuple(before[row]) for row in known})
    assert np.linalg.norm(after[known] - before, axis=1).max() < 0.1
    new = after[len(known) :]
    assert np.linalg.norm(new - before[-EACH // 2 :].mean(axis=0), axis=1).max() < 0.5


@pytest.mark.parametrize("count", [0, 1, 2])
def test_of_a_few_there_is_a_map_as_well(matrix: NDArray[np.float32], count: int) -> None:
    assert map_layout(matrix[:count], {}).shape == (count, 2)
