"""Who asks for an operation, and how far into the disk the caller reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harken.errors import UsageError

if TYPE_CHECKING:
    from harken.context.builder import ContextSession


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        directory: the working directory; None where there is none, as over a network.
        is_limited: whether only the project of the directory, and the roots that the settings name, may be read.
        is_owner: whether the owner of the memory types it, at the command line or in a chat.
        talk: the conversation of the chat in which it is typed.
        progress: told (done, in all) by operations that take long.
    """

    directory: Path | None = None
    is_limited: bool = False
    is_owner: bool = False
    talk: ContextSession | None = None
    progress: Callable[[int, int], None] = field(default=lambda _done, _all: None)

    def reach(self, path: str | None, roots: Sequence[Path]) -> Path | None:
        """The real place of a path, which may be relative to the caller's directory; None names that directory.

        Args:
            path: as it was given.
            roots: folders that are open to everybody.
        Returns:
            None where neither is known.
        Raises:
            UsageError: it does not exist, or lies where this caller may not reach.
        """
        if path is None:
            return self.directory
        try:
            wanted = Path(path).expanduser()
            if not wanted.is_absolute():
                if self.directory is None:
                    raise UsageError(f"{path} is relative, and no working directory is known. Give an absolute path.")
                wanted = self.directory / wanted
            real = wanted.resolve()
            exists = real.exists()
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"path: no path of this machine ({type(error).__name__}).") from error
        # Whether it exists is itself no business of one who may not reach it.
        if self.is_limited and not any(real.is_relative_to(root) for root in self._open_roots(roots)):
            raise UsageError(
                f"{path} lies outside of the project and of the folders in serve.roots. Name its folder there "
                "(harken.toml), or use the command line: harken index code PATH"
            )
        if not exists:
            raise UsageError(f"{path} does not exist.")
        return real

    def _open_roots(self, roots: Sequence[Path]) -> Iterator[Path]:
        from harken.sources.workspace.git import find_repository

        yield from (root.expanduser().resolve() for root in roots)
        if self.directory is None:
            return
        try:
            directory = self.directory.resolve()
            repository = find_repository(directory) if directory.is_dir() else None
        except (OSError, ValueError, RuntimeError):
            # It cannot be a directory of this machine, and opens nothing.
            return
        project = repository.root.resolve() if repository else directory
        # An application that starts us in `/` or in somebody's home has not opened all that lies below.
        if not Path.home().resolve().is_relative_to(project):
            yield project
