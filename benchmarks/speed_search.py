"""Speed of what goes out: hybrid search and its parts, scopes, the index of nearest vectors.

    python benchmarks/speed_search.py [--messages N] [--queries N] [--home DIR]

prints what learned fusion alone costs, in a made-up store, or in a home that holds LoCoMo's conversations
(`train_fusion.py --homes` keeps one), asked LoCoMo's questions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from sqlalchemy import insert, select, update

import locomo
from harken.engine import Harken
from harken.jobs.spaces import OpenSpace
from harken.model.conversations import SearchScope
from harken.search import candidates
from harken.search import session as sessions
from harken.storage.sqlite.vector_index import VectorIndex
from harken.storage.sqlite.vectors import ScopedNearest, vectors_version
from harken.storage.tables import conversations, entries, vectors
from harken.storage.vectors import pack, put_vectors
from measuring import Figure, Times, times_of, watched
from report import show
from synthetic import Talks, clustered, write_jsonl

REBUILD_PER_SECOND = 80_000
_HYBRID_P95_MS = {10_000: 13.0, 100_000: 16.0, 1_000_000: 35.0}
_SERVER_HYBRID_P95_MS = {100_000: 40.0}
# Features included, for 100 candidates.
_ORDER_CPU_MS = 1.5
_STATUS_MS = 15.0
_CENTERS, _CAUGHT_UP = 256, 300
_BULK = 10_000


def fill_vectors(harken: Harken) -> OpenSpace:
    """Give every entry a made-up vector near that of a real text, straight into the rows."""
    filled = harken.spaces.filled()
    assert filled is not None
    centers = np.asarray(filled.embedder.embed_passages(Talks(77).texts(_CENTERS)))
    with harken.store.reading() as tx:
        lacks = entries.c.space_id.is_distinct_from(filled.space.id)
        missing = select(entries.c.id).where(entries.c.tenant == tx.tenant, lacks).order_by(entries.c.id)
        ids = list(tx.connection.scalars(missing))
    chunks = clustered(centers, len(ids), chunk=_BULK)
    for start, matrix in zip(range(0, len(ids), _BULK), chunks, strict=True):
        part = ids[start : start + _BULK]
        with harken.store.writing() as tx:
            row = {"tenant": tx.tenant, "space_id": filled.space.id}
            rows = [{**row, "entry_id": i, "vector": pack(vector)} for i, vector in zip(part, matrix, strict=True)]
            tx.connection.execute(insert(vectors), rows)
            inside = (entries.c.tenant == tx.tenant) & entries.c.id.between(part[0], part[-1])
            tx.connection.execute(update(entries).where(inside).values(space_id=filled.space.id))
    is_merged = False
    while not is_merged:
        # As the worker does once all is embedded.
        with harken.store.writing() as tx:
            is_merged = not tx.text.merge(tx.connection)
    return filled


def index_cache(harken: Harken, filled: OpenSpace, size: int, rounds: int) -> Iterator[Figure]:
    """Rebuilding the derived index from the rows, loading a kept one, catching up with new rows."""
    query = np.asarray(filled.embedder.embed_query("what did we say about the garden"))
    folder = harken.home / "cache"
    rebuilt, loaded, warm = Times(), Times(), Times()
    for _ in range(rounds):
        VectorIndex(folder).discard()
        fresh = VectorIndex(folder)
        rebuilt.take(partial(_nearest, harken, fresh, filled, query))
        fresh.save()
        kept = VectorIndex(folder)
        loaded.take(partial(_nearest, harken, kept, filled, query))
        for _ in range(20):
            warm.take(partial(_nearest, harken, kept, filled, query))
    rate, cpu = (size * 1000 / float(np.median(taken)) for taken in (rebuilt.wall, rebuilt.cpu))
    target = REBUILD_PER_SECOND if size >= 100_000 else None
    yield Figure("index rebuilt from the rows", size, "/s", rate, None, cpu, target, f"{size / rate:.1f} s")
    file = max(path.stat().st_size for path in folder.glob("*.tvim")) / 2**20 if size > 5000 else 0
    yield loaded.figure("index loaded, first search", size, note=f"{file:,.0f} MB")
    yield warm.figure("index asked for 200", size)
    yield _catch_up(harken, filled, query, size, float(np.median(warm.wall)))


def _catch_up(harken: Harken, filled: OpenSpace, query: np.ndarray, size: int, warm_ms: float) -> Figure:
    centers = np.eye(filled.space.dims, dtype=np.float32)[:1]
    times = Times()
    _nearest(harken, harken.store.nearest.index, filled, query)
    for number in range(5):
        texts = Talks(1000 + number).texts(_CAUGHT_UP)
        uids = [harken.record_message(f"caught-up-{number}", "user", text).uid for text in texts]
        with harken.store.writing() as tx:
            ids = list(tx.connection.scalars(select(entries.c.id).where(entries.c.ref_uid.in_(uids))))
            put_vectors(tx, filled.space, ids, next(clustered(centers, len(ids), number)))
        times.take(partial(_nearest, harken, harken.store.nearest.index, filled, query))
    return times.figure(f"index asked after {_CAUGHT_UP} new rows", size, note=f"{warm_ms:.1f} ms without new rows")


def _nearest(harken: Harken, index: VectorIndex, filled: OpenSpace, query: np.ndarray) -> None:
    with harken.store.reading() as tx:
        index.nearest(tx.connection, filled.space, vectors_version(tx), query, 200)


def hybrid(harken: Harken, size: int, queries: Sequence[str]) -> Iterator[Figure]:
    """The whole search with the query embedded by the real model, then the same queries with every part timed."""
    for query in queries[:10]:
        harken.search(query)
    on_server = not isinstance(harken.store.nearest, ScopedNearest)
    target = (_SERVER_HYBRID_P95_MS if on_server else _HYBRID_P95_MS).get(size)
    yield times_of(partial(harken.search, query) for query in queries).figure("hybrid search", size, target)
    for mode in ("keyword", "semantic"):
        times = times_of(partial(harken.search, query, mode=mode) for query in queries)
        yield times.figure(f"{mode} search alone", size)
    model = harken.spaces.embedder()
    yield from order_cost(harken, size, queries)
    parts = {
        "embed the query": (model, "embed_query"),
        "find the answering space": (sessions, "answering_space"),
        "keyword and quoted words": (harken.store.text, "find"),
        "nearest, rescored, and similarity of keyword hits": (harken.store.nearest, "compare"),
        "facts of candidates": (candidates, "entry_facts"),
        "load the hits": (candidates, "load_entries"),
    }
    whole = Times()
    with watched({label: place for label, place in parts.items() if hasattr(*place)}) as found:
        for query in queries:
            whole.take(partial(harken.search, query))
    for label, times in found.items():
        if times.wall:
            share = sum(times.wall) / sum(whole.wall)
            yield times.figure(f"  of it: {label}", size, note=f"{share:.0%} of the time")


def order_cost(harken: Harken, size: int | None, queries: Sequence[str]) -> Iterator[Figure]:
    """Medians of what learned fusion takes of a search, in all and by its parts: the thread's CPU, not what embeds."""
    parts = {
        "learned fusion, CPU": (candidates.Candidates, "learn"),
        "  of it: turns beside, CPU": (candidates, "neighbours"),
        "  before it, while the model works: who has which word, CPU": (harken.store.text, "holders"),
        "  of it: features and scores, CPU": (candidates, "learned_scores"),
    }
    with watched(parts, time.thread_time) as found:
        for query in queries:
            harken.search(query)
    for label, times in found.items():
        if times.cpu:
            cpu = float(np.median(times.cpu))
            target = None if label.startswith(" ") else _ORDER_CPU_MS
            yield Figure(label, size, "ms", cpu, None, cpu, target, f"{len(times.cpu)} searches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Harken(given.home or Path(folder) / "home") as harken:
        if given.home:
            queries = [question.text for question in locomo.questions(locomo.load(locomo.default_path()))]
        else:
            talks = Talks(1)
            write_jsonl(Path(folder) / "talks.jsonl", talks.talks(given.messages))
            harken.import_transcripts("jsonl", [Path(folder) / "talks.jsonl"])
            fill_vectors(harken)
            queries = talks.queries(
                [text for talk in Talks(1).talks(min(200, given.messages)) for text in talk.texts], given.queries
            )
        harken.search(queries[0])
        show("Learned fusion", [figure.row() for figure in order_cost(harken, None, queries[: given.queries])])


def scoped(harken: Harken, size: int, queries: Sequence[str]) -> Iterator[Figure]:
    """Searches that may see only a part."""
    with harken.store.reading() as tx:
        middle = tx.connection.execute(
            select(conversations.c.uid, conversations.c.created_at)
            .where(conversations.c.tenant == tx.tenant)
            .order_by(conversations.c.id)
            .limit(1)
            .offset(3)
        ).one()
    begin = datetime(2024, 6, 1, tzinfo=UTC)
    scopes = {
        "one conversation": SearchScope(conversation=middle.uid),
        "one project of 20": SearchScope(project="project-3"),
        "one month of 24": SearchScope(since=begin, until=begin + timedelta(days=30)),
        "since the last month": SearchScope(since=datetime(2025, 12, 1, tzinfo=UTC)),
        "one role": SearchScope(roles=("user",)),
    }
    for label, scope in scopes.items():
        for query in queries[:5]:
            harken.search(query, scope=scope)
        works = (partial(harken.search, query, scope=scope) for query in queries)
        yield times_of(works).figure(f"hybrid search, {label}", size)


def status(harken: Harken, size: int) -> Iterator[Figure]:
    """All that `harken status` asks: what there is, and what waits."""

    def whole() -> None:
        harken.maintenance.status()
        harken.background.status()

    yield times_of([whole]).figure("status, the first of a process", size)
    yield times_of([whole] * 40).figure("status", size, _STATUS_MS)


def measure(home: Path, size: int, queries: Sequence[str], rounds: int) -> Iterator[Figure]:
    """Everything above on one store, which gets its vectors first."""
    with Harken(home) as harken:
        begin = time.perf_counter()
        filled = fill_vectors(harken)
        print(f"  vectors written straight into the rows: {time.perf_counter() - begin:.0f} s", flush=True)
        if isinstance(harken.store.nearest, ScopedNearest):
            yield from index_cache(harken, filled, size, rounds)
        else:
            begin = time.perf_counter()
            harken.store.nearest.build_index()
            yield Figure("index of vectors made", size, "s", time.perf_counter() - begin)
        yield from hybrid(harken, size, queries)
        yield from scoped(harken, size, queries)
        yield from status(harken, size)


if __name__ == "__main__":
    main()
