"""Is what a question needs in the context by itself? LoCoMo's conversations, held as live chats.

    python benchmarks/autorag.py [PATH] [--conversations conv-26,conv-41] [--budgets 1000,2000] [--set KEY=VALUE]

Each conversation is one segment. At the end of it every question is asked: is a turn that answers it in the built
context, in the window or recalled? Against the window alone in the same budget, and against a plain fusion by
reciprocal rank that takes the best three, as near as they may be. Then prompts that ask for nothing that was said:
how often is anything recalled for them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import heldout
import locomo
import prompts
from harken.context.builder import ContextSession
from harken.context.layers import ChatContext
from harken.engine import Harken
from harken.record.ids import conversation_uid
from report import keep, show
from unasked import UNASKED

ANSWERABLE = (1, 2, 3, 4)
BUDGETS = (1000, 2000, 4000)
# As many as fit: the budget alone limits the window here.
SETTINGS: dict[str, Any] = {"context.sliding_window": 10_000}
WAYS: dict[str, dict[str, Any]] = {
    "window only": {"auto_rag.enabled": False},
    "auto-RAG": {},
    "plain RRF, best 3": {"search.fusion": "rrf", "search.author_lift": 0.0, "auto_rag.relevance_threshold": 1e-6},
}
_MS = 1000
CALIBRATED = {"small talk": prompts.SMALL_TALK, "off topic": prompts.OFF_TOPIC}
HELD_OUT = {"small talk": heldout.SMALL_TALK, "off topic": heldout.OFF_TOPIC}
UNSEEN = sorted(Path(__file__).parent.glob("unasked_held_out*.toml"))


@dataclass
class Tally:
    """What was counted in one way at one budget.

    Attributes:
        evidence: per question, the share of its evidence turns that the context holds.
        hits: per question, whether it holds any of them.
        recalled: tokens that auto-RAG put in, per question.
        wasted: of those, the tokens of messages that are no evidence.
        milliseconds: to build each context.
    """

    evidence: list[float] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    recalled: list[int] = field(default_factory=list)
    wasted: list[int] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def row(self, way: str, budget: int) -> dict[str, Any]:
        """The line of the table."""
        return {
            "way": way,
            "budget": budget,
            "questions": len(self.evidence),
            "evidence": round(mean(self.evidence), 3),
            "any_evidence": round(mean(self.hits), 3),
            "recalled_tokens": round(mean(self.recalled), 1),
            "not_evidence_tokens": round(mean(self.wasted), 1),
            "build_p50_ms": round(float(np.percentile(self.milliseconds, 50)), 1),
            "build_p95_ms": round(float(np.percentile(self.milliseconds, 95)), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--conversations", help="ids, comma separated; default all")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--ways", help="names, comma separated; default all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, for tuning")
    parser.add_argument("--questions", type=int, help="at most so many of each conversation")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-keep", action="store_true", help="print only")
    arguments = parser.parse_args()
    data = locomo.load(arguments.path)
    if arguments.conversations:
        data = [sample for sample in data if sample["sample_id"] in arguments.conversations.split(",")]
    budgets = [int(budget) for budget in arguments.budgets.split(",")]
    ways = {name: way for name, way in WAYS.items() if not arguments.ways or name in arguments.ways.split(",")}
    tuned = dict(pair.split("=", 1) for pair in arguments.set)
    with tempfile.TemporaryDirectory() as folder:
        result = run(data, Path(folder), budgets, ways, tuned, arguments.questions)
    show("Evidence in the context", result["evidence"])
    show("Prompts that ask for nothing that was said", result["unasked"])
    if not arguments.no_keep:
        keep("autorag", result, arguments.out)


def run(
    data: list[dict[str, Any]],
    folder: Path,
    budgets: Sequence[int],
    ways: dict[str, dict[str, Any]],
    tuned: dict[str, Any],
    most: int | None,
) -> dict[str, Any]:
    locomo.write_jsonl(data, folder)
    home = folder / "home"
    with Harken(home, settings=SETTINGS) as harken:
        harken.import_transcripts("jsonl", [folder])
        harken.embed()
        space = harken.maintenance.status().space
    evidence, unasked = [], []
    for name, way in ways.items():
        with Harken(home, settings={**SETTINGS, **tuned, **way}) as harken:
            sessions = {s["sample_id"]: harken.chats.find(conversation_uid("jsonl", s["sample_id"])) for s in data}
            asked = list(_asked(data, most))
            for budget in budgets:
                tally = Tally()
                for question in asked:
                    _ask(harken, sessions[question.conversation], question, budget, tally)
                evidence.append(tally.row(name, budget))
            if way.get("auto_rag.enabled", True):
                unasked += _unasked(harken, sessions, name)
    return {
        "space": space,
        "conversations": [sample["sample_id"] for sample in data],
        "tuned_on": list(locomo.TUNED),
        "settings": tuned,
        "evidence": evidence,
        "unasked": unasked,
    }


def _asked(data: list[dict[str, Any]], most: int | None) -> Iterator[locomo.Question]:
    taken: dict[str, int] = {}
    for question in locomo.questions(data):
        count = taken.get(question.conversation, 0)
        if question.category in ANSWERABLE and (most is None or count < most):
            taken[question.conversation] = count + 1
            yield question


def _ask(harken: Harken, session: ContextSession, question: locomo.Question, budget: int, tally: Tally) -> None:
    started = time.perf_counter()
    context = harken.build_context(session, [question.text], budget_tokens=budget)
    tally.milliseconds.append((time.perf_counter() - started) * _MS)
    turns = _turns(harken, session)
    held = {turns[message.uid] for message in context.messages if message.uid in turns}
    recalled = _layer(context, "auto_rag", turns)
    held |= {turn for turn, _ in recalled}
    found = question.evidence & held
    tally.evidence.append(len(found) / len(question.evidence))
    tally.hits.append(bool(found))
    tally.recalled.append(sum(size for _, size in recalled))
    tally.wasted.append(sum(size for turn, size in recalled if turn not in question.evidence))


def _unasked(harken: Harken, sessions: dict[str, ContextSession], way: str) -> Iterator[dict[str, Any]]:
    """Of all prompts in all conversations; then of those, and there, that nothing was chosen by."""
    quoted = [sessions[name] for name in locomo.QUOTED if name in sessions]
    for kind, asked in UNASKED.items():
        yield _injected(harken, list(sessions.values()), way, kind, asked)
        if quoted:
            unseen = [prompt for prompt in asked if prompt not in CALIBRATED[kind]]
            yield _injected(harken, quoted, way, f"{kind}, not calibrated on, held-out conversations", unseen)
            yield _injected(harken, quoted, way, f"{kind}, held-out list, held-out conversations", HELD_OUT[kind])
            yield _injected(harken, quoted, way, f"{kind}, later list, held-out conversations", heldout.LATER[kind])
    yield _injected(harken, list(sessions.values()), way, "small talk, last list", heldout.LAST)
    for path in UNSEEN:
        for kind, asked_in in tomllib.loads(path.read_text("utf-8")).items():
            for language, asked in asked_in.items():
                yield _injected(harken, list(sessions.values()), way, f"{kind}, {path.stem}, {language}", asked)


def _injected(
    harken: Harken, sessions: Sequence[ContextSession], way: str, kind: str, asked: Sequence[str]
) -> dict[str, Any]:
    recalls = [harken.auto_rag(session, prompt) for session in sessions for prompt in asked]
    return {
        "way": way,
        "prompts": kind,
        "n": len(recalls),
        "injections": sum(bool(recall.items) for recall in recalls),
        "injected": round(mean(bool(recall.items) for recall in recalls), 3),
        "tokens": round(mean(recall.tokens for recall in recalls), 1),
    }


def _layer(context: ChatContext, name: str, turns: dict[str, str]) -> list[tuple[str, int]]:
    layer = context.layer(name)
    return [(turns[item.uid], item.tokens) for item in layer.items if item.uid in turns] if layer else []


_KNOWN: dict[str, dict[str, str]] = {}


def _turns(harken: Harken, session: ContextSession) -> dict[str, str]:
    """The turn of each message."""
    uid = session.conversation_uid
    if uid not in _KNOWN:
        _KNOWN[uid] = {message.uid: message.external_id for message in harken.show(uid).messages}
    return _KNOWN[uid]


if __name__ == "__main__":
    main()
