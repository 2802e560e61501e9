"""Train what tells small talk, rules that people state, and what the world answers, by the vectors of both models.

    python benchmarks/train_kinds.py [--write] [--misses]

Logistic regression on the sentences of `talk_prototypes.toml`, `rules_prototypes.toml` and `world_prototypes.toml`,
and, as what is none of these, on questions and messages of LoCoMo's and BEAM's development sets. Prints what a
classifier makes of half of the conversations that it was not trained on, and of the lists that are kept to be measured.
`--write` trains on all and keeps the weights in `src/harken/text/data/kinds.json`.
"""

from __future__ import annotations

import argparse
import base64
import json
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import beam
import heldout
import languages
import locomo
import unasked
from harken.engine import Harken
from harken.providers.embedder import Embedder
from harken.search.query import is_small_talk, parse_query
from harken.text import kinds
from harken.text.rules import may_state, rules_in
from harken.text.words import is_english
from report import show

HERE = Path(__file__).parent
TARGET = Path(kinds.__file__).parent / "data" / "kinds.json"
_MOST_CHARS = 240
STEPS = 30


@dataclass(frozen=True, slots=True)
class Choice:
    """How a kind is learned.

    Attributes:
        ridge: how much large weights cost.
        neither: how much all that is not of the kind weighs beside what is.
        margin: the log-odds from which a text is taken for it. Of rules so much that of the messages of conversations
            which were not trained on hardly one in five hundred is: most of what people say is none.
        written: how often each other text counts that was written for this, beside one of a conversation. Without, the
            world's questions are told by how LoCoMo's are made: of `ours` two thirds were taken for such.
    """

    ridge: float
    neither: float
    margin: float
    written: int = 1


CHOSEN = {
    kinds.TALK: Choice(0.5, 2.0, 0.0),
    kinds.RULE: Choice(0.05, 4.0, 0.5),
    kinds.WORLD: Choice(0.5, 1.0, 0.0, written=8),
}

Floats = NDArray[np.float64]
Texts = Sequence[str]


@dataclass(frozen=True, slots=True)
class Trained:
    """A classifier: weights `(dims,)` and bias."""

    weights: Floats
    bias: float

    def leaning(self, vectors: Floats) -> Floats:
        """Log-odds of each, `(n,)`."""
        leaned: Floats = vectors @ self.weights + self.bias
        return leaned


@dataclass(frozen=True, slots=True)
class Material:
    """Texts of a kind, and texts of the same words that are not; what was said in half of the conversations each."""

    of_kind: Texts
    others: Texts
    real: Texts
    real_unseen: Texts


def fit(of_kind: Floats, others: Floats, choice: Choice) -> Trained:
    """Ridge logistic regression by Newton's method; the margin is in the bias."""
    rows = np.vstack([of_kind, others])
    rows = np.hstack([rows, np.ones((len(rows), 1))])
    wanted = np.array([1.0] * len(of_kind) + [0.0] * len(others))
    weights = np.array([1.0] * len(of_kind) + [choice.neither * len(of_kind) / len(others)] * len(others))
    ridge = choice.ridge * np.eye(rows.shape[1])
    ridge[-1, -1] = 1e-6
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(rows @ found, -30.0, 30.0)))
        slope = rows.T @ (weights * (chance - wanted)) + ridge @ found
        curve = (rows * (weights * np.maximum(chance * (1.0 - chance), 1e-6))[:, None]).T @ rows + ridge
        found -= np.linalg.solve(curve, slope)
    return Trained(found[:-1], float(found[-1]) - choice.margin)


def _toml(name: str) -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))


def _all(lists: Mapping[str, Sequence[str]]) -> list[str]:
    return list(chain(*lists.values()))


def talk() -> Material:
    """Small talk beside whatever asks for something: questions of both sets, of the world, tasks, rules."""
    data = _toml("talk_prototypes")
    others = [
        *_all(data["asks"]),
        *_toml("world_prototypes")["world"]["en"],
        *unasked.OFF_TOPIC,
        *_toml("rules_prototypes")["rules"]["en"],
    ]
    return Material([*_all(data["talk"]), *unasked.SMALL_TALK], others, *_halves(_asked()))


def world() -> Material:
    """Questions about the world beside those that only what was said before can answer."""
    data = _toml("world_prototypes")
    others = [*_all(data["ours"]), *_all(_toml("talk_prototypes")["asks"])]
    return Material(_all(data["world"]), others, *_halves(_asked()))


def _asked() -> list[tuple[str, str]]:
    asked = [(q.conversation, q.text) for q in locomo.questions(locomo.load(locomo.default_path()))]
    return asked + [(q.conversation, q.text) for q in beam.questions(beam.load(beam.default_path()))]


def rules() -> Material:
    """Rules beside tasks, questions and what was told, and what people say to each other and to an assistant."""
    lists = [_toml(name) for name in ("rules_prototypes", "rules_held_out", "rules_held_out_2")]
    said = [
        (sample["sample_id"], turn["text"])
        for sample in locomo.load(locomo.default_path())
        for turn, _ in locomo.turns_of(sample)
        if turn["speaker"] == sample["conversation"]["speaker_a"]
    ]
    said += [
        (name, message["content"].split("->->")[0].strip())
        for name, chat in beam.load(beam.default_path()).items()
        for message in chat["messages"]
        if message["role"] == "user"
    ]
    said = [(name, text) for name, text in said if len(text) <= _MOST_CHARS and not rules_in(text)]
    of_kind, others = ([text for each in lists for text in _all(each[name])] for name in ("rules", "not_rules"))
    return Material(of_kind, others, *_halves(said))


def _halves(texts: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    first, second = list[str](), list[str]()
    for name, text in texts:
        (first if name in locomo.TUNED or "100K-01" <= name <= "100K-05" else second).append(text)
    return first, second


def held_out(kind: str) -> dict[str, tuple[Texts, Texts]]:
    """The lists that are kept to be measured: what is of the kind and found by no list of words, and what is not."""
    if kind == kinds.RULE:
        lists = {name: _toml(name) for name in ("rules_held_out_3", "rules_held_out_4", "rules_held_out_5")}
        rest = {
            name: [[t for t in _all(each[part]) if not rules_in(t)] for part in each] for name, each in lists.items()
        }
        return {name: (each[0], [text for text in each[1] if may_state(text)]) for name, each in rest.items()}
    found = {
        "heldout": {"small_talk": {"en": [*heldout.SMALL_TALK, *heldout.LAST]}, "off_topic": {"en": heldout.OFF_TOPIC}}
    }
    found |= {path.stem: _toml(path.stem) for path in sorted(HERE.glob("unasked_held_out*.toml"))}
    if kind == kinds.WORLD:
        real = [question for each in languages.load()["questions"].values() for *_, question in each]
        return {
            f"{name}, {language}": (prompts, real)
            for name, each in found.items()
            for language, prompts in each["off_topic"].items()
        }
    return {
        f"{name}, {language}": (
            [text for text in of_kind if not is_small_talk(parse_query(text))],
            each["off_topic"][language],
        )
        for name, each in found.items()
        for language, of_kind in each["small_talk"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="train on all, and keep the weights")
    parser.add_argument("--misses", action="store_true", help="print what was taken for a kind in what nobody labelled")
    arguments = parser.parse_args()
    kept: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, Harken(Path(folder)) as harken:
        first, second = harken.spaces.embedder(), harken.spaces.second_embedder()
        models = [(each, each is first) for each in (first, second) if each is not None]
        for kind, material in ((kinds.TALK, talk()), (kinds.RULE, rules()), (kinds.WORLD, world())):
            kept[kind] = {}
            for model, is_first in models:
                trained = _measured(kind, material, model, is_first, arguments.misses)
                kept[kind][model.space.id] = {
                    "bias": round(trained.bias, 4),
                    "weights": base64.b64encode(trained.weights.astype("<f2").tobytes()).decode(),
                }
    if arguments.write:
        TARGET.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _measured(kind: str, material: Material, model: Embedder, is_first: bool, misses: bool) -> Trained:
    """The first model learns from English alone; the second one from all, and is measured by what is not English."""

    def vectors(texts: Iterable[str], measured: bool = False) -> Floats:
        mine = [
            text for text in texts if (is_english(text) is is_first if measured else is_english(text) or not is_first)
        ]
        return model.embed_passages(mine).astype(np.float64) if mine else np.empty((0, model.space.dims))

    of_kind, others = vectors(material.of_kind), np.tile(vectors(material.others), (CHOSEN[kind].written, 1))
    # Of the others nobody asks for rules.
    not_asked = [text for text in material.real_unseen if kind == kinds.RULE and not may_state(text)]
    asked = [text for text in material.real_unseen if kind != kinds.RULE or may_state(text)]
    real, unseen = vectors([*material.real, *not_asked]), vectors(asked)
    half = fit(of_kind, np.vstack([others, real]), CHOSEN[kind])
    wrong = half.leaning(unseen) > 0
    rows = [
        {
            "list": "conversations not trained on",
            "of kind": "",
            "taken": "",
            "others": len(unseen),
            "wrong": int(wrong.sum()),
        }
    ]
    if misses:
        mine = [text for text in asked if is_english(text) or not is_first]
        print("\n".join(text for text, is_wrong in zip(mine, wrong, strict=True) if is_wrong))
    for name, (right, false) in held_out(kind).items():
        found, taken = (half.leaning(vectors(texts, measured=True)) > 0 for texts in (right, false))
        if len(found):
            counts = len(found), int(found.sum()), len(taken), int(taken.sum())
            rows.append({"list": name, **dict(zip(("of kind", "taken", "others", "wrong"), counts, strict=True))})
    show(f"{kind}, {model.space.id}", rows)
    return fit(of_kind, np.vstack([others, real, unseen]), CHOSEN[kind])


if __name__ == "__main__":
    main()
