"""Every benchmark finds what it measures, and some go their whole way at their smallest size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from command_line import start_program

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_each_can_be_imported() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert "retrieval" in names
    _run("-c", f"import importlib; [importlib.import_module(name) for name in {names!r}]")


def test_that_of_contexts_goes_its_whole_way() -> None:
    _run("speed_context.py", "--queries", "3", "--rounds", "1", "--segment", "200")


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


def test_that_of_peers_goes_its_whole_way_and_one_that_is_not_installed_stops_no_other(tmp_path: Path) -> None:
    said = (
        "Our fig tree needs pruning.",
        "Priya prunes it in February.",
        "The roof leaks again.",
        "Oh no, since when?",
    )
    turns = [
        {"speaker": ("Ada", "Mel")[place % 2], "dia_id": f"D1:{place}", "text": text}
        for place, text in enumerate(said, 1)
    ]
    qa = [
        {"question": "When does Priya prune the fig tree?", "category": 2, "evidence": ["D1:2"]},
        {"question": "Which tree does Priya paint?", "category": 5, "evidence": ["D1:1"]},
    ]
    talk = {"speaker_a": "Ada", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    (tmp_path / "talk.json").write_text(json.dumps([{"sample_id": "conv-1", "conversation": talk, "qa": qa}]), "utf-8")
    kept = tmp_path / "kept.json"
    smallest = ("--size", "6", "--sample", "3", "--starts", "1", "--here", "--only", "harken,chroma")
    _run("peers.py", str(tmp_path / "talk.json"), *smallest, "--out", str(kept))
    rows = {(row["system"], row["model"]): row for row in json.loads(kept.read_text(encoding="utf-8"))["rows"]}
    own = rows["Harken", "bge-small"]
    assert (own["questions"], own["recall"], own["mrr"], own["refused"], own["error"]) == (1, 1.0, 1.0, 0, "")
    measured = ("embedded", "stored_words", "stored_given", "p50", "p95", "first", "mb_storing", "mb_searching")
    assert all(own[name] > 0 for name in measured)
    assert rows["Harken, reranked", "bge-small"]["mrr"] == 1.0
    assert rows["Harken, convex", "bge-small"]["recall"] == 1.0
    assert "No module named 'chromadb'" in rows["Chroma", "MiniLM-L6"]["error"]
    page = kept.with_suffix(".md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| Harken (")]
    assert [line.endswith("| 1.000 | 1.000 |") for line in lines] == [True, True]
    assert "No module named 'chromadb'" in page
    drawn = ElementTree.parse(kept.with_suffix(".svg")).getroot()
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("Harken") == 4
    assert "Chroma" not in words


def test_that_of_the_viewer_asks_every_page_and_weighs_the_daemon(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    _run("viewer.py", "--messages", "300", "--rounds", "1", "--out", str(kept))
    found = json.loads(kept.read_text(encoding="utf-8"))
    assert {"/", "/conversations/…", "/search?q=…", "/spend"} <= {row["page"] for row in found["pages"]}
    assert all(row["p95 ms"] > 0 for row in found["pages"])
    assert found["after_mb"] > 0


def test_that_of_a_team_at_work_loses_nothing_while_its_worker_and_its_server_are_killed(
    shared_database: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    sizes = ("--clients", "4", "--principals", "2", "--seconds", "6", "--pause", "0.1", "--embedder", "none")
    _run("team_load.py", shared_database, *sizes, "--out", str(kept))
    found = json.loads(kept.read_text(encoding="utf-8"))
    assert found["errors"] == {}
    assert found["statuses"]["200"] > 10
    counts = {row["what"]: row["size"] for row in found["figures"]}
    assert (counts["lost"], counts["doubled"], counts["came back"]) == ("0", "0", "0")


def test_no_peer_reaches_the_network(tmp_path: Path) -> None:
    adapter = """
import socket
from protocol import Adapter, serve

class Talkative(Adapter):
    def open(self, folder, model, paths):
        for address in (("192.0.2.1", 80), ("127.0.0.1", 1)):
            try:
                socket.create_connection(address, timeout=5)
            except OSError as error:
                print(error)
        return "opened"

serve(Talkative())
"""
    asked = json.dumps({"do": "open", "folder": str(tmp_path), "model": "own", "paths": {}}) + "\n"
    done = subprocess.run(
        [sys.executable, "-c", adapter], cwd=FOLDER / "peer_adapters", input=asked, capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    assert (answer["result"], answer["refused"]) == ("opened", 1)
    assert "no peer reaches the network here" in done.stderr


def _run(*words: str) -> str:
    """Run one where all is imported already, and what it starts as well: no time is looked at."""
    pipe = subprocess.PIPE
    with start_program(*words, cwd=FOLDER, stdout=pipe, stderr=pipe) as process:
        out, error = process.communicate()
    assert process.returncode == 0, error
    return str(out)
