"""Resolves what recall sees of other projects: once for a call, the same for a chat, a hook, an agent and a library."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from harken.model.conversations import ProjectIdentity
from harken.record.project import identify_project
from harken.storage.ports import Readable
from harken.storage.projects import (
    ALL,
    EVERY_PROJECT,
    PREFER,
    ProjectScope,
    all_projects,
    known_project,
    project_identity,
    project_row,
)

_PATH = "path:"


def scope_of(
    store: Readable, mode: str, project: ProjectIdentity | str | None, directory: str | Path | None = None
) -> ProjectScope:
    """Which projects recall sees from one, or from that of a directory where none is given.

    What an older Harken recorded under a worktree, or under a folder before it was one of a repository, is of the
    repository. Where no project is known, `prefer` has nothing to prefer, and `project` sees what belongs to none.

    Args:
        store: whose projects they are.
        mode: `rag.scope`.
        directory: the working directory.
        project: as it was identified, or its key, an alias or its short name.
    Raises:
        NotFoundError: no project, or more than one, is called so.
    """
    with store.reading() as tx:
        rows = all_projects(tx)
        if not rows and (directory is None or project is not None):
            return EVERY_PROJECT
        if isinstance(project, str):
            project = project_identity(tx, project_row(tx, project))
        here = project or identify_project(directory)
        if here is not None and here.key == _home_key():
            # Who talks at home talks of everything.
            here = None
        own, names = set[int](), set[str]()
        if here is not None:
            row = known_project(tx, here)
            # By every name that it was ever found under.
            known = here if row is None else project_identity(tx, row)
            names = {here.key, *here.aliases, known.key, *known.aliases}
            own = {each for each, key in rows.items() if each == row or _key_today(key) in names}
    others = {each: key for each, key in rows.items() if each not in own}
    mode = ALL if here is None and mode == PREFER else mode
    return ProjectScope(mode, frozenset(own), others, frozenset(names))


def _home_key() -> str:
    """The key that the home folder would have; empty for a user who has none."""
    try:
        return f"{_PATH}{Path.home().resolve()}"
    except (OSError, RuntimeError):
        return ""


@lru_cache(maxsize=1024)
def _key_today(key: str) -> str:
    """The key that a folder's project has today; another's key as it is."""
    found = identify_project(key.removeprefix(_PATH)) if key.startswith(_PATH) else None
    return found.key if found else key
