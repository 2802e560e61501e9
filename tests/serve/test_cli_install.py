"""`harken install`: what it writes, and that nothing of it is left afterwards."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coding_agent import HOOK_SECONDS, PATIENCE_SECONDS, answering
from command_line import CommandLine
from harken.serve.daemon.place import DaemonPaths

AGENTS = ("claude-code", "codex", "cursor", "gemini", "opencode")
FILES = {
    "claude-code": (".claude/settings.json", ".claude.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "cursor": (".cursor/mcp.json",),
    "gemini": (".gemini/settings.json",),
    "opencode": (".config/opencode/opencode.jsonc",),
}
HOOKS = (
    '{\n  "model": "opus",\n  "hooks": {\n    "Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]\n  }\n}\n'
)
TABLES = '# mine\nmodel = "o5" # good\n\n[mcp_servers.other]\ncommand = "x"\n\n[profiles.a]\nmodel = "b"\n'
COMMENTED = """\
{
  "$schema": "https://opencode.ai/config.json", // note
  "mcp": {
    "other": {"type": "remote", "url": "http://x"}, // last
  },
}"""
MINE = {
    ".claude/settings.json": HOOKS,
    ".claude.json": '{"numStartups": 5, "mcpServers": {"other": {"command": "x"}}}',
    ".codex/hooks.json": '{\n\t"hooks": {}\n}',
    ".codex/config.toml": TABLES,
    ".cursor/mcp.json": '{\r\n  // mine\r\n  "mcpServers": {},\r\n}\r\n',
    ".gemini/settings.json": '\ufeff{\n    "theme": "dark", // night\n}\n',
    ".config/opencode/opencode.jsonc": COMMENTED,
}


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


@pytest.fixture
def settled(cli: CommandLine) -> CommandLine:
    """A person who has settings of all agents already."""
    for name, text in MINE.items():
        path = cli.person / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o640)
    return cli


def data(path: Path) -> dict[str, Any]:
    """What a file of plain JSON says."""
    read: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return read


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_is_left_where_nothing_was(cli: CommandLine, agent: str) -> None:
    before = tree(cli.person)
    assert "created" in cli("install", agent).out
    assert tree(cli.person) != before
    assert "removed" in cli("install", agent, "--uninstall").out
    assert tree(cli.person) == before
    assert tree(cli.home / "installed") == {}


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_are_as_they_were_to_the_byte(settled: CommandLine, agent: str) -> None:
    before = tree(settled.person)
    settled("install", agent)
    after = tree(settled.person)
    assert {name for name in after if after[name] != before.get(name)} == set(FILES[agent])
    assert {name: mode for name, (mode, _) in after.items()} == {name: mode for name, (mode, _) in before.items()}
    settled("install", agent, "--uninstall")
    assert tree(settled.person) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_installing_again_changes_nothing(settled: CommandLine, agent: str) -> None:
    before = tree(settled.person)
    settled("install", agent)
    once = tree(settled.person)
    again = settled("install", agent, "--json").json()
    assert {file["action"] for file in again["files"]} == {"unchanged"}
    assert tree(settled.person) == once
    settled("install", agent, "--uninstall")
    assert tree(settled.person) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_a_dry_run_shows_what_the_real_one_does(settled: CommandLine, agent: str) -> None:
    before = tree(settled.person)
    shown = settled("install", agent, "--dry-run").out
    assert tree(settled.person) == before
    assert not settled.home.exists()
    assert "Nothing was changed" in shown
    done = settled("install", agent).out
    assert done.strip() == shown.replace("Nothing was changed (--dry-run).", "").strip()
    assert "+++ " in done
    assert "harken" in done


@pytest.mark.parametrize("agent", AGENTS)
def test_what_its_owner_changed_in_between_is_kept(settled: CommandLine, agent: str) -> None:
    settled("install", agent)
    for name in FILES[agent]:
        path = settled.person / name
        text = path.read_bytes().decode("utf-8")
        if path.suffix == ".toml":
            text += '\n[mcp_servers.later]\ncommand = "y"\n'
        else:
            at = text.index("{") + 1
            text = (
                f'{text[:at]}\n  "later": true, // mine{text[at:]}'
                if "\n" in text
                else f'{text[:at]}"later": true, {text[at:]}'
            )
        path.write_bytes(text.encode())
    settled("install", agent, "--uninstall")
    for name in FILES[agent]:
        left = (settled.person / name).read_bytes().decode("utf-8")
        assert "later" in left
        assert "harken" not in left
        if name.endswith(".toml"):
            expected = tomllib.loads(MINE[name])
            expected["mcp_servers"]["later"] = {"command": "y"}
            assert tomllib.loads(left) == expected
            assert "# mine" in left
            assert "# good" in left
        else:
            assert left.replace('\n  "later": true, // mine', "").replace('"later": true, ', "") == MINE[name]


def test_a_file_that_was_made_stays_where_somebody_else_uses_it_too(cli: CommandLine) -> None:
    cli("install", "claude-code")
    path = cli.person / ".claude.json"
    path.write_text(json.dumps({**data(path), "numStartups": 1}))
    cli("install", "claude-code", "--uninstall")
    assert data(path) == {"numStartups": 1}
    assert not (cli.person / ".claude").exists()


def test_each_keeps_what_the_other_wrote(settled: CommandLine) -> None:
    settled("install", "claude-code")
    settings = data(settled.person / ".claude/settings.json")
    assert settings["model"] == "opus"
    commands = [item["hooks"][0]["command"] for item in settings["hooks"]["Stop"]]
    assert commands[0] == "bell"
    assert shlex.split(commands[1])[1:4] == ["hook", "Stop", "--agent"]
    assert data(settled.person / ".claude.json")["mcpServers"].keys() == {"other", "harken"}


def test_a_server_of_the_same_name_comes_back(cli: CommandLine) -> None:
    path = cli.person / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"harken": {"command": "my-own"}}}')
    cli("install", "cursor")
    assert data(path)["mcpServers"]["harken"]["command"] != "my-own"
    path.write_text(path.read_text().replace('{"mcpServers"', '{"new": 1, "mcpServers"'))
    cli("install", "cursor", "--uninstall")
    assert data(path) == {"new": 1, "mcpServers": {"harken": {"command": "my-own"}}}


def test_an_older_hook_is_replaced_by_the_one_of_today(cli: CommandLine) -> None:
    path = cli.person / ".gemini/settings.json"
    path.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/venv/bin/harken hook SessionStart --agent gemini"}]}
    path.write_text(json.dumps({"hooks": {"SessionStart": [old]}}))
    cli("install", "gemini")
    assert len(data(path)["hooks"]["SessionStart"]) == 1
    assert "/old/venv" not in path.read_text()


def test_without_its_record_it_still_goes(settled: CommandLine, tmp_path: Path) -> None:
    settled("install", "claude-code")
    moved = CommandLine(tmp_path / "elsewhere", settled.person, settled.settings)
    moved("install", "claude-code", "--uninstall")
    assert data(settled.person / ".claude/settings.json") == json.loads(MINE[".claude/settings.json"])
    assert data(settled.person / ".claude.json") == json.loads(MINE[".claude.json"])


def test_uninstalling_what_was_never_there_changes_nothing(settled: CommandLine) -> None:
    before = tree(settled.person)
    for agent in AGENTS:
        assert "unchanged" in settled("install", agent, "--uninstall").out
    assert tree(settled.person) == before


def test_a_symbolic_link_stays_one(cli: CommandLine, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text('{"model": "opus"}\n')
    (cli.person / ".claude").mkdir()
    (cli.person / ".claude/settings.json").symlink_to(real)
    before = tree(tmp_path / "person"), real.read_bytes()
    cli("install", "claude-code")
    assert (cli.person / ".claude/settings.json").is_symlink()
    assert "hooks" in data(real)
    cli("install", "claude-code", "--uninstall")
    assert (tree(tmp_path / "person"), real.read_bytes()) == before


@pytest.mark.parametrize("broken", ['{"mcpServers": {', '{"mcpServers": []}', "\xff\xfe", "[]"])
def test_a_broken_file_is_named_and_nothing_is_touched(cli: CommandLine, broken: str) -> None:
    path = cli.person / ".claude.json"
    path.write_bytes(broken.encode("latin-1"))
    before = tree(cli.person)
    said = cli.fails("install", "claude-code")
    assert str(path) in said
    assert "Nothing was changed" in said
    assert tree(cli.person) == before


def test_broken_toml_is_named_with_its_line(cli: CommandLine) -> None:
    (cli.person / ".codex").mkdir()
    (cli.person / ".codex/config.toml").write_text('model = "a"\nmodel = \n')
    before = tree(cli.person)
    assert "line 2" in cli.fails("install", "codex")
    assert tree(cli.person) == before


def test_a_read_only_file_is_left_alone(settled: CommandLine) -> None:
    (settled.person / ".claude.json").chmod(0o400)
    before = tree(settled.person)
    assert "chmod u+w" in settled.fails("install", "claude-code")
    assert tree(settled.person) == before


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


def test_json_says_what_was_done(settled: CommandLine) -> None:
    facts = settled("install", "codex", "--json").json()
    assert facts["hooks"][:2] == ["SessionStart", "UserPromptSubmit"]
    assert [file["action"] for file in facts["files"]] == ["changed", "changed"]
    for file in facts["files"]:
        name = str(Path(file["path"]).relative_to(settled.person))
        assert Path(file["backup"]).read_bytes() == MINE[name].encode()
    assert any("/hooks" in note for note in facts["notes"])
