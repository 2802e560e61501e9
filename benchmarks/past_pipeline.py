"""What summaries and the store take from the embedder: the whole background work beside the bare model.

    python benchmarks/past_pipeline.py [--exchanges 10000] [--slice 300] [--rounds 4] [--home PATH]

A store of so many exchanges gets new ones, slice by slice; its workers summarize and embed them in their threads, no
language model being there. Before and after, the same texts go to the same embedder in the same batches, and nothing
else (before: those of the slice before), so that both sides meet the same neighbours on the machine. The exchanges
that are there at the beginning are summarized as well, but get made-up vectors.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from harken.engine import Harken
from harken.jobs.job import WorkerState
from report import keep, show
from speed_search import fill_vectors
from synthetic import Talk, Talks, write_jsonl

RATIO, PEAK_MB = 0.9, 600
_SHORTEST, _LONGEST = 10, 90
_PATIENCE_SECONDS = 0.02


class Watched:
    """An embedder that remembers what it was asked."""

    def __init__(self, embedder: Any) -> None:
        self.embedder = embedder
        self.batches: list[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    def embed_passages(self, texts: Sequence[str]) -> Any:
        """As the embedder does."""
        self.batches.append(list(texts))
        return self.embedder.embed_passages(texts)


def some_talks(seed: int, exchanges: int) -> list[Talk]:
    """Conversations of five to forty-five exchanges."""
    talks, chance, found = Talks(seed), np.random.default_rng(seed), []
    left = 2 * exchanges
    while left > 0:
        found.append(talks.talk(min(int(chance.integers(_SHORTEST, _LONGEST + 1)), left)))
        left -= len(found[-1].texts)
    return found


def remember(home: Path, exchanges: int) -> None:
    """A store of that many exchanges, summarized, with vectors that are made up."""
    home.mkdir(parents=True)
    file = home.parent / "talks.jsonl"
    write_jsonl(file, iter(some_talks(1, exchanges)))
    with Harken(home) as harken:
        harken.import_transcripts("jsonl", [file])
        begin = time.perf_counter()
        made = harken.background.summarize()
        taken = time.perf_counter() - begin
        print(f"  {made['exchange']:,} exchanges summarized alone: {1000 * taken / made['exchange']:.2f} ms each")
        fill_vectors(harken)


def bare(watched: Watched) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that each text of the last slice takes the bare embedder."""
    begin, cpu = time.perf_counter(), time.process_time()
    for batch in watched.batches:
        watched.embedder.embed_passages(batch)
    texts = max(1, sum(map(len, watched.batches)))
    return (time.perf_counter() - begin) / texts, (time.process_time() - cpu) / texts


def one_slice(harken: Harken, watched: Watched, file: Path) -> dict[str, float]:
    """What new exchanges take in the background, beside what their texts take the bare embedder."""
    harken.import_transcripts("jsonl", [file])
    before, watched.batches = bare(watched), []
    begin, cpu = time.perf_counter(), time.process_time()
    worker = harken.background.start()
    assert worker is not None
    pipeline = pipeline_cpu = 0.0
    # Counting what waits costs as much as several batches: only once the last worker looks up from its work.
    while not pipeline or any(report.waiting for report in harken.background.status()):
        while worker.state is not WorkerState.IDLE:
            time.sleep(_PATIENCE_SECONDS)
        pipeline, pipeline_cpu = time.perf_counter() - begin, time.process_time() - cpu
    harken.background.stop()
    after = bare(watched)
    texts = sum(map(len, watched.batches))
    alone, alone_cpu = (texts * (first + second) / 2 for first, second in zip(before, after, strict=True))
    return {
        "texts": texts,
        "batches": len(watched.batches),
        "pipeline_per_second": round(texts / pipeline, 1),
        "bare_per_second": round(texts / alone, 1),
        "ratio": round(alone / pipeline, 3),
        "ratio_of_cpu_seconds": round(alone_cpu / pipeline_cpu, 3),
    }


def run(home: Path, size: int, rounds: int) -> dict[str, Any]:
    """Slices in turn."""
    with Harken(home) as harken, tempfile.TemporaryDirectory() as folder:
        filled = harken.spaces.filled()
        assert filled is not None
        watched = Watched(filled.embedder)
        harken.spaces._opened = (os.getpid(), watched)
        rows = []
        # Other words each time, whoever measured on this home before.
        seed = int(time.time())
        for number in range(rounds + 1):
            file = Path(folder) / f"slice-{number}.jsonl"
            write_jsonl(file, islice(some_talks(seed + number, size if number else 20), None))
            row = one_slice(harken, watched, file)
            # The first one warms up.
            if number:
                rows.append(row)
        counts = harken.maintenance.status().counts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
    ratio = float(np.median([row["ratio"] for row in rows]))
    cpu = float(np.median([row["ratio_of_cpu_seconds"] for row in rows]))
    return {
        "exchanges": counts.exchanges,
        "entries": counts.entries,
        "ratio": round(ratio, 3),
        "ratio_of_cpu_seconds": round(cpu, 3),
        "peak_mb": round(peak),
        "verdict": "met" if ratio >= RATIO and peak < PEAK_MB else "missed",
        "slices": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=10_000)
    parser.add_argument("--slice", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--home", type=Path, help="keep the store here, and use the one that is there")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-keep", action="store_true", help="print only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = arguments.home or Path(folder) / "home"
        if not home.exists():
            remember(home, arguments.exchanges)
        result = run(home, arguments.slice, arguments.rounds)
    show("Slices in the background, and by the bare embedder", result["slices"])
    show("The pipeline", [{name: value for name, value in result.items() if name != "slices"}])
    if not arguments.no_keep:
        keep("past-pipeline", result, arguments.out)


if __name__ == "__main__":
    main()
