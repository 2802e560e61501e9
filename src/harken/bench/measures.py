"""Figures of a list that was found, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

_SURE = 1.96
_RESAMPLED = 1000


def reciprocal_rank(found: Sequence[object], wanted: Collection[object]) -> float:
    """1 over the place, from 1, of the first that is wanted; 0 where none is."""
    return next((1.0 / place for place, each in enumerate(found, start=1) if each in wanted), 0.0)


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share, 0 to 1.

    Source: Wilson 1927; unlike others it holds for no hit at all.
    """
    if not count:
        return 0.0, 1.0
    share, squared = hits / count, _SURE * _SURE
    middle = (share + squared / (2 * count)) / (1 + squared / count)
    reach = _SURE * math.sqrt(share * (1 - share) / count + squared / (4 * count * count)) / (1 + squared / count)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def mean_interval(*samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, of several samples that of the sum of their means; 0 of an empty one.

    It resamples with a seed that is always the same.

    Source: Efron 1979, percentile bootstrap.
    """
    means, chance = np.zeros(_RESAMPLED), np.random.default_rng(0)
    for given in (np.array(sample, dtype=np.float64) for sample in samples if sample):
        means += given[chance.integers(0, len(given), (_RESAMPLED, len(given)))].mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)
