"""Changes are made all or none, and undone whatever happened in between."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.serve.install.entries import JSON, TOML, ConfigEntry
from harken.serve.install.plan import Backups, Edit, InstallError, make, plan

SERVER = ConfigEntry(("mcpServers", "harken"), {"command": "/x/harken", "args": ["mcp"]})
HOOK = ConfigEntry(("hooks", "Stop"), {"hooks": [{"type": "command", "command": "/x/harken hook Stop"}]}, listed=True)


@pytest.fixture
def edits(tmp_path: Path) -> list[Edit]:
    return [Edit(tmp_path / "a" / "b" / "one.json", JSON, (SERVER, HOOK)), Edit(tmp_path / "two.json", JSON, (SERVER,))]


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path / "home")


def test_a_file_that_changes_meanwhile_stops_everything(edits: list[Edit], backups: Backups) -> None:
    changes = plan(edits, backups)
    edits[1].path.write_text('{"mine": 1}')
    with pytest.raises(InstallError, match="changed by somebody else"):
        make(changes, backups)
    assert not edits[0].path.exists()
    assert not edits[0].path.parent.parent.exists()
    assert edits[1].path.read_text() == '{"mine": 1}'


def test_what_a_killed_install_left_is_undone(edits: list[Edit], backups: Backups) -> None:
    original = '{"mcpServers":{"harken":{"command":"own"}}}'
    edits[1].path.write_text(original)
    changes = plan(edits, backups)
    make(changes, backups)
    # Killed between the backup and the file.
    edits[1].path.write_text(original)
    edits[0].path.unlink()
    make(plan(edits, backups, undo=True), backups)
    assert edits[1].path.read_text() == original
    assert not edits[0].path.parent.parent.exists()


def test_a_newer_install_replaces_an_older_one_and_both_go(edits: list[Edit], backups: Backups) -> None:
    edits[1].path.write_text("{}")
    make(plan(edits, backups), backups)
    newer = ConfigEntry(SERVER.keys, {"command": "/y/harken", "args": ["mcp"]})
    again = [Edit(edit.path, edit.syntax, (newer, *edit.entries[1:])) for edit in edits]
    assert [change.action for change in plan(again, backups)] == ["changed", "changed"]
    make(plan(again, backups), backups)
    assert json.loads(edits[1].path.read_text()) == {"mcpServers": {"harken": newer.value}}
    make(plan(again, backups, undo=True), backups)
    assert edits[1].path.read_text() == "{}"
    assert not edits[0].path.exists()


def test_a_stranger_of_our_name_is_not_taken_out(edits: list[Edit], backups: Backups) -> None:
    edits[1].path.write_text('{"mcpServers": {"harken": {"command": "own", "args": ["else"]}}}')
    assert [change.action for change in plan(edits, backups, undo=True)] == ["unchanged", "unchanged"]


def test_comments_of_toml_stay_through_a_change_in_between(tmp_path: Path, backups: Backups) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# first\nmodel = "a" # why\n\n[mcp_servers.z]\ncommand = "z"\n')
    edit = [Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))]
    make(plan(edit, backups), backups)
    path.write_text(path.read_text().replace('"a"', '"b"'))
    make(plan(edit, backups, undo=True), backups)
    assert path.read_text() == '# first\nmodel = "b" # why\n\n[mcp_servers.z]\ncommand = "z"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"mcpServers": []}', "'mcpServers' is not an object"), ('{"hooks": {"Stop": {}}}', "not a list")],
)
def test_something_else_at_our_place_is_not_overwritten(
    edits: list[Edit], backups: Backups, text: str, said: str
) -> None:
    edits[0].path.parent.mkdir(parents=True)
    edits[0].path.write_text(text)
    with pytest.raises(InstallError, match=said):
        plan(edits, backups)


def test_only_our_hooks_of_a_list_go(tmp_path: Path, backups: Backups) -> None:
    path = tmp_path / "one.json"
    others = [{"hooks": [{"type": "command", "command": each}]} for each in ("bell", "light")]
    path.write_text(json.dumps({"hooks": {"Stop": [others[0], HOOK.value, others[1], HOOK.value]}}))
    make(plan([Edit(path, JSON, (HOOK,))], backups, undo=True), backups)
    assert json.loads(path.read_text()) == {"hooks": {"Stop": others}}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.mkdir(), "holds settings|cannot be read"),
        (lambda path: path.write_bytes(b"\xff{}"), "UTF-8"),
        (lambda path: path.write_text('mcp_servers = "none"'), "not an object|cannot be"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    tmp_path: Path, backups: Backups, spoil: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "config.toml"
    spoil(path)
    with pytest.raises(InstallError, match=said):
        plan([Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))], backups)


def test_inline_tables_of_toml_are_understood(tmp_path: Path, backups: Backups) -> None:
    path = tmp_path / "config.toml"
    text = 'mcp_servers = { z = { command = "z" } }\n'
    path.write_text(text)
    edit = [Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))]
    make(plan(edit, backups), backups)
    servers = {"z": {"command": "z"}, "harken": dict(SERVER.value)}
    assert tomllib.loads(path.read_text()) == {"mcp_servers": servers}
    path.write_text(f"# later\n{path.read_text()}")
    make(plan(edit, backups, undo=True), backups)
    assert tomllib.loads(path.read_text()) == tomllib.loads(text)


def test_a_folder_that_another_process_makes_at_the_same_moment_stops_nothing(
    edits: list[Edit], backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def second(self: Path, *args: Any, **named: Any) -> None:
        mkdir(self, *args, **named)
        mkdir(self, *args, **named)

    monkeypatch.setattr(Path, "mkdir", second)
    make(plan(edits, backups), backups)
    assert SERVER.value == json.loads(edits[0].path.read_text())["mcpServers"]["harken"]


def test_what_a_killed_process_left_beside_a_file_goes_with_the_next_change(
    edits: list[Edit], backups: Backups
) -> None:
    folder = edits[1].path.parent
    old, young, mine = folder / ".two.json.a1b2.harken", folder / ".two.json.c3d4.harken", folder / ".two.json.mine"
    for file in (old, young, mine):
        file.write_text("{")
    for file in (old, mine):
        os.utime(file, (0, 0))
    make(plan(edits, backups), backups)
    assert (old.exists(), young.exists(), mine.exists()) == (False, True, True)
