"""Connections that a server closed while nobody used them are opened again; no call fails for them."""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, text

from harken.engine import Harken
from harken.errors import StoreError
from harken.storage.postgres import connection, store
from harken.testing import HashingEmbedder
from postgres_server import PostgresServer

PATIENCE_SECONDS = 120


@pytest.fixture
def harken(server_url: URL, tmp_path: Path) -> Iterator[Harken]:
    settings = {"store": server_url.render_as_string(hide_password=False), "embedding.min_message_tokens": 1}
    with Harken(tmp_path, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        harken.record_message("birds", "user", "the heron nests behind the mill")
        harken.embed()
        yield harken


def end_connections(postgres: PostgresServer, url: URL) -> int:
    """End all that the library has to a database; how many they were."""
    ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'harken'"
    return len(postgres.execute(f"{ended} AND datname = '{url.database}'"))


def test_a_search_and_a_record_after_their_connections_were_ended(
    harken: Harken, postgres: PostgresServer, server_url: URL
) -> None:
    assert harken.search("heron").hits
    assert end_connections(postgres, server_url) > 0
    assert harken.search("heron").hits
    assert end_connections(postgres, server_url) > 0
    harken.record_message("birds", "user", "the kingfisher sits on the bridge")
    assert end_connections(postgres, server_url) > 0
    assert harken.embed() == 1
    assert harken.maintenance.status().counts.messages == 2


def test_one_that_is_lost_in_the_middle_leaves_no_word_and_no_traceback_in_a_log(
    harken: Harken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As in a process that has set up no logging of its own.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    given = {"said": f"{'private':>10} words"}
    with pytest.raises(StoreError) as error, harken.store.writing() as tx:
        tx.connection.execute(text("SELECT CAST(:said AS text), pg_terminate_backend(pg_backend_pid())"), given)
    assert given["said"] not in "".join(traceback.format_exception(error.value))
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="another system than Linux")
def test_a_machine_that_is_gone_is_noticed_within_half_a_minute() -> None:
    """Nothing of it comes back, not even that a connection is closed; a quarter of an hour was waited for it."""
    said = {"host": "127.0.0.1", "user": "app", "dbname": "crew"}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        given = connection.CONNECT_ARGUMENTS | said | {"port": listening.getsockname()[1]}
        begun = psycopg.pq.PGconn.connect_start(psycopg.conninfo.make_conninfo(**given).encode())
        with closing(socket.fromfd(begun.socket, socket.AF_INET, socket.SOCK_STREAM)) as sent:
            assert 0 < sent.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000
            assert sent.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sent.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 30
        begun.finish()


def test_many_at_once_after_the_server_was_started_again(harken: Harken, postgres: PostgresServer) -> None:
    with ThreadPoolExecutor(6) as threads:
        assert all(result.hits for result in threads.map(harken.search, ["heron"] * 12))
        postgres.restart()
        assert all(result.hits for result in threads.map(harken.search, ["heron"] * 12))
    said = harken.record_message("birds", "user", "the kingfisher sits on the bridge")
    assert harken.show(said.uid).message is not None


def test_who_listens_is_woken_for_what_nobody_heard_before_also_after_a_lost_connection(
    harken: Harken, postgres: PostgresServer, server_url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_RECONNECT_SECONDS", 0.1)
    woken = threading.Semaphore(0)
    stop = harken.store.listen(woken.release)
    assert stop is not None
    try:
        # Nothing is recorded here that could be signalled.
        assert woken.acquire(timeout=PATIENCE_SECONDS)
        assert end_connections(postgres, server_url) > 0
        assert woken.acquire(timeout=PATIENCE_SECONDS)
    finally:
        stop()


def test_who_listens_goes_to_whichever_of_several_hosts_there_is(server_url: URL) -> None:
    hosts = server_url.update_query_dict({"host": [str(server_url.query["host"]), "/nowhere"], "connect_timeout": "9"})
    with closing(store.PostgresStore(hosts, "local")) as several:
        woken = threading.Semaphore(0)
        stop = several.listen(woken.release)
        try:
            assert woken.acquire(timeout=PATIENCE_SECONDS / 4)
        finally:
            stop()
