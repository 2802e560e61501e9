"""What a user costs, and how many made-up tenants of a power law of sizes do on a Citus cluster, day by day.

    python tools/cluster.py build FOLDER_WITH_ARCHIVES
    python benchmarks/scale.py [--tenants 2000] [--days 3] [--active 0.2] [--minutes 15] [--model]

The cluster is started for it. One tenant of each size is made through the product's own code, and the others are
copies of it inside the database: of each size as many as a power law has, in all as many as were asked for. On each day
some of the tenants are at work: each says a few messages and asks a few questions. Vectors are made by hashing words,
since they weigh the same; what a real model takes of the processor is measured apart. Prints four tables, and writes
JSON; `docs/scale.md` says what follows. After `--minutes` from its start no further tenants begin a day, whose row then
says how many did.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from clustered import Servers, running_servers
from harken.engine import Harken
from harken.storage.tables import metadata
from harken.testing import HashingEmbedder
from measuring import Times
from report import keep, show
from synthetic import Talks, write_jsonl

SLOPE = 0.8
MESSAGES_A_DAY, QUESTIONS_A_DAY = 6, 3
SEED, DIMS, TRIED, OPEN_AT_ONCE = 7, 384, 200, 40
PARTS = {"words": ("entry_words",), "vectors": ("vectors",)}
_WORDS = (
    "INSERT INTO entry_words (tenant, entry_id, words, length) SELECT 'user-' || n, entry_id,"
    " ts_delete(words, 't:' || %(first)s::text) || array_to_tsvector(ARRAY['t:user-' || n]), length"
    " FROM entry_words, generate_series(%(low)s::int, %(high)s::int) n WHERE tenant = %(first)s"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 32, 100, 316, 1_000, 3_162, 10_000])
    parser.add_argument("--active", type=float, default=0.2, help="share of the tenants that work on a day")
    parser.add_argument("--minutes", type=float, default=60, help="when the last tenants begin their day")
    parser.add_argument("--model", action="store_true", help="measure the default embedding model as well")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder, running_servers() as servers:
        home = Path(folder)
        counts = shares(arguments.tenants, arguments.sizes)
        templates = [template(home, servers, size) for size in arguments.sizes]
        costs = [*operations(servers, templates[-1]), *(model_costs(home) if arguments.model else ())]
        filled = fill(servers, arguments.sizes, counts)
        bytes_of = stored(servers)
        days = list(replay(home, servers, counts, arguments.days, arguments.active, until))
    sizes = [
        {"messages": f"{size:,}", "tenants": f"{count:,}"} for size, count in zip(arguments.sizes, counts, strict=True)
    ]
    show("What one operation takes", costs)
    show("Tenants", sizes)
    show(f"Bytes a message, {filled:.0f} s to fill", [bytes_of])
    show("Days", days)
    kept = {"tenants": sum(counts), "operations": costs, "sizes": sizes, "bytes": bytes_of, "days": days}
    keep("scale", kept, arguments.out)


def shares(tenants: int, sizes: Sequence[int]) -> list[int]:
    """How many tenants have each size: a tenth as large is six times as frequent; one of each at least."""
    weights = np.array([float(size) ** -SLOPE for size in sizes])
    return [max(1, round(tenants * weight)) for weight in weights / weights.sum()]


def opened(home: Path, url: str, tenant: str) -> Harken:
    """A tenant's own."""
    settings = {"store": url, "tenant": tenant, "embedding.min_message_tokens": 1}
    return Harken(home / tenant, settings=settings, embedder=HashingEmbedder(DIMS), env={})


def template(home: Path, servers: Servers, size: int) -> Harken:
    """A tenant of so many messages, made by the product's own code."""
    harken = opened(home, servers.cluster, f"template-{size}")
    write_jsonl(home / f"{size}.jsonl", Talks(SEED + size).talks(size))
    harken.import_transcripts("jsonl", [home / f"{size}.jsonl"])
    harken.embed()
    return harken


@dataclass(slots=True)
class Taken:
    """Times of one kind of work, and what client and servers took of the processor meanwhile."""

    servers: Servers
    times: Times = field(default_factory=Times)
    coordinator_seconds: float = 0.0
    worker_seconds: float = 0.0

    def take(self, works: Sequence[Callable[[], Any]]) -> None:
        """Do all of it."""
        coordinator, workers = self.servers.processor_seconds()
        for work in works:
            self.times.take(work)
        now = self.servers.processor_seconds()
        self.coordinator_seconds += now[0] - coordinator
        self.worker_seconds += now[1] - workers

    def row(self, what: str) -> dict[str, Any]:
        """Milliseconds of one."""
        count = max(1, len(self.times.wall))
        p50, p95 = np.percentile(self.times.wall or [0.0], (50, 95))
        cpu = {
            "client": sum(self.times.cpu) / 1000,
            "coordinator": self.coordinator_seconds,
            "workers": self.worker_seconds,
        }
        numbers = {"p50 ms": p50, "p95 ms": p95, **{f"{who} cpu ms": 1000 * each / count for who, each in cpu.items()}}
        return {"what": what, "count": f"{count:,}", **{name: f"{value:.2f}" for name, value in numbers.items()}}


def operations(servers: Servers, harken: Harken) -> Iterator[dict[str, Any]]:
    """Recording, embedding and searching one by one, in the largest tenant."""
    texts = Talks(99).texts(TRIED + 10)
    asked = Talks(98).queries(texts, TRIED + 10)
    say = [partial(harken.record_message, "live", ("user", "assistant")[n % 2], text) for n, text in enumerate(texts)]
    searches = [partial(harken.search, query) for query in asked]
    for what, works in (("record", say), ("search", searches)):
        for work in works[:10]:
            work()
        taken = Taken(servers)
        taken.take(works[10:])
        yield taken.row(what)
    taken = Taken(servers)
    taken.take([harken.embed])
    yield taken.row(f"store {len(texts)} vectors")


def model_costs(home: Path) -> Iterator[dict[str, Any]]:
    """What the default model takes of the processor for a message and for a question."""
    with Harken(home / "model", env={}) as harken:
        model = harken.spaces.embedder()
        texts, asked = Talks(97).texts(128), Talks(96).queries(Talks(97).texts(128), 128)
        model.embed_passages(texts[:8])
        for what, work, count in (
            ("embed a message", lambda: model.embed_passages(texts), len(texts)),
            ("embed a question", lambda: [model.embed_query(query) for query in asked], len(asked)),
        ):
            begin, before = time.perf_counter(), _own_seconds()
            work()
            wall, cpu = 1000 * (time.perf_counter() - begin) / count, 1000 * (_own_seconds() - before) / count
            none = dict.fromkeys(("coordinator cpu ms", "workers cpu ms"), "")
            numbers = {"p50 ms": f"{wall:.2f}", "p95 ms": "", "client cpu ms": f"{cpu:.2f}", **none}
            yield {"what": what, "count": f"{count:,}", **numbers}


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def fill(servers: Servers, sizes: Sequence[int], counts: Sequence[int]) -> float:
    """Make the tenants `user-0`, `user-1` … as copies, the smallest first; the seconds it took."""
    begin, low = time.perf_counter(), 0
    with psycopg.connect(servers.owner, autocommit=True) as connection:
        for size, count in zip(sizes, counts, strict=True):
            asked = {"first": f"template-{size}", "low": low, "high": low + count - 1}
            for table in metadata.tables.values():
                names = ", ".join(f'"{column.name}"' for column in table.columns if column.name != "tenant")
                connection.execute(
                    f"INSERT INTO {table.name} (tenant, {names}) SELECT 'user-' || n, {names} FROM {table.name},"
                    " generate_series(%(low)s::int, %(high)s::int) n WHERE tenant = %(first)s",
                    asked,
                )
            connection.execute(_WORDS, asked)
            low += count
            print(f"  {low:,} tenants after {time.perf_counter() - begin:.0f} s", flush=True)
        connection.execute("VACUUM ANALYZE")
    return time.perf_counter() - begin


def stored(servers: Servers) -> dict[str, str]:
    """Bytes a message takes on the machines with the indexes: in rows, in full text, and as a vector."""
    ((messages,),) = servers.ask("SELECT count(*) FROM messages")
    sizes = dict(
        servers.ask("SELECT logicalrelid::text, citus_total_relation_size(logicalrelid) FROM pg_dist_partition")
    )
    parts = {part: sum(sizes[table] for table in tables) for part, tables in PARTS.items()}
    parts = {"rows": sum(sizes.values()) - sum(parts.values()), **parts}
    told = {part: f"{size / messages:,.0f}" for part, size in parts.items()}
    return {"messages": f"{messages:,}", **told, "in all": f"{sum(sizes.values()) / messages:,.0f}"}


def replay(
    home: Path, servers: Servers, counts: Sequence[int], days: int, share: float, until: float
) -> Iterator[dict[str, Any]]:
    """Days on which some of the tenants work, one after the other, as one busy process has them; none begins later."""
    chance, tenants = np.random.default_rng(SEED), sum(counts)
    texts = Talks(95).texts(500)
    asked = Talks(94).queries(texts, 500)
    for day in range(days):
        active = chance.choice(tenants, max(1, round(share * tenants)), replace=False)
        said, searched, begun = Taken(servers), Taken(servers), Taken(servers)
        most = came = 0
        for start in range(0, len(active), OPEN_AT_ONCE):
            if time.monotonic() > until:
                break
            names = [f"user-{number}" for number in active[start : start + OPEN_AT_ONCE]]
            came += len(names)
            works: list[Harken] = []
            begun.take(
                [lambda name=name, works=works: works.append(opened(home, servers.cluster, name)) for name in names]
            )
            try:
                for harken in works:
                    picked = chance.integers(len(texts), size=MESSAGES_A_DAY + QUESTIONS_A_DAY)
                    talk, questions = picked[:MESSAGES_A_DAY], picked[MESSAGES_A_DAY:]
                    say = partial(harken.record_message, f"day-{day}")
                    said.take([partial(say, ("user", "assistant")[n % 2], texts[each]) for n, each in enumerate(talk)])
                    searched.take([partial(harken.search, asked[each]) for each in questions])
                ((held,),) = servers.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'harken'")
                most = max(most, held)
            finally:
                for harken in works:
                    harken.close()
        for what, taken in (("open a tenant", begun), ("record", said), ("search", searched)):
            yield {"day": day + 1, "tenants": came, **taken.row(what), "connections": most}
        print(f"  day {day + 1}: {came} of {len(active)} tenants", flush=True)


if __name__ == "__main__":
    main()
