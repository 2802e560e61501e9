"""A database of the cluster that all of these tests share, each with tenants of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from cluster_server import ClusterServer, Open
from harken.engine import Harken
from harken.testing import HashingEmbedder


@pytest.fixture(scope="session")
def team(cluster: ClusterServer) -> Iterator[URL]:
    """The application's login, refused whatever asks more than one shard."""
    with cluster.database() as url, cluster.role("application", url) as team:
        yield team


@pytest.fixture(scope="session")
def plain(cluster: ClusterServer) -> Iterator[URL]:
    """The application's login to one server without Citus."""
    with cluster.plain_database("application") as plain:
        yield plain


@pytest.fixture
def open_as(tmp_path: Path) -> Iterator[Open]:
    """Opens a tenant of a database in a home of its own; all are closed at the end."""
    opened: list[Harken] = []

    def opens(url: URL, tenant: str, embedder: HashingEmbedder | None = None) -> Harken:
        settings = {"store": url.render_as_string(hide_password=False), "tenant": tenant}
        home = tmp_path / f"{len(opened)}-{tenant}"
        settings["embedding.min_message_tokens"] = "1"
        opened.append(Harken(home, settings=settings, embedder=embedder or HashingEmbedder(), env={}))
        return opened[-1]

    yield opens
    for harken in opened:
        harken.close()
