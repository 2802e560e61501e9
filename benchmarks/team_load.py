"""A team at work on its server, while a worker and the server are killed: nothing lost, nothing doubled, how fast.

    python benchmarks/team_load.py postgresql://USER@HOST/DATABASE [--clients 50] [--principals 20] [--seconds 300]

Each client belongs to one of the principals, and asks now and then, as an agent would: recall, record, remember,
forget. The server and the worker are processes of their own; after a third of the time the worker is killed (-9) and
started again, after two thirds the server. At the end everything that was answered is looked for, and everything that
is there is counted. The database must have Harken's schema (`harken migrate --role`); a team of its own is made in it.
Prints one table and writes JSON; fails where anything was lost, doubled or refused but for too many requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from harken.client import ApiError, AsyncHarkenClient
from harken.config.settings import load_settings
from harken.engine.team import Team
from harken.errors import EndpointError
from harken.providers.priority import lower_priority
from measuring import Figure
from report import keep, show

RECALL_P95_MS = 80.0
_VERBS = ("recall", "record", "remember", "forget")
_WEIGHTS = (40, 35, 15, 10)
_TEXT = """quay ship harbour mooring tide crane pilot cargo anchor lantern ferry buoy captain storm rope compass chart
deck oven dough garden tomato ledger invoice canary rollback pipeline orchard violin saddle granite thistle ember"""
_WORDS = tuple(_TEXT.split())


@dataclass
class Ledger:
    """What was asked and answered.

    Attributes:
        said: of each message its words, by id; likewise `saved` of memories.
        gone: ids of what was forgotten.
        errors: refusals and failures that nobody should meet, by what they say.
        statuses: of every answer that came, those that were asked for again included.
        seconds: of each recall that was answered at the first attempt, and of all with what they waited.
    """

    said: dict[str, str] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)
    talks: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"recall": [], "recall, whole": []})


class Counting(httpx.AsyncHTTPTransport):
    """Counts answers by status, and attempts that got none."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        began = time.perf_counter()
        try:
            response = await super().handle_async_request(request)
        except httpx.TransportError as error:
            self._ledger.statuses[type(error).__name__] += 1
            raise
        self._ledger.statuses[str(response.status_code)] += 1
        if request.url.path == "/v1/recall" and response.status_code == 200:
            self._ledger.seconds["recall"].append(time.perf_counter() - began)
        return response


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="URL of a database on a server")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--principals", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two calls of a client, on average")
    parser.add_argument("--embedder", default="onnx")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--out", type=Path)
    # What this program starts itself as.
    parser.add_argument("--be", choices=("server", "worker"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--team", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be == "server":
        serve(arguments)
    elif arguments.be == "worker":
        work(arguments)
    else:
        with tempfile.TemporaryDirectory() as folder:
            arguments.home, arguments.team = Path(folder), f"load-{os.getpid()}"
            measure(arguments)


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the server, the worker and this program."""
    return {"store": arguments.store, "tenant": arguments.team, "embedder": arguments.embedder}


def serve(arguments: argparse.Namespace) -> None:
    """Be the server."""
    import uvicorn

    from harken.serve.http.team import make_team_app

    with Team(arguments.home, settings=settings_of(arguments), env={}) as team:
        app = make_team_app(team, load_settings(arguments.home, {}, settings_of(arguments)).settings)
        uvicorn.run(app, port=arguments.port, log_level="critical", access_log=False, lifespan="on")


def work(arguments: argparse.Namespace) -> None:
    """Be a worker, as `harken worker run` is for a team."""
    lower_priority()
    with Team(arguments.home, settings=settings_of(arguments), env={}) as team:
        team.start_workers()
        signal.pause()


@contextmanager
def started(arguments: argparse.Namespace, role: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this program in a role, killed at the end."""
    words = ["--be", role, "--port", str(arguments.port), "--home", str(arguments.home), "--team", arguments.team]
    given = [arguments.store, "--embedder", arguments.embedder, *words]
    process = subprocess.Popen([sys.executable, __file__, *given], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure(arguments: argparse.Namespace) -> None:
    """Let the clients work, kill what has to be killed, count and look for everything; print it."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        arguments.port = door.getsockname()[1]
    keys = made_keys(arguments)
    ledgers = [Ledger() for _ in range(arguments.clients)]
    url = f"http://127.0.0.1:{arguments.port}"
    asyncio.run(under_load(arguments, url, keys, ledgers))
    total = sum((ledger.asked for ledger in ledgers), Counter())
    errors = sum((ledger.errors for ledger in ledgers), Counter())
    statuses = sum((ledger.statuses for ledger in ledgers), Counter())
    with started(arguments, "server"):
        asyncio.run(until_ready(url))
        lost, doubled, back = asyncio.run(looked_for(url, keys, ledgers))
    recalls = sorted(second for ledger in ledgers for second in ledger.seconds["recall"])
    whole = sorted(second for ledger in ledgers for second in ledger.seconds["recall, whole"])
    note = "a worker and the server killed meanwhile"
    rows = [
        Figure("calls", sum(total.values()), "/s", sum(total.values()) / arguments.seconds, note=str(dict(total))),
        time_of("recall, an answer", recalls, RECALL_P95_MS),
        time_of("recall, with what it waited", whole, None, note),
        *(Figure(what, count, "", float(count)) for what, count in (("lost", lost), ("doubled", doubled))),
        Figure("came back", back, "", float(back)),
        Figure("errors", sum(errors.values()), "", float(sum(errors.values())), note=str(dict(errors))[:200]),
        Figure("429", statuses["429"], "", float(statuses["429"]), note=str(dict(statuses))),
    ]
    show("A team at work", [row.row() for row in rows])
    facts = {"clients": arguments.clients, "principals": arguments.principals, "seconds": arguments.seconds}
    kept = {"statuses": dict(statuses), "errors": dict(errors), "figures": [row.row() for row in rows]}
    keep("team_load", {**facts, **kept}, arguments.out)
    if lost or doubled or back or errors:
        raise SystemExit("Something was lost, doubled, came back or was refused: see above.")


def time_of(what: str, seconds: list[float], target: float | None, note: str = "") -> Figure:
    """Milliseconds of something that was done several times."""
    p95 = quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
    return Figure(what, len(seconds), "ms", 1000 * median(seconds), 1000 * p95, target=target, note=note)


def made_keys(arguments: argparse.Namespace) -> list[str]:
    """A key of each principal."""
    with Team(arguments.home, settings={**settings_of(arguments), "embedder": "none"}, env={}) as team:
        names = [f"agent-{number}" for number in range(arguments.principals)]
        for name in names:
            team.create_principal(team.operator(), name)
        return [team.create_key(team.operator(), name).secret for name in names]


async def until_ready(url: str, patience_seconds: float = 120.0) -> None:
    """Return when the server answers, its model loaded."""
    deadline = time.monotonic() + patience_seconds
    async with httpx.AsyncClient(base_url=url, timeout=5) as http:
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                answer = await http.get("/readyz")
                if answer.status_code == 200 and answer.json()["model"] != "loading":
                    return
            await asyncio.sleep(0.2)
    raise SystemExit(f"{url} does not answer.")


async def under_load(arguments: argparse.Namespace, url: str, keys: list[str], ledgers: list[Ledger]) -> None:
    """Have all clients work for as long as they are to, and kill a worker and the server meanwhile."""
    running = {role: started(arguments, role) for role in ("server", "worker")}
    processes = {role: made.__enter__() for role, made in running.items()}
    try:
        await until_ready(url)
        ends = time.monotonic() + arguments.seconds
        clients = [
            asyncio.create_task(client(url, keys[number % len(keys)], number, ends, arguments, ledger))
            for number, ledger in enumerate(ledgers)
        ]
        for role in ("worker", "server"):
            await asyncio.sleep(arguments.seconds / 3)
            processes[role].send_signal(signal.SIGKILL)
            processes[role].wait()
            running[role] = started(arguments, role)
            processes[role] = running[role].__enter__()
        await asyncio.gather(*clients)
    finally:
        for made in running.values():
            made.__exit__(None, None, None)


async def client(url: str, key: str, number: int, ends: float, arguments: argparse.Namespace, ledger: Ledger) -> None:
    """Ask now and then, until it is over; whoever is turned away comes back, as the client by itself does."""
    chance = random.Random(arguments.seed * 1000 + number)
    harken = AsyncHarkenClient(url, key, attempts=40, timeout_seconds=60, transport=Counting(ledger))
    async with harken:
        while (pause := chance.expovariate(1 / arguments.pause)) + time.monotonic() < ends:
            await asyncio.sleep(pause)
            verb = chance.choices(_VERBS, _WEIGHTS)[0]
            ledger.asked[verb] += 1
            try:
                await asked(harken, verb, number, chance, ledger)
            except EndpointError as error:
                ledger.errors[f"{verb}: {error}"] += 1


async def asked(harken: AsyncHarkenClient, verb: str, number: int, chance: random.Random, ledger: Ledger) -> None:
    """Make one call, and note what was answered."""
    words = " ".join(chance.sample(_WORDS, 6))
    if verb == "recall":
        began = time.perf_counter()
        await harken.recall(f"What about the {words}?", conversation=f"client-{number}")
        ledger.seconds["recall, whole"].append(time.perf_counter() - began)
    elif verb == "record":
        text = f"Client {number}, line {len(ledger.said)}: {words} {chance.random()}"
        said = await harken.record(f"client-{number}", chance.choice(("user", "assistant")), text)
        ledger.said[said["id"]] = text
        ledger.talks[said["conversation_id"]] = ""
    elif verb == "remember":
        content = f"Of {words}, {chance.random()} is what client {number} keeps."
        saved = await harken.remember(content)
        # Where it stands in place of others, or is one of them, they are no longer looked for.
        ledger.saved[saved["id"]] = "" if saved["outcome"] != "added" else content
        for each in saved["superseded"]:
            ledger.saved.pop(each, None)
    else:
        await forgotten(harken, chance, ledger)


async def forgotten(harken: AsyncHarkenClient, chance: random.Random, ledger: Ledger) -> None:
    """Forget one thing that was said or saved."""
    kind, known = chance.choice((("message", ledger.said), ("memory", ledger.saved)))
    left = [uid for uid in known if uid not in ledger.gone]
    if not left:
        return
    uid = chance.choice(left)
    try:
        await harken.forget(ids=[uid], kind=kind, confirm=True)
    except ApiError as error:
        # Done by an attempt whose answer was lost with the server.
        if error.status != httpx.codes.NOT_FOUND:
            raise
    ledger.gone.add(uid)


async def looked_for(url: str, keys: list[str], ledgers: list[Ledger]) -> tuple[int, int, int]:
    """How much is lost, is there twice, and has come back after it was forgotten."""
    lost = doubled = back = 0
    for number, ledger in enumerate(ledgers):
        async with AsyncHarkenClient(url, keys[number % len(keys)], attempts=40, timeout_seconds=60) as harken:
            found: Counter[str] = Counter()
            ids: set[str] = set()
            for talk in ledger.talks:
                with suppress(ApiError):
                    async for page in harken.pages("read_conversation", id=talk, limit=200):
                        found.update(message["text"] for message in page["messages"])
                        ids.update(message["id"] for message in page["messages"])
            async for page in harken.pages("memories", limit=100):
                ids.update(memory["id"] for memory in page["memories"])
                found.update(memory["content"] for memory in page["memories"])
        # Two clients of one principal may have said the same of memories: theirs are then one.
        expected = {uid for uid in (*ledger.said, *ledger.saved) if uid not in ledger.gone}
        lost += len([uid for uid in expected & ledger.said.keys() if uid not in ids])
        lost += len([uid for uid in expected & ledger.saved.keys() if ledger.saved[uid] and uid not in ids])
        doubled += sum(found[text] > 1 for text in ledger.said.values())
        doubled += sum(found[text] > 1 for text in ledger.saved.values() if text)
        back += len(ledger.gone & ids)
    return lost, doubled, back


if __name__ == "__main__":
    main()
