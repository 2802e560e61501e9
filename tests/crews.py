"""A team of a few people on the tests' server, each with a key and a private space."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.engine import Harken
from harken.engine.team import Team
from harken.model.team import Principal, Speaker
from harken.testing import HashingEmbedder


@dataclass
class Crew:
    """An open team with its people.

    Attributes:
        keys: the secret of each one's first key, by name.
    """

    team: Team
    keys: dict[str, str] = field(default_factory=dict)
    people: dict[str, Principal] = field(default_factory=dict)

    def join(self, name: str, is_admin: bool = False, **given: Any) -> Principal:
        """Make a principal with a key."""
        operator = self.team.operator()
        self.people[name] = self.team.create_principal(operator, name, is_admin=is_admin, **given)
        self.keys[name] = self.team.create_key(operator, name).secret
        return self.people[name]

    def speaker(self, name: str) -> Speaker:
        """Who speaks by a person's key."""
        return self.team.speaker(self.keys[name])

    def memory(self, name: str, space: str | None = None) -> Harken:
        """The memory as a person sees it."""
        return self.team.memory(self.speaker(name), space)


@contextmanager
def crew(place: Path, store: str, tenant: str, *names: str, **settings: Any) -> Iterator[Crew]:
    """A team of these people; the first one manages it."""
    chosen = {"store": store, "tenant": tenant, **settings}
    with Team(place, settings=chosen, env={}, embedder=HashingEmbedder()) as team:
        found = Crew(team)
        for name in names:
            found.join(name, is_admin=name == names[0])
        yield found
