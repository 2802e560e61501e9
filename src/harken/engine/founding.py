"""A team from nothing: the tables, the role that a server uses, the first members, each with a key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.config.settings import load_settings
from harken.engine.members import checked_name
from harken.engine.team import Team
from harken.errors import UsageError
from harken.journal.journal import JOURNAL_NAME
from harken.storage.open import make_server_role, migrate_store
from harken.storage.ports import EMBEDDED_TENANT

_SETTINGS_NAME = "harken.toml"


@dataclass(frozen=True, slots=True)
class Founded:
    """What a new team begins with.

    Attributes:
        schema: the version of the tables.
        store: the URL that the server uses; with its password where the role was made just now.
        is_role_new: whether the role was made just now; else its password is what it was.
        keys: the key of each new member by name; shown this once. The team's very first member manages it.
        settings_file: where store and team were written; None where there were settings, or memories, already.
    """

    schema: str
    team: str
    store: str
    is_role_new: bool
    keys: Mapping[str, str]
    settings_file: Path | None

    def view(self) -> dict[str, Any]:
        """Return it as JSON, with the keys, this once."""
        file = None if self.settings_file is None else str(self.settings_file)
        made = {"schema": self.schema, "team": self.team, "store": self.store, "role_made": self.is_role_new}
        return {**made, "keys": dict(self.keys), "settings_file": file}


def found_team(
    home: Path | None, overrides: Mapping[str, Any], env: Mapping[str, str], names: Sequence[str], role: str
) -> Founded:
    """Make the tables, the role of the server and the first members; what is there already stays as it is.

    The store of the settings is that of the tables' owner, who may make roles. Afterwards the server logs in by the
    role, which the database itself holds to the rows of one space at a time; its URL is written to the home's settings
    where there are none, and no memory: what its owner says to their agents would go into the team's.

    Raises:
        ConfigError: the settings name no server.
        StoreError: the database cannot be reached or changed.
        UsageError: a name is none, or that of something else in the team; then nobody was made.
    """
    names = [checked_name(name) for name in names]
    loaded = load_settings(home, env, overrides).settings
    # A home's first team has no name yet.
    team = "team" if loaded.tenant == EMBEDDED_TENANT else loaded.tenant
    app, is_new = make_server_role(loaded.store or "sqlite://", role, secrets.token_urlsafe(24))
    file = loaded.home / _SETTINGS_NAME
    is_free = not (loaded.home / JOURNAL_NAME).exists()
    is_written = is_new and is_free and _write(file, {"store": app, "tenant": team})
    done = migrate_store(loaded.store or "", team, loaded.home / "cache", role=role)
    keys: dict[str, str] = {}
    # As the owner: the role's password may not be known here.
    with Team(
        home, settings={**overrides, "store": loaded.store, "tenant": team, "embedder": "none"}, env=env
    ) as opened:
        operator = opened.operator(team)
        known = {principal.name for principal in opened.principals(operator)}
        if taken := sorted(opened.groups(operator).keys() & set(names)):
            raise UsageError(f"A group is called {taken[0]} already. Choose another name, and say all of them again.")
        for name in dict.fromkeys(names):
            if name not in known:
                opened.create_principal(operator, name, is_admin=not known)
                keys[name] = opened.create_key(operator, name).secret
                known.add(name)
    return Founded(done.schema, team, app, is_new, keys, file if is_written else None)


def _write(file: Path, values: Mapping[str, str]) -> bool:
    """Write settings for this user alone; False where there is a file."""
    import tomlkit

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(tomlkit.dumps(dict(values)))
    return True
