"""Speed of what stands before a model's call: auto-RAG and the whole context, in one long segment.

    python benchmarks/speed_context.py [--queries 150] [--rounds 5] [--segment 2000]

A chat of 2,000 messages that has never had a `/new`, with made-up vectors near those of real texts, warm; every query
is embedded by the real model. Each round is a store of its own; the medians of the rounds stand last. All figures of
the store, this one too, are taken by `speed.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from sqlalchemy import select

from harken.engine import Harken
from harken.search import candidates
from harken.storage.tables import entries
from harken.storage.vectors import put_vectors
from measuring import Figure, Times, times_of, watched
from report import show
from synthetic import Talks, clustered

SEGMENT = 2_000
AUTO_RAG_P95_MS, CONTEXT_P95_MS = 8.0, 11.0
_CENTERS = 64


def in_a_segment(home: Path, queries: Sequence[str], size: int = SEGMENT) -> Iterator[Figure]:
    """Warm, the query embedded by the real model, in a chat that has never had a `/new`."""
    with Harken(home) as harken:
        _hold(harken, size)
        session = harken.chats.session("long", "library")
        for query in queries[:10]:
            harken.auto_rag(session, query)
            harken.build_context(session, [query])
        works = (partial(harken.auto_rag, session, query) for query in queries)
        yield times_of(works).figure("auto-RAG in a long segment", size, AUTO_RAG_P95_MS)
        works = (partial(harken.build_context, session, [query]) for query in queries)
        yield times_of(works).figure("build_context in a long segment", size, CONTEXT_P95_MS)
        model = harken.spaces.embedder()
        parts = {
            "embed the query": (model, "embed_query"),
            "full text": (harken.store.text, "find"),
            "vectors": (harken.store.nearest, "compare"),
            "facts": (candidates, "entry_facts"),
            "load": (candidates, "load_entries"),
        }
        whole = Times()
        with watched(parts) as found:
            for query in queries:
                whole.take(partial(harken.auto_rag, session, query))
        for label, times in found.items():
            if times.wall:
                share = sum(times.wall) / sum(whole.wall)
                calls = f"{len(times.wall) / len(queries):.1f} times a query"
                yield times.figure(f"  of auto-RAG: {label}", size, note=f"{share:.0%} of the time, {calls}")


def _hold(harken: Harken, size: int) -> None:
    """A chat of so many messages with made-up vectors near those of real texts."""
    texts = Talks(31).texts(size)
    for place, text in enumerate(texts):
        harken.record_message("long", "assistant" if place % 2 else "user", text)
    filled = harken.spaces.filled()
    assert filled is not None
    centers = np.asarray(filled.embedder.embed_passages(texts[:_CENTERS]))
    with harken.store.writing() as tx:
        waiting = (entries.c.tenant == tx.tenant, entries.c.space_id == 0)
        ids = list(tx.connection.scalars(select(entries.c.id).where(*waiting)))
        put_vectors(tx, filled.space, ids, next(clustered(centers, len(ids), len(ids))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--segment", type=int, default=SEGMENT)
    given = parser.parse_args()
    found: dict[str, list[Figure]] = {}
    for place in range(given.rounds):
        queries = Talks(32 + place).queries(Talks(31).texts(given.segment), given.queries)
        with tempfile.TemporaryDirectory() as folder:
            for figure in in_a_segment(Path(folder) / "home", queries, given.segment):
                found.setdefault(figure.what, []).append(figure)
    show("Every round", [figure.row() for figures in found.values() for figure in figures])
    show("Medians", [_middle(figures).row() for figures in found.values()])


def _middle(figures: Sequence[Figure]) -> Figure:
    first = figures[0]
    p50, p95, cpu = (median(getattr(each, name) or 0.0 for each in figures) for name in ("p50", "p95", "cpu"))
    return Figure(first.what, first.size, first.unit, p50, p95, cpu, first.target)


if __name__ == "__main__":
    main()
