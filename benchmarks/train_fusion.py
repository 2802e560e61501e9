"""Fit the weights of learned fusion on LoCoMo's and BEAM's development sets, from features that the product computes.

    python benchmarks/train_fusion.py [--write] [--rerank] [--most N] [--homes DIR]

Prints what is reached by cross-validation: a conversation is never ordered by weights that have seen it; beside it,
what the product's search finds with `search.fusion = convex`. `--write` fits on all of it and keeps the weights in
`src/harken/search/data/fusion.json`. `--rerank` asks the cross-encoder as well, over weights that have not seen the
conversation. Never fit on what others hold aside (ADR 20).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import beam
import locomo
import retrieval
from harken.bench.measures import reciprocal_rank
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.record.ids import conversation_uid
from harken.search import candidates, fusion

# Talk of short turns and talk of long answers: at this mean ln(1 + tokens) both vectors count alike.
MIDDLE, STEEPNESS = 4.2, 3.0
# BEAM has a fifth of LoCoMo's questions.
BEAM_WEIGHT = 3.0
RIDGE, STEPS, RATE = 0.02, 400, 0.05
FOLDS = 5
WEIGHTS = Path(fusion.__file__).parent / "data" / "fusion.json"
ADVERSARIAL = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its candidates.

    Attributes:
        features: standardized, once weighed as short and once as long talk, `(candidates, 2 * features)`.
        found: what each candidate is known by in the data; likewise `convex`, the hits of a search by convex fusion.
        kind: BEAM's type of question, LoCoMo's category.
    """

    data: str
    conversation: str
    text: str
    kind: str
    evidence: frozenset[str]
    features: Floats
    found: tuple[str, ...]
    convex: tuple[str, ...]

    @property
    def answers(self) -> NDArray[np.bool_]:
        """Whether each candidate is evidence."""
        return np.array([each in self.evidence for each in self.found], dtype=np.bool_)

    @property
    def is_fitted(self) -> bool:
        """Whether it says anything about order; adversarial questions have no answer to put first."""
        return self.kind != str(ADVERSARIAL) and bool(self.answers.any()) and not self.answers.all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the weights")
    parser.add_argument("--rerank", action="store_true", help="a further column: with the cross-encoder")
    parser.add_argument("--homes", type=Path, help="keep and take up imported homes in this folder")
    parser.add_argument(
        "--most", type=int, help="so many questions of each set, to try it; fitted on few, nothing is kept"
    )
    parser.add_argument("--locomo", type=Path, default=locomo.default_path(), help="the file of LoCoMo's conversations")
    parser.add_argument("--beam", type=Path, default=beam.default_path(), help="the folder of BEAM's chats")
    arguments = parser.parse_args()
    if arguments.write and arguments.most:
        parser.error("--write fits on every question: leave --most out")
    with tempfile.TemporaryDirectory() as folder:
        homes = arguments.homes or Path(folder)
        cases = collect(homes, arguments.locomo, arguments.beam, arguments.most)
        columns = {"convex": [case.convex for case in cases], "learned": cross_validated(cases)}
        if arguments.rerank:
            columns["with cross-encoder"] = reranked(homes, cases)
    report(cases, columns)
    if arguments.write:
        write(fit([case for case in cases if case.is_fitted]), cases)


def collect(folder: Path, of_locomo: Path, of_beam: Path, most: int | None = None) -> list[Case]:
    """Every question of both sets, or so many of each, with its candidates' features."""
    talks, chats = locomo.load(of_locomo), beam.load(of_beam)
    asked = [("locomo", q.conversation, str(q.category), q.text, q.evidence) for q in locomo.questions(talks)]
    asked += [("beam", q.conversation, q.kind, q.text, q.evidence) for q in beam.questions(chats)]
    cases = []
    for data, write_files in (
        ("locomo", lambda to: locomo.write_jsonl(talks, to)),
        ("beam", lambda to: beam.write_jsonl(chats, to)),
    ):
        home = folder / data
        mine = [each for each in asked if each[0] == data][:most]
        with Harken(home) as harken, Harken(home, settings={"search.fusion": "convex"}) as before:
            if not (folder / f"{data}-files").exists():
                files = folder / f"{data}-files"
                files.mkdir(parents=True)
                write_files(files)
                harken.import_transcripts("jsonl", [files])
                harken.embed()
            names = retrieval.Names(harken)
            cases += [_case(harken, before, names, *each) for each in mine]
    return cases


def _case(
    harken: Harken,
    before: Harken,
    names: retrieval.Names,
    data: str,
    conversation: str,
    kind: str,
    text: str,
    evidence: frozenset[str],
) -> Case:
    scope = SearchScope(conversation=conversation_uid("jsonl", conversation))
    seen: list[tuple[fusion.Evidence, Sequence[int]]] = []

    def note(known: fusion.Evidence, entry_ids: Sequence[int]) -> fusion.Learned:
        seen.append((known, entry_ids))
        return fusion.learned_scores(known, entry_ids)

    with mock.patch.object(candidates, "learned_scores", note):
        harken.search(text, scope=scope, limit=fusion.REORDERED)
    hits = before.search(text, scope=scope, limit=fusion.REORDERED).hits
    convex = tuple(names.of(hit.entry.ref_uid) for hit in hits)
    [(known, entry_ids)] = seen
    if not entry_ids:
        return Case(data, conversation, text, kind, evidence, np.empty((0, 2 * len(fusion.FEATURES))), (), convex)
    features, lengths = fusion.features_of(known, entry_ids)
    scaled = fusion.standardized(features)
    short = 1.0 / (1.0 + np.exp(STEEPNESS * (lengths.mean() - MIDDLE)))
    found = tuple(names.of(known.facts[entry_id].ref_uid) for entry_id in entry_ids)
    features = np.hstack([short * scaled, (1 - short) * scaled])
    return Case(data, conversation, text, kind, evidence, features, found, convex)


def fit(cases: Sequence[Case]) -> Floats:
    """Weights that make answers likely to come first (softmax over each question's candidates), by Adam."""
    stacked, wanted = np.vstack([case.features for case in cases]), np.concatenate([case.answers for case in cases])
    starts = np.cumsum([0, *(len(case.found) for case in cases[:-1])])
    of_case = np.repeat(np.arange(len(cases)), [len(case.found) for case in cases])
    weight = np.array([BEAM_WEIGHT if case.data == "beam" else 1.0 for case in cases])
    share = wanted / np.add.reduceat(wanted.astype(np.float64), starts)[of_case]
    weights = np.zeros(stacked.shape[1])
    first = second = np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        scores = stacked @ weights
        risen = np.exp(scores - np.maximum.reduceat(scores, starts)[of_case])
        chance = risen / np.add.reduceat(risen, starts)[of_case]
        slope = stacked.T @ ((chance - share) * weight[of_case]) / weight.sum() + RIDGE * weights
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def cross_validated(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Each question's candidates in the order of weights that have seen nothing of its conversation."""
    weights = unseeing_weights(cases)
    return [_ordered(case, weights[case.conversation]) for case in cases]


def unseeing_weights(cases: Sequence[Case]) -> dict[str, Floats]:
    """For each conversation the weights that were fitted without it."""
    names = {data: sorted({case.conversation for case in cases if case.data == data}) for data in ("locomo", "beam")}
    fold = {name: number % FOLDS for each in names.values() for number, name in enumerate(each)}
    fitted = [fit([c for c in cases if c.is_fitted and fold[c.conversation] != held]) for held in range(FOLDS)]
    return {name: fitted[held] for name, held in fold.items()}


@contextmanager
def fused_by(weights: Floats) -> Iterator[None]:
    """While inside, every search orders by these weights."""
    short, long = np.split(weights, 2)
    used = fusion.FusionWeights(short, long, MIDDLE, STEEPNESS)
    with mock.patch.object(fusion, "fusion_weights", return_value=used):
        yield


def reranked(folder: Path, cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Each question's candidates as the product's search orders them with its cross-encoder."""
    weights, orders = unseeing_weights(cases), []
    for data in ("locomo", "beam"):
        with Harken(folder / data) as harken:
            names = retrieval.Names(harken)
            for case in (each for each in cases if each.data == data):
                scope = SearchScope(conversation=conversation_uid("jsonl", case.conversation))
                with fused_by(weights[case.conversation]):
                    hits = harken.search(case.text, scope=scope, limit=fusion.REORDERED, rerank=True).hits
                orders.append(tuple(names.of(hit.entry.ref_uid) for hit in hits))
    return orders


def _ordered(case: Case, weights: Floats) -> tuple[str, ...]:
    return tuple(case.found[place] for place in np.argsort(-(case.features @ weights), kind="stable"))


def report(cases: Sequence[Case], columns: Mapping[str, Sequence[tuple[str, ...]]]) -> None:
    """Print recall@10 and MRR of each group, one way of ordering beside the other."""
    print(f"{'':<36}{'questions':>10}" + "".join(f"{name:>20}" for name in columns))
    groups: dict[str, Callable[[Case], bool]] = {
        "LoCoMo": lambda c: c.data == "locomo" and c.kind != str(ADVERSARIAL),
        "LoCoMo, adversarial": lambda c: c.data == "locomo" and c.kind == str(ADVERSARIAL),
        "BEAM": lambda c: c.data == "beam",
    }
    for kind in sorted({case.kind for case in cases if case.data == "beam"}):
        groups[f"  {kind}"] = lambda c, kind=kind: c.data == "beam" and c.kind == kind
    for name, belongs in groups.items():
        chosen = [place for place, case in enumerate(cases) if belongs(case)]
        if chosen:
            figures = (
                _figures([(cases[each].evidence, orders[each]) for each in chosen]) for orders in columns.values()
            )
            print(f"{name:<36}{len(chosen):>10}" + "".join(f"{each:>20}" for each in figures))


def _figures(rows: Sequence[tuple[frozenset[str], Sequence[str]]]) -> str:
    recall = mean(len(evidence & set(found[:10])) / len(evidence) for evidence, found in rows)
    first = mean(reciprocal_rank(found, evidence) for evidence, found in rows)
    return f"{recall:.3f}/{first:.3f}"


def write(weights: Floats, cases: Sequence[Case]) -> None:
    """Keep weights with where they are from."""
    half = len(weights) // 2
    kept = {
        "made": f"{datetime.now(UTC).date()} by benchmarks/train_fusion.py",
        "from": "the development sets of LoCoMo (snap-research/locomo) and BEAM (mohammadtavakoli78/BEAM)",
        "questions": sum(case.is_fitted for case in cases),
        "middle": MIDDLE,
        "steepness": STEEPNESS,
        "short": {name: round(float(weights[place]), 4) for place, name in enumerate(fusion.FEATURES)},
        "long": {name: round(float(weights[half + place]), 4) for place, name in enumerate(fusion.FEATURES)},
    }
    WEIGHTS.parent.mkdir(exist_ok=True)
    WEIGHTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
