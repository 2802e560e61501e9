"""Every benchmark finds what it measures, and some go their whole way at their smallest size."""

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


def test_that_of_searches_tells_what_learned_fusion_costs() -> None:
    printed = _run("speed_search.py", "--messages", "60", "--queries", "3")
    assert [line.split("CPU")[0].strip() for line in printed.splitlines() if "CPU" in line][:2] == [
        "learned fusion,",
        "of it: turns beside,",
    ]


def test_the_weights_of_learned_fusion_can_be_fitted_anew(tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    talks = []
    for name in ("garden", "kitchen"):
        said = [f"Hi! What did you do in the {name}?", f"I painted the {name} on Friday.", "Good for you!", "Thanks."]
        turns = [
            {"dia_id": f"D1:{place}", "speaker": ("Ada", "Mel")[place % 2], "text": text}
            for place, text in enumerate(said, start=1)
        ]
        talk = {"speaker_a": "Ada", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
        asked = {"question": f"When did Mel paint the {name}?", "category": 2, "evidence": ["D1:2"]}
        talks.append({"sample_id": name, "conversation": talk, "qa": [asked, {**asked, "category": 5}]})
        messages = [
            {"id": place, "role": ("user", "assistant")[place % 2], "content": text, "time_anchor": "May-08-2023"}
            for place, text in enumerate(said)
        ]
        question = {"question": f"Who painted the {name}?", "type": "knowledge_update", "source_chat_ids": [1]}
        (tmp_path / "chats" / f"{name}.json").write_text(json.dumps({"messages": messages, "questions": [question]}))
    (tmp_path / "talks.json").write_text(json.dumps(talks))
    printed = _run(
        "train_fusion.py", "--most", "3", "--locomo", str(tmp_path / "talks.json"), "--beam", str(tmp_path / "chats")
    )
    assert [line.split()[0] for line in printed.splitlines()] == [
        "questions",
        "LoCoMo",
        "LoCoMo,",
        "BEAM",
        "knowledge_update",
    ]


def _run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
