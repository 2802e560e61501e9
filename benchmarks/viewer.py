"""How soon the viewer's pages answer in a large memory, and what they add to the daemon.

    python benchmarks/viewer.py [--messages 100000] [--rounds 40] [--home FOLDER]

A home of made-up conversations (`synthetic.py`), with vectors that weigh like real ones written straight into the
rows, and recalls noted in many of them; `--home` takes a copy of one that is there. Each page is asked over the
loop-back port, as a browser does, in turn with the others; the first byte is when the head of the answer is there.
Next to the time on the clock stands the daemon's processor time for each page, which other work on the machine changes
less. The daemon's memory is its resident set after as many searches alone, and after all pages.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import quote_plus, urlsplit

from harken import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.wire import OK, DaemonError, exchange
from report import keep, show
from speed_search import fill_vectors
from synthetic import Talks, write_jsonl

PAGE_P95_MS, SEARCH_P95_MS, ADDED_MB = 150.0, 100.0, 80.0
_TICKS = os.sysconf("SC_CLK_TCK")
_SEARCH, _TALK = "/search?q=", "/conversations/"


def fill(home: Path, messages: int) -> None:
    """Fill a home: conversations, vectors, memories, and what came back in some conversations."""
    with tempfile.TemporaryDirectory() as folder, Harken(home) as harken:
        file = Path(folder) / "talks.jsonl"
        write_jsonl(file, Talks(1).talks(messages))
        harken.import_transcripts("jsonl", [file])
        fill_vectors(harken)
        # Else the daemon would be at work on them meanwhile.
        for report in harken.background.status():
            harken.background.switch(report.name, False)
        for number in range(20):
            harken.memories.add(f"Decision number {number} is about matter {number * 7}.", "decision")
        found = [each.uid for each in harken.memories.list(limit=20)]
        harken.topics.refresh()
        talks = _conversations(harken, 200)
        for number, talk in enumerate(talks):
            said = harken.archive.page(talk, limit=20).messages
            told = [*(message.uid for message in said[:4]), found[number % len(found)]]
            reasons = dict.fromkeys(told, "similarity 0.70 of its text")
            harken.chats.note_given(talk, reasons, lambda: False, 100, event="userpromptsubmit")


def _conversations(harken: Harken, limit: int) -> list[str]:
    from harken.model.lookups import ConversationFilter

    return [each.conversation.uid for each in harken.maintenance.conversations(ConversationFilter(limit=limit))[0]]


@contextmanager
def serving(home: Path) -> Iterator[tuple[int, DaemonPaths, dict[str, str]]]:
    """A daemon that has loaded its model: its process id, where it is, and its environment."""
    env = {**os.environ, "HARKEN_HOME": str(home)}
    place = DaemonPaths(str(home))
    started = subprocess.Popen([sys.executable, "-m", "harken", "serve", "--quiet"], env=env)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if exchange(place.socket, "/v1/ping", None, env, 1.0)[0] == OK:
                    break
            except DaemonError:
                assert time.monotonic() < deadline, "the daemon does not answer"
                time.sleep(0.1)
        for words in ("what did we decide", "why is the number so"):
            exchange(place.socket, "/v1/search", json.dumps({"query": words}).encode(), env, 60)
        found = holder(place)
        assert found is not None
        yield found.pid, place, env
    finally:
        started.terminate()
        started.wait(60)


def resident_mb(pid: int) -> float:
    """The resident set of a process."""
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def processor_ms(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS * 1000


class Browser:
    """One connection to the pages, let in by a link."""

    def __init__(self, place: DaemonPaths, env: dict[str, str]) -> None:
        link = urlsplit(json.loads(exchange(place.socket, "/v1/view", b"{}", env, 60)[1])["url"])
        self._connection = HTTPConnection(link.netloc, timeout=60)
        self._prefix, self._cookie = link.path.removesuffix("/open"), ""
        self._connection.request("GET", f"{link.path}?{link.query}")
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = answer.headers["set-cookie"].partition(";")[0]

    def page(self, path: str) -> float:
        """Milliseconds until the first byte of a page is there."""
        begun = time.perf_counter()
        self._connection.request("GET", self._prefix + path, headers={"cookie": self._cookie})
        answer = self._connection.getresponse()
        taken = (time.perf_counter() - begun) * 1000
        answer.read()
        assert answer.status == 200, (path, answer.status)
        return taken


def addresses(home: Path, rounds: int) -> list[dict[str, str]]:
    """For each round an address of every page: other questions and conversations each time."""
    with Harken(home) as harken:
        talks = _conversations(harken, max(rounds, 1))
        memory = harken.memories.list(limit=1)[0].uid
        texts = [message.text for talk in talks[:20] for message in harken.archive.page(talk, limit=20).messages]
    asked = Talks(2).queries(texts, rounds)
    fixed = (
        *("/", "/conversations", "/topics", "/digest", "/recalls", "/statistics", "/memories", "/memories/due"),
        *("/experiences", "/values", "/indexed", "/spend", "/health"),
    )
    return [
        {
            **{path: path for path in fixed},
            "/conversations?offset=…": f"/conversations?offset={40 * number}",
            "/conversations/…": _TALK + talks[number % len(talks)],
            "/memories/…": f"/memories/{memory}",
            "/search?q=…": _SEARCH + quote_plus(asked[number]),
            "/search?q=…&threshold=…": f"{_SEARCH}{quote_plus(asked[number])}&threshold=0.3",
        }
        for number in range(rounds)
    ]


def measure(home: Path, rounds: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row for each page, and the daemon's memory before and after."""
    visits = addresses(home, rounds + 1)
    taken: dict[str, list[float]] = {}
    worked: dict[str, float] = {}
    with serving(home) as (pid, place, env):
        time.sleep(2)
        for visit in visits:
            query = visit["/search?q=…"].removeprefix(_SEARCH).replace("+", " ")
            exchange(place.socket, "/v1/search", json.dumps({"query": query}).encode(), env, 60)
        before = resident_mb(pid)
        browser = Browser(place, env)
        for number, visit in enumerate(visits):
            for name, path in visit.items():
                begun = processor_ms(pid)
                milliseconds = browser.page(path)
                if number:
                    taken.setdefault(name, []).append(milliseconds)
                    worked[name] = worked.get(name, 0.0) + processor_ms(pid) - begun
        after = resident_mb(pid)
    rows = [
        {
            "page": name,
            "p50 ms": round(median(times), 1),
            "p95 ms": round(quantiles(times, n=20)[-1] if len(times) > 1 else times[0], 1),
            "processor ms": round(worked[name] / len(times), 1),
        }
        for name, times in taken.items()
    ]
    return rows, {"before_mb": round(before, 1), "after_mb": round(after, 1), "added_mb": round(after - before, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--home", type=Path, help="A home whose copy is measured.")
    parser.add_argument("--out", type=Path, help="Where the result is kept.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        if given.home:
            shutil.copytree(given.home, home, ignore=shutil.ignore_patterns("run"))
        else:
            fill(home, given.messages)
        rows, memory = measure(home, given.rounds)
    show(f"pages at {given.messages:,} messages", rows)
    show("the daemon", [memory])
    over = [row["page"] for row in rows if row["p95 ms"] > (SEARCH_P95_MS if "q=" in row["page"] else PAGE_P95_MS)]
    print(f"\nover their limit: {', '.join(over) or 'none'}; memory added: {memory['added_mb']} of {ADDED_MB:.0f} MB")
    limits = {"page_p95_ms": PAGE_P95_MS, "search_p95_ms": SEARCH_P95_MS, "added_mb": ADDED_MB}
    keep(
        "viewer",
        {"messages": given.messages, "rounds": given.rounds, "limits": limits, "pages": rows, **memory},
        given.out,
    )


if __name__ == "__main__":
    main()
