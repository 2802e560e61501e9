"""BEAM's long chats as the product would meet them, and how often its search finds the messages that answer.

    python benchmarks/beam.py [PATH] [--rerank] [--ablations] [--conversations 100K-01,100K-02]

By type of question; beside recall, the share of the evidence that automatic recall would put into a context by itself,
and the tokens that takes. This is recall, no score of BEAM, which judges written answers. The weights of learned fusion
have seen these chats: `train_fusion.py` prints what they reach where they have not.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import retrieval


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the messages that answer it; `kind` is one of BEAM's ten."""

    conversation: str
    text: str
    kind: str
    evidence: frozenset[str]


def default_path() -> Path:
    """Where the data lies beside this checkout, unless HARKEN_TEST_DATA says otherwise."""
    data = os.environ.get("HARKEN_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data"
    return Path(data) / "beam-dev"


def load(path: Path) -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(path.glob("*.json"))}


def questions(data: dict[str, dict[str, Any]]) -> list[Question]:
    """Every question that names messages which are there."""
    found = []
    for name, chat in data.items():
        there = {str(message["id"]) for message in chat["messages"]}
        for item in chat["questions"]:
            evidence = frozenset(map(str, _ids(item.get("source_chat_ids")))) & there
            if evidence:
                found.append(Question(name, item["question"], item["type"], evidence))
    return found


def _ids(named: Any) -> Iterator[int]:
    if isinstance(named, int):
        yield named
    for each in named.values() if isinstance(named, dict) else named if isinstance(named, list) else ():
        yield from _ids(each)


def write_jsonl(data: dict[str, dict[str, Any]], folder: Path) -> None:
    """One file per chat in the product's own exchange format; each message is a minute after the one before it."""
    for name, chat in data.items():
        moment, anchor, lines = datetime(2024, 1, 1, tzinfo=UTC), None, []
        for message in chat["messages"]:
            if message["time_anchor"] and message["time_anchor"] != anchor:
                anchor = message["time_anchor"]
                moment = datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
            moment += timedelta(minutes=1)
            line = {
                "conversation": name,
                "id": str(message["id"]),
                "role": message["role"],
                "content": message["content"],
                "ts": moment.isoformat(),
            }
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    retrieval.add_arguments(parser, default_path())
    arguments = parser.parse_args()
    data = load(arguments.path)
    if arguments.conversations:
        data = {name: chat for name, chat in data.items() if name in arguments.conversations.split(",")}
    asked = questions(data)
    groups = {"all": asked}
    for question in sorted(asked, key=lambda each: each.kind):
        groups.setdefault(question.kind, []).append(question)
    retrieval.measure(arguments, lambda folder: write_jsonl(data, folder), groups, "beam")


if __name__ == "__main__":
    main()
