"""One POST to an address that somebody has given us: signed, bounded, and never to a private network.

Who may add a webhook to a shared server may not reach what only the server can: its own ports, its neighbours, the
metadata of its cloud. The name is resolved once, every address of it is looked at, and the connection goes to one that
was looked at; a redirection is an answer, and is not followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import IPPROTO_TCP, gaierror, getaddrinfo
from typing import Any
from urllib.parse import urlsplit

import httpcore

from harken.errors import UsageError

CONNECT_SECONDS, WHOLE_SECONDS = 5.0, 15.0
# Of an answer nothing is used but its status; what is longer is not read.
_MOST_BYTES = 64 * 1024
SECRET_PREFIX = "whsec_"  # noqa: S105 - how such a secret begins
_LONGEST_URL = 2_000
# IPv4 addresses inside of IPv6 ones, as a NAT64 gateway has them; and what was private before `fc00::/7` was.
_NAT64, _SITE_LOCAL = ip_network("64:ff9b::/96"), ip_network("fec0::/10")
_ALLOW = "Its server's operator can allow it: webhooks.allow_hosts (harken.toml)."


@dataclass(frozen=True, slots=True)
class PostTarget:
    """An address to post to, parsed.

    Attributes:
        is_trusted: the settings name the host, so that it may be private, and without TLS.
    """

    url: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """How one attempt went.

    Attributes:
        status: of HTTP; None where there was no answer.
        error: why it failed, in a few words of ours; empty where it arrived.
        retry_after_seconds: how long the endpoint wants to be left alone, if it said so.
    """

    status: int | None
    error: str = ""
    retry_after_seconds: float | None = None

    @property
    def is_outage(self) -> bool:
        """Whether the endpoint takes nothing now: another delivery would fare no better."""
        return bool(self.error) and (self.status is None or self.status >= 500 or self.status in (408, 425, 429))

    @property
    def is_gone(self) -> bool:
        """Whether the endpoint says that it wants nothing any more."""
        return self.status == 410


def parse_target(url: str, allow_hosts: Collection[str], allow_http: bool = False) -> PostTarget:
    """An address that may be posted to, as far as its text tells.

    Raises:
        UsageError: it is none, has no TLS, holds a password, or is a private address.
    """
    import httpx

    try:
        url = url if url.isascii() else str(httpx.URL(url))
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or (80 if parts.scheme == "http" else 443)
    except (ValueError, httpx.InvalidURL):
        host = ""
    if not host or parts.scheme not in ("http", "https") or len(url) > _LONGEST_URL or not url.isprintable():
        raise UsageError("url: no address. Give one like https://example.com/harken.")
    if parts.username or parts.password:
        raise UsageError("url: leave user and password out; deliveries are signed, which is to be checked instead.")
    named = f"[{host}]" if ":" in host else host
    is_trusted = not {host, named, f"{named}:{port}"}.isdisjoint(map(str.lower, allow_hosts))
    if parts.scheme == "http" and not (allow_http or is_trusted):
        raise UsageError(
            f"url: {host} without TLS would show everybody on the way what happens. Use https://, or say --allow-http."
        )
    if not is_trusted and (refused := _refused_literal(host)):
        raise UsageError(f"url: {refused}. {_ALLOW}")
    return PostTarget(url, is_trusted)


def _refused_literal(host: str) -> str:
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return f"{host} is a name of a private network"
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    return "" if is_public(address) else f"{host} is no address of the public Internet"


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the public Internet: not private, loop-back, link-local, multicast or reserved."""
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        inside = inside or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None)
        if inside is not None:
            return is_public(inside)
    return address.is_global and not (address.is_multicast or address.is_reserved or address in _SITE_LOCAL)


def signature(secret: str, message_id: str, seconds: int, body: bytes) -> str:
    """What `webhook-signature` is of a delivery.

    Source: Standard Webhooks 1.0, symmetric signatures.
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{message_id}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def post(target: PostTarget, secret: str, message_id: str, seconds: int, body: bytes) -> Answer:
    """Post a body once, signed as of this second of the clock; every failure is an answer, too."""
    headers: dict[bytes | str, bytes | str] = {
        "content-type": "application/json",
        "user-agent": "harken",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(secret, message_id, seconds, body),
    }
    backend = _PinnedBackend(target, time.monotonic() + WHOLE_SECONDS)
    timeout = {"connect": CONNECT_SECONDS, "read": WHOLE_SECONDS, "write": WHOLE_SECONDS, "pool": WHOLE_SECONDS}
    context = ssl.create_default_context() if target.url.startswith("https:") else None
    try:
        with (
            httpcore.ConnectionPool(ssl_context=context, network_backend=backend) as pool,
            pool.stream("POST", target.url, headers=headers, content=body, extensions={"timeout": timeout}) as answer,
        ):
            _read_some(answer.iter_stream())
            return _told(answer)
    except _RefusedAddressError as error:
        return Answer(None, str(error))
    except httpcore.TimeoutException:
        return Answer(None, f"no answer within {WHOLE_SECONDS:g} s")
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError) as error:
        return Answer(None, _reason(error))


def _read_some(parts: Iterable[bytes]) -> None:
    size = 0
    for part in parts:
        size += len(part)
        if size > _MOST_BYTES:
            return


def _told(answer: httpcore.Response) -> Answer:
    if 200 <= answer.status < 300:
        return Answer(answer.status)
    wait = next((value for name, value in answer.headers if name.lower() == b"retry-after"), b"")
    seconds = float(wait) if wait.isdigit() else None
    why = "a redirection, which is not followed" if 300 <= answer.status < 400 else f"status {answer.status}"
    return Answer(answer.status, why, seconds)


def _reason(error: Exception) -> str:
    """A few words without anything that the other side has said."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not valid"
    if isinstance(cause, ssl.SSLError):
        return "TLS failed"
    return "the connection was refused" if isinstance(cause, ConnectionRefusedError) else "no connection"


class _RefusedAddressError(Exception):
    """The name leads somewhere that may not be posted to."""


class _PinnedBackend(httpcore.NetworkBackend):
    """Connects to an address that was looked at, and to no other; ends everything at a deadline."""

    def __init__(self, target: PostTarget, deadline: float) -> None:
        self._target = target
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve the name once, and connect to what it led to."""
        last: Exception = httpcore.ConnectError("no address")
        for address in self._addresses(host, port):
            wait = min(timeout or CONNECT_SECONDS, _left(self._deadline))
            try:
                stream = self._sockets.connect_tcp(address, port, wait, local_address, socket_options)
                return _BoundedStream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = getaddrinfo(host, port, proto=IPPROTO_TCP)
        except (gaierror, UnicodeError) as error:
            raise _RefusedAddressError("there is no such host") from error
        addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
        if not self._target.is_trusted and not all(is_public(ip_address(each)) for each in addresses):
            raise _RefusedAddressError("it leads to a private address, and was not called")
        return addresses


class _BoundedStream(httpcore.NetworkStream):
    """A connection that ends at a deadline, however little comes at a time."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What comes until the deadline."""
        return self._stream.read(max_bytes, min(timeout or WHOLE_SECONDS, _left(self._deadline)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send it all until the deadline."""
        self._stream.write(buffer, min(timeout or WHOLE_SECONDS, _left(self._deadline)))

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same, encrypted; the certificate has to be that of the name, not of the address."""
        wait = min(timeout or WHOLE_SECONDS, _left(self._deadline))
        return _BoundedStream(self._stream.start_tls(ssl_context, server_hostname, wait), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Of the connection below."""
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return seconds
