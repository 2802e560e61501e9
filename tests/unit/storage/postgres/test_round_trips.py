"""How often a client waits for the server, counted on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from harken.engine import Harken
from harken.testing import HashingEmbedder
from round_trips import RoundTrips, counting

TOPICS = ("heron", "kingfisher", "bittern", "egret", "stork")


@pytest.fixture
def trips(server_url: URL) -> Iterator[RoundTrips]:
    with counting(server_url) as trips:
        yield trips


@pytest.fixture
def harken(trips: RoundTrips, tmp_path: Path) -> Iterator[Harken]:
    settings = {"store": trips.url.render_as_string(hide_password=False), "embedding.min_message_tokens": 1}
    with Harken(tmp_path, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        for number in range(40):
            role = "assistant" if number % 2 else "user"
            harken.record_message("birds", role, f"the {TOPICS[number % 5]} number {number} nests behind mill {number}")
        harken.embed()
        yield harken


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_message_is_recorded_in_two(harken: Harken, trips: RoundTrips, role: str) -> None:
    with trips.counted() as told:
        harken.record_message("birds", role, "the last egret has left the pond")
    assert told == [2]
