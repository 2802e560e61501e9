"""How fast Harken records, imports, embeds, searches and starts, through its own code paths.

    python benchmarks/speed.py [--sizes 10000,100000,1000000] [--quick] [--store URL] [--out FILE] [--folder DIR]

With --store the same is measured on a server's database that `harken migrate` has made; each size is a tenant of its
own, named anew in every run. Conversations are made up and seeded. Up to the real model for every query and for the
embedding rate, everything is the product; only the vectors of the big stores are written straight into the rows, since
embedding a million texts takes hours. The machine may be busy: `cpu` beside each median is what an idle one would about
take, ratios are measured within the run, and the load is stated. Prints one table and writes JSON.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import speed_context
import speed_record
import speed_search
from measuring import Figure, harken_command, run_process, wait_share
from report import keep, show
from synthetic import Talks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000", help="messages in the stores, comma separated")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and only the smallest size")
    parser.add_argument("--out", type=Path, help="where the JSON goes; default benchmarks/results/speed.json")
    parser.add_argument("--folder", type=Path, help="where stores are made; default the system's temporary folder")
    parser.add_argument("--store", help="URL of a server's database; default an embedded store for each size")
    arguments = parser.parse_args()
    if arguments.store:
        os.environ["HARKEN_STORE"] = arguments.store
    sizes = sorted(int(size) for size in arguments.sizes.split(","))[: 1 if arguments.quick else None]
    begin, before = time.perf_counter(), _load()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for figure in measured(Path(folder), sizes, arguments.quick):
            figures.append(figure)
            print(f"  {figure.what} {figure.size or ''}: {figure.p50:,.4g} {figure.unit} {figure.verdict}", flush=True)
    show("Speed", [figure.row() for figure in figures])
    loads = {"before": before, "after": _load(), "seconds": round(time.perf_counter() - begin)}
    print(f"\nload: {loads}; python {platform.python_version()}, {os.cpu_count()} cores")
    result = {"load": loads, "python": platform.python_version(), "cores": os.cpu_count()}
    keep("speed", {**result, "figures": [figure.row() for figure in figures]}, arguments.out)


def measured(folder: Path, sizes: list[int], quick: bool) -> Iterator[Figure]:
    """Every figure, as it comes."""
    count = 60 if quick else 300
    if "HARKEN_STORE" not in os.environ:
        yield from speed_record.embed_all(folder, 2 if quick else 5, 200 if quick else 400)
    _be_tenant(0)
    empty = folder / "empty" / "home"
    empty.parent.mkdir()
    yield from speed_record.record_one(empty, 0, count)
    yield from starts(empty, 0, 3 if quick else 7)
    yield from speed_record.record_together(empty.parent, 160 if quick else 1_600)
    _be_tenant(1)
    (folder / "chat").mkdir()
    queries = Talks(32).queries(Talks(31).texts(speed_context.SEGMENT), 50 if quick else 200)
    yield from speed_context.in_a_segment(folder / "chat" / "home", queries)
    for size in sizes:
        _be_tenant(size)
        place = folder / str(size)
        place.mkdir()
        yield from speed_record.import_file(place / "home", size)
        (place / "real").mkdir()
        yield from speed_record.import_file(place / "real" / "home", min(size, 20_000), is_real=True)
        yield from speed_record.record_one(place / "home", size, count)
        (place / "beside").mkdir()
        yield from speed_record.beside_import(place / "beside" / "home", min(size, 20_000))
        talks = Talks(speed_record.SEED)
        said = [text for talk in talks.talks(3_000) for text in talk.texts]
        queries = talks.queries(said, 50 if quick else 200)
        yield from speed_search.measure(place / "home", size, queries, 1 if quick else 3)
        yield from starts(place / "home", size, 3 if quick else 5)
        shutil.rmtree(place)


def _be_tenant(size: int) -> None:
    """Each size has a store of its own: a home, or on a server a tenant."""
    if "HARKEN_STORE" in os.environ:
        os.environ["HARKEN_TENANT"] = f"bench-{os.getpid()}-{size}"


def starts(home: Path, size: int, rounds: int) -> Iterator[Figure]:
    """Cold processes: how long they take and how much memory."""
    commands = {"harken search, cold process": harken_command(home, "search", "what about the garden", "--json")}
    if size == 0:
        commands = {
            "bare python, cold process": [sys.executable, "-c", "pass"],
            "harken --version, cold process": harken_command(home, "--version"),
        }
    for label, command in commands.items():
        ran = [run_process(command) for _ in range(rounds + 1)][1:]
        p50, p95 = np.percentile([one.wall * 1000 for one in ran], (50, 95))
        cpu = float(np.median([one.cpu * 1000 for one in ran]))
        peak = f"peak memory {max(one.peak_mb for one in ran):,.0f} MB"
        yield Figure(label, size or None, "ms", float(p50), float(p95), cpu, note=peak)


def _load() -> dict[str, float]:
    return {"average": round(os.getloadavg()[0], 2), "wall_over_cpu": round(wait_share(), 2)}


if __name__ == "__main__":
    main()
