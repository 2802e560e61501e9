"""A team's server as a process: what it refuses to start with, whom it answers, and an end that fails no request."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from harken.config.sections import ServeConfig
from harken.engine.team import Team
from harken.errors import ConfigError, HarkenError, SchemaBehindError, StoreError, UsageError
from harken.log import Log
from harken.serve.http.problems import Problem
from harken.serve.http.tcp import Tcp
from harken.serve.http.team import make_metrics_app

# What whoever runs the server asks, from wherever it watches: they tell nothing of anybody.
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
# Behind it whatever is still being answered is cut off.
_GRACEFUL_SECONDS = 30
_KEEP_ALIVE_SECONDS, _MOST_AT_ONCE, _BACKLOG = 75, 1_000, 1_024
_LOOK_SECONDS = 2.0
_log = Log(__name__)


def check_walls(team: Team) -> None:
    """See that the database itself keeps spaces and teams apart, should a statement ever forget to.

    Raises:
        ConfigError: the login passes its walls.
    """
    if reason := team.passes_walls:
        raise ConfigError(
            f"The login of the store {reason}, so that the database would not keep spaces apart. Serve by a role that "
            "it holds to them: harken team init, or harken migrate --role NAME. To go on all the same: --unwalled"
        )


def open_when_ready(opened: Callable[[], Team], patience_seconds: float, say: Callable[[str], None]) -> Team:
    """Open a team once its database is there, and has the tables that this Harken needs; somebody may be upgrading it.

    Raises:
        StoreError: it is not, however long it was waited.
    """
    told, waited = "", 0.0
    while True:
        try:
            return opened()
        except StoreError as error:
            if waited >= patience_seconds:
                raise
            reason = "its tables are upgraded" if isinstance(error, SchemaBehindError) else "it answers"
            if told != reason:
                say(f"Waiting for the store until {reason}. {error}")
                told = reason
            waited += _LOOK_SECONDS
            time.sleep(_LOOK_SECONDS)


class TrustedProxies:
    """Answers who comes by a proxy that ended TLS for them, and nobody else.

    What the proxy says of who asks is believed: that address is counted where keys are wrong.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[str]) -> None:
        self._networks = [parse_network(each) for each in networks]
        self._plain = app
        told: Any = ProxyHeadersMiddleware
        self._told: ASGIApp = told(app, trusted_hosts=[str(each) for each in self._networks])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS:
            await self._plain(scope, receive, send)
        elif address := self._known(scope.get("client")):
            await self._told({**scope, "client": (address, scope["client"][1])}, receive, send)
        else:
            why = "This server is asked by way of its proxy alone (serve.trusted_proxies)."
            await Problem(403, why).response()(scope, receive, send)

    def _known(self, client: Sequence[Any] | None) -> str:
        """The address of a proxy, IPv4 as such; empty where it is none."""
        try:
            address = ipaddress.ip_address(str(client[0]) if client else "")
        except ValueError:
            return ""
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return str(address) if any(address in network for network in self._networks) else ""


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """An address or a network of `serve.trusted_proxies`.

    Raises:
        ConfigError: it is none.
    """
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"serve.trusted_proxies: '{text}' is no address and no network like 10.0.0.0/8.") from error


class _Listener(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs it."""
        yield


@dataclass(slots=True)
class TeamHost:
    """Runs the server's application until it is told to end.

    On SIGTERM or Ctrl-C it says first that it is not ready, and goes on for `serve.drain_seconds`, so that whoever
    spreads requests sends it no more; then it takes none, and ends when all that it took is answered. A second signal
    ends the first part.

    Args:
        ready: told where it listens, once it does.
    """

    app: Starlette
    config: ServeConfig
    ready: Callable[[str], None]

    def check(self) -> None:
        """See that no key travels in the clear.

        Raises:
            UsageError, ConfigError: it would.
        """
        for each in self.config.trusted_proxies:
            parse_network(each)
        try:
            if not self.config.trusted_proxies:
                self._tcp.check()
        except UsageError as error:
            raise UsageError(
                f"{error} Or name the proxies that end TLS: serve.trusted_proxies (HARKEN_SERVE__TRUSTED_PROXIES)."
            ) from error

    def run(self) -> None:
        """Serve; returns when all that was accepted is done."""
        asyncio.run(self._serve())

    @property
    def _tcp(self) -> Tcp:
        return Tcp(self.config.host, self.config.port, self.config.tls_cert, self.config.tls_key)

    async def _serve(self) -> None:
        served: ASGIApp = self.app
        if self.config.trusted_proxies:
            served = TrustedProxies(self.app, self.config.trusted_proxies)
        listening = listen(self.config.host, self.config.port)
        servers = [(self._server(served, is_main=True), listening)]
        if self.config.metrics_port:
            metrics = self._server(make_metrics_app(self.app), is_main=False)
            servers.append((metrics, listen(self.config.host, self.config.metrics_port)))
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        beside = [
            asyncio.create_task(self._leave(ending, [server for server, _ in servers])),
            asyncio.create_task(self._tell(servers[0][0], listening)),
        ]
        try:
            await asyncio.gather(*(server.serve([each]) for server, each in servers))
        finally:
            for task in beside:
                task.cancel()

    async def _tell(self, server: uvicorn.Server, listening: socket.socket) -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        self.ready(self._tcp.url(listening))

    async def _leave(self, ending: asyncio.Event, servers: Sequence[uvicorn.Server]) -> None:
        await ending.wait()
        self.app.state.server.is_leaving = True
        _log.info("leaving", seconds=self.config.drain_seconds)
        ending.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), self.config.drain_seconds)
        for server in servers:
            server.should_exit = True

    def _server(self, app: ASGIApp, is_main: bool) -> uvicorn.Server:
        # What it says of a request that went wrong may quote it; ours says the class of the error.
        logging.getLogger("uvicorn").addHandler(logging.NullHandler())
        logging.getLogger("uvicorn").propagate = False
        with_tls = is_main and not self.config.trusted_proxies
        return _Listener(
            uvicorn.Config(
                app,
                lifespan="on" if is_main else "off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=_GRACEFUL_SECONDS,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                limit_concurrency=_MOST_AT_ONCE,
                proxy_headers=False,
                server_header=False,
                ws="none",
                ssl_certfile=self.config.tls_cert if with_tls else None,
                ssl_keyfile=self.config.tls_key if with_tls else None,
            )
        )


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens.

    Raises:
        HarkenError: it cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # asyncio does so only where a socket says that it is TCP: a body waited 40 ms for its head to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        what = f"Nothing can listen at {host} port {port}: {error.strerror}"
        raise HarkenError(f"{what}. Take another one: serve.port") from error
