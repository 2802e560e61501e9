from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, as_variables
from harken.testing import EmbeddingServer

STORY = (
    *("--domain", "debugging", "--strategy", "systematic-elimination"),
    *("--goal", "Find out why the importer loses rows", "--hypothesis", "The reader skips carriage returns"),
    *("--action", "Fed it each kind of line ending", "--prediction", "Only carriage returns lose rows"),
)
CAUSE = ("--cause", "wrong-assumption", "--cause-description", "The rows were duplicates")
ENDING = ("falsified", "--result", "All files lost 12 rows", "--surprise", "Line endings did nothing", *CAUSE)


@pytest.fixture
def harken(cli: CommandLine, store_settings: dict[str, Any]) -> CommandLine:
    return replace(cli, settings={**cli.settings, **as_variables(store_settings)})


def session(path: Path, *steps: tuple[str, str]) -> Path:
    """A transcript in which an agent runs commands, each with what it printed."""
    lines: list[dict[str, Any]] = [
        {"conversation": "w", "role": "user", "content": "Make it pass", "ts": "2024-05-01T10:00:00Z"}
    ]
    for number, (command, printed) in enumerate(steps):
        shell = {
            "conversation": "w",
            "call_id": f"c{number}",
            "tool_name": "Bash",
            "ts": f"2024-05-01T10:0{number + 1}:00Z",
        }
        call = f"Bash {json.dumps({'command': command})}"
        lines.append({**shell, "role": "assistant", "type": "tool_call", "content": call})
        lines.append({**shell, "role": "tool", "type": "tool_result", "content": printed})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.usefixtures("engine_settings")
def test_an_experience_goes_its_whole_way(harken: CommandLine) -> None:
    begun = harken("experience", "start", *STORY, "--session", "one", "--json").json()
    assert (begun["status"], begun["iteration_count"]) == ("active", 1)
    assert begun["id"] in harken.fails("experience", "start", *STORY, code=2)
    assert len(json.dumps(begun)) < 500
    assert (
        harken("experience", "update", "--hypothesis", "Duplicates are dropped on purpose", "--json").json()[
            "iteration_count"
        ]
        == 2
    )
    active = harken("experience", "active", "--session", "two", "--json").json()
    assert (active["id"], active["is_orphan"], active["suggestion"]) == (begun["id"], True, None)
    assert "orphan" in harken("experience", "active", "--session", "two").out
    harken("experience", "adopt", "--session", "two")
    assert harken("experience", "active", "--session", "two", "--json").json()["is_orphan"] is False
    assert "root cause" in harken.fails("experience", "resolve", "falsified", "--result", "no", code=2)
    ended = harken(
        "experience", "resolve", *ENDING, "--worked", "Counting", "--takeaway", "Count first", "--json"
    ).json()
    assert (ended["status"], ended["confidence_tier"], ended["auto_captured"]) == ("falsified", "silver", False)
    shown = harken("experience", "show", begun["id"][:13], "--json").json()
    assert shown["root_cause"] == {"category": "wrong-assumption", "description": "The rows were duplicates"}
    assert [each["hypothesis"] for each in shown["history"]] == ["The reader skips carriage returns"]
    assert "**Outcome**: falsified - All files lost 12 rows" in harken("experience", "show", begun["id"]).out
    assert "**Takeaway**: Count first" in harken("experience", "show", begun["id"]).out
    assert {hit["id"] for hit in harken.search("importer")} == {begun["id"]}
    assert [one["id"] for one in harken("experience", "list", "--outcome", "falsified", "--json").json()] == [
        begun["id"]
    ]
    assert [one["id"] for one in harken("experience", "list", "--since", "yesterday", "--json").json()] == [begun["id"]]
    assert harken("experience", "list", "--since", "2100-01-01", "--json").json() == []
    assert "is not a date" in harken.fails("experience", "list", "--since", "whenever", code=2)
    assert harken("experience", "active").out.startswith("No experience is active")
    harken("experience", "forget", begun["id"])
    assert harken("experience", "list").out.startswith("No experiences")
    assert "printed by: harken experience list" in harken.fails("experience", "show", begun["id"])
    assert "printed by: harken values list" in harken.fails("values", "forget", "nothing")


@pytest.mark.usefixtures("engine_settings")
def test_an_imported_failure_is_reviewed_and_accepted(harken: CommandLine, tmp_path: Path) -> None:
    failed = ("pytest -q", "FAILED tests/a.py::test_b - boom\n1 failed in 0.1s")
    harken("import", session(tmp_path / "work.jsonl", failed))
    [one] = harken("experience", "review", "--json").json()
    assert (one["command"], one["goal"], one["hypothesis"]) == ("pytest -q", "Make it pass", None)
    assert "FAILED tests/a.py::test_b - boom" in harken("experience", "review").out
    error = harken.fails("experience", "review", "--accept", one["id"], code=2)
    assert "--hypothesis TEXT --prediction TEXT" in error
    words = ("--hypothesis", "b is None", "--prediction", "A guard makes test_b pass")
    assert harken("experience", "review", "--accept", one["id"], *words, "--json").json()["id"] == one["id"]
    assert harken("experience", "review", "--json").json() == []


def test_an_imported_failure_can_be_dismissed(harken: CommandLine, tmp_path: Path) -> None:
    harken("import", session(tmp_path / "work.jsonl", ("make", "make: *** [all] Error 1")))
    [one] = harken("experience", "review", "--json").json()
    harken("experience", "review", "--dismiss", one["id"])
    assert harken("experience", "review").out.startswith("Nothing to review")


def test_values_say_when_there_is_too_little(harken: CommandLine) -> None:
    harken("experience", "start", *STORY)
    harken("experience", "resolve", *ENDING)
    assert "nothing is embedded" in harken.fails("values", "clusters", code=2)
    with EmbeddingServer(dims=64) as server:
        model = {
            "HARKEN_EMBEDDER": "openai-compatible",
            "HARKEN_EMBEDDING__URL": server.url,
            "HARKEN_EMBEDDING__MODEL": "words",
        }
        harken("worker", "run", "--until-idle", settings=model)
        found = harken("values", "clusters", "--axis", "full", "--json", settings=model).json()
    assert found == [
        {
            "axis": "full",
            "experiences": 1,
            "clusters": [],
            "note": "Axis full has 1 experience; clusters need 20.",
        }
    ]
    assert harken("values", "list", "--json").json() == []
    assert "harken values clusters" in harken.fails("values", "members", "full_1")
