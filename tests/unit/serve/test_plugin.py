"""The plugin for Claude Code is whole, and says the same as `harken install`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from harken import __version__
from harken.model.conversations import UNTRUSTED
from harken.serve.hooks.events import CLAUDE_CODE, KNOWN, event_name
from harken.serve.install.entries import without_our_hooks
from harken.serve.install.targets import SHARED_COMMAND, TARGETS, Command, Where

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "plugins" / "claude-code"


def read(name: str) -> dict[str, Any]:
    """What a file of the plugin says."""
    found: dict[str, Any] = json.loads((PLUGIN / name).read_text("utf-8"))
    return found


def test_it_has_the_version_of_the_package() -> None:
    manifest = read(".claude-plugin/plugin.json")
    assert (manifest["name"], manifest["version"], manifest["license"]) == ("harken", __version__, "Apache-2.0")
    [listed] = read(".claude-plugin/marketplace.json")["plugins"]
    assert (PLUGIN / listed["source"]).resolve() == PLUGIN


def test_its_hooks_and_server_are_those_that_install_writes() -> None:
    target = TARGETS[CLAUDE_CODE]
    where = Where(Path("/person"), Path("/project"), {})
    settings, servers = target.edits(where, Command(SHARED_COMMAND), target.hooked)
    hooks = read("hooks/hooks.json")["hooks"]
    assert hooks == {entry.keys[1]: [entry.value] for entry in settings.entries}
    assert read(".mcp.json")["mcpServers"] == {"harken": servers.entries[0].value}


def test_every_agent_is_hooked_to_events_that_are_answered() -> None:
    for target in TARGETS.values():
        assert all(event_name(event) in KNOWN for event in (target.hooked.events if target.hooked else ()))


def test_hooks_of_any_harken_are_known_as_ours_and_others_are_not() -> None:
    ours = ("harken hook Stop", "'/a b/harken' hook Stop", "/x/python -m harken hook Stop --home /h")
    others = ("harkening hook Stop", "bell", "harken status", "")
    assert not any(without_our_hooks({"hooks": [{"type": "command", "command": command}]}) for command in ours)
    strange = (None, {}, {"hooks": [{"type": "http", "url": "x"}]}, {"hooks": "x"})
    for item in (*({"hooks": [{"type": "command", "command": command}]} for command in others), *strange):
        assert without_our_hooks(item) == item


def test_the_skill_names_itself_and_when_it_is_for() -> None:
    _, head, body = (PLUGIN / "skills/memory/SKILL.md").read_text("utf-8").split("---\n", 2)
    facts = yaml.safe_load(head)
    assert facts["name"] == "memory"
    assert "Use when" in facts["description"]
    # Claude Code cuts a description that is longer.
    assert len(facts["description"]) <= 1024
    assert "search" in body


def test_the_licence_is_the_project_s() -> None:
    assert (PLUGIN / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


def test_the_icon_is_what_its_script_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "icon.png"
    script = f"import runpy; drawing = runpy.run_path({str(ROOT / 'tools' / 'draw_icon.py')!r})\n"
    script += f"open({str(drawn)!r}, 'wb').write(drawing['png'](drawing['draw']()))"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    points = drawn.read_bytes()
    assert points == (PLUGIN / "icon.png").read_bytes()
    width, height = (int.from_bytes(points[at : at + 4], "big") for at in (16, 20))
    assert width == height
    assert 512 <= width <= 2048


def test_it_is_installed_from_a_clone_for_no_registry_has_harken() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    text = (PLUGIN / "README.md").read_text("utf-8")
    installed = re.findall(r"(?:uv tool|pipx|pip) install '?([^'\s]+)", text)
    assert installed
    for what in installed:
        found = re.fullmatch(r"\.\[(\w+)\]", what)
        assert found, what
        assert found[1] in extras


def test_the_skill_knows_by_what_mark_untrusted_words_are_told() -> None:
    skill = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text("utf-8")
    assert all(f'trust="{trust.label}"' in skill for trust in UNTRUSTED)
