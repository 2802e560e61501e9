"""Counts and times of requests for Prometheus: by verb, never by who asked or for what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harken.errors import MissingExtraError

_SECONDS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24)


class Metrics:
    """What is counted, in this process; nothing where `harken[metrics]` is not installed.

    Args:
        queues: how much work waits in the spaces that are open here, by kind; asked when somebody reads.
    """

    def __init__(self, queues: Callable[[], Mapping[str, int]]) -> None:
        self._queues = queues
        self._registry: Any = None
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ModuleNotFoundError:
            return
        self._registry = registry = CollectorRegistry()
        facts: dict[str, Any] = {"registry": registry, "namespace": "harken"}
        self._requests = Counter("requests", "Requests answered.", ("verb", "via", "status"), **facts)
        self._seconds = Histogram(
            "request_seconds", "Time to answer, from the first look at the key.", ("verb",), buckets=_SECONDS, **facts
        )
        self._under_way = Gauge("requests_under_way", "Requests being answered.", **facts)
        self._waiting = Gauge("queue", "Work that waits, in the spaces that are open here.", ("kind",), **facts)

    def begun(self) -> None:
        """A request is being answered."""
        if self._registry is not None:
            self._under_way.inc()

    def answered(self, verb: str, via: str, status: int, seconds: float) -> None:
        """It was; a verb that there is none of has no name here."""
        if self._registry is not None:
            self._under_way.dec()
            self._requests.labels(verb, via, str(status)).inc()
            self._seconds.labels(verb).observe(seconds)

    def refused(self, status: int) -> None:
        """A request was refused before anybody looked at what it asks for."""
        if self._registry is not None:
            self._requests.labels("", "http", str(status)).inc()

    def text(self) -> tuple[bytes, str]:
        """All of it in the format of Prometheus, and that format's name.

        Raises:
            MissingExtraError: the client of Prometheus is not installed.
        """
        if self._registry is None:
            raise MissingExtraError("Metrics", "metrics")
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        for kind, count in self._queues().items():
            self._waiting.labels(kind).set(count)
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
