"""Harken beside other memories: the same turns, the same machine, one run.

    python benchmarks/peers.py [PATH] [--only harken,mem0] [--size 10000] [--sample 500] [--questions N] [--limit 120]

Each peer has an environment of its own in `.peers/`, of exact versions (`benchmarks/peer_adapters/requirements/`), made
when it is first needed, and an adapter that speaks JSON lines; no adapter reaches the network. Measured are, in new
processes: embedding and storing `--sample` turns; storing `--size` turns by words alone and with vectors given; the
first answer, then queries with the peer's own embedding among as many; and what LoCoMo's questions of categories 1 to 4
find, each in its conversation, by single turns, without a language model. Whatever stores or asks stops at `--limit`
seconds, and tells by the rate or the questions until then. A table and a plot stand beside the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import locomo
from harken.bench.measures import reciprocal_rank
from measuring import wait_share
from peer_adapters.protocol import EVERYTHING
from peers_environments import Environments, Peer, PeerError
from peers_report import BUSY, NOTES, write_report
from report import DATE, RESULTS, keep, show

BEST = 10
QUERIES = 100
_BATCH = 2_500
_TALK = 500

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Way:
    """A peer in one way of using it; one line of the table, or two where it can rerank.

    Attributes:
        model: what it embeds with: `own`, or in place of one that is not at hand `minilm`; `bge-small` is Harken's.
        alike: the same weights without padding every text to 256 tokens, for asking all questions in time.
        stores: what it can store besides: words alone (`none`), vectors that are given (`given`).
    """

    name: str
    peer: str
    model: str
    shown_model: str
    alike: str | None = None
    stores: tuple[str, ...] = ("given",)
    reranks: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_same_model(self) -> bool:
        """Whether this is of the comparison by Harken's model, for which only quality is asked."""
        return self.model in ("bge-small", "convex")


_MINILM, _BGE = "MiniLM-L6", "bge-small"
WAYS = (
    Way("Harken", "harken", "own", _BGE, stores=("none", "given"), reranks=True, notes=("fitted", "words")),
    Way("agentrecall, words", "agentrecall-words", "none", "–", stores=("none",), notes=("files",)),
    Way("agentrecall, hybrid", "agentrecall", "minilm", _MINILM, notes=("potion", "files")),
    Way("engram", "engram", "own", _MINILM, reranks=True, notes=("engram", "no words")),
    Way("Chroma", "chroma", "own", _MINILM, alike="minilm", notes=("pads", "no words")),
    Way("mem0", "mem0", "minilm", _MINILM, notes=("mem0", "no words")),
    Way("MemPalace", "mempalace", "own", _MINILM, alike="minilm", notes=("pads", "mempalace", "no words")),
    Way("Harken, convex", "harken", "convex", _BGE, notes=("convex",)),
    Way("agentrecall, hybrid", "agentrecall", "bge-small", _BGE),
    Way("engram", "engram", "bge-small", _BGE, notes=("fused",)),
    Way("Chroma", "chroma", "bge-small", _BGE),
    Way("mem0", "mem0", "bge-small", _BGE),
    Way("MemPalace", "mempalace", "bge-small", _BGE),
)


@dataclass(slots=True)
class Measured:
    """A line of the table; None where a peer cannot do it, or was not asked to."""

    system: str
    model: str
    embedded: float | None = None
    stored_words: float | None = None
    stored_given: float | None = None
    p50: float | None = None
    p95: float | None = None
    first: float | None = None
    mb_storing: float | None = None
    mb_searching: float | None = None
    mb_installed: float | None = None
    recall: float | None = None
    mrr: float | None = None
    questions: int = 0
    same_model: bool = False
    version: str = ""
    refused: int = 0
    notes: list[str] = field(default_factory=list)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is stored and asked: turns by talk, questions, and as many turns as the speed is measured on."""

    talks: list[list[Row]]
    asked: list[locomo.Question]
    many: list[Row]
    sample: list[Row]

    @classmethod
    def read(cls, path: Path, arguments: argparse.Namespace) -> Corpus:
        """LoCoMo's turns and questions; for speed its turns again and again, each with its number before it."""
        data = locomo.load(path)
        talks = [
            [
                {
                    "id": turn["dia_id"],
                    "group": sample["sample_id"],
                    "talk": sample["sample_id"],
                    "author": turn["speaker"],
                    "time": moment.isoformat(),
                    "text": locomo.said(turn),
                }
                for turn, moment in locomo.turns_of(sample)
            ]
            for sample in data
        ]
        asked = [question for question in locomo.questions(data) if question.category != 5]
        # In no order of theirs, so that those before the limit, or the first N, stand for all.
        random.Random(0).shuffle(asked)
        turns = [row for talk in talks for row in talk]
        many = [
            {
                **turns[place % len(turns)],
                "id": str(place),
                "group": EVERYTHING,
                "talk": f"talk-{place // _TALK}",
                "text": f"({place}) {turns[place % len(turns)]['text']}",
            }
            for place in range(arguments.size)
        ]
        sample = [{**row, "group": EVERYTHING, "talk": "sample"} for row in many[: arguments.sample]]
        return cls(talks, asked[: arguments.questions], many, sample)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--only", help="peers, comma separated; default all")
    parser.add_argument("--size", type=int, default=10_000, help="turns stored for the speed of storing and asking")
    parser.add_argument("--sample", type=int, default=500, help="turns that are embedded for the speed of embedding")
    parser.add_argument("--questions", type=int, help="how many; default all")
    parser.add_argument("--starts", type=int, default=3, help="processes whose first answer is timed")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for any one piece of storing or asking")
    parser.add_argument("--here", action="store_true", help="no environments: what is installed beside this Python")
    parser.add_argument("--folder", type=Path, help="where stores are made; default the system's temporary folder")
    parser.add_argument("--out", type=Path, help=f"where the JSON goes; default benchmarks/results/peers-{DATE}.json")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else sorted({way.peer.split("-")[0] for way in WAYS})
    corpus = Corpus.read(arguments.path, arguments)
    before = quiet = wait_share()
    environments = Environments(here=arguments.here)
    lines: list[Measured] = []
    try:
        for way in WAYS:
            if way.peer.split("-")[0] in only:
                measured = measure(environments, way, corpus, arguments)
                earlier, quiet = quiet, wait_share()
                if max(earlier, quiet) > BUSY:
                    for line in measured:
                        line.notes.append("busy")
                lines += measured
                print(f"  {json.dumps({k: v for k, v in asdict(lines[-1]).items() if v})}", flush=True)
    except KeyboardInterrupt:
        if not lines:
            raise
        print("\nStopped; what is measured until now is kept.")
    rows = [asdict(line) for line in lines]
    show("Peers", [{name: _shown(row[name]) for name in rows[0] if name not in ("notes", "error")} for row in rows])
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "wall_over_cpu": {"before": round(before, 2), "after": round(quiet, 2)},
        "size": len(corpus.many),
        "sample": len(corpus.sample),
        "turns": sum(map(len, corpus.talks)),
        "questions": len(corpus.asked),
        "notes": NOTES,
        "rows": rows,
    }
    target = arguments.out or RESULTS / f"peers-{DATE}.json"
    keep("peers", result, target)
    write_report(json.loads(target.read_text(encoding="utf-8")), target)


def measure(environments: Environments, way: Way, corpus: Corpus, arguments: argparse.Namespace) -> list[Measured]:
    """The lines of a way: one, and another for its reranking; what failed says why, and stops no other peer."""
    line = Measured(way.name, way.shown_model, same_model=way.is_same_model, notes=list(way.notes))
    lines = [line]
    if way.reranks:
        lines.append(
            Measured(f"{way.name}, reranked", way.shown_model, same_model=way.is_same_model, notes=["reranks"])
        )
    try:
        line.version, line.mb_installed = environments.facts(way.peer, way.model)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            run = _Run(environments, way, Path(folder), arguments.limit, arguments.starts)
            if not way.is_same_model:
                run.speed(line, corpus)
                run.queries(lines, corpus)
            run.quality(lines, corpus)
            line.refused = run.refused
    except PeerError as error:
        line.error = str(error)
    return lines


@dataclass(slots=True)
class _Run:
    """The measurements of one way, each in a folder and a process of its own."""

    environments: Environments
    way: Way
    folder: Path
    limit: float
    starts: int
    refused: int = 0

    def _open(self, name: str, model: str) -> Peer:
        (self.folder / name).mkdir(exist_ok=True)
        return self.environments.start(self.way.peer, self.folder / name, model)

    def speed(self, line: Measured, corpus: Corpus) -> None:
        """Rates of storing, with its model and without."""
        if self.way.model != "none":
            with self._open("sample", self.way.model) as peer:
                # The model is loaded by a first turn, which is not counted.
                peer.store([{**corpus.sample[0], "id": "first", "text": "good morning"}])
                line.embedded = self._rate(peer, corpus.sample)
                line.mb_storing = peer.peak_mb
                self.refused += peer.refused
        for model in self.way.stores:
            with self._open(f"many-{model}", model) as peer:
                rate = self._rate(peer, corpus.many)
                setattr(line, "stored_words" if model == "none" else "stored_given", rate)
                line.mb_storing = line.mb_storing or peer.peak_mb
                self.refused += peer.refused

    def _rate(self, peer: Peer, rows: Sequence[Row]) -> float:
        seconds, stored = 0.0, 0
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            seconds += peer.store(part)
            stored += len(part)
            if seconds > self.limit:
                break
        return stored / seconds

    def queries(self, lines: Sequence[Measured], corpus: Corpus) -> None:
        """The first answers of new processes, then many of one, among all that was stored last."""
        line, asked = lines[0], [question.text for question in corpus.asked[: QUERIES + 1]]
        store = f"many-{self.way.stores[-1]}"
        firsts = []
        for _ in range(self.starts):
            with self._open(store, self.way.model) as peer:
                peer.search(asked[0], EVERYTHING)
                firsts.append(peer.age())
        line.first = float(np.median(firsts))
        for each, rerank in zip(lines, (False, True), strict=False):
            with self._open(store, self.way.model) as peer:
                peer.search(asked[0], EVERYTHING, rerank)
                times = [seconds for _, seconds in self._ask(peer, asked[1:] or asked, [EVERYTHING], rerank)]
                each.p50, each.p95 = (float(value) * 1000 for value in np.percentile(times, (50, 95)))
                each.mb_searching = peer.peak_mb
                self.refused += peer.refused

    def quality(self, lines: Sequence[Measured], corpus: Corpus) -> None:
        """Recall and MRR of every question in its own conversation."""
        with self._open("quality", self.way.alike or self.way.model) as peer:
            for talk in corpus.talks:
                peer.store(talk)
            for line, rerank in zip(lines, (False, True), strict=False):
                asked = corpus.asked
                found = list(self._ask(peer, [q.text for q in asked], [q.conversation for q in asked], rerank))
                answered = [(question, ids) for question, (ids, _) in zip(asked, found, strict=False)]
                line.recall = mean(len(set(ids) & q.evidence) / len(q.evidence) for q, ids in answered)
                line.mrr = mean(reciprocal_rank(ids, q.evidence) for q, ids in answered)
                line.questions = len(answered)
                if len(answered) < len(asked):
                    line.notes.append("some")
            self.refused += peer.refused

    def _ask(
        self, peer: Peer, asked: Sequence[str], groups: Sequence[str], rerank: bool
    ) -> Iterator[tuple[list[str], float]]:
        spent = 0.0
        for place, query in enumerate(asked):
            ids, seconds = peer.search(query, groups[place % len(groups)], rerank)
            yield ids[:BEST], seconds
            spent += seconds
            if spent > self.limit:
                return


def _shown(value: Any) -> Any:
    return f"{value:,.3f}" if isinstance(value, float) else "–" if value is None else value


if __name__ == "__main__":
    main()
