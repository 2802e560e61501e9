"""Changes are made all or none, and undone whatever happened in between."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.serve.install.entries import ConfigEntry
from harken.serve.install.files import InstallError
from harken.serve.install.plan import Edit, install, plan_install, plan_uninstall, uninstall
from harken.serve.install.records import Records
from harken.serve.install.syntax import JSON, TOML

SERVER = ConfigEntry(("mcpServers", "harken"), {"command": "/x/harken", "args": ["mcp"]})
HOOK = ConfigEntry(("hooks", "Stop"), {"hooks": [{"type": "command", "command": "/x/harken hook Stop"}]}, listed=True)


@pytest.fixture
def edits(tmp_path: Path) -> list[Edit]:
    return [Edit(tmp_path / "a" / "b" / "one.json", JSON, (SERVER, HOOK)), Edit(tmp_path / "two.json", JSON, (SERVER,))]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "home")


def test_a_file_that_changes_meanwhile_stops_everything(edits: list[Edit], records: Records) -> None:
    changes = plan_install(edits, records)
    edits[1].path.write_text('{"mine": 1}')
    with pytest.raises(InstallError, match="changed by somebody else"):
        install(changes, records)
    assert not edits[0].path.exists()
    assert not edits[0].path.parent.parent.exists()
    assert edits[1].path.read_text() == '{"mine": 1}'


def test_what_a_killed_install_left_is_undone(edits: list[Edit], records: Records) -> None:
    original = '{"mcpServers":{"harken":{"command":"own"}}}'
    edits[1].path.write_text(original)
    changes = plan_install(edits, records)
    install(changes, records)
    # Killed between the backup and the file.
    edits[1].path.write_text(original)
    edits[0].path.unlink()
    uninstall(plan_uninstall(edits, records), records)
    assert edits[1].path.read_text() == original
    assert not edits[0].path.parent.parent.exists()


def test_a_newer_install_replaces_an_older_one_and_both_go(edits: list[Edit], records: Records) -> None:
    edits[1].path.write_text("{}")
    install(plan_install(edits, records), records)
    newer = ConfigEntry(SERVER.keys, {"command": "/y/harken", "args": ["mcp"]})
    again = [Edit(edit.path, edit.syntax, (newer, *edit.entries[1:])) for edit in edits]
    assert [change.action for change in plan_install(again, records)] == ["changed", "changed"]
    install(plan_install(again, records), records)
    assert json.loads(edits[1].path.read_text()) == {"mcpServers": {"harken": newer.value}}
    uninstall(plan_uninstall(again, records), records)
    assert edits[1].path.read_text() == "{}"
    assert not edits[0].path.exists()


def test_a_stranger_of_our_name_is_not_taken_out(edits: list[Edit], records: Records) -> None:
    edits[1].path.write_text('{"mcpServers": {"harken": {"command": "own", "args": ["else"]}}}')
    assert [change.action for change in plan_uninstall(edits, records)] == ["unchanged", "unchanged"]


def test_comments_of_toml_stay_through_a_change_in_between(tmp_path: Path, records: Records) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# first\nmodel = "a" # why\n\n[mcp_servers.z]\ncommand = "z"\n')
    edit = [Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))]
    install(plan_install(edit, records), records)
    path.write_text(path.read_text().replace('"a"', '"b"'))
    uninstall(plan_uninstall(edit, records), records)
    assert path.read_text() == '# first\nmodel = "b" # why\n\n[mcp_servers.z]\ncommand = "z"\n'


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.mkdir(), "holds settings|cannot be read"),
        (lambda path: path.write_bytes(b"\xff{}"), "UTF-8"),
        (lambda path: path.write_text('mcp_servers = "none"'), "not an object|cannot be"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    tmp_path: Path, records: Records, spoil: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "config.toml"
    spoil(path)
    with pytest.raises(InstallError, match=said):
        plan_install([Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))], records)


def test_inline_tables_of_toml_are_understood(tmp_path: Path, records: Records) -> None:
    path = tmp_path / "config.toml"
    text = 'mcp_servers = { z = { command = "z" } }\n'
    path.write_text(text)
    edit = [Edit(path, TOML, (ConfigEntry(("mcp_servers", "harken"), SERVER.value),))]
    install(plan_install(edit, records), records)
    servers = {"z": {"command": "z"}, "harken": dict(SERVER.value)}
    assert tomllib.loads(path.read_text()) == {"mcp_servers": servers}
    path.write_text(f"# later\n{path.read_text()}")
    uninstall(plan_uninstall(edit, records), records)
    assert tomllib.loads(path.read_text()) == tomllib.loads(text)


def test_a_folder_that_another_process_makes_at_the_same_moment_stops_nothing(
    edits: list[Edit], records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def second(self: Path, *args: Any, **named: Any) -> None:
        mkdir(self, *args, **named)
        mkdir(self, *args, **named)

    monkeypatch.setattr(Path, "mkdir", second)
    install(plan_install(edits, records), records)
    assert SERVER.value == json.loads(edits[0].path.read_text())["mcpServers"]["harken"]


def test_what_a_killed_process_left_beside_a_file_goes_with_the_next_change(
    edits: list[Edit], records: Records
) -> None:
    folder = edits[1].path.parent
    old, young, mine = folder / ".two.json.a1b2.harken", folder / ".two.json.c3d4.harken", folder / ".two.json.mine"
    for file in (old, young, mine):
        file.write_text("{")
    for file in (old, mine):
        os.utime(file, (0, 0))
    install(plan_install(edits, records), records)
    assert (old.exists(), young.exists(), mine.exists()) == (False, True, True)
