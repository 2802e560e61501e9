"""The port of sources: what makes a record searchable, and what shows one that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.storage.ports import Transaction


class Source(Protocol):
    """One kind of what can be remembered beside conversations."""

    @property
    def name(self) -> str:
        """As entries and items have it: `memory`, `experience`, `value`, `code`, `commit` or `document`."""
        ...

    def entries(self, record: Any) -> Sequence[NewEntry]:
        """What search is to see of a record; nothing where it is not to be found."""
        ...

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """What a context shows of entries that were found, in their order, their metadata complete.

        Hits of other sources, and those whose record is gone, are left out.
        """
        ...


def relevance_of(hit: Hit) -> float:
    """How like a hit is to what was asked, 0 to 1: its similarity, or its score where it has no vector yet."""
    return min(1.0, max(0.0, hit.score if hit.similarity is None else hit.similarity))
