from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harken import Harken
from harken.errors import GitError, UsageError
from harken.model.workspace import FileChange
from harken.sources.workspace.git import Repository as Git
from harken.sources.workspace.git import find_repository, parse_log
from repositories import Repository

LONG_AGO, NOW = datetime(2000, 1, 1, tzinfo=UTC), datetime(2026, 5, 5, tzinfo=UTC)


def history(repository: Repository) -> Git:
    found = find_repository(repository.root)
    assert found is not None
    return found


def test_a_commit_has_its_message_author_time_and_files(repository: Repository) -> None:
    repository.commit("first", a_py="1\n2\n")
    sha = repository.commit("Take one line\n\nIt was wrong.", "Bo <bo@example.org>", a_py="1\n", b_md="x\n")
    git = history(repository)
    assert git.head() == sha
    commit = git.commits([sha])[0]
    assert (commit.sha, commit.author, commit.email) == (sha, "Bo", "bo@example.org")
    assert commit.message == "Take one line\n\nIt was wrong."
    assert commit.authored_at == datetime(2026, 5, 4, 10, 2, tzinfo=UTC)
    assert commit.files == (FileChange("a.py", 0, 1), FileChange("b.md", 1, 0))
    assert (commit.insertions, commit.deletions) == (1, 1)


def test_a_renamed_file_keeps_its_old_name(repository: Repository) -> None:
    repository.commit("first", old_py="line\n" * 20)
    repository.git("mv", "old.py", "new name.py")
    sha = repository.commit("rename")
    assert history(repository).commits([sha])[0].files == (FileChange("new name.py", 0, 0, "old.py"),)


def test_commits_come_in_the_order_asked_for_with_empty_messages_binaries_and_merges(repository: Repository) -> None:
    (repository.root / "blob").write_bytes(bytes(range(256)))
    first = repository.commit("")
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit("side", s_py="1\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", m_py="1\n")
    repository.minutes += 1
    repository.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    git = history(repository)
    merge, *_ = git.shas(LONG_AGO, 10)
    commits = git.commits([first, merge, side])
    assert [(commit.message, commit.files) for commit in commits] == [
        ("", (FileChange("blob"),)),
        ("Merge side", ()),
        ("side", (FileChange("s.py", 1, 0),)),
    ]
    assert git.shas(LONG_AGO, 2) == git.shas(LONG_AGO, 10)[:2]


def test_a_message_that_looks_like_a_log_is_only_a_message(repository: Repository) -> None:
    written = f"{'a' * 40}\n\n3\t4\tfile.py\n\x1e{'b' * 40}\x1fMallory"
    sha = repository.commit(written, a_py="1\n")
    commits = history(repository).commits([sha])
    assert [commit.message for commit in commits] == [written]
    assert commits[0].files == (FileChange("a.py", 1, 0),)


def test_what_a_repository_configures_is_not_run(repository: Repository, tmp_path: Path) -> None:
    repository.commit("first", a_py="1\n")
    witness = tmp_path / "was run"
    script = repository.write("spy.sh", f"#!/bin/sh\ntouch '{witness}'\n")
    script.chmod(0o755)
    for setting in ("core.fsmonitor", "gpg.program", "diff.external"):
        repository.git("config", setting, str(script))
    repository.git("config", "log.showSignature", "true")
    git = history(repository)
    git.files()
    git.commits(git.shas(LONG_AGO, 10))
    assert not witness.exists()


def test_dates_beyond_what_can_be_kept_are_brought_near() -> None:
    log = "\0".join(["a" * 40, "Ann", "a@b", "99999999999999", "-5", "m", ""])
    commit = next(parse_log(log))
    assert (commit.authored_at.year, commit.committed_at.year) == (9999, 1970)


def test_no_repository_is_no_error_and_an_unborn_one_has_no_head(repository: Repository, tmp_path: Path) -> None:
    assert find_repository(tmp_path) is None
    assert history(repository).head() is None


def test_a_refusal_of_git_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="git log failed"):
        Git(tmp_path).commits(["a" * 40])


def test_a_history_is_read_from_a_moment_of_this_machine_on_and_from_no_text(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("first", a_py="1\n")
    with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}, now=lambda: NOW) as harken:
        with pytest.raises(UsageError, match=r"datetime\(2026, 5, 8\)"):
            harken.commits.index(repository.root, since="2026-01-01")  # type: ignore[arg-type]
        assert harken.maintenance.projects() == []
        since = datetime(2026, 1, 1)
        assert harken.commits.index(repository.root, since=since).added == 1
        assert harken.commits.index(repository.root, since=since).known == 1
