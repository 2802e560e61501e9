"""The README's commands do what it shows, and its settings are settings."""

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
from harken.config.settings import Settings, load_settings
from harken.importers.jsonl import _OTHER_TIMES, _ROLES, _TEXT_KEYS, _TYPES
from harken.journal.backup import _PARTS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOCAL = find_spec("onnxruntime") is not None

needs_model = pytest.mark.skipif(not LOCAL, reason="needs harken[local]")


def run_snippet(cli: CommandLine, folder: Path, named: str) -> list[str]:
    """What the one Python example that speaks of something prints."""
    [snippet] = [block for block in blocks(README, "python") if named in block]
    command = [sys.executable, "-W", "error", "-c", snippet]
    done = subprocess.run(
        command, cwd=folder, env=cli.environment({"HARKEN_EMBEDDER": "onnx"}), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@needs_model
def test_the_first_snippet_finds_who_signs_off(cli: CommandLine, tmp_path: Path) -> None:
    assert "Priya" in run_snippet(cli, tmp_path, "my-memory")[0]
    assert (tmp_path / "my-memory" / "conversations").is_dir()


@needs_model
def test_the_agent_loop_brings_back_what_left_the_window(cli: CommandLine, tmp_path: Path) -> None:
    printed = run_snippet(cli, tmp_path, "agent-memory")
    layers = {line.partition(":")[0]: line for line in printed}
    layers.pop("summary", None)  # the worker beside the loop may have made one by now
    assert list(layers) == ["core", "auto_rag", "window", "pending"]
    assert "Priya signs it off" in layers["auto_rag"]


@needs_model
def test_the_awaited_snippet_finds_the_kettle(cli: CommandLine, tmp_path: Path) -> None:
    assert run_snippet(cli, tmp_path, "async-memory") == ["The kettle in the office is broken again."]


@pytest.mark.parametrize("settings", blocks(README, "toml"))
def test_the_settings_that_it_recommends_are_accepted(settings: str, tmp_path: Path) -> None:
    (tmp_path / "harken.toml").write_text(settings, encoding="utf-8")
    wanted = tomllib.loads(settings)
    loaded = load_settings(tmp_path, env={}).settings
    assert loaded.embedding.model == wanted["embedding"].get("model")
    assert loaded.embedder == wanted.get("embedder", "onnx")


def test_every_setting_of_the_table_exists_with_the_default_that_it_says() -> None:
    table = README.split("## Settings")[1].split("## ")[0]
    known = load_settings(env={"HARKEN_HOME": "/nowhere"})
    values = {value.key: value.value for value in known.values()}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", "\n".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert named - {"setting"} <= values.keys() | Settings.hints().keys() | {"redaction.patterns"}
    assert values["search.limit"] == 10
    assert values["embedding.min_message_tokens"] == 10
    assert values["record.tool_text_chars"] == 2000
    for key, value in (("embedder", "onnx"), ("search.fusion", "learned"), ("search.rerank", False)):
        assert values[key] == value


def test_every_key_of_a_line_that_can_be_imported_is_in_its_row() -> None:
    [row] = re.findall(r"^\| `jsonl` \|.*$", README, re.MULTILINE)
    keys, values = {"conversation", "role", "content", "ts", "type", "metadata", *_OTHER_TIMES, *_TEXT_KEYS}, {*_ROLES}
    assert keys <= set(re.findall(r'"(\w+)"', row))
    assert values | {str(kind) for kind in _TYPES} <= set(re.findall(r"`(\w+)`", row))


def test_a_backup_takes_along_what_the_page_on_the_home_says() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").split("## What lies in the home")[1]
    told = dict(re.findall(r"^\| `([\w.-]+)/?`.* \| (yes|no) \|$", page, re.MULTILINE))
    assert {name for name, is_taken in told.items() if is_taken == "yes"} == set(_PARTS) - {"harken.yaml", "harken.yml"}


def test_every_setting_stands_in_a_table_and_with_its_default_where_few_look() -> None:
    values = {value.key: value.value for value in load_settings("/nowhere", env={}).values()}
    rest, operating = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("settings.md", "operating.md"))
    words = {"none": None, "true": True, "false": False, "empty": ""}
    rest = rest.split("## What lies in the home")[0]
    rows = dict(re.findall(r"^\| `([a-z0-9_.]+)` \| (.*?) \| ", rest, re.MULTILINE))
    for key, told in rows.items():
        default = values[key] if values[key] not in ((), []) else ""
        is_number = isinstance(default, (int, float)) and not isinstance(default, bool)
        assert (float(told) if is_number else words.get(told, told)) == default, key
    named = {"home", *rows}
    for cell in re.findall(r"^\| (`.*?) \|", README.split("## Settings")[1] + operating, re.MULTILINE):
        section = ""
        for name in re.findall(r"`([a-z0-9_.]+)`", cell):
            section = section if name.startswith(".") else name.partition(".")[0]
            named.add(section + name if name.startswith(".") else name)
    assert values.keys() <= named
