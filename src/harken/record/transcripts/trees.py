"""Conversations that fork: the order of their messages, and which of them are on the branch in use."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping


class Tree:
    """The messages of a conversation, each with the one it answers.

    Args:
        parents: every message's parent, in the file's order; a parent that is no message makes its child a root.
        times: when each message was written, in seconds since the epoch, as far as that is known.
    """

    def __init__(self, parents: Mapping[str, str | None], times: Mapping[str, float]) -> None:
        self._times = times
        self._places = {key: place for place, key in enumerate(parents)}
        self._parents = {key: parent if parent in parents else None for key, parent in parents.items()}
        self._children: dict[str, list[str]] = {key: [] for key in parents}
        for key, parent in self._parents.items():
            if parent is not None:
                self._children[parent].append(key)

    def order(self) -> list[str]:
        """Every message once, by time, none before its parent.

        A message without a time takes its parent's. Parents in a circle are entered at the first of them in the file.
        """
        ordered: dict[str, None] = {}
        self._walk([key for key, parent in self._parents.items() if parent is None], ordered)
        for key in self._parents:
            if key not in ordered:
                self._walk([key], ordered)
        return list(ordered)

    def branches(self, leaf: str | None) -> dict[str, str]:
        """The messages beside the branch in use, each with the first message of its own branch.

        Args:
            leaf: the last message of the branch in use; where it is unknown, the latest that nobody answered.
        """
        used: set[str] = set()
        step = leaf if leaf in self._parents else self._latest_leaf()
        while step is not None and step not in used:
            used.add(step)
            step = self._parents[step]
        beside: dict[str, str] = {}
        for key in self.order():
            if key not in used:
                beside[key] = beside.get(self._parents[key] or "", key)
        return beside

    def _latest_leaf(self) -> str | None:
        leaves = [key for key, children in self._children.items() if not children]
        return max(leaves, key=lambda key: (self._times.get(key, 0.0), self._places[key]), default=None)

    def _walk(self, starts: Iterable[str], ordered: dict[str, None]) -> None:
        waiting = [(self._times.get(key, 0.0), self._places[key], key) for key in starts]
        heapq.heapify(waiting)
        while waiting:
            time, _, key = heapq.heappop(waiting)
            ordered[key] = None
            for child in self._children[key]:
                if child not in ordered:
                    heapq.heappush(waiting, (self._times.get(child, time), self._places[child], child))
