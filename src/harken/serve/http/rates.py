"""How often a key may ask: a bucket of tokens for each, in this process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

_MOST_BUCKETS = 50_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a wish to ask.

    Attributes:
        wait_seconds: 0 where it is granted; else when one will be.
        headers: how many requests are left of how many, and in how many seconds it will be all of them.
    """

    wait_seconds: float
    headers: Mapping[str, str]


class Rates:
    """Buckets by name: each is full at first, and fills up within a minute.

    Args:
        per_minute: how many requests; 0 sets no limit.
        clock: seconds that only grow.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str) -> Taken:
        """Take one token of a bucket, if there is one."""
        if not self._size:
            return Taken(0.0, {})
        per_second = self._size / 60
        with self._lock:
            now = self._clock()
            bucket = self._buckets.pop(name, None) or _Bucket(float(self._size), now)
            bucket.tokens = min(float(self._size), bucket.tokens + (now - bucket.at) * per_second)
            bucket.at = now
            is_granted = bucket.tokens >= 1
            bucket.tokens -= is_granted
            self._buckets[name] = bucket
            # The one that was asked longest ago is the fullest.
            while len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
            left = bucket.tokens
        headers = {
            "ratelimit-limit": str(self._size),
            "ratelimit-remaining": str(int(left)),
            "ratelimit-reset": str(ceil((self._size - left) / per_second)),
        }
        return Taken(0.0 if is_granted else (1 - left) / per_second, headers)
