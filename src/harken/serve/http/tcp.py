"""Listening over TCP, loop-back or anywhere with TLS, and the token that clients show there."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import secrets
import socket
import ssl
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.errors import HarkenError, UsageError
from harken.serve.daemon.lock import own_folder
from harken.serve.daemon.paths import DaemonPaths

HOST, PORT = "127.0.0.1", 4275
_BACKLOG = 128
_SHORTEST = 32
# And of the files that the daemon may open no more than a quarter: the others are for hooks and the store.
_MOST_CONNECTIONS, _LEAST_CONNECTIONS = 256, 8
# From the first byte of TLS to the last of the headers.
_TOKEN_SECONDS = 10.0


def own_token(paths: DaemonPaths) -> str:
    """Return the token of a home, made where there is none; only for who holds the lock.

    Raises:
        HarkenError: somebody else could have read or written it.
    """
    own_folder(paths)
    try:
        descriptor = os.open(paths.token, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        token = secrets.token_urlsafe(_SHORTEST)
        descriptor = os.open(paths.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
        return token
    except OSError as error:
        raise HarkenError(f"The token cannot be read: {paths.token}: {error.strerror}. Remove it.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise HarkenError(f"{paths.token} is not this user's alone. Remove it; a new one will be made.")
        token = os.read(descriptor, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < _SHORTEST:
        raise HarkenError(f"{paths.token} holds less than {_SHORTEST} characters. Remove it; a new one will be made.")
    return token


class Door(socket.socket):
    """Listens for connections, and holds no more than it has places for, none of them for long without the token.

    uvicorn limits requests, not connections, and waits for headers for as long as somebody likes: who sends half of
    them a thousand times would leave the daemon no file for hooks. Where all places are taken, the one that has been
    without the token for longest gives its own up.
    """

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(fileno=listening.detach())
        self._open: dict[tuple[str, int], socket.socket] = {}
        self._admitted: set[tuple[str, int]] = set()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, files // 4)
        self._places = max(most, _LEAST_CONNECTIONS)

    def accept(self) -> tuple[socket.socket, Any]:
        """Take the next connection.

        Raises:
            BlockingIOError: there is none, or no place for it yet.
        """
        self._open = {address: each for address, each in self._open.items() if each.fileno() >= 0}
        self._admitted &= self._open.keys()
        is_full = len(self._open) >= self._places
        strangers = (each for address, each in self._open.items() if address not in self._admitted)
        if is_full and (oldest := next(strangers, None)) is not None:
            # The loop closes it before it asks for the next one again.
            self._end(oldest)
            raise BlockingIOError
        connection, address = super().accept()
        if is_full:
            connection.close()
            raise BlockingIOError
        self._open[address[:2]] = connection
        asyncio.get_running_loop().call_later(_TOKEN_SECONDS, self._end_stranger, connection, address[:2])
        return connection, address

    def admit(self, client: tuple[str, int] | None) -> None:
        """Let a connection stay, by its other end's address and port: the token was shown on it."""
        if client in self._open:
            self._admitted.add(client)

    def _end_stranger(self, connection: socket.socket, address: tuple[str, int]) -> None:
        if self._open.get(address) is connection and address not in self._admitted:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        # Whoever has it in hand sees its end, and closes it.
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Tcp:
    """Where to listen: port 0 takes any that is free; `certificate` and `key` of TLS, in PEM, go together."""

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None

    def url(self, listening: socket.socket) -> str:
        """Return where clients find it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{listening.getsockname()[1]}"

    def check(self) -> None:
        """See that a token is never sent in the clear to another machine.

        Raises:
            UsageError: the address is not loop-back and there is no TLS, or the certificate cannot be used.
        """
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key go together.")
        if self.certificate is not None and self.key is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
            except (OSError, ValueError) as error:
                raise UsageError(f"TLS cannot be had with {self.certificate} and {self.key}: {error}") from error
        elif not all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in self._addresses()):
            raise UsageError(
                f"{self.host} is reached from other machines, and the token would travel in the clear. Give --tls-cert "
                f"and --tls-key, or leave --host at {HOST}."
            )

    def listen(self) -> Door:
        """Open a socket that listens.

        Raises:
            UsageError: there is no such host.
            HarkenError: it cannot be listened at.
        """
        address = self._addresses()[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            return Door(socket.create_server((address, self.port), family=family, backlog=_BACKLOG))
        except OSError as error:
            what = f"Nothing can listen at {self.host} port {self.port}: {error.strerror}"
            raise HarkenError(f"{what}. Take another one: --port") from error

    def _addresses(self) -> list[str]:
        try:
            found = socket.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"There is no host '{self.host}'. Give an address: --host {HOST}") from error
        return [str(address[0]) for *_, address in found]
