"""A team's server from nothing: what it begins with, what it refuses, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import pytest
from sqlalchemy import URL

from command_line import TIMEOUT_SECONDS, CommandLine
from harken.errors import ConfigError, SchemaBehindError
from harken.serve.http.hosting import TrustedProxies, open_when_ready, parse_network
from harken.testing.local_server import LocalServer, Reply, Request
from postgres_server import PostgresServer

ROLE = "serving_app"


@pytest.fixture
def owner(postgres: PostgresServer) -> Iterator[URL]:
    """A database without a table, by a login that owns it and may make roles."""
    postgres.execute("CREATE DATABASE founded")
    try:
        yield postgres.of("founded")
    finally:
        postgres.execute("DROP DATABASE founded WITH (FORCE)")
        postgres.execute(f"DROP ROLE IF EXISTS {ROLE}")


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def found(cli: CommandLine, owner: URL, *names: str) -> dict[str, Any]:
    made: dict[str, Any] = cli("--store", text_of(owner), "team", "init", *names, "--role", ROLE, "--json").json()
    return made


@dataclass
class Serving:
    process: subprocess.Popen[str]
    url: str

    def ask(self, key: str, verb: str, **given: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(f"{self.url}/v1/{verb}", json=given, headers=headers, timeout=TIMEOUT_SECONDS)

    def readiness(self) -> int:
        return httpx.get(f"{self.url}/readyz", timeout=TIMEOUT_SECONDS).status_code


@contextmanager
def serving(cli: CommandLine, *options: str) -> Iterator[Serving]:
    with cli.running("serve", "--team", "--port", "0", *options, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "Serving" in line, line
        yield Serving(process, line.split()[-1])


def test_a_team_of_two_from_nothing(cli: CommandLine, owner: URL) -> None:
    made = found(cli, owner, "ann", "bob")
    assert list(made["keys"]) == ["ann", "bob"]
    settings = cli.home / "harken.toml"
    assert settings.stat().st_mode & 0o077 == 0
    with serving(cli) as server:
        assert server.readiness() == 200
        assert server.ask(made["keys"]["ann"], "remember", content="We meet on Tuesday").status_code == 200
        hits = {who: server.ask(made["keys"][who], "search", query="Tuesday").json()["hits"] for who in ("ann", "bob")}
        assert (len(hits["ann"]), len(hits["bob"])) == (1, 0)
        assert server.ask("hk_0", "search", query="Tuesday").status_code == 401
    # Said again with one more, it adds that one and leaves the others, and their keys, as they are.
    again = found(cli, owner, "ann", "bob", "cara")
    assert (list(again["keys"]), again["role_made"]) == (["cara"], False)
    late = cli("--store", text_of(owner), "team", "init", "dan", "--role", ROLE).out
    assert "\ndan: hk_" in late
    assert "dan (manages" not in late
    # Its login was there before, as where somebody has made it by hand: how to use it is said, for no file does.
    assert f"The server's login, with the password that it has: HARKEN_STORE=postgresql://{ROLE}" in late
    with serving(cli) as server:
        assert server.ask(made["keys"]["bob"], "whoami").json()["principal"]["name"] == "bob"


def test_a_home_with_memories_of_its_own_keeps_them_and_none_of_them_goes_to_the_team(
    cli: CommandLine, owner: URL
) -> None:
    cli("memory", "add", "The salary is 12345.")
    said = cli("--store", text_of(owner), "team", "init", "ann", "--role", ROLE).out
    assert re.search(rf"HARKEN_STORE=postgresql://{ROLE}:.+@.* HARKEN_TENANT=team", said)
    assert not (cli.home / "harken.toml").exists()
    assert "12345" in cli("search", "salary").out


def test_all_names_are_looked_at_before_anybody_is_made(cli: CommandLine, owner: URL) -> None:
    for name in ("everyone", "common", "a/b"):
        said = cli.fails("--store", text_of(owner), "team", "init", "ann", name, "--role", ROLE, code=2)
        assert "Choose another" in said
    made = found(cli, owner, "ann")
    assert (list(made["keys"]), made["role_made"]) == (["ann"], True), "nothing was made before"
    cli("--store", text_of(owner), "group", "set", "crew", "--add", "ann")
    said = cli.fails("--store", text_of(owner), "team", "init", "cara", "crew", "--role", ROLE, code=2)
    assert "A group is called crew" in said
    assert list(found(cli, owner, "cara", "dan")["keys"]) == ["cara", "dan"]


def test_a_first_try_that_is_refused_leaves_no_login_with_a_password_that_nobody_knows(
    cli: CommandLine, postgres: PostgresServer, owner: URL
) -> None:
    postgres.execute("CREATE ROLE founder LOGIN CREATEROLE")
    try:
        postgres.execute("ALTER DATABASE founded OWNER TO founder")
        said = cli.fails("--store", text_of(owner.set(username="founder")), "team", "init", "ann", "--role", ROLE)
        assert "CREATE EXTENSION vector" in said
        postgres.execute("CREATE EXTENSION vector", "founded")
        postgres.execute("ALTER ROLE founder NOCREATEROLE")
        said = cli.fails("--store", text_of(owner.set(username="founder")), "team", "init", "ann", "--role", ROLE)
        assert "one who may make roles" in said
        postgres.execute("ALTER ROLE founder CREATEROLE")
        made = found(cli, owner.set(username="founder"), "ann")
        assert made["role_made"]
        assert "@" in made["store"].partition(f"{ROLE}:")[2]
        assert made["settings_file"] == str(cli.home / "harken.toml")
    finally:
        postgres.execute("ALTER DATABASE founded OWNER TO postgres")
        postgres.execute(f"DROP OWNED BY {ROLE}", "founded")
        postgres.execute(f"DROP ROLE IF EXISTS {ROLE}")
        postgres.execute("DROP OWNED BY founder CASCADE", "founded")
        postgres.execute("DROP ROLE founder")


def test_it_refuses_what_would_take_its_walls_down(cli: CommandLine, owner: URL) -> None:
    made = found(cli, owner, "ann")
    assert "is a superuser" in cli.fails("--store", text_of(owner), "serve", "--team")
    for host in ("0.0.0.0", "::"):
        assert "serve.trusted_proxies" in cli.fails("serve", "--team", "--host", host, code=2)
    told = cli.fails("serve", "--team", settings={"HARKEN_SERVE__TRUSTED_PROXIES": "everybody"})
    assert "no network" in told
    assert made["store"].startswith(f"postgresql://{ROLE}:")


def test_a_server_that_is_told_to_end_says_so_goes_on_and_fails_no_request(cli: CommandLine, owner: URL) -> None:
    key = found(cli, owner, "ann")["keys"]["ann"]
    settings = CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SERVE__DRAIN_SECONDS": "2"})
    with serving(settings) as server:
        answers: list[int] = []
        ending = threading.Event()

        def work() -> None:
            while not ending.is_set():
                answers.append(server.ask(key, "status").status_code)

        clients = [threading.Thread(target=work) for _ in range(3)]
        for client in clients:
            client.start()
        while len(answers) < 10:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGTERM)
        while server.readiness() != 503:
            time.sleep(0.02)
        # Whoever spreads requests sends it no more from here on.
        ending.set()
        for client in clients:
            client.join()
        assert set(answers) == {200}
        assert server.process.wait(TIMEOUT_SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            server.readiness()


def test_it_waits_for_tables_that_somebody_is_upgrading(cli: CommandLine, owner: URL, postgres: PostgresServer) -> None:
    key = found(cli, owner, "ann")["keys"]["ann"]
    postgres.execute("UPDATE alembic_version SET version_num = '0014'", owner.database)
    with cli.running("serve", "--team", "--port", "0", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert "Waiting for the store until its tables are upgraded" in process.stderr.readline()
        cli("--store", text_of(owner), "migrate", "--role", ROLE)
        line = process.stderr.readline()
        assert Serving(process, line.split()[-1]).ask(key, "status").status_code == 200


def test_it_does_not_wait_for_ever() -> None:
    told: list[str] = []

    def opened() -> Any:
        raise SchemaBehindError("too old")

    with pytest.raises(SchemaBehindError):
        open_when_ready(opened, 0, told.append)
    assert told == []


@pytest.mark.parametrize(
    ("client", "path", "status"),
    [
        *(("10.1.2.3", "/v1/search", 200), ("::ffff:10.1.2.3", "/v1/search", 200), ("192.0.2.7", "/v1/search", 403)),
        *(("192.0.2.7", "/readyz", 200), ("192.0.2.7", "/healthz", 200), ("", "/v1/search", 403)),
    ],
)
def test_behind_a_proxy_it_answers_the_proxy_alone_and_probes(client: str, path: str, status: int) -> None:
    seen: list[Any] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        seen.append(scope["client"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent: list[Any] = []

    async def asked() -> None:
        headers = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https")]
        scope = {
            "type": "http",
            "path": path,
            "client": (client, 1),
            "headers": headers,
            "method": "GET",
            "scheme": "http",
        }

        async def send(message: Any) -> None:
            sent.append(message)

        await TrustedProxies(app, ["10.0.0.0/8"])(scope, None, send)  # type: ignore[arg-type]

    anyio.run(asked)
    assert sent[0]["status"] == status
    if (status, path) == (200, "/v1/search"):
        # Whose keys are wrong is counted by who asks, not by the proxy.
        assert seen[0][0] == "203.0.113.9"


def test_a_network_that_is_none_is_said() -> None:
    assert str(parse_network("10.0.0.7")) == "10.0.0.7/32"
    with pytest.raises(ConfigError, match=r"10\.0\.0\.0/8"):
        parse_network("everybody")


class Listener(LocalServer):
    """Takes what a webhook is told."""

    def answer(self, request: Request) -> Reply:
        return Reply(204)


def test_one_worker_works_for_every_space_and_ends_when_it_is_told_to(cli: CommandLine, owner: URL) -> None:
    key = found(cli, owner, "ann")["keys"]["ann"]
    with Listener("/hook") as listener, serving(cli) as server:
        allowed = {"HARKEN_WEBHOOKS__ALLOW_HOSTS": "127.0.0.1"}
        hook = (f"{listener.url}/hook", "--event", "remembered", "--json")
        added = cli("--space", "common", "webhook", "add", *hook, settings=allowed).json()
        assert [each["id"] for each in cli("webhook", "list", "--json").json()] == [added["id"]]
        headers = {"authorization": f"Bearer {key}", "harken-space": "common"}
        saved = httpx.post(f"{server.url}/v1/remember", json={"content": "We meet on Tuesday"}, headers=headers).json()
        # What is said in a space of one's own is not told in the common one.
        server.ask(key, "remember", content="My own business")
        told = CommandLine(cli.home, cli.person, {**cli.settings, **allowed})
        with told.running("worker", "run", "--team", stderr=subprocess.PIPE) as worker:
            assert worker.stderr is not None
            assert "Working for team" in worker.stderr.readline()
            if sys.platform == "linux":
                # Whoever answers somebody goes first.
                assert os.getpriority(os.PRIO_PROCESS, worker.pid) > os.getpriority(os.PRIO_PROCESS, 0)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not listener.requests:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(TIMEOUT_SECONDS) == 0
    assert [request.body["data"]["id"] for request in listener.requests] == [saved["id"]]
    assert "is a superuser" in cli.fails("--store", text_of(owner), "worker", "run", "--team")


def test_metrics_have_a_port_of_their_own(cli: CommandLine, owner: URL) -> None:
    found(cli, owner, "ann")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(
        CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_SERVE__METRICS_PORT": str(port)})
    ) as server:
        assert httpx.get(f"{server.url}/metrics", timeout=TIMEOUT_SECONDS).status_code == 401
        assert "harken" in httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_SECONDS).text
