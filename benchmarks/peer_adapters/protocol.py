"""What an adapter and the benchmark say to each other: one JSON object a line, asked on stdin, answered on stdout.

    {"do": "open", "folder": …, "model": …, "paths": {…}}
    {"do": "store", "rows": [{"id", "group", "talk", "author", "time", "text"}, …]}
    {"do": "search", "query": …, "group": …, "limit": …, "rerank": …}

Each is answered by its result, the seconds it took, the process's peak memory, and how often the network was reached
for and refused. An adapter runs in the environment of what it measures, so this needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERYTHING = "all"


@dataclass(frozen=True)
class Row:
    """A turn of a talk; `group` is what a search is limited to: the talk, or EVERYTHING."""

    id: str
    group: str
    talk: str
    author: str
    time: str
    text: str

    @property
    def said(self) -> str:
        """The words with who said them, for peers that have no place for a speaker."""
        return f"{self.author}: {self.text}"


class Adapter:
    """What each peer does; models are `own`, `minilm`, `bge-small`, `given` (vectors that cost nothing), `none`."""

    def open(self, folder: str, model: str, paths: Mapping[str, str]) -> None:
        """Open the store in a folder, made if it is not there."""
        raise NotImplementedError

    def store(self, rows: Sequence[Row]) -> None:
        """Store rows, embedded by the model; when this returns they can be found."""
        raise NotImplementedError

    def search(self, query: str, group: str, limit: int, rerank: bool) -> Any:
        """What is found in a group, best first, in the peer's own form."""
        raise NotImplementedError

    def ids(self, found: Any) -> list[str]:
        """The ids of the rows that were found; not part of what is timed."""
        return list(found)


def serve(adapter: Adapter) -> None:
    """Answer until stdin ends. What a peer prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    refused = _stay_offline()
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        if "rows" in request:
            request["rows"] = [Row(**row) for row in request["rows"]]
        begin = time.perf_counter()
        result = getattr(adapter, verb)(**request)
        seconds = time.perf_counter() - begin
        if verb == "search":
            result = adapter.ids(result)
        answer = {"result": result, "seconds": seconds, "peak_mb": _peak_mb(), "refused": len(refused)}
        print(json.dumps(answer), file=answers, flush=True)


def _stay_offline() -> list[object]:
    """Refuse every connection that leaves this machine; what was refused."""
    refused: list[object] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            refused.append(address)
            raise ConnectionRefusedError("no peer reaches the network here")
        connect(self, address)

    socket.socket.connect = guarded  # type: ignore[method-assign, assignment]
    return refused


def _peak_mb() -> float:
    """Peak resident memory; Linux's `ru_maxrss` can be that of the process which started this one."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * 1024)
