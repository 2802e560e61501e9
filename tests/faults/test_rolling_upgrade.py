"""A server's store is upgraded while clients are at work: no call fails, and nothing is lost or doubled."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import URL

from command_line import FORKS, warm_start
from postgres_server import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
# The last commit whose tables are those of schema 0014; its processes know nothing of any later one.
OLD = "1759b81"
TOKEN = "a-token-of-the-old-server-and-of-the-new-one"
PATIENCE_SECONDS = 120.0
CLIENTS, CALLS = 4, 12


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old Harken, as it was committed."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", OLD, "src"], capture_output=True)
    if packed.returncode:
        pytest.skip(f"this clone has no commit {OLD}")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


@dataclass
class Version:
    """One version of Harken, run in processes of its own, each with a home of its own."""

    source: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, store: URL, *words: str) -> subprocess.Popen[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        variables = {"HARKEN_HOME": str(self.folder), "HARKEN_EMBEDDER": "none"}
        given = {"PATH": os.environ["PATH"], "HARKEN_STORE": store.render_as_string(hide_password=False)}
        python = sys.executable
        if self.source != ROOT / "src":
            given["PYTHONPATH"] = str(self.source)
        elif FORKS:
            python = warm_start().python
        return subprocess.Popen(
            [python, "-m", "harken", *words],
            env={**variables, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, store: URL, *words: str) -> tuple[int, str]:
        with self.command(store, *words) as process:
            told, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, told

    def serve(self, store: URL) -> tuple[subprocess.Popen[str], int]:
        """A server, once it answers, and its port."""
        token = self.folder / "run" / "token"
        token.parent.mkdir(parents=True, mode=0o700)
        token.write_text(f"{TOKEN}\n")
        token.chmod(0o600)
        process = self.command(store, "serve", "--tcp", "--port", "0")
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                return process, int(found[1])
        raise AssertionError("the server ended before it answered")


class Balancer:
    """Passes each connection on to a server in rotation, and waits for those of one that is taken out."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._ports: list[int] = []
        self._open: dict[int, int] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def put_in(self, port: int) -> None:
        with self._changed:
            self._ports.append(port)

    def take_out(self, port: int) -> None:
        with self._changed:
            self._ports.remove(port)
            assert self._changed.wait_for(lambda: not self._open.get(port), PATIENCE_SECONDS)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with self._changed:
                self._ports.append(port := self._ports.pop(0))
                self._open[port] = self._open.get(port, 0) + 1
            threading.Thread(target=self._pass, args=(client, port), daemon=True).start()

    def _pass(self, client: socket.socket, port: int) -> None:
        with closing(client), suppress(OSError), socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()
        with self._changed:
            self._open[port] -= 1
            self._changed.notify_all()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Clients:
    """Programs that save and look for memories without a pause, and note each call that fails."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ending = threading.Event()
        self.saved: list[str] = []
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def go_on(self) -> None:
        """Wait until so many more memories are saved."""
        wanted, deadline = len(self.saved) + CALLS, time.monotonic() + PATIENCE_SECONDS
        while len(self.saved) < wanted and not self.failed:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _work(self) -> None:
        # A connection for each call, as the balancer needs, and one client: its certificates take longer than the call.
        headers = {"authorization": f"Bearer {TOKEN}", "connection": "close"}
        with httpx.Client(headers=headers, timeout=PATIENCE_SECONDS) as client:
            while not self._ending.is_set():
                # No two alike, or the later one would stand in place of the earlier one.
                words = " ".join(uuid4().hex[:8] for _ in range(6))
                if self._ask(client, "remember", {"content": words, "category": "fact"}):
                    self.saved.append(words)
                self._ask(client, "search", {"query": words})
                self._ask(client, "status", {})

    def _ask(self, client: httpx.Client, verb: str, given: dict[str, str]) -> bool:
        try:
            answer = client.post(f"{self._url}/v1/{verb}", json=given)
        except httpx.HTTPError as error:
            self.failed.append(f"{verb}: {type(error).__name__}")
            return False
        if answer.status_code != 200:
            self.failed.append(f"{verb}: {answer.status_code} {answer.text[:200]}")
        return answer.status_code == 200


def ended(server: subprocess.Popen[str]) -> int:
    """Have a server end as an operator does, and give its exit code."""
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=PATIENCE_SECONDS)
    return server.returncode


@pytest.fixture
def store(postgres: PostgresServer) -> Iterator[URL]:
    """A database without a table."""
    postgres.execute("CREATE DATABASE upgraded")
    yield postgres.of("upgraded")
    postgres.execute("DROP DATABASE upgraded WITH (FORCE)")
    postgres.execute("DROP ROLE IF EXISTS upgraded_app")


def test_from_the_old_schema_to_the_new_one_with_clients_at_work(
    postgres: PostgresServer, store: URL, old_source: Path, tmp_path: Path
) -> None:
    old, new = Version(old_source, tmp_path / "old"), Version(ROOT / "src", tmp_path / "new")
    postgres.execute("CREATE ROLE upgraded_app LOGIN")
    assert old.run(store, "migrate", "--role", "upgraded_app")[0] == 0
    app = store.set(username="upgraded_app")
    with ExitStack() as running:
        servers: list[subprocess.Popen[str]] = []
        running.callback(lambda: [server.kill() for server in servers])
        balancer = Balancer()
        running.callback(balancer.close)
        first, old_port = old.serve(app)
        servers.append(first)
        balancer.put_in(old_port)
        with Clients(balancer.url) as clients:
            clients.go_on()
            # The tables first: the old server goes on with them.
            code, told = new.run(store, "migrate", "--role", "upgraded_app")
            assert code == 0, told
            clients.go_on()
            second, new_port = new.serve(app)
            servers.append(second)
            balancer.put_in(new_port)
            clients.go_on()
            balancer.take_out(old_port)
            assert ended(first) == 0
            clients.go_on()
        assert clients.failed == []
        # A second migration with clients at work changes nothing, and keeps nobody waiting for long.
        with Clients(balancer.url) as later:
            later.go_on()
            assert new.run(store, "migrate", "--role", "upgraded_app")[0] == 0
            later.go_on()
        assert later.failed == []
        assert ended(second) == 0
    kept = [row[0] for row in postgres.execute("SELECT content FROM memories", "upgraded")]
    assert sorted(kept) == sorted([*clients.saved, *later.saved])


def test_an_old_process_that_starts_later_says_what_to_do(store: URL, old_source: Path, tmp_path: Path) -> None:
    new, old = Version(ROOT / "src", tmp_path / "new"), Version(old_source, tmp_path / "old")
    assert new.run(store, "migrate")[0] == 0
    code, told = old.run(store, "status")
    assert code == 1
    assert "pip install -U harken" in told
