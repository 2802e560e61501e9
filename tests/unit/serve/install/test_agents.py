"""What is written for each agent, and that nothing of it is left afterwards."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harken.serve.install.entries import JSON
from harken.serve.install.plan import Backups, InstallError, make, plan
from harken.serve.install.targets import TARGETS, Command, Where

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


class Person:
    """Somebody with a home of Harken, who installs."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home

    def install(self, agent: str, program: str = "/x/harken") -> list[str]:
        """Install; what was done with each file."""
        return self._made(agent, program, undo=False)

    def uninstall(self, agent: str) -> list[str]:
        """Undo it; what was done with each file."""
        return self._made(agent, "/x/harken", undo=True)

    def data(self, name: str) -> dict[str, Any]:
        """What a file of plain JSON says."""
        read: dict[str, Any] = json.loads((self.folder / name).read_text("utf-8"))
        return read

    def _made(self, agent: str, program: str, *, undo: bool) -> list[str]:
        target, backups = TARGETS[agent], Backups(self.home)
        changes = plan(
            target.edits(Where(self.folder, None, {}), Command((program,)), target.hooked), backups, undo=undo
        )
        make(changes, backups)
        return [change.action for change in changes]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "person").mkdir()
    return Person(tmp_path / "person", tmp_path / "home")


@pytest.fixture
def settled(person: Person) -> Person:
    """A person who has settings of all agents already."""
    for name, text in MINE.items():
        path = person.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o640)
    return person


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_is_left_where_nothing_was(person: Person, agent: str) -> None:
    assert set(person.install(agent)) == {"created"}
    assert set(person.uninstall(agent)) == {"removed"}
    assert tree(person.folder) == {}
    assert tree(person.home / "installed") == {}


def test_a_byte_order_mark_before_codexs_settings_is_no_mistake_and_comes_back(settled: Person) -> None:
    """As Notepad and PowerShell write it."""
    path = settled.folder / ".codex/config.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    before = tree(settled.folder)
    settled.install("codex")
    assert "harken" in tomllib.loads(path.read_text("utf-8-sig"))["mcp_servers"]
    settled.uninstall("codex")
    assert tree(settled.folder) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_are_as_they_were_to_the_byte_and_installing_again_changes_nothing(
    settled: Person, agent: str
) -> None:
    before = tree(settled.folder)
    settled.install(agent)
    after = tree(settled.folder)
    assert {name for name in after if after[name] != before.get(name)} == set(FILES[agent])
    assert {name: mode for name, (mode, _) in after.items()} == {name: mode for name, (mode, _) in before.items()}
    assert set(settled.install(agent)) == {"unchanged"}
    assert tree(settled.folder) == after
    settled.uninstall(agent)
    assert tree(settled.folder) == before


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("again", [False, True])
def test_what_its_owner_changed_in_between_is_kept(settled: Person, agent: str, again: bool) -> None:
    settled.install(agent)
    for name in FILES[agent]:
        path = settled.folder / name
        text = path.read_bytes().decode("utf-8")
        if path.suffix == ".toml":
            text += '\n[mcp_servers.later]\ncommand = "y"\n'
        else:
            text = text.replace("{", '{\n  "later": true, // mine\n', 1)
        path.write_bytes(text.encode())
    if again:
        settled.install(agent, "/y/harken")
    settled.uninstall(agent)
    for name in FILES[agent]:
        left = (settled.folder / name).read_bytes().decode("utf-8")
        assert "harken" not in left
        if name.endswith(".toml"):
            expected = tomllib.loads(MINE[name])
            expected["mcp_servers"]["later"] = {"command": "y"}
            assert tomllib.loads(left) == expected
        else:
            assert JSON.data(left) == {"later": True, **JSON.data(MINE[name])}
        notes = ("# mine", "# good", "// mine", "// note", "// last", "// night")
        assert [note for note in notes if note in left] == [
            note for note in notes if note in MINE[name] or (note == "// mine" and not name.endswith(".toml"))
        ]


def test_a_file_that_was_made_stays_where_somebody_else_uses_it_too(person: Person) -> None:
    person.install("claude-code")
    path = person.folder / ".claude.json"
    path.write_text(json.dumps({**person.data(".claude.json"), "numStartups": 1}))
    person.uninstall("claude-code")
    assert person.data(".claude.json") == {"numStartups": 1}
    assert not (person.folder / ".claude").exists()


def test_a_file_that_its_owner_removed_stays_away(settled: Person) -> None:
    settled.install("cursor")
    (settled.folder / ".cursor/mcp.json").unlink()
    assert settled.install("cursor") == ["created"]
    assert settled.uninstall("cursor") == ["removed"]


def test_each_keeps_what_the_other_wrote(settled: Person) -> None:
    settled.install("claude-code")
    assert settled.data(".claude.json")["mcpServers"].keys() == {"other", "harken"}


def test_a_server_of_the_same_name_comes_back(person: Person) -> None:
    path = person.folder / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"harken": {"command": "my-own"}}}')
    person.install("cursor")
    assert person.data(".cursor/mcp.json")["mcpServers"]["harken"]["command"] != "my-own"
    path.write_text(path.read_text().replace('{"mcpServers"', '{"new": 1, "mcpServers"'))
    person.uninstall("cursor")
    assert person.data(".cursor/mcp.json") == {"new": 1, "mcpServers": {"harken": {"command": "my-own"}}}


def test_an_older_hook_is_replaced_by_the_one_of_today(person: Person) -> None:
    path = person.folder / ".gemini/settings.json"
    path.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/venv/bin/harken hook SessionStart --agent gemini"}]}
    path.write_text(json.dumps({"hooks": {"SessionStart": [old]}}))
    person.install("gemini")
    assert len(person.data(".gemini/settings.json")["hooks"]["SessionStart"]) == 1
    assert "/old/venv" not in path.read_text()


@pytest.mark.parametrize("program", ["/x/harken", "/y/harken"])
def test_a_hook_that_its_owner_put_beside_ours_stays(person: Person, program: str) -> None:
    person.install("claude-code")
    path = person.folder / ".claude/settings.json"
    settings = person.data(".claude/settings.json")
    linter = {"type": "command", "command": "lint"}
    settings["hooks"]["PostToolUse"][0]["hooks"].append(linter)
    path.write_text(json.dumps(settings))
    person.install("claude-code", program)
    assert path.read_text().count(f"{program} hook PostToolUse ") == 1
    assert "lint" in path.read_text()
    person.uninstall("claude-code")
    assert person.data(".claude/settings.json") == {"hooks": {"PostToolUse": [{"matcher": "Bash", "hooks": [linter]}]}}


def test_a_hook_that_its_owner_has_removed_since_stays_away(settled: Person) -> None:
    settled.install("claude-code")
    path = settled.folder / ".claude/settings.json"
    settings = settled.data(".claude/settings.json")
    settings["hooks"]["Stop"] = [item for item in settings["hooks"]["Stop"] if "bell" not in json.dumps(item)]
    path.write_text(json.dumps(settings))
    settled.uninstall("claude-code")
    assert settled.data(".claude/settings.json") == {"model": "opus", "hooks": {}}


@pytest.mark.parametrize("agent", AGENTS)
def test_it_goes_also_where_the_home_was_lost_and_it_was_installed_again(
    settled: Person, agent: str, tmp_path: Path
) -> None:
    settled.install(agent)
    later = Person(settled.folder, tmp_path / "another")
    assert set(later.install(agent)) == {"unchanged"}
    later.uninstall(agent)
    assert not [name for name in FILES[agent] if "harken" in (settled.folder / name).read_text("utf-8")]


def test_without_its_backup_it_still_goes(settled: Person, tmp_path: Path) -> None:
    settled.install("claude-code")
    Person(settled.folder, tmp_path / "elsewhere").uninstall("claude-code")
    for name in FILES["claude-code"]:
        assert settled.data(name) == json.loads(MINE[name])


def test_uninstalling_what_was_never_there_changes_nothing(settled: Person) -> None:
    before = tree(settled.folder)
    for agent in AGENTS:
        assert set(settled.uninstall(agent)) == {"unchanged"}
    assert tree(settled.folder) == before


def test_a_symbolic_link_stays_one(person: Person, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text('{"model": "opus"}\n')
    (person.folder / ".claude").mkdir()
    (person.folder / ".claude/settings.json").symlink_to(real)
    before = tree(person.folder), real.read_bytes()
    person.install("claude-code")
    assert (person.folder / ".claude/settings.json").is_symlink()
    assert "hooks" in json.loads(real.read_text())
    person.uninstall("claude-code")
    assert (tree(person.folder), real.read_bytes()) == before


@pytest.mark.parametrize("broken", ['{"mcpServers": {', '{"mcpServers": []}', "\xff\xfe", "[]"])
def test_a_broken_file_is_named_and_nothing_is_touched(person: Person, broken: str) -> None:
    path = person.folder / ".claude.json"
    path.write_bytes(broken.encode("latin-1"))
    before = tree(person.folder)
    with pytest.raises(InstallError, match=r"\.claude\.json .*Nothing was changed"):
        person.install("claude-code")
    assert tree(person.folder) == before


def test_broken_toml_is_named_with_its_line(person: Person) -> None:
    (person.folder / ".codex").mkdir()
    (person.folder / ".codex/config.toml").write_text('model = "a"\nmodel = \n')
    before = tree(person.folder)
    with pytest.raises(InstallError, match="line 2"):
        person.install("codex")
    assert tree(person.folder) == before


def test_a_read_only_file_is_left_alone(settled: Person) -> None:
    (settled.folder / ".claude.json").chmod(0o400)
    before = tree(settled.folder)
    with pytest.raises(InstallError, match=r"chmod u\+w"):
        settled.install("claude-code")
    assert tree(settled.folder) == before
