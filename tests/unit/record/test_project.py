"""A project is the same wherever it lies and however it is reached."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.record.project import identify_project, normalize_remote


def git(*arguments: str, cwd: Path) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


@pytest.mark.parametrize(
    "url",
    [
        "git@Example.com:owner/name.git",
        "ssh://git@example.com:2222/owner/name.git",
        "https://example.com/owner/name",
        "https://user:password@EXAMPLE.com/owner/name.git/",
        "git://example.com/owner/name.git",
        "example.com:owner/name",
    ],
)
def test_every_way_to_write_a_remote_is_one_project_without_credentials(url: str) -> None:
    assert normalize_remote(url) == "example.com/owner/name"


@pytest.mark.parametrize("url", ["redacted://url/d18f1190d0", "", "/srv/git/name.git", "C:\\git\\name", "https://"])
def test_what_is_no_remote_gives_none(url: str) -> None:
    assert normalize_remote(url) is None


def test_the_folders_of_a_repository_are_one_project_by_its_remote(tmp_path: Path) -> None:
    repository = tmp_path / "clone"
    (repository / "deep" / "folder").mkdir(parents=True)
    git("init", "-q", cwd=repository)
    git("remote", "add", "upstream", "https://example.com/other/name.git", cwd=repository)
    git("remote", "add", "origin", "git@example.com:owner/name.git", cwd=repository)
    found = identify_project(repository / "deep" / "folder")
    assert found is not None
    assert (found.key, found.name) == ("git:example.com/owner/name", "name")
    assert found.aliases == (f"path:{repository}",)


def test_a_worktree_shares_its_repositorys_project(tmp_path: Path) -> None:
    repository, worktree = tmp_path / "main", tmp_path / "side"
    repository.mkdir()
    git("init", "-q", cwd=repository)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repository)
    git("worktree", "add", "-q", str(worktree), cwd=repository)
    assert identify_project(worktree) == identify_project(repository)
    assert identify_project(repository).key == f"path:{repository}"  # type: ignore[union-attr]


def test_a_directory_without_git_is_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = identify_project(tmp_path / "link")
    assert found is not None
    assert (found.key, found.name) == (f"path:{tmp_path / 'real'}", "real")


@pytest.mark.parametrize(
    ("directory", "key", "name"),
    [
        ("/home/somebody/else/project/", "path:/home/somebody/else/project", "project"),
        ("C:\\Users\\x\\project", "path:C:/Users/x/project", "project"),
    ],
)
def test_a_directory_of_another_machine_is_its_path(directory: str, key: str, name: str) -> None:
    found = identify_project(directory)
    assert found is not None
    assert (found.key, found.name) == (key, name)


@pytest.mark.parametrize(
    ("directory", "key"),
    [
        ("/nowhere/shop/.worktrees/streaming", "path:/nowhere/shop"),
        ("/nowhere/shop/.worktrees/fix/cart/src/deep", "path:/nowhere/shop"),
        ("/nowhere/shop/.claude/worktrees/brave-fox/src", "path:/nowhere/shop"),
        ("C:\\Users\\x\\shop\\.worktrees\\one", "path:C:/Users/x/shop"),
        # These are of many repositories: each is at least one project with all that is below it.
        ("/home/somebody/.worktrees/feature/src/deep", "path:/home/somebody/.worktrees/feature"),
        ("C:\\Users\\x\\.worktrees\\one\\src", "path:C:/Users/x/.worktrees/one"),
        ("/nowhere/shop/.worktrees", "path:/nowhere/shop/.worktrees"),
        ("/nowhere/worktrees/shop", "path:/nowhere/worktrees/shop"),
    ],
)
def test_a_worktree_of_another_machine_belongs_to_its_repository(directory: str, key: str) -> None:
    found = identify_project(directory)
    assert found is not None
    assert found.key == key


def test_a_folder_that_is_gone_belongs_to_the_repository_that_it_stood_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "shop"
    repository.mkdir()
    git("init", "-q", cwd=repository)
    assert identify_project(repository / "trees" / "gone" / "src") == identify_project(repository)
    # Whose home is a repository has not all of it in one project.
    monkeypatch.setenv("HOME", str(repository))
    found = identify_project(repository / "other")
    assert found is not None
    assert found.name == "other"


def test_a_recorded_remote_stands_above_the_directory_and_the_directory_stays_an_alias() -> None:
    found = identify_project("/nowhere/here", "https://example.com/owner/name.git")
    assert found is not None
    assert (found.key, found.aliases) == ("git:example.com/owner/name", ("path:/nowhere/here",))


@pytest.mark.parametrize("directory", [None, "", "  "])
def test_nothing_known_is_no_project(directory: str | None) -> None:
    assert identify_project(directory) is None


def test_a_damaged_git_folder_still_gives_a_project(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all", encoding="utf-8")
    assert identify_project(tmp_path) == identify_project(tmp_path / ".")


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    git("init", "-q", cwd=tmp_path / "outer")
    modules = tmp_path / "outer" / ".git" / "modules" / "inner"
    modules.parent.mkdir()
    git("init", "-q", f"--separate-git-dir={modules}", cwd=inner)
    git("remote", "add", "origin", "https://example.com/parts/inner.git", cwd=inner)
    found = identify_project(inner)
    assert found is not None
    assert (found.key, found.aliases) == ("git:example.com/parts/inner", (f"path:{inner}",))


def test_a_worktree_of_a_bare_repository_is_named_by_the_repository(tmp_path: Path) -> None:
    source, bare, worktree = tmp_path / "source", tmp_path / "bare.git", tmp_path / "side"
    source.mkdir()
    git("init", "-q", cwd=source)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=source)
    git("clone", "-q", "--bare", str(source), str(bare), cwd=tmp_path)
    git("worktree", "add", "-q", str(worktree), cwd=bare)
    found = identify_project(worktree)
    assert found is not None
    assert found.key == f"path:{bare}"


def test_the_first_remote_counts_where_none_is_called_origin(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    config = tmp_path / ".git" / "config"
    config.write_text(
        '; a comment\n[remote "local"]\n\turl = /srv/name.git\n'
        '[Remote "up\\"stream"] URL = "git@example.com:a/b.git" # x\n'
        '[remote "late"]\n url = https://example.com/c/d\n[branch "main"]\n url = https://example.com/no/no\n[broken',
        encoding="utf-8",
    )
    found = identify_project(tmp_path)
    assert found is not None
    assert found.key == "git:example.com/a/b"


def test_a_clone_whose_remote_is_a_folder_is_named_by_its_path(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    git("remote", "add", "origin", "/srv/name.git", cwd=tmp_path)
    found = identify_project(tmp_path)
    assert found is not None
    assert (found.key, found.aliases) == (f"path:{tmp_path}", ())


def test_a_relative_folder_is_the_one_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "here").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        found = identify_project("here")
        assert found is not None
        assert found.key == f"path:{tmp_path / name / 'here'}"


@pytest.mark.parametrize(
    ("directory", "key"),
    [
        ("/nowhere/a/../b/./c//", "path:/nowhere/b/c"),
        ("c:\\Users\\x\\..\\y\\", "path:C:/Users/y"),
        ("C:/Users/x", "path:C:/Users/x"),
        ("\\\\server\\share\\folder", "path://server/share/folder"),
        ("/", "path:/"),
    ],
)
def test_a_path_that_is_not_here_is_kept_in_one_spelling(directory: str, key: str) -> None:
    found = identify_project(directory)
    assert found is not None
    assert found.key == key
    assert found.name


@pytest.mark.parametrize(
    "directory", ["/nul\0byte", "/x" * 3000, "~no-such-person-here/x", "/proc/self/mem", "\ud83d/half"]
)
def test_an_odd_directory_never_fails(directory: str) -> None:
    found = identify_project(directory)
    assert found is not None
    assert found.key.startswith("path:")


@given(st.text(alphabet="abc.:/@\\?#%[]~ -git0123\n\0"), st.text(alphabet="abc.:/@\\?#%[]~ -githtps0123\n\0"))
def test_no_text_makes_it_fail(directory: str, remote: str) -> None:
    found = identify_project(directory, remote)
    assert found is None or found.key.startswith(("git:", "path:"))


@given(st.text(alphabet="abcXYZ019._~!$&*+=-%", min_size=1), st.text(alphabet="abcXYZ019._~!$&*+=:@-", min_size=1))
def test_no_credential_of_a_remote_is_kept(user: str, password: str) -> None:
    assert normalize_remote(f"https://{user}:{password}@example.com/owner/name.git") == "example.com/owner/name"
