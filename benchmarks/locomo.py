"""LoCoMo's long conversations as the product would meet them: JSONL files, imported, one conversation each."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

TUNED = ("conv-26", "conv-41", "conv-43")
QUOTED = ("conv-47", "conv-49")
CORRECTIONS = Path(__file__).with_name("locomo_corrections.toml")
_EVIDENCE = re.compile(r"D(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the turns that answer it.

    Attributes:
        category: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
        evidence: ids of turns, `D1:3` is session 1, turn 3.
    """

    conversation: str
    text: str
    category: int
    evidence: frozenset[str]


def default_path() -> Path:
    """Where the data lies beside this checkout, unless HARKEN_TEST_DATA says otherwise."""
    data = os.environ.get("HARKEN_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data"
    return Path(data) / "locomo-dev" / "locomo-dev.json"


def load(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))


def corrections() -> dict[tuple[str, str], frozenset[str]]:
    """The evidence of questions whose published labels are wrong, by conversation and question."""
    listed = tomllib.loads(CORRECTIONS.read_text(encoding="utf-8"))["correction"]
    return {(each["conversation"], each["question"]): frozenset(each["evidence"]) for each in listed}


def questions(
    data: list[dict[str, Any]], corrected: Mapping[tuple[str, str], frozenset[str]] | None = None
) -> list[Question]:
    """Every question whose evidence names at least one turn that exists; with evidence as `corrected`, where it is."""
    found = []
    for sample in data:
        turns = {turn["dia_id"] for turn, _ in turns_of(sample)}
        for item in sample["qa"]:
            named = " ".join(item.get("evidence", []))
            evidence = frozenset(f"D{int(a)}:{int(b)}" for a, b in _EVIDENCE.findall(named)) & turns
            evidence = (corrected or {}).get((sample["sample_id"], item["question"]), evidence)
            if evidence:
                found.append(Question(sample["sample_id"], item["question"], item["category"], evidence))
    return found


def turns_of(sample: dict[str, Any]) -> list[tuple[dict[str, Any], datetime]]:
    """A sample's turns with their times: the session's, and a minute more for each turn."""
    talk = sample["conversation"]
    found = []
    numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        stamp = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        found.extend((turn, stamp + timedelta(minutes=i)) for i, turn in enumerate(talk[f"session_{number}"]))
    return found


def said(turn: Mapping[str, Any], captions: bool = True) -> str:
    """A turn's words, with what the photo shows that was sent with it: all that a reader sees of it."""
    caption = turn.get("blip_caption") if captions else None
    return f"{turn['text']} [shares a photo: {caption}]" if caption else turn["text"]


def write_jsonl(data: list[dict[str, Any]], folder: Path, captions: bool = True) -> None:
    """One file per conversation in the product's own exchange format; the first speaker is the user."""
    for sample in data:
        first = sample["conversation"]["speaker_a"]
        lines = [
            {
                "conversation": sample["sample_id"],
                "id": turn["dia_id"],
                "role": "user" if turn["speaker"] == first else "assistant",
                "author": turn["speaker"],
                "content": said(turn, captions),
                "ts": moment.isoformat(),
            }
            for turn, moment in turns_of(sample)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{sample['sample_id']}.jsonl").write_text(text, encoding="utf-8")
