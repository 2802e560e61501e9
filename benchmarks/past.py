"""Do past conversations come back? LoCoMo's sessions, each a conversation of its own, with extractive summaries.

    python benchmarks/past.py [PATH] [--conversations conv-26,conv-41] [--limit 5] [--set KEY=VALUE]

For each question: is a session that answers it among the first five that come back (a threshold of 0, so that only the
order counts, and with the model's own), and is the evidence among the exchanges that are shown? Against a flat search
that takes the best messages until as many tokens are used as the shown exchanges take; with a threshold, those that
meet it as well.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import locomo
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.search.past import PastRecall
from harken.storage.conversations import find_message
from harken.text import tokens
from report import keep, show

ANSWERABLE = (1, 2, 3, 4)
_TURN = re.compile(r"D(\d+):")
_MS = 1000
# As the context cuts them.
_SHOWN_CHARS = 200


@dataclass
class Tally:
    """What was counted in one way.

    Attributes:
        sessions: per question, the share of the sessions with evidence that came back.
        any_session: per question, whether one of them did.
        evidence: per question, whether any evidence turn is among the shown exchanges.
        flat: per question, whether a flat search of the same size finds any.
        size: tokens of the shown exchanges.
    """

    sessions: list[float] = field(default_factory=list)
    any_session: list[bool] = field(default_factory=list)
    evidence: list[bool] = field(default_factory=list)
    flat: list[bool] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def row(self, way: str, limit: int) -> dict[str, Any]:
        """The line of the table."""
        return {
            "way": way,
            "limit": limit,
            "questions": len(self.sessions),
            "session_recall": round(mean(self.sessions), 3),
            "any_session": round(mean(self.any_session), 3),
            "evidence": round(mean(self.evidence), 3),
            "flat_evidence": round(mean(self.flat), 3),
            "tokens": round(mean(self.size), 1),
            "p50_ms": round(float(np.percentile(self.milliseconds, 50)), 1),
            "p95_ms": round(float(np.percentile(self.milliseconds, 95)), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--conversations", help="ids, comma separated; default all, each in a store of its own")
    parser.add_argument("--limits", default="5,3")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, for tuning")
    parser.add_argument("--home", type=Path, help="keep the stores here, and use those that are there")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-keep", action="store_true", help="print only")
    arguments = parser.parse_args()
    data = locomo.load(arguments.path)
    if arguments.conversations:
        data = [sample for sample in data if sample["sample_id"] in arguments.conversations.split(",")]
    tuned = dict(pair.split("=", 1) for pair in arguments.set)
    limits = [int(limit) for limit in arguments.limits.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        result = run(data, arguments.home or Path(folder), limits, tuned)
    show("Past conversations", result["past"])
    if not arguments.no_keep:
        keep("past", result, arguments.out)


def run(data: list[dict[str, Any]], folder: Path, limits: list[int], tuned: dict[str, Any]) -> dict[str, Any]:
    tallies = {(way, limit): Tally() for way in ("order alone", "own threshold") for limit in limits}
    space = None
    for sample in data:
        home = folder / sample["sample_id"]
        _remember(sample, home)
        for (way, limit), tally in tallies.items():
            free = {"rag.min_similarity": 0.0} if way == "order alone" else {}
            with Harken(home, settings={"rag.conversation_limit": limit, **free, **tuned}) as harken:
                space = harken.maintenance.status().space
                floor = -1.0 if free else _floor(harken)
                harken.chats.past("What was said before the first question was asked?")
                for question in locomo.questions([sample]):
                    if question.category in ANSWERABLE:
                        _ask(harken, sample["sample_id"], question, limit, tally, floor)
    return {
        "space": space,
        "conversations": [sample["sample_id"] for sample in data],
        "settings": tuned,
        "past": [tally.row(way, limit) for (way, limit), tally in tallies.items()],
    }


def _remember(sample: dict[str, Any], home: Path) -> None:
    """Each session as a conversation, summarized without a model, all of it embedded."""
    if home.exists():
        return
    home.mkdir(parents=True)
    first = sample["conversation"]["speaker_a"]
    lines = [
        {
            "conversation": _session(sample["sample_id"], turn["dia_id"]),
            "id": turn["dia_id"],
            "role": "user" if turn["speaker"] == first else "assistant",
            "author": turn["speaker"],
            "content": turn["text"],
            "ts": moment.isoformat(),
        }
        for turn, moment in locomo.turns_of(sample)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        with Harken(home) as harken:
            harken.import_transcripts("jsonl", [path])
            harken.background.summarize()
            harken.embed()


def _session(name: str, turn: str) -> str:
    found = _TURN.match(turn)
    assert found is not None, turn
    return f"{name}-session-{int(found[1])}"


def _ask(harken: Harken, name: str, question: locomo.Question, limit: int, tally: Tally, floor: float) -> None:
    started = time.perf_counter()
    recall = harken.chats.past(question.text)
    tally.milliseconds.append((time.perf_counter() - started) * _MS)
    wanted = {harken.chats.session(_session(name, turn), "jsonl").conversation_uid for turn in question.evidence}
    got = {each.uid for each in recall.conversations[:limit]}
    tally.sessions.append(len(wanted & got) / len(wanted))
    tally.any_session.append(bool(wanted & got))
    # Words alone on both sides: titles, summaries and frames are no part of it.
    shown = [exchange for talk in recall.conversations for exchange in talk.exchanges]
    size = sum(tokens.estimate(text[:_SHOWN_CHARS]) for each in shown for text in (each.user, each.assistant))
    tally.size.append(size)
    tally.evidence.append(bool(_turns(harken, _shown(recall)) & question.evidence))
    tally.flat.append(bool(_turns(harken, _flat(harken, question.text, size, floor)) & question.evidence))


def _shown(recall: PastRecall) -> list[str]:
    return [uid for talk in recall.conversations for exchange in talk.exchanges for uid in exchange.message_uids]


def _floor(harken: Harken) -> float:
    """The cosine similarity that the model itself asks for."""
    filled = harken.spaces.filled()
    assert filled is not None
    return filled.space.threshold


def _flat(harken: Harken, query: str, size: int, floor: float) -> list[str]:
    """The best messages of a flat search that are near enough, as many as fit."""
    found: list[str] = []
    for hit in harken.search(query, scope=SearchScope(sources=("message",)), limit=100).hits:
        if hit.similarity is None or hit.similarity < floor:
            continue
        size -= tokens.estimate(hit.entry.text)
        if size < 0:
            break
        found.append(hit.entry.ref_uid)
    return found


def _turns(harken: Harken, uids: list[str]) -> set[str]:
    """LoCoMo's own ids of messages."""
    with harken.store.reading() as tx:
        return {message.external_id for uid in uids if (message := find_message(tx, uid)) is not None}


if __name__ == "__main__":
    main()
