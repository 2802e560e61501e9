"""Searches that belong together."""

from __future__ import annotations

import numpy as np

from harken.jobs.spaces import OpenSpace
from harken.search.session import OnceReader
from harken.storage.ports import StoredSpace
from harken.testing import HashingEmbedder


def test_what_is_held_is_let_go_before_the_space_and_before_each_new_query_and_never_else() -> None:
    events: list[str] = []
    embedder = HashingEmbedder()
    space = StoredSpace(1, embedder.space.id, embedder.space.dims, 0.5, {}, "active")

    def opened() -> OpenSpace:
        events.append("space")
        return OpenSpace(space, embedder)

    reader = OnceReader(opened, aside=lambda: events.append(f"aside at {embedder.calls} calls"))
    first = reader()
    assert first is not None
    vector = first.embedder.embed_query("zebra")
    again = reader()
    assert again is not None
    assert np.array_equal(again.embedder.embed_query("zebra"), vector)
    again.embedder.embed_query("horse")
    assert events == ["aside at 0 calls", "space", "aside at 0 calls", "aside at 1 calls"]
    assert embedder.calls == 2
