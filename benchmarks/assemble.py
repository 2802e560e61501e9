"""How long a context takes: five sources over 20,000 entries, and a premortem; and whether it counts its tokens well.

    python benchmarks/assemble.py [--entries 20000] [--rounds 60] [--home FOLDER] [--out FILE]

Records are real where that costs little (the corpus of experiences, the standard library's code) and made up
elsewhere; vectors are made up around those of real texts; queries are embedded by the real model. Times are of a store
that is open and warm. `--tokens` compares the estimates of every context with o200k, whose vocabulary it fetches.
"""

from __future__ import annotations

import argparse
import gc
import resource
import shutil
import sysconfig
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from experiences import corpus
from harken.engine import Harken
from harken.model.arguments import CATEGORIES
from harken.model.conversations import ProjectIdentity, SavedRecord
from harken.model.experiences import (
    DOMAINS,
    STRATEGIES,
    Experience,
    ExperienceStatus,
    Lesson,
    Outcome,
    RootCause,
    Value,
    kept_experience,
    kept_value,
)
from harken.model.workspace import Commit, FileChange
from harken.sources.experiences.experiences import tier_of
from harken.sources.memories.memory import Memory, kept_memory
from harken.sources.workspace.commits import CommitSource
from harken.storage.projects import ensure_project
from harken.storage.tables import entries
from harken.storage.workspace.commits import add_commits
from measuring import Figure, Times, times_of, watched
from report import keep, show
from speed_search import fill_vectors
from synthetic import Talks

FIVE = ("memories", "code", "experiences", "values", "commits")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_CONTEXT_MS, _PREMORTEM_MS, _MEMORY_MB = 100.0, 150.0, 50.0
_BULK = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--home", type=Path, help="keep the store here, and use the one that is there")
    parser.add_argument("--tokens", action="store_true", help="compare estimates with o200k")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-keep", action="store_true", help="print only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = arguments.home or Path(folder)
        is_new = not (home / "harken.db").exists()
        with Harken(home) as harken:
            if is_new:
                fill(harken, arguments.entries)
            figures = list(measure(harken, arguments.rounds))
            ratios = list(token_ratios(harken, Path(folder))) if arguments.tokens else []
    rows = [figure.row() for figure in figures]
    show("Contexts", rows)
    if ratios:
        show("Tokens, estimate to o200k", ratios)
    if not arguments.no_keep:
        keep("assemble", {"contexts": rows, "tokens": ratios}, arguments.out)


def fill(harken: Harken, size: int) -> None:
    """A fifth memories, a quarter experiences, some values, the rest code and commits in halves; all with vectors."""
    texts = Talks(5).texts(size)
    project = ProjectIdentity("git:example.org/o/shop", "shop")
    share = size // 5
    _keep(harken, [_memory(n, texts[n], project) for n in range(share)])
    told = [_experience(n, project) for n in range(size // 13)]
    _keep(harken, [kept_experience(one, project) for one in told])
    _keep(harken, [_value(n, texts[share + n], told) for n in range(size // 50)])
    _index_code(harken, size * 3 // 10)
    with harken.store.reading() as tx:
        known = tx.connection.execute(select(func.count()).select_from(entries)).scalar_one()
    commits = [_commit(n, texts[-n - 1]) for n in range(max(0, size - known))]
    with harken.store.writing() as tx:
        row = ensure_project(tx, project)
    for start in range(0, len(commits), _BULK):
        with harken.store.writing() as tx:
            batch = commits[start : start + _BULK]
            add_commits(tx, row, project.key, [(each, CommitSource().entries(each)) for each in batch])
    fill_vectors(harken)


def measure(harken: Harken, rounds: int) -> Iterator[Figure]:
    """Contexts of five sources, premortems, and what is done inside of them."""
    with harken.store.reading() as tx:
        size = tx.connection.execute(select(func.count()).select_from(entries)).scalar_one()
        texts = list(tx.connection.scalars(select(entries.c.text).where(entries.c.source == "memory").limit(2000)))
    queries = Talks(9).queries(texts, rounds)
    assembler = harken.assembler
    contexts: list[Callable[[], Any]] = [partial(assembler.assemble_context, query, FIVE) for query in queries]
    pairs = [(DOMAINS[n % len(DOMAINS)], STRATEGIES[n % 7]) for n in range(rounds)]
    warnings = [partial(assembler.get_premortem_context, *pair) for pair in pairs]
    for work in (*contexts[:8], *warnings[:8]):
        work()
    yield times_of(contexts).figure("assemble_context, five sources", size, _CONTEXT_MS)
    yield times_of(warnings).figure("get_premortem_context", size, _PREMORTEM_MS)
    from harken.context import assembler as assembling
    from harken.context import compose
    from harken.context import compose as shares
    from harken.sources.source import SourceSearch

    whole = Times()
    parts: dict[str, tuple[Any, str]] = {
        "search": (type(harken._searcher), "here"),
        "records looked up": (SourceSearch, "_shown"),
        "duplicates": (assembling, "distinct"),
        "shares and caps": (compose, "chosen"),
        "cutting items": (shares, "shortened"),
    }
    with watched(parts) as found:
        for work in contexts:
            whole.take(work)
    for label, times in found.items():
        if not times.wall:
            continue
        share = sum(times.wall) / sum(whole.wall)
        yield times.figure(f"  of a context: {label}", size, note=f"{share:.0%} of the time, {len(times.wall)} calls")
    yield from _memory_taken(size, contexts[:10])


def _memory_taken(size: int, works: Sequence[Callable[[], Any]]) -> Iterator[Figure]:
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    for work in works:
        work()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    yield Figure(
        "memory of a context, at most", size, "MB", peak, None, None, _MEMORY_MB, f"process grew {grown:.0f} MB"
    )


def token_ratios(harken: Harken, folder: Path) -> Iterator[dict[str, Any]]:
    """The estimate of each context, divided by what o200k counts."""
    from tokens import o200k

    encoding = o200k(folder)
    asked = {
        "all five": FIVE,
        "memories": ("memories",),
        "code": ("code",),
        "experiences": ("experiences",),
        "commits": ("commits",),
    }
    for name, types in asked.items():
        contexts = [
            harken.assembler.assemble_context(query, types)
            for query in ("how are rows sorted", "where is the cache cleared", "what did we decide about dates")
        ]
        ratios = [one.token_count / len(encoding.encode_ordinary(one.markdown)) for one in contexts if one.markdown]
        yield {"types": name, "lowest": round(min(ratios), 3), "highest": round(max(ratios), 3)}


def _keep(harken: Harken, records: Sequence[SavedRecord]) -> None:
    for start in range(0, len(records), _BULK):
        batch = records[start : start + _BULK]
        harken.recorder.admit([batch[0].conversation_uid], lambda _tx, _ingest, batch=batch: batch)


def _memory(number: int, text: str, project: ProjectIdentity) -> SavedRecord:
    moment = BEGIN + timedelta(minutes=number)
    category, importance = CATEGORIES[number % len(CATEGORIES)], (number % 11) / 10
    uid = f"memory-{number:06}"
    return kept_memory(Memory(uid, text, category, importance, (f"tag{number % 9}",), moment, moment, project))


def _experience(number: int, project: ProjectIdentity) -> Experience:
    told = corpus()
    one = told[number % len(told)]
    moment = BEGIN + timedelta(minutes=number)
    cause = RootCause(one.category, one.description) if one.category else None
    ended = Experience(
        f"experience-{number:06}", project.key, "agent", "", moment, moment, moment, one.domain, one.strategy,
        f"{one.goal} (ticket {number})", one.hypothesis, one.action, one.prediction,
        outcome=Outcome(ExperienceStatus(one.status), one.result, moment), surprise=one.surprise, root_cause=cause,
        lesson=Lesson(one.what_worked) if one.what_worked else None,
    )  # fmt: skip
    return replace(ended, tier=tier_of(ended))


def _value(number: int, text: str, told: Sequence[Experience]) -> SavedRecord:
    members = told[number % 50 : number % 50 + 8]
    domains = tuple(dict.fromkeys(one.domain for one in members))
    cluster = f"full_{number % 12}"
    uids, strategies = tuple(one.uid for one in members), tuple(dict.fromkeys(one.strategy for one in members))
    value = Value(
        f"value-{number:06}", "", BEGIN, text[:400], "full", cluster, 8, 0.8, 0.5, 0.7, "", uids, domains, strategies
    )
    return kept_value(value, None)


def _commit(number: int, text: str) -> Commit:
    moment = BEGIN + timedelta(minutes=number)
    files = tuple(FileChange(f"src/shop/part{(number * 7 + n) % 400}.py", 12, 3) for n in range(1 + number % 4))
    return Commit(f"{number:040x}", f"Person {number % 9}", f"p{number % 9}@example.org", moment, moment, text, files)


def _index_code(harken: Harken, units: int) -> None:
    """Files of the standard library, one after the other, until there are so many units."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*.py"))
    known = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if known >= units:
                return
            known += harken.code.index(shutil.copy(file, folder)).changes.added


if __name__ == "__main__":
    main()
