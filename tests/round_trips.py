"""A relay before a PostgreSQL server that counts how often its clients wait for an answer."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL

_SOCKET = ".s.PGSQL.5432"
# Asks for what is ready, and to hang up: nobody waits for either, once everything is answered.
_NEVER_WAITED_FOR = b"HX"
_SYNC, _QUERY, _READY, _BIND = b"S", b"Q", b"Z", b"B"


@dataclass(slots=True)
class _Messages:
    """Cuts a stream into messages of the protocol: a byte that names the kind, and a length that includes itself."""

    named: bool
    held: bytes = b""

    def read(self, data: bytes) -> Iterator[bytes]:
        self.held += data
        while True:
            head = 5 if self.named else 4
            if len(self.held) < head:
                return
            size = int.from_bytes(self.held[head - 4 : head]) + head - 4
            if len(self.held) < size:
                return
            kind, self.held = self.held[:1] if self.named else b"", self.held[size:]
            self.named = True
            yield kind


@dataclass(slots=True)
class RoundTrips:
    """Counts them.

    A round trip begins with the first message that a client sends once the server has answered all it was sent before.

    Attributes:
        url: of the server, by way of the relay.
        statements: how many were executed.
    """

    url: URL
    count: int = 0
    statements: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what both say until one of them hangs up."""
        # The greeting has no name; the first answer that is waited for is the one to it.
        asked, answered = _Messages(named=False), _Messages(named=True)
        unanswered, is_asking = 1, False

        def count_asked(data: bytes) -> None:
            nonlocal unanswered, is_asking
            for kind in asked.read(data):
                with self._lock:
                    if not unanswered and not is_asking and kind not in _NEVER_WAITED_FOR:
                        self.count += 1
                    ends = kind in (_SYNC, _QUERY)
                    self.statements += kind in (_BIND, _QUERY)
                    is_asking = not ends and kind not in _NEVER_WAITED_FOR
                    unanswered += ends

        def count_answered(data: bytes) -> None:
            nonlocal unanswered
            for kind in answered.read(data):
                with self._lock:
                    unanswered -= kind == _READY

        with client, server:
            back = threading.Thread(target=_pump, args=(server, client, count_answered))
            back.start()
            _pump(client, server, count_asked)
            back.join()

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """How many there are inside, once it is left."""
        found: list[int] = []
        before = self.count
        yield found
        found.append(self.count - before)


def _pump(source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            # Before it is passed on: the answer may be back before this thread goes on.
            note(data)
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def counting(url: URL) -> Iterator[RoundTrips]:
    """A relay before the server of a URL; left once its clients have hung up."""
    # A socket's path may have a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="harken-relay-"))
    named = {"username": url.username, "password": url.password, "database": url.database}
    near = URL.create(url.drivername, **named, query={**url.query, "host": str(folder)})
    trips, threads = RoundTrips(near), list[threading.Thread]()

    def connected() -> socket.socket:
        if url.host is not None:
            return socket.create_connection((url.host, url.port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(str(url.query["host"])) / _SOCKET))
        return server

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=trips.relay, args=(client, connected())))
                threads[-1].start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / _SOCKET))
        listener.listen()
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield trips
        finally:
            # Whoever waits for a client is woken by it.
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join()
            shutil.rmtree(folder, ignore_errors=True)
