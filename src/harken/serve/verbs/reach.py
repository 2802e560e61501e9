"""How far into the disk a caller reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harken.errors import UsageError
from harken.serve.verbs.verb import Caller
from harken.sources.workspace.git import find_repository


def reached(caller: Caller, path: str | None, roots: Sequence[Path]) -> Path | None:
    """The real place of a path, which may be relative to the caller's directory; None names that directory.

    Args:
        caller: who asks.
        path: as it was given.
        roots: folders that are open to everybody.
    Returns:
        None where neither is known.
    Raises:
        UsageError: it does not exist, or lies where this caller may not reach.
    """
    if path is None:
        return caller.directory
    try:
        wanted = Path(path).expanduser()
        if not wanted.is_absolute():
            if caller.directory is None:
                raise UsageError(f"{path} is relative, and no working directory is known. Give an absolute path.")
            wanted = caller.directory / wanted
        real = wanted.resolve()
        exists = real.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"path: no path of this machine ({type(error).__name__}).") from error
    # Whether it exists is itself no business of one who may not reach it.
    if caller.is_limited and not any(real.is_relative_to(root) for root in _open_to(caller, roots)):
        raise UsageError(
            f"{path} lies outside of the project and of the folders in serve.roots. Name its folder there "
            "(harken.toml), or use the command line: harken index code PATH"
        )
    if not exists:
        raise UsageError(f"{path} does not exist.")
    return real


def _open_to(caller: Caller, roots: Sequence[Path]) -> Iterator[Path]:
    yield from (root.expanduser().resolve() for root in roots)
    if caller.directory is None:
        return
    try:
        directory = caller.directory.resolve()
        repository = find_repository(directory) if directory.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        # It cannot be a directory of this machine, and opens nothing.
        return
    project = repository.root.resolve() if repository else directory
    # An application that starts us in `/` or in somebody's home has not opened all that lies below.
    if not Path.home().resolve().is_relative_to(project):
        yield project
