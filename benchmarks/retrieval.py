"""How often the product's own search finds the turns that answer LoCoMo's questions.

    python benchmarks/retrieval.py [PATH] [--rerank] [--ablations] [--conversations conv-26,conv-41]

Conversations that were tuned on are reported apart from those that are quoted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import locomo
from harken.bench.measures import reciprocal_rank
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.record.ids import conversation_uid

DEPTH = 100
ANSWERABLE = (1, 2, 3, 4)
ABLATIONS: dict[str, dict[str, Any]] = {
    "keyword, own words only": {"mode": "keyword", "search.context_window": False},
    "keyword": {"mode": "keyword"},
    "vector": {"mode": "semantic", "search.relevance_threshold": -1.0},
    "rrf": {"search.fusion": "rrf"},
    "rrf, no author cue": {"search.fusion": "rrf", "search.author_lift": 0.0},
    "convex, own words only": {"search.context_window": False},
    "convex, no author cue": {"search.author_lift": 0.0},
    "convex, no threshold": {"search.relevance_threshold": -1.0},
}


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions; recall is the share of a question's evidence turns that was found."""

    questions: int
    recall_5: float
    recall_10: float
    recall_20: float
    hit_5: float
    mrr: float
    session_recall_5: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--rerank", action="store_true")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--conversations", help="ids, comma separated; default all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, for tuning")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    data = locomo.load(arguments.path)
    if arguments.conversations:
        data = [sample for sample in data if sample["sample_id"] in arguments.conversations.split(",")]
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    with tempfile.TemporaryDirectory() as folder:
        report = run(data, Path(folder), settings, arguments.rerank, arguments.ablations)
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def run(
    data: list[dict[str, Any]], folder: Path, settings: dict[str, Any], with_rerank: bool, ablations: bool
) -> dict[str, Any]:
    locomo.write_jsonl(data, folder)
    home = folder / "home"
    with Harken(home, settings=settings) as harken:
        harken.import_transcripts("jsonl", [folder])
        harken.embed()
        space = harken.maintenance.status().space
    asked = locomo.questions(data)
    ways: dict[str, dict[str, Any]] = {"convex (default)": {}}
    if with_rerank:
        ways["convex, reranked"] = {"rerank": True}
    if ablations:
        ways.update(ABLATIONS)
    report: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "space": space,
        "tuned_on": locomo.TUNED,
        "quoted": locomo.QUOTED,
        "settings": settings,
        "ways": {},
    }
    for name, way in ways.items():
        options = {key: value for key, value in way.items() if "." in key}
        with Harken(home, settings={**settings, **options}) as harken:
            ranked = {q: _search(harken, q, way.get("mode", "hybrid"), way.get("rerank", False)) for q in asked}
        report["ways"][name] = _print_way(name, asked, ranked)
    return report


def _search(harken: Harken, question: locomo.Question, mode: str, rerank: bool) -> list[str]:
    scope = SearchScope(conversation=conversation_uid("jsonl", question.conversation))
    result = harken.search(question.text, scope=scope, limit=DEPTH, mode=mode, rerank=rerank)
    return [_turn(harken, hit.entry.ref_uid) for hit in result.hits]


_TURNS: dict[str, str] = {}


def _turn(harken: Harken, uid: str) -> str:
    if uid not in _TURNS:
        message = harken.show(uid, 0).message
        _TURNS[uid] = message.external_id if message else ""
    return _TURNS[uid]


def _print_way(name: str, asked: Sequence[locomo.Question], ranked: dict[locomo.Question, list[str]]) -> dict[str, Any]:
    groups: dict[str, Callable[[locomo.Question], bool]] = {
        "all": lambda q: q.category in ANSWERABLE,
        "tuned": lambda q: q.category in ANSWERABLE and q.conversation in locomo.TUNED,
        "quoted": lambda q: q.category in ANSWERABLE and q.conversation in locomo.QUOTED,
        "adversarial": lambda q: q.category == 5,
    }
    result = {}
    print(f"\n{name}")
    print(f"  {'':<12}{'questions':>10}{'r@5':>8}{'r@10':>8}{'r@20':>8}{'hit@5':>8}{'MRR':>8}{'sess@5':>8}")
    for group, belongs in groups.items():
        chosen = [question for question in asked if belongs(question)]
        if chosen:
            figures = _figures(chosen, ranked)
            result[group] = asdict(figures)
            numbers = "".join(f"{value:>8.3f}" for value in list(asdict(figures).values())[1:])
            print(f"  {group:<12}{figures.questions:>10}{numbers}", flush=True)
    return result


def _figures(asked: Iterable[locomo.Question], ranked: dict[locomo.Question, list[str]]) -> Figures:
    rows = [(question.evidence, ranked[question]) for question in asked]

    def recall(depth: int) -> float:
        return mean(len(evidence & set(found[:depth])) / len(evidence) for evidence, found in rows)

    def session_recall(evidence: frozenset[str], found: list[str]) -> float:
        wanted = {turn.split(":")[0] for turn in evidence}
        sessions = list(dict.fromkeys(turn.split(":")[0] for turn in found))[:5]
        return len(wanted & set(sessions)) / len(wanted)

    return Figures(
        questions=len(rows),
        recall_5=recall(5),
        recall_10=recall(10),
        recall_20=recall(20),
        hit_5=mean(bool(evidence & set(found[:5])) for evidence, found in rows),
        mrr=mean(reciprocal_rank(found, evidence) for evidence, found in rows),
        session_recall_5=mean(session_recall(evidence, found) for evidence, found in rows),
    )


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
