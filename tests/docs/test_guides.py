"""What docs/ says is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import CommandLine
from documented import blocks
from harken.config.sections import AutoRagConfig, ContextConfig, RagConfig, SearchConfig
from harken.config.settings import load_settings
from harken.context.layers import LayerName
from harken.engine import Harken
from harken.model.arguments import CATEGORIES
from harken.serve.http.problems import KINDS
from harken.sources.memories.duplicates import ALIKE_IN_MEANING, ALIKE_IN_WORDS
from harken.testing import ChatServer
from harken.testing.endpoints import Says

ROOT = Path(__file__).resolve().parents[2]
STARTING = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
WORKING = (ROOT / "docs" / "how-memory-works.md").read_text(encoding="utf-8")

AGENTS = (ROOT / "docs" / "coding-agents.md").read_text(encoding="utf-8")
CHATTING = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")
REMEMBERING = (ROOT / "docs" / "memories.md").read_text(encoding="utf-8")

needs_model = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")


@needs_model
def test_the_agent_with_memory_runs_and_remembers_its_first_answer(cli: CommandLine, tmp_path: Path) -> None:
    [snippet] = blocks(STARTING, "python")
    command = [sys.executable, "-W", "error", "-c", snippet]
    environment = cli.environment({"HARKEN_EMBEDDER": "onnx"})
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert answers == ["(an answer to 2 messages)", "(an answer to 4 messages)"]


def test_the_conversation_of_the_chat_page_goes_as_it_is_shown(cli: CommandLine) -> None:
    [shown] = blocks(CHATTING, "text")
    lines = shown.splitlines()
    said = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
    parts = [part for line in lines if not line.startswith("> ") for part in line.split("…")]
    with ChatServer(Says("It needs a rubber seal of half an inch.")) as server:
        model = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "none"}
        cli("summarizer", "off")
        printed = cli("chat", stdin="".join(f"{line}\n" for line in said), settings=model).out
    place = 0
    for part in parts:
        place = printed.find(part, place)
        assert place >= 0, f"{part!r} is not printed here:\n{printed}"


def test_every_command_that_a_chat_has_is_on_its_page(cli: CommandLine) -> None:
    listed = {line.split()[0] for line in cli("chat", stdin="/help\n").out.splitlines() if line[0] == "/" != line[1]}
    assert all(f"`{command}" in CHATTING for command in listed), listed


def test_the_settings_that_are_shown_are_the_defaults(tmp_path: Path) -> None:
    [shown] = blocks(WORKING, "toml")
    (tmp_path / "harken.toml").write_text(shown, encoding="utf-8")
    settings = load_settings(tmp_path, env={}).settings
    assert (settings.auto_rag, settings.context, settings.rag) == (AutoRagConfig(), ContextConfig(), RagConfig())
    assert settings.search == SearchConfig()
    assert tomllib.loads(shown).keys() == {"search", "auto_rag", "context", "rag"}
    assert all(f"search.{name}" in WORKING for name in tomllib.loads(shown)["search"])


def test_the_limits_and_categories_of_memories_are_those_of_the_page() -> None:
    assert f"{ALIKE_IN_WORDS:.2f}" in REMEMBERING
    assert f"{ALIKE_IN_MEANING:.2f}" in REMEMBERING
    assert all(f"`{category}`" in REMEMBERING for category in CATEGORIES)


def test_every_refusal_of_a_teams_server_is_in_its_table() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| (.*?) \|", (ROOT / "docs" / "http-api.md").read_text("utf-8"), re.MULTILINE)
    told = {
        (int(status), kind)
        for statuses, kinds in rows
        for status, kind in zip(statuses.split(", "), re.findall(r"`([\w-]+)`", kinds), strict=True)
    }
    assert told == {(status, kind) for status, (kind, _) in KINDS.items()}


def test_every_layer_is_named_in_its_order() -> None:
    table = [
        line.split("|")[1].strip() for line in WORKING.split("## One budget")[0].splitlines() if line.count("|") == 4
    ]
    layers = [name.value for name in LayerName if name is not LayerName.HISTORY]
    assert table[2:] == layers
    assert len(re.findall(r"^\d+\. ", STARTING.split("The layers, always in this order")[1], re.MULTILINE)) == len(
        layers
    )


def test_every_tool_that_a_chats_model_may_call_is_named(tmp_path: Path) -> None:
    with Harken(tmp_path, env={}, settings={"embedder": "none"}) as harken:
        tools = [tool.name for tool in harken._toolbox().specs]
    chats = WORKING.split("## Chats")[1].split("\n## ")[0]
    assert not [name for name in tools if f"`{name}`" not in chats]


def test_the_files_that_are_named_are_those_that_are_written(cli: CommandLine) -> None:
    rows = [line for line in AGENTS.splitlines() if line.startswith("| `")]
    for row in rows:
        agent = row.split("`")[1]
        for file in cli("install", agent, "--dry-run", "--json").json()["files"]:
            assert file["path"].replace(str(cli.person), "~") in row
    assert len(rows) == 5
