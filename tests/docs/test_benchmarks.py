"""Every benchmark finds what it measures, and the one of contexts goes its whole way at its smallest size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_each_can_be_imported() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert "retrieval" in names
    _run("-c", f"import importlib; [importlib.import_module(name) for name in {names!r}]")


def test_that_of_contexts_goes_its_whole_way() -> None:
    _run("speed_context.py", "--queries", "3", "--rounds", "1")


def test_that_of_beam_tells_recall_by_type_of_question_beside_the_tokens(tmp_path: Path) -> None:
    said = (
        "Our gardener Priya prunes the fig tree in February.",
        "Noted, in February.",
        "The roof leaks again.",
        "Oh no.",
    )
    messages = [
        {"id": number, "role": ("user", "assistant")[number % 2], "time_anchor": "March-15-2024", "content": text}
        for number, text in enumerate(said)
    ]
    asked = {"question": "When does Priya prune the fig tree?", "type": "temporal_reasoning", "source_chat_ids": [0]}
    (tmp_path / "100K-01.json").write_text(json.dumps({"messages": messages, "questions": [asked]}), encoding="utf-8")
    _run("beam.py", str(tmp_path), "--out", str(tmp_path / "kept"))
    rows = json.loads((tmp_path / "kept").read_text(encoding="utf-8"))["ways"]["default"]
    assert [(row[""], row["questions"], row["mrr"], row["in_context"]) for row in rows] == [
        ("all", 1, 1.0, 1.0),
        ("temporal_reasoning", 1, 1.0, 1.0),
    ]
    assert rows[0]["tokens"] > 0


def test_that_of_locomo_asks_by_published_and_by_corrected_labels(tmp_path: Path) -> None:
    turns = [
        {"speaker": "Caroline", "dia_id": "D7:20", "text": "Your shoes look great!"},
        {"speaker": "Caroline", "dia_id": "D7:21", "text": "Wow! What got you into running?"},
        {"speaker": "Melanie", "dia_id": "D7:22", "text": "I've been running to de-stress, it is my reason for it."},
        {"speaker": "Melanie", "dia_id": "D7:23", "text": "Look at this!", "blip_caption": "a photo of a giraffe"},
    ]
    question = "What is Melanie's reason for getting into running?"
    qa = [
        {"question": question, "category": 4, "evidence": ["D7:21"]},
        {"question": "Who showed a giraffe?", "category": 4, "evidence": ["D7:23"]},
    ]
    talk = {"speaker_a": "Caroline", "session_7_date_time": "1:56 pm on 8 May, 2023", "session_7": turns}
    (tmp_path / "talk.json").write_text(json.dumps([{"sample_id": "conv-26", "conversation": talk, "qa": qa}]), "utf-8")
    _run("retrieval.py", str(tmp_path / "talk.json"), "--out", str(tmp_path / "kept"))
    rows = json.loads((tmp_path / "kept").read_text(encoding="utf-8"))["ways"]["default"]
    reached = {row[""]: row["mrr"] for row in rows}
    assert reached["all, corrected"] == 1.0
    assert reached["all, published"] < 1.0


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
