"""What recall sees of other projects, by the folder at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.errors import NotFoundError
from harken.model.conversations import ProjectIdentity, Role
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.record.scope import scope_of
from harken.storage.projects import ProjectScope


def scope(harken: Harken, mode: str = "prefer", **place: str | Path | ProjectIdentity | None) -> ProjectScope:
    """What is seen from a place."""
    return scope_of(harken.store, mode, place.get("project"), place.get("directory"))


def record(harken: Harken, name: str, project: ProjectIdentity | None) -> None:
    """Record a conversation as an older version has identified its project."""
    head = NewConversation("test", name, project=project)
    harken.recorder.record([Batch(head, [NewMessage(Role.USER, f"Something about {name}.")])])


def under(path: Path) -> ProjectIdentity:
    """A folder that stands for itself."""
    return ProjectIdentity(f"path:{path}", path.name)


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    with Harken(ready_home, env={}, settings={"embedder": "none"}) as harken:
        yield harken


def test_a_subfolder_and_a_worktree_are_of_their_repository_whatever_an_older_version_took_them_for(
    harken: Harken, tmp_path: Path
) -> None:
    root = tmp_path / "house"
    for folder in (root / ".git" / "worktrees" / "beside", root / "src" / "deep", tmp_path / "beside"):
        folder.mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (tmp_path / "beside" / ".git").write_text(f"gitdir: {root}/.git/worktrees/beside\n", encoding="utf-8")
    (root / ".git" / "worktrees" / "beside" / "commondir").write_text("../..\n", encoding="utf-8")
    older = [root / "src", root / ".claude" / "worktrees" / "gone", tmp_path / "beside"]
    for place in (root, *older, tmp_path / "garden"):
        record(harken, place.name, under(place))
    for here in (root, root / "src" / "deep", tmp_path / "beside", older[1]):
        assert list(scope(harken, directory=here).others.values()) == [f"path:{tmp_path}/garden"]
    garden = scope(harken, directory=tmp_path / "garden")
    assert (len(garden.own), len(garden.others)) == (1, 4)


def test_a_project_goes_by_every_name_that_it_had(harken: Harken, tmp_path: Path) -> None:
    record(harken, "before", under(tmp_path))
    moved = ProjectIdentity("git:example.org/o/house", "house", (f"path:{tmp_path}",))
    record(harken, "after", moved)
    for project in (moved, under(tmp_path), moved.key, tmp_path.name, str(tmp_path)):
        assert not scope(harken, project=project).others


def test_without_a_project_there_is_nothing_to_prefer_and_project_sees_what_is_of_none(harken: Harken) -> None:
    assert not scope(harken, directory="/src/house").others
    record(harken, "house", ProjectIdentity("path:/src/house", "house"))
    assert not scope(harken).prefers
    assert scope(harken, "project").others
    assert not scope(harken, "all", project="house").prefers
    with pytest.raises(NotFoundError, match="no project castle"):
        scope(harken, project="castle")
