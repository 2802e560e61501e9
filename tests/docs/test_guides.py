"""What docs/ says is what happens."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import CommandLine
from documented import blocks, follow, steps
from harken.assemble.layers import LayerName
from harken.config import AutoRagConfig, ContextConfig, RagConfig, load_settings
from harken.sources.likeness import ALIKE_IN_MEANING, ALIKE_IN_WORDS
from harken.sources.memory import CATEGORIES
from repositories import new_repository

ROOT = Path(__file__).resolve().parents[2]
STARTING = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
INDEXING = (ROOT / "docs" / "indexing.md").read_text(encoding="utf-8")
WORKING = (ROOT / "docs" / "how-memory-works.md").read_text(encoding="utf-8")

REMEMBERING = (ROOT / "docs" / "memories.md").read_text(encoding="utf-8")

needs_model = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")


@needs_model
def test_the_first_steps_print_what_they_are_said_to_print(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert follow(replace(cli, settings={}), steps(STARTING)) == {"import", "core", "config", "context"}


@needs_model
def test_the_agent_with_memory_runs_and_remembers_its_first_answer(cli: CommandLine, tmp_path: Path) -> None:
    [snippet] = blocks(STARTING, "python")
    command = [sys.executable, "-W", "error", "-c", snippet]
    environment = cli.environment({"HARKEN_EMBEDDER": "onnx"})
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert answers == ["(an answer to 2 messages)", "(an answer to 4 messages)"]


def test_the_settings_that_are_shown_are_the_defaults(tmp_path: Path) -> None:
    [shown] = blocks(WORKING, "toml")
    (tmp_path / "harken.toml").write_text(shown, encoding="utf-8")
    settings = load_settings(tmp_path, env={}).settings
    assert (settings.auto_rag, settings.context, settings.rag) == (AutoRagConfig(), ContextConfig(), RagConfig())
    assert tomllib.loads(shown).keys() == {"auto_rag", "context", "rag"}


def test_memories_are_saved_found_and_superseded_as_the_page_says(cli: CommandLine) -> None:
    assert follow(cli, steps(REMEMBERING)) == {"memory", "search"}
    assert f"{ALIKE_IN_WORDS:.2f}" in REMEMBERING
    assert f"{ALIKE_IN_MEANING:.2f}" in REMEMBERING
    assert all(f"`{category}`" in REMEMBERING for category in CATEGORIES)


def test_every_layer_is_named_in_its_order() -> None:
    table = [
        line.split("|")[1].strip() for line in WORKING.split("## One budget")[0].splitlines() if line.count("|") == 4
    ]
    assert table[2:] == [name.value for name in LayerName if name is not LayerName.HISTORY]


def test_a_repository_is_indexed_and_searched_as_the_guide_says(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = new_repository(tmp_path / "shop")
    budget = 'def divide(total):\n    """Divide the token budget."""\n'
    repository.commit("Divide the budget: why it was needed", budget_py=budget, guide_md="# Guide\n\nSet it up.\n")
    monkeypatch.chdir(repository.root)
    assert follow(cli, steps(INDEXING)) == {"index", "code", "commits", "documents"}
    assert {hit["source"] for hit in cli.search("divide", "--source", "code", "--source", "commit")} == {
        "code",
        "commit",
    }
