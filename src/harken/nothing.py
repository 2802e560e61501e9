"""The empty mapping that records have where they have no facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class _Nothing(Mapping[str, Any]):
    """A mapping with nothing in it; hashable, which Python 3.11 asks of a record's default and no proxy is there."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0


EMPTY: Mapping[str, Any] = _Nothing()
