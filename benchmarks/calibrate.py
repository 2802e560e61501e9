"""Calibrates the default embedding model: which cosine similarity means that a text is about a query.

    python benchmarks/calibrate.py [LOCOMO_JSON] [--multilingual]

Three of LoCoMo's conversations give what belongs together (a question and the turns that answer it) and what does not
(the same question and turns at random); prompts that are about something else give what must not be injected. All of
it through the product's own embedder. Prints tables and writes benchmarks/results/calibration-….json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import locomo
from harken.providers.embedder import Embedder
from harken.providers.options import EmbedderOptions
from harken.providers.registry import open_embedder
from prompts import OFF_TOPIC, SMALL_TALK
from report import keep, show

CATEGORIES = (1, 2, 3, 4)
THRESHOLDS = tuple(round(0.2 + 0.02 * step, 2) for step in range(28))
BGE_INSTRUCTION = "Represent this sentence for searching relevant passages: "

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Talk:
    """One conversation: its turns as `Speaker: text`, the session of each, and questions with their evidence."""

    turns: list[str]
    sessions: NDArray[np.int64]
    questions: list[tuple[str, list[int]]]


@dataclass
class Measured:
    """Similarities under one embedder, all conversations together."""

    evidence: list[float] = field(default_factory=list)
    best_evidence: list[float] = field(default_factory=list)
    random: list[float] = field(default_factory=list)
    passing: list[Floats] = field(default_factory=list)
    recall_at_10: list[float] = field(default_factory=list)
    reciprocal_rank: list[float] = field(default_factory=list)
    # Best match of each prompt in a whole conversation, and in each single session.
    off_topic: list[float] = field(default_factory=list)
    off_topic_session: list[float] = field(default_factory=list)
    small_talk: list[float] = field(default_factory=list)
    small_talk_session: list[float] = field(default_factory=list)


def read_talk(sample: dict[str, Any]) -> Talk:
    turns = [turn for turn, _ in locomo.turns_of(sample)]
    places = {turn["dia_id"]: place for place, turn in enumerate(turns)}
    asked = [question for question in locomo.questions([sample]) if question.category in CATEGORIES]
    return Talk(
        turns=[f"{turn['speaker']}: {turn['text']}" for turn in turns],
        sessions=np.array([int(turn["dia_id"].partition(":")[0].removeprefix("D")) for turn in turns]),
        questions=[(question.text, sorted(places[mark] for mark in question.evidence)) for question in asked],
    )


def embed_turns(embedder: Embedder, turns: Sequence[str]) -> Floats:
    # In hundreds, as the worker does: int8 vectors depend a little on their batch.
    parts = [embedder.embed_passages(turns[start : start + 100]) for start in range(0, len(turns), 100)]
    return np.concatenate(parts)


def embed_queries(embedder: Embedder, queries: Sequence[str]) -> Floats:
    return np.stack([embedder.embed_query(query) for query in queries])


def measure(embedder: Embedder, talks: Sequence[Talk]) -> Measured:
    found = Measured()
    chance = np.random.default_rng(0)
    off_topic, small_talk = embed_queries(embedder, OFF_TOPIC), embed_queries(embedder, SMALL_TALK)
    for talk in talks:
        vectors = embed_turns(embedder, talk.turns)
        similarities = embed_queries(embedder, [question for question, _ in talk.questions]) @ vectors.T
        for row, (_, evidence) in zip(similarities, talk.questions, strict=True):
            ranks = np.argsort(np.argsort(-row))[evidence]
            found.evidence += row[evidence].tolist()
            found.best_evidence.append(float(row[evidence].max()))
            found.random += row[chance.integers(0, len(row), 5)].tolist()
            found.passing.append(np.array([(row >= threshold).sum() for threshold in THRESHOLDS], dtype=np.float32))
            found.recall_at_10.append(float((ranks < 10).mean()))
            found.reciprocal_rank.append(1 / (1 + float(ranks.min())))
        for prompts, whole, parts in (
            (off_topic, found.off_topic, found.off_topic_session),
            (small_talk, found.small_talk, found.small_talk_session),
        ):
            matches = prompts @ vectors.T
            whole += matches.max(axis=1).tolist()
            for session in np.unique(talk.sessions):
                parts += matches[:, talk.sessions == session].max(axis=1).tolist()
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation and percentiles, for a table and the JSON."""
    marks = {f"p{mark}": round(float(np.percentile(values, mark)), 3) for mark in (5, 25, 50, 75, 95)}
    return {"n": len(values), "mean": round(float(np.mean(values)), 3), "std": round(float(np.std(values)), 3)} | marks


def above(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """The chance that one of the first lies above one of the second (area under the ROC curve)."""
    ordered = np.sort(np.array(negatives))
    return round(float(np.searchsorted(ordered, positives).mean() / len(ordered)), 3)


def threshold_rows(found: Measured) -> list[dict[str, float]]:
    def share(values: Sequence[float], threshold: float) -> float:
        return round(float((np.array(values) >= threshold).mean()), 3)

    return [
        {
            "threshold": threshold,
            "questions_with_evidence_above": share(found.best_evidence, threshold),
            "evidence_above": share(found.evidence, threshold),
            "random_above": share(found.random, threshold),
            "turns_above_per_question": round(float(np.stack(found.passing)[:, step].mean()), 1),
            "off_topic_any_in_conversation": share(found.off_topic, threshold),
            "off_topic_any_in_session": share(found.off_topic_session, threshold),
            "small_talk_any_in_conversation": share(found.small_talk, threshold),
            "small_talk_any_in_session": share(found.small_talk_session, threshold),
        }
        for step, threshold in enumerate(THRESHOLDS)
    ]


def summary(found: Measured) -> dict[str, Any]:
    return {
        "recall@10": round(float(np.mean(found.recall_at_10)), 3),
        "mrr": round(float(np.mean(found.reciprocal_rank)), 3),
        "evidence_above_random": above(found.evidence, found.random),
        "question_above_off_topic": above(found.best_evidence, found.off_topic),
    }


def compare_cards(options: EmbedderOptions, talks: Sequence[Talk]) -> list[dict[str, Any]]:
    """The same weights with either pooling, with and without the instruction that the model was published with."""
    from harken.providers.model_files import BGE_SMALL, find_model

    source = find_model(BGE_SMALL, options.home).folder
    rows = []
    for pooling in ("mean", "cls"):
        for prefix in ("", BGE_INSTRUCTION):
            folder = options.home / f"{pooling}-{'instructed' if prefix else 'plain'}"
            folder.mkdir()
            for name in ("model.onnx", "tokenizer.json"):
                (folder / name).symlink_to(source / name)
            (folder / "harken.json").write_text(json.dumps({"dims": 384, "pooling": pooling, "query_prefix": prefix}))
            embedder = open_embedder(EmbedderOptions(home=options.home, path=folder, threads=options.threads))
            rows.append({"pooling": pooling, "instruction": bool(prefix)} | summary(measure(embedder, talks)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--multilingual", action="store_true", help="the model for other languages, by the same English"
    )
    arguments = parser.parse_args()
    # The other conversations are held out: nothing is chosen by looking at them.
    talks = [read_talk(sample) for sample in locomo.load(arguments.path) if sample["sample_id"] in locomo.TUNED]
    with tempfile.TemporaryDirectory() as home:
        name = "multilingual" if arguments.multilingual else "onnx"
        options = EmbedderOptions(home=Path(home), name=name, threads=arguments.threads)
        embedder = open_embedder(options)
        found = measure(embedder, talks)
        cards = [] if arguments.multilingual else compare_cards(options, talks)
    space = embedder.space
    similarities = [
        {"what": "question, turn that answers it", **spread(found.evidence)},
        {"what": "question, best of the turns that answer it", **spread(found.best_evidence)},
        {"what": "question, turn at random", **spread(found.random)},
        {"what": "off-topic prompt, best turn of a conversation", **spread(found.off_topic)},
        {"what": "off-topic prompt, best turn of a session", **spread(found.off_topic_session)},
        {"what": "small talk, best turn of a conversation", **spread(found.small_talk)},
        {"what": "small talk, best turn of a session", **spread(found.small_talk_session)},
    ]
    thresholds = threshold_rows(found)
    show(f"{space.id}: cosine similarity", similarities)
    show("Shares above a threshold", thresholds)
    if cards:
        show("The same weights otherwise used (vectors alone)", cards)
    result = {
        "space": space.id,
        "threshold_in_use": space.threshold,
        "conversations": list(locomo.TUNED),
        "turns": sum(len(talk.turns) for talk in talks),
        "questions": len(found.best_evidence),
        "prompts": {"off_topic": len(OFF_TOPIC), "small_talk": len(SMALL_TALK)},
        "summary": summary(found),
        "similarities": similarities,
        "thresholds": thresholds,
        "pooling_and_instruction": cards,
    }
    keep(f"calibration-{space.id.rpartition('/')[0].replace('/', '-')}", result)


if __name__ == "__main__":
    main()
