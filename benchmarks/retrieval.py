"""How often the product's own search finds the turns that answer LoCoMo's questions.

    python benchmarks/retrieval.py [PATH] [--rerank] [--ablations] [--conversations conv-26,conv-41] [--no-captions]

Recall by the published labels, and by those that were corrected (`locomo_corrections.toml`); beside it the share of the
evidence that automatic recall would put into a context by itself, and the tokens that takes. Conversations that rules
were tuned on stand apart from those that are quoted; the weights of learned fusion have seen all of these five, so what
they would reach elsewhere is what `train_fusion.py` prints. This is recall, no score of LoCoMo, which judges written
answers.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

import locomo
from harken.bench.measures import reciprocal_rank
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.record.ids import conversation_uid
from report import keep, show

DEPTH = 100
ANSWERABLE, ADVERSARIAL = (1, 2, 3, 4), 5
ABLATIONS: dict[str, dict[str, Any]] = {
    "convex": {"search.fusion": "convex"},
    "rrf": {"search.fusion": "rrf"},
    "rrf, no author cue": {"search.fusion": "rrf", "search.author_lift": 0.0},
    "convex, own words only": {"search.fusion": "convex", "search.context_window": False},
    "convex, no author cue": {"search.fusion": "convex", "search.author_lift": 0.0},
    "keyword, own words only": {"mode": "keyword", "search.context_window": False},
    "keyword": {"mode": "keyword"},
    "vector": {"mode": "semantic", "search.relevance_threshold": -1.0},
    "no threshold": {"search.relevance_threshold": -1.0},
}


class Asked(Protocol):
    """A question of a data set with what answers it."""

    @property
    def conversation(self) -> str:
        """Which one it is asked in."""

    @property
    def text(self) -> str:
        """What is asked."""

    @property
    def evidence(self) -> frozenset[str]:
        """The messages that answer it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found, best first; what comes back by itself, and the tokens of that."""

    found: list[str]
    recalled: list[str]
    tokens: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over questions; recall is the share of a question's evidence that was found.

    Attributes:
        in_context: the share that automatic recall would put into a context, and `tokens` what that takes.
    """

    questions: int
    recall_5: float
    recall_10: float
    recall_20: float
    hit_5: float
    mrr: float
    in_context: float
    tokens: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, locomo.default_path())
    parser.add_argument("--no-captions", action="store_true", help="leave out what photos show")
    arguments = parser.parse_args()
    data = locomo.load(arguments.path)
    if arguments.conversations:
        data = [sample for sample in data if sample["sample_id"] in arguments.conversations.split(",")]
    published, corrected = locomo.questions(data), locomo.questions(data, locomo.corrections())
    groups: dict[str, list[locomo.Question]] = {
        "all, published": [q for q in published if q.category in ANSWERABLE],
        "all, corrected": [q for q in corrected if q.category in ANSWERABLE],
        "tuned": [q for q in corrected if q.category in ANSWERABLE and q.conversation in locomo.TUNED],
        "quoted": [q for q in corrected if q.category in ANSWERABLE and q.conversation in locomo.QUOTED],
        "adversarial": [q for q in published if q.category == ADVERSARIAL],
    }
    measure(
        arguments,
        lambda folder: locomo.write_jsonl(data, folder, captions=not arguments.no_captions),
        groups,
        "retrieval",
    )


def add_arguments(parser: argparse.ArgumentParser, path: Path) -> None:
    """Those that every benchmark of searching has."""
    parser.add_argument("path", nargs="?", type=Path, default=path)
    parser.add_argument("--rerank", action="store_true", help="with the cross-encoder too")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--conversations", help="ids, comma separated; default all")
    parser.add_argument("--home", type=Path, help="keep the imported conversations there, and take them up again")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, for tuning")
    parser.add_argument("--out", type=Path)


def measure(
    arguments: argparse.Namespace,
    write_files: Callable[[Path], None],
    groups: Mapping[str, Sequence[Asked]],
    name: str,
) -> None:
    """Import, ask every question in every way, print a table for each way; keep all of it where `--out` says."""
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    ways: dict[str, dict[str, Any]] = {"default": {}}
    if arguments.rerank:
        ways["reranked"] = {"rerank": True}
    if arguments.ablations:
        ways.update(ABLATIONS)
    with tempfile.TemporaryDirectory() as folder:
        home = imported(arguments.home or Path(folder), write_files)
        result: dict[str, Any] = {"benchmark": name, "settings": settings, "ways": {}}
        for title, way in ways.items():
            options = {key: value for key, value in way.items() if "." in key}
            with Harken(home, settings={**settings, **options}) as harken:
                rows = asked_in(harken, groups, way.get("mode", "hybrid"), way.get("rerank", False))
            show(title, rows)
            result["ways"][title] = rows
    if arguments.out:
        keep(name, result, arguments.out)


def imported(folder: Path, write_files: Callable[[Path], None]) -> Path:
    """A home in a folder with what is written there, embedded; one that is there already as it is."""
    home, files = folder / "home", folder / "files"
    if not home.exists():
        files.mkdir(parents=True)
        write_files(files)
        with Harken(home) as harken:
            harken.import_transcripts("jsonl", [files])
            harken.embed()
    return home


def asked_in(
    harken: Harken, groups: Mapping[str, Sequence[Asked]], mode: str = "hybrid", rerank: bool = False
) -> list[dict[str, Any]]:
    """One row of figures for each group; a question of several groups is asked once."""
    names = Names(harken)
    questions = {(each.conversation, each.text): each for group in groups.values() for each in group}
    answers = {key: _answer(harken, names, each, mode, rerank) for key, each in questions.items()}
    return [
        {"": title} | {key: round(value, 3) for key, value in asdict(_figures(group, answers)).items()}
        for title, group in groups.items()
        if group
    ]


def _answer(harken: Harken, names: Names, question: Asked, mode: str, rerank: bool) -> Answer:
    uid = conversation_uid("jsonl", question.conversation)
    scope = SearchScope(conversation=uid)
    result = harken.search(question.text, scope=scope, limit=DEPTH, mode=mode, rerank=rerank)
    recall = harken.auto_rag(harken.chats.find(uid), question.text)
    recalled = [names.of(item.hit.entry.ref_uid) for item in recall.items]
    return Answer([names.of(hit.entry.ref_uid) for hit in result.hits], recalled, recall.tokens)


class Names:
    """What messages are known by in the data, looked up once."""

    def __init__(self, harken: Harken) -> None:
        self._harken, self._known = harken, dict[str, str]()

    def of(self, uid: str) -> str:
        """What one is known by."""
        if uid not in self._known:
            message = self._harken.show(uid, 0).message
            self._known[uid] = message.external_id if message else ""
        return self._known[uid]


def _figures(asked: Sequence[Asked], answers: Mapping[tuple[str, str], Answer]) -> Figures:
    rows = [(question.evidence, answers[question.conversation, question.text]) for question in asked]

    def recall(depth: int) -> float:
        return mean(len(evidence & set(answer.found[:depth])) / len(evidence) for evidence, answer in rows)

    return Figures(
        questions=len(rows),
        recall_5=recall(5),
        recall_10=recall(10),
        recall_20=recall(20),
        hit_5=mean(bool(evidence & set(answer.found[:5])) for evidence, answer in rows),
        mrr=mean(reciprocal_rank(answer.found, evidence) for evidence, answer in rows),
        in_context=mean(len(evidence & set(answer.recalled)) / len(evidence) for evidence, answer in rows),
        tokens=mean(answer.tokens for _, answer in rows),
    )


if __name__ == "__main__":
    main()
