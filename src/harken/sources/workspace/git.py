"""Files and commits of a folder, asked of git. Nothing that a repository configures is run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from harken.config.settings import environment
from harken.errors import GitError
from harken.model.workspace import Commit, FileChange

_TIMEOUT_SECONDS = 300
# A repository's own configuration can name programs: to watch files, to check signatures, to show differences.
_SAFE = ("core.fsmonitor=false", "log.showSignature=false", "log.diffMerges=off", "core.hooksPath=/dev/null")
# A larger file shows no lines of what changed: nobody wrote it by hand. Names stay as they are.
_READABLE = ("core.bigFileThreshold=1m", "core.quotePath=false")
_FORMAT = "%H%x00%aN%x00%aE%x00%at%x00%ct%x00%B%x00"
_FIELDS = 6
_CHANGED = re.compile(r"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_LATEST = 253_402_300_799
# Commits by their ids from stdin, in that order; renamed files by both names; nothing that a repository configures.
_LOG = ("log", "--no-walk=unsorted", "--stdin", "-M", "--no-color", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree of git, by its top."""

    root: Path

    def files(self, prefix: str = "") -> list[str]:
        """Every file below a folder that is tracked or not ignored, relative to the root; some may be gone."""
        listed = self._run("ls-files", "-z", "-co", "--exclude-standard", "--", prefix or ".")
        return list(dict.fromkeys(name for name in os.fsdecode(listed).split("\0") if name))

    def head(self) -> str | None:
        """The commit that is checked out; None before the first one."""
        return _git(self.root, ("rev-parse", "--verify", "--quiet", "HEAD"), may_fail=True).decode().strip() or None

    def refs(self) -> str:
        """A digest of the commits that branches and tags stand at: another one when one of them is deleted."""
        return sha256(self._run("rev-parse", "--branches", "--remotes", "--tags")).hexdigest()[:16]

    def boundary(self) -> set[str]:
        """Of a shallow clone, the commits whose parents are not there; they look as if they had made every file."""
        listed = self.root / os.fsdecode(self._run("rev-parse", "--git-path", "shallow")).rstrip("\n")
        return set(listed.read_text(encoding="ascii").split()) if listed.is_file() else set()

    def shas(self, since: datetime, limit: int) -> list[str]:
        """The commits that HEAD comes from, newest first."""
        bounds = (f"--since={since.isoformat()}", f"--max-count={limit}")
        return self._run("rev-list", *bounds, "HEAD", "--").decode().split()

    def all_shas(self) -> set[str]:
        """Every commit that a branch, a tag or HEAD comes from."""
        return set(self._run("rev-list", "--branches", "--remotes", "--tags", "HEAD", "--").decode().split())

    def commits(self, shas: Sequence[str]) -> list[Commit]:
        """These commits with what each changed, in the same order; merges have no files of their own."""
        command = (*_LOG, "-z", "--numstat", "--encoding=UTF-8", f"--format={_FORMAT}")
        return list(parse_log(_decoded(self._run(*command, stdin="\n".join(shas).encode()))))

    def patches(self, shas: Sequence[str], suffixes: Iterable[str]) -> dict[str, str]:
        """Changes of these commits to files of some kinds, without the lines around them; merges have none."""
        command = (*_LOG, "-p", "-U0", "--src-prefix=a/", "--dst-prefix=b/", "--format=%x00%H", "--")
        paths = (f":(icase)*{suffix}" for suffix in suffixes)
        _, *each = _decoded(self._run(*command, *paths, stdin="\n".join(shas).encode())).split("\0")
        return {sha: patch for sha, _, patch in (one.partition("\n") for one in each)}

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return _git(self.root, arguments, stdin)


def find_repository(directory: Path) -> Repository | None:
    """The working tree that a folder lies in; None where there is none, or no git on this machine."""
    try:
        top = _git(directory, ("rev-parse", "--show-toplevel"), may_fail=True)
    except GitError:
        return None
    root = os.fsdecode(top).rstrip("\n")
    return Repository(Path(root)) if root else None


def parse_log(log: str) -> Iterator[Commit]:
    """Commits from what `git log` wrote; by place, since a message may look like anything but has no null byte."""
    parts = log.split("\0")
    at = 0
    while at + _FIELDS <= len(parts):
        sha, author, email, authored, committed, message = parts[at : at + _FIELDS]
        at += _FIELDS
        changes = []
        while at < len(parts) and (parts[at] == "" or _CHANGED.fullmatch(parts[at])):
            if found := _CHANGED.fullmatch(parts[at]):
                renamed = not found[3]
                names = (parts[at + 2], parts[at + 1]) if renamed else (found[3], None)
                added, removed = (int(each) if each.isdigit() else 0 for each in (found[1], found[2]))
                changes.append(FileChange(names[0], added, removed, names[1]))
                at += 2 * renamed
            at += 1
        yield Commit(sha, author, email, _moment(authored), _moment(committed), message.strip(), tuple(changes))


def _moment(written: str) -> datetime:
    """A moment from seconds since 1970; a date beyond what can be kept is brought to the nearest that can."""
    seconds = int(written) if re.fullmatch(r"-?\d{1,18}", written) else 0
    return datetime.fromtimestamp(min(max(seconds, 0), _LATEST), UTC)


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")


def _git(directory: Path, arguments: Sequence[str], stdin: bytes = b"", may_fail: bool = False) -> bytes:
    settings = [word for setting in (*_SAFE, *_READABLE) for word in ("-c", setting)]
    # Variables of a hook that we were called from would point elsewhere; and nothing may be fetched.
    kept = {name: value for name, value in environment().items() if not name.startswith("GIT_")}
    unasked = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "--no-pager", *settings, "-C", str(directory), *arguments],
            env={**kept, **unasked},
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed, or not on the path. Install it to index what it keeps.") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"{directory}: git {arguments[0]} did not end in {_TIMEOUT_SECONDS} s.") from error
    if done.returncode and not may_fail:
        if b"lazy fetching disabled" in done.stderr:
            raise GitError(f"{directory} is a partial clone. Bring what it lacks: git fetch --refetch --no-filter")
        reason = _decoded(done.stderr).strip().partition("\n")[0].removeprefix("fatal: ")
        raise GitError(f"{directory}: git {arguments[0]} failed: {reason or f'it ended with {done.returncode}'}")
    return b"" if done.returncode else done.stdout
