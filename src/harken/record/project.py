"""Identifies the project of a working directory by reading git's own files: no process is started."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from urllib.parse import unquote

from harken.model.conversations import ProjectIdentity
from harken.redact.redactor import CleanNames, Redactor

_CACHED_DIRECTORIES = 256
# Folders are looked up by what is kept of their names, so all must agree on that, whatever patterns a home adds.
_NAMES = CleanNames(Redactor())
_MAX_FILE_BYTES = 1_000_000

# Other schemes name no host: transcripts hold `redacted://…`, clones of bundles `file://…`.
_SCHEMES = frozenset({"http", "https", "ssh", "git", "git+ssh", "ssh+git", "git+http", "git+https", "ftp", "ftps"})
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:[^/@]*@)*(?P<host>\[[^\]]+\]|[^/:@]*)(?::\d*)?(?P<path>/.*)?$"
)
# `git@host:owner/name`; a single letter before the colon is a drive.
_SCP = re.compile(r"(?:[^/:]*@)?(?P<host>\[[^\]]+\]|[^/:@\\]{2,}):(?!//)(?P<path>.+)$")
# Of `git worktree`, as agents and people place them; such a folder of a home is of many repositories.
_WORKTREE = re.compile(r"(?P<root>(?P<repository>.+)/(?:\.worktrees|\.claude/worktrees)/[^/]+)(?:/|$)")
_HOME = re.compile(r"(?:[A-Z]:)?/(?:home|Users)/[^/]+|/root|~")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')


def identify_project(directory: str | Path | None, git_remote: str | None = None) -> ProjectIdentity | None:
    """Identify the project of a working directory by what stays the same while it moves.

    The remote `origin`, or else the first one, or else the real path of the git root (of the main one for a worktree),
    or else the directory itself. One that is gone is of the repository that it stood in. One that never was here, as in
    a transcript of another machine, is taken as it is written, a worktree in a usual place as its repository.

    Args:
        directory: absolute or relative to the current one; may be of another machine or system.
        git_remote: the remote's URL where the transcript names it; wins over the directory's own.
    Returns:
        None when neither is given. Credentials in a URL are never kept.
    Source: design.md section 1.
    """
    written = str(directory).strip() if directory is not None else ""
    remote = normalize_remote(git_remote) if git_remote else None
    if not written:
        return _of_remote(remote, ()) if remote else None
    own, keys = _look(_anchored(written))
    # The disk takes names of any bytes; rows and journals hold text.
    paths = tuple(map(_NAMES.text, keys))
    remote = remote or own
    if remote:
        return _of_remote(remote, paths)
    return ProjectIdentity(key=paths[0], name=_last_part(paths[0].removeprefix("path:")), aliases=paths[1:])


def normalize_remote(url: str) -> str | None:
    """`host/owner/name` of a git remote, the host in lower case; None for an empty one or a path on this machine."""
    url = url.strip().strip("\"'")
    if _WINDOWS.match(url):
        return None
    found = _URL.match(url)
    if found and found["scheme"].lower() not in _SCHEMES:
        return None
    found = found or _SCP.match(url)
    if found is None:
        return None
    host = found["host"].lower().rstrip(".")
    path = re.sub(r"/{2,}", "/", unquote(found["path"] or "").split("?")[0].split("#")[0]).strip("/ ")
    path = path.removesuffix(".git").strip("/")
    return f"{host}/{path}" if host and path else None


def _of_remote(remote: str, paths: tuple[str, ...]) -> ProjectIdentity:
    remote = _NAMES.text(remote)
    return ProjectIdentity(key=f"git:{remote}", name=_last_part(remote), aliases=paths)


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def _anchored(written: str) -> str:
    """An absolute path, for what is remembered of a relative one would be wrong in the next directory."""
    if _WINDOWS.match(written) or written.startswith(("/", "~")):
        return written
    try:
        return str(Path.cwd() / written)
    except OSError:
        return written


@lru_cache(maxsize=_CACHED_DIRECTORIES)
def _look(written: str) -> tuple[str | None, tuple[str, ...]]:
    """The normalized remote of a directory, and the path key of its git root or else of itself."""
    if _WINDOWS.match(written) and os.name != "nt":
        return None, (f"path:{_repository_of(_lexical_windows(written))}",)
    try:
        path = Path(written).expanduser()
        here = next((each for each in (path, *path.parents) if each.is_dir()), path)
        real = here.resolve()
        found = next(git_directories(real), None)
        # Whoever keeps their home in git has not put all that is gone from it into one project.
        if found is not None and (here == path or not Path.home().is_relative_to(found[0])):
            return _of_git(*found)
        if here == path and here.is_dir():
            return None, (f"path:{real}",)
    except (OSError, ValueError, RuntimeError):
        # No such path, no permission, a null byte, a loop of links, a `~user` that is unknown: the words still name it.
        pass
    on_windows = _WINDOWS.match(written) is not None
    lexical = _lexical_windows(written) if on_windows else os.path.normpath(written.replace("\0", ""))
    return None, (f"path:{_repository_of(lexical)}",)


def _repository_of(path: str) -> str:
    """The repository of a worktree by the usual places of one, or its own root; else the path."""
    found = _WORKTREE.match(path)
    if found is None:
        return path
    return found["root"] if _HOME.fullmatch(found["repository"]) else found["repository"]


def _of_git(root: Path, git: Path) -> tuple[str | None, tuple[str, ...]]:
    pointer = git / "commondir"
    common = Path(os.path.normpath(git / _read(pointer).strip())) if pointer.is_file() else git
    # A worktree shares the main checkout's git directory, and with it the project.
    shared = common.parent if common.name == ".git" else common
    main = root if common == git else shared
    return _remote_of(common / "config"), (f"path:{main}",)


def git_directories(directory: Path) -> Iterator[tuple[Path, Path]]:
    """(root, git directory) pairs from the directory upwards."""
    for root in (directory, *directory.parents):
        mark = root / ".git"
        if mark.is_dir():
            if (mark / "HEAD").exists():
                yield root, mark
        elif mark.is_file():
            line = _read(mark).strip()
            if line.startswith("gitdir:"):
                yield root, Path(os.path.normpath(root / line.removeprefix("gitdir:").strip()))
        elif (root / "HEAD").is_file() and (root / "objects").is_dir() and (root / "refs").is_dir():
            yield root, root


def _remote_of(config: Path) -> str | None:
    """The normalized URL of `origin`, or else of the first remote that has one."""
    if not config.is_file():
        return None
    remotes: dict[str, str] = {}
    for name, url in _remote_urls(_read(config)):
        remote = normalize_remote(url)
        if remote:
            remotes.setdefault(name, remote)
    return remotes.get("origin") or next(iter(remotes.values()), None)


def _remote_urls(config: str) -> Iterator[tuple[str, str]]:
    """(remote, URL) pairs of a git configuration, in the order of the file; what cannot be read is passed over."""
    remote: str | None = None
    for raw in config.splitlines():
        line = raw.strip()
        section = _SECTION.match(line)
        if section:
            is_remote = section[1].lower() == "remote" and section[2] is not None
            remote = section[2].replace('\\"', '"').replace("\\\\", "\\") if is_remote else None
            line = line[section.end() :].strip()
        name, equals, value = line.partition("=")
        if remote is not None and equals and name.strip().lower() == "url":
            # A value is without its quotes and trailing comment.
            value = value.strip()
            is_quoted = value.startswith('"')
            yield remote, value[1:].partition('"')[0] if is_quoted else re.split(r"\s[#;]", value)[0].strip()


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(_MAX_FILE_BYTES).decode("utf-8", errors="replace").lstrip("\ufeff")


def _lexical_windows(written: str) -> str:
    """The path with forward slashes and without `.` and `..`, its drive in upper case."""
    path = PureWindowsPath(written)
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    anchor = path.anchor.replace("\\", "/")
    anchor = anchor.upper() if path.drive.endswith(":") else anchor
    return anchor + "/".join(parts)
