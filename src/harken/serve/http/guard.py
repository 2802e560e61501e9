"""Who may speak over TCP, how much and how long: the token, this machine's own name, no foreign web page."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import secrets
import socket
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from harken.errors import HarkenError, UsageError
from harken.serve.daemon.lock import own_folder
from harken.serve.daemon.place import DaemonPaths
from harken.serve.daemon.wire import HOST, PORT

# Less than a daemon that ends waits for what it still answers.
PATIENCE_SECONDS = 15.0


class BodyError(Exception):
    """A request is not what the route takes.

    Args:
        status: of HTTP.
        message: what is wrong, and what to send.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def content_of(request: Request, longest: int) -> bytes:
    """The body.

    Raises:
        BodyError: it is longer than so many bytes, or does not come whole.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > longest:
                    raise BodyError(413, f"The body is longer than {longest} bytes.")
                parts.append(part)
    except TimeoutError:
        raise BodyError(408, f"The body did not come within {PATIENCE_SECONDS:g} s. Send it at once.") from None
    except ClientDisconnect:
        raise BodyError(400, "The body was cut off.") from None
    return b"".join(parts)


_SHORTEST = 32


def own_token(place: DaemonPaths) -> str:
    """The token of a home, made where there is none; only for who holds the lock.

    Raises:
        HarkenError: somebody else could have read or written it.
    """
    own_folder(place)
    try:
        descriptor = os.open(place.token, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return _make(place.token)
    except OSError as error:
        raise HarkenError(f"The token cannot be read: {place.token}: {error.strerror}. Remove it.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise HarkenError(f"{place.token} is not this user's alone. Remove it; a new one will be made.")
        token = os.read(descriptor, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < _SHORTEST:
        raise HarkenError(f"{place.token} holds less than {_SHORTEST} characters. Remove it; a new one will be made.")
    return token


def _make(path: str) -> str:
    token = secrets.token_urlsafe(_SHORTEST)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{token}\n".encode("ascii"))
    finally:
        os.close(descriptor)
    return token


REMOTE = "harken.remote"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Lets in what is meant for this machine, by somebody who has the token; marks it as from afar.

    Args:
        app: what is guarded.
        token: as every request has to show it.
        hosts: names of this machine beside its own.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(name.lower() for name in (*hosts, socket.gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application, or hand the request on."""
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        await self._app({**scope, REMOTE: True}, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        called = headers.getlist("host")
        if len(called) != 1 or not self._is_ours(called[0], scope):
            return _refused(421, "This is another host. Use its address, or add the name to serve.hosts (harken.toml).")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != called[0].lower():
            return _refused(403, "Web pages of other origins may not ask.")
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._token):
            what = "The token is wrong" if shown else "There is no token"
            refusal = _refused(401, f"{what}. Send: Authorization: Bearer TOKEN; it is in run/token of the home.")
            refusal.headers["www-authenticate"] = "Bearer"
            return refusal
        return None

    def _is_ours(self, called: str, scope: Scope) -> bool:
        try:
            name = (urlsplit(f"//{called}").hostname or "").lower()
        except ValueError:
            return False
        server = scope.get("server")
        # The address that this very connection came to; a name that was rebound to it is not among them.
        address = str(server[0]) if server else ""
        return name in self._hosts or name == address or (name in _LOCAL and address in _LOCAL)


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)


_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Tcp:
    """Where to listen.

    Attributes:
        port: 0 takes any that is free.
        certificate: of TLS, in PEM; with `key`.
    """

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None

    def url(self, listening: socket.socket) -> str:
        """Where clients find it."""
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
        elif not all(_is_loopback(address) for address in self._addresses()):
            raise UsageError(
                f"{self.host} is reached from other machines, and the token would travel in the clear. Give --tls-cert "
                f"and --tls-key, or leave --host at {HOST}."
            )

    def listen(self) -> socket.socket:
        """A socket that listens.

        Raises:
            UsageError: there is no such host.
            HarkenError: it cannot be listened at.
        """
        address = self._addresses()[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            return socket.create_server((address, self.port), family=family, backlog=_BACKLOG)
        except OSError as error:
            what = f"Nothing can listen at {self.host} port {self.port}: {error.strerror}"
            raise HarkenError(f"{what}. Take another one: --port") from error

    def _addresses(self) -> list[str]:
        try:
            found = socket.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"There is no host '{self.host}'. Give an address: --host {HOST}") from error
        return [str(address[0]) for *_, address in found]


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
