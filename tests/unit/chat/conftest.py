"""A chat on an empty home, against a server that plays a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.testing import ChatServer
from recorded import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def open_chat(ready_home: Path, clock: Clock, server: ChatServer) -> Callable[..., Harken]:
    def opened(**more: Any) -> Harken:
        model = {"llm.model": "openai:any", "llm.url": server.url, "llm.api_key": "k"}
        prices = {"llm.input_usd_per_million": 1, "llm.output_usd_per_million": 2}
        settings = {"embedder": "none", **model, **prices, **more}
        return Harken(ready_home, env={}, settings=settings, now=clock)

    return opened


@pytest.fixture
def harken(open_chat: Callable[..., Harken]) -> Iterator[Harken]:
    with open_chat() as harken:
        yield harken
