"""How often a question that was asked before is known for it, and how often another one is taken for it.

    .venv/bin/python benchmarks/asked_before.py [--half tuned|quoted|both]

A store holds LoCoMo's development conversations, the transcripts, and 85 of LoCoMo's questions, each asked in a
conversation of its own and answered. A hundred repeats in other words (asked_before.toml) are to open the recalled
block with "Asked before", four hundred other prompts are not: 360 questions of the same people that were never asked
here, and 40 of daily work. Thresholds were chosen by the even ones (`tuned`); the odd ones (`quoted`) are quoted.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import locomo
from harken.engine import Harken
from harken.record.ids import conversation_uid

DATA = Path(__file__).with_suffix(".toml")
BEGUN = datetime(2026, 3, 1, 9, tzinfo=UTC)
NEW = conversation_uid("claude-code", "a new conversation")
FRESH = 400
HALVES = {"tuned": [0], "quoted": [1], "both": [0, 1]}


def questions(data: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """LoCoMo's questions by conversation and number."""
    return {f"{each['sample_id']}/{number}": qa for each in data for number, qa in enumerate(each["qa"])}


def others(known: dict[str, dict[str, Any]], repeats: dict[str, str]) -> tuple[list[str], list[str]]:
    """360 questions that were never asked, none of them about what answers one that was; and fresh ones.

    These were drawn when mistakes among the first had been looked at.
    """

    def evidence(name: str) -> set[tuple[str, str]]:
        return {(name.partition("/")[0], turn) for turn in " ".join(known[name].get("evidence", [])).split()}

    taken = {turn for name in repeats if name in known for turn in evidence(name)}
    pool = [name for name in known if name not in repeats and taken.isdisjoint(evidence(name))]
    chosen = random.Random("others").sample(pool, 360)
    fresh = random.Random("fresh").sample(sorted(set(pool) - set(chosen)), FRESH)
    return [known[name]["question"] for name in chosen], [known[name]["question"] for name in fresh]


def fill(harken: Harken, data: list[dict[str, Any]], asked: dict[str, dict[str, Any]], place: Path) -> None:
    """Record the conversations, the transcripts, and what was asked."""
    talks = place / "talks"
    talks.mkdir()
    locomo.write_jsonl(data, talks)
    harken.import_transcripts("jsonl", [talks], as_mine=True)
    transcripts = locomo.default_path().parents[1] / "transcripts"
    for name in ("claude-code", "codex", "chatgpt", "claude-ai"):
        harken.import_transcripts(name, [transcripts / name], as_mine=True)
    for number, (name, qa) in enumerate(asked.items()):
        when = BEGUN + timedelta(hours=number)
        lines = [
            {"conversation": f"asked {name}", "role": role, "content": str(text), "ts": moment.isoformat()}
            for role, text, moment in (
                ("user", qa["question"], when),
                ("assistant", qa.get("answer", "I do not know."), when + timedelta(minutes=1)),
            )
        ]
        file = place / f"asked-{number}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        harken.import_transcripts("jsonl", [file], as_mine=True)
    harken.embed()


def opening(harken: Harken, prompt: str) -> str:
    """How the recalled block opens, where that is with what was asked before."""
    first = next(iter(harken.chats.quotes_about(prompt, NEW)), None)
    return first.text if first is not None and first.source == "asked_before" else ""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--half", choices=HALVES, default="both")
    arguments.add_argument("--show", action="store_true", help="Print what went wrong.")
    arguments.add_argument("--fresh", action="store_true", help="Ask other questions that nobody has looked at, too.")
    given = arguments.parse_args()
    data = locomo.load(locomo.default_path())
    known, listed = questions(data), tomllib.loads(DATA.read_text(encoding="utf-8"))
    repeats = listed["repeats"]
    first, fresh = others(known, repeats)
    prompts = [*first, *listed["others"]["said"]]
    with tempfile.TemporaryDirectory() as folder, Harken(Path(folder) / "home", env={}) as harken:
        fill(harken, data, {name: known[name] for name in repeats if name in known}, Path(folder))
        wanted = HALVES[given.half]
        again = [each for number, each in enumerate(repeats.items()) if number % 2 in wanted]
        missed = [said for _, said in again if not opening(harken, said)]
        rest = [each for number, each in enumerate(prompts) if number % 2 in wanted]
        mistaken = [(said, found) for said in rest if (found := opening(harken, said))]
        again_mistaken = [(said, found) for said in fresh if given.fresh and (found := opening(harken, said))]
    right = len(again) - len(missed)
    print(f"{given.half}: of {len(again)} repeats {right} open with it, of {len(rest)} others {len(mistaken)}")
    if given.fresh:
        print(f"of {len(fresh)} fresh others {len(again_mistaken)}")
    for line in [*missed, *mistaken] if given.show else []:
        print(" ", line)


if __name__ == "__main__":
    main()
