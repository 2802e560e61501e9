"""`harken install` as a person runs it; what it writes for each agent is tested without a process."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coding_agent import HOOK_SECONDS, PATIENCE_SECONDS, answering
from command_line import CommandLine
from harken.serve.daemon.paths import DaemonPaths

AGENTS = ("claude-code", "codex", "cursor", "gemini", "opencode")
SETTINGS = '{\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]}\n}\n'


def tree(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Everything under a folder: modes, contents, where links point to."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        content: bytes | str | None = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def data(path: Path) -> dict[str, Any]:
    """What a file of plain JSON says."""
    read: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return read


@pytest.mark.no_home
def test_settings_on_one_line_are_not_printed_whole(cli: CommandLine) -> None:
    settings = cli.person / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"allow": [f"Bash(make {number}:*)" for number in range(200)]}}))
    for words in (["--dry-run"], [], ["--uninstall"]):
        lines = cli("install", "claude-code", *words).out.splitlines()
        assert max(map(len, lines)) <= 240
        theirs = [line for line in lines if "Bash(make" in line]
        assert all(line.endswith("…") for line in theirs)
        assert len(theirs) == 2 or "--dry-run" not in words


@pytest.mark.no_home
def test_it_shows_what_it_does_and_undoes_it(cli: CommandLine) -> None:
    settings = cli.person / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    before = tree(cli.person)
    shown = cli("install", "claude-code", "--dry-run").out
    assert tree(cli.person) == before
    assert not cli.home.exists()
    assert "Nothing was changed" in shown
    done = cli("install", "claude-code").out
    *first, rest = done.splitlines()
    assert first == shown.splitlines()[: len(first)]
    left = len(shown.splitlines()) - len(first) - 1
    assert rest == f"… and {left} lines more; before it is done, --dry-run shows all."
    assert "+++ " in done
    assert len(first) < 20
    assert data(settings)["model"] == "opus"
    commands = [item["hooks"][0]["command"] for item in data(settings)["hooks"]["Stop"]]
    assert commands[0] == "bell"
    assert shlex.split(commands[1])[1:4] == ["hook", "Stop", "--agent"]
    assert {file["action"] for file in cli("install", "claude-code", "--json").json()["files"]} == {"unchanged"}
    assert "removed" in cli("install", "claude-code", "--uninstall").out
    assert tree(cli.person) == before
    assert tree(cli.home / "installed") == {}


def test_a_key_is_said_to_belong_into_the_agents_environment_which_no_file_of_settings_takes(cli: CommandLine) -> None:
    (cli.person / ".claude").mkdir()
    settings = {"HARKEN_KEY": "hk_0", "HARKEN_TENANT": "crew"}
    said = cli("install", "claude-code", "--json", settings=settings).json()
    [note] = [note for note in said["notes"] if "HARKEN_KEY" in note]
    assert "HARKEN_KEY into the environment that the agent starts in" in note
    assert "hk_0" not in json.dumps(said)
    assert not any("HARKEN_KEY" in note for note in cli("install", "claude-code", "--json").json()["notes"])


def test_a_broken_file_is_named_and_nothing_is_touched(cli: CommandLine) -> None:
    path = cli.person / ".claude.json"
    path.write_text('{"mcpServers": {')
    before = tree(cli.person)
    said = cli.fails("install", "claude-code")
    assert str(path) in said
    assert "Nothing was changed" in said
    assert tree(cli.person) == before


def test_in_a_project_the_files_name_no_path_of_this_machine(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for agent in AGENTS:
        cli("install", agent, "--scope", "project")
    written = {path for path in project.rglob("*") if path.is_file()}
    names = {str(path.relative_to(project)) for path in written}
    assert names == {
        ".claude/settings.json",
        ".mcp.json",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        "opencode.json",
    }
    assert not [path for path in written if str(tmp_path) in path.read_text() or "/bin/" in path.read_text()]
    for agent in AGENTS:
        cli("install", agent, "--scope", "project", "--uninstall")
    assert tree(project) == {}


def test_the_hook_that_was_written_runs_from_anywhere_with_the_same_home(cli: CommandLine, tmp_path: Path) -> None:
    cli("core", "set", "user", "name", "Maya")
    cli("install", "claude-code")
    group = data(cli.person / ".claude/settings.json")["hooks"]["SessionStart"][0]
    env = {
        "HOME": str(cli.person),
        "PATH": "/usr/bin:/bin",
        **cli.settings,
        "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS),
    }
    payload = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "SessionStart", "source": "startup"}
    serving = {**env, "HARKEN_HOME": str(cli.home)}
    with cli.running("serve", "--quiet"):
        # Else the hook starts one more, which may outlive the test.
        answering(cli, DaemonPaths(str(cli.home)))
        said = ""
        for _ in range(200):
            done = subprocess.run(
                ["/bin/sh", "-c", group["hooks"][0]["command"]],
                input=json.dumps(payload),
                env=env,
                cwd="/",
                capture_output=True,
                encoding="utf-8",
                timeout=PATIENCE_SECONDS,
            )
            assert (done.returncode, done.stderr) == (0, "")
            if said := done.stdout:
                break
        cli("serve", "--stop", settings=serving)
    assert "name: Maya" in json.loads(said)["hookSpecificOutput"]["additionalContext"]


def test_the_server_gets_the_home_too(cli: CommandLine) -> None:
    cli("install", "opencode")
    server = data(cli.person / ".config/opencode/opencode.json")["mcp"]["harken"]
    assert server["command"][-1] == "mcp"
    assert Path(server["command"][0]).is_absolute()
    assert server["environment"] == {"HARKEN_HOME": str(cli.home)}


def test_json_says_what_was_done(cli: CommandLine) -> None:
    path = cli.person / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('model = "o5"\n')
    facts = cli("install", "codex", "--json").json()
    assert facts["hooks"][:2] == ["SessionStart", "UserPromptSubmit"]
    assert {file["path"]: file["action"] for file in facts["files"]} == {
        str(path): "changed",
        str(path.with_name("hooks.json")): "created",
    }
    assert [Path(file["backup"]).read_text() for file in facts["files"] if file["backup"]] == ['model = "o5"\n']
    assert any("/hooks" in note for note in facts["notes"])
