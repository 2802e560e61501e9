"""Who asks in a team, what they may do, and which spaces they may see: principals, keys, spaces, and who speaks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harken.errors import NotFoundError, ScopeError
from harken.model.conversations import Choice
from harken.model.views import AuditView, GrantView, KeyView, PrincipalView, SpaceView, format_moment, view_of


class KeyScope(Choice):
    """What a key may be used for; `admin` manages spaces, groups and principals, `keys` makes and revokes keys."""

    READ = "read"
    RECORD = "record"
    REMEMBER = "remember"
    FORGET = "forget"
    INDEX = "index"
    ADMIN = "admin"
    KEYS = "keys"


EVERY_SCOPE = frozenset(KeyScope)
USUAL_SCOPES = EVERY_SCOPE - {KeyScope.ADMIN, KeyScope.KEYS}
"""The scopes of a key for which none are named."""


class PrincipalKind(Choice):
    """Who a principal is."""

    USER = "user"
    AGENT = "agent"
    SERVICE = "service"


class Access(Choice):
    """What a grant allows in a space; each allows what stands before it as well."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, wanted: Access) -> bool:
        """Whether this is as much as is wanted, or more."""
        return _LADDER.index(self) >= _LADDER.index(wanted)


_LADDER = (Access.READ, Access.WRITE, Access.ADMIN)


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, an agent or a service of a team.

    Attributes:
        name: unique in the team.
        email: how a login finds them; unique in the team.
    """

    id: str
    team: str
    kind: PrincipalKind
    name: str
    created: datetime
    email: str | None = None

    def view(self) -> PrincipalView:
        """Return the principal as JSON."""
        return view_of(PrincipalView, self)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of a principal; of the key itself only its hash is stored.

    Attributes:
        prefix: how the key begins, by which people tell their keys apart.
        principal: the id of whom it speaks for.
        scopes: what it may be used for.
        spaces: ids of the only spaces that it reaches; None for all that its principal reaches.
        last_used: to the minute.
    """

    id: str
    prefix: str
    principal: str
    scopes: frozenset[KeyScope]
    spaces: frozenset[str] | None
    created: datetime
    expires: datetime | None = None
    last_used: datetime | None = None
    revoked: datetime | None = None

    def view(self) -> KeyView:
        """Return the key as JSON, without the secret."""
        scopes = [scope.value for scope in KeyScope if scope in self.scopes]
        return view_of(KeyView, self, scopes=scopes, spaces=None if self.spaces is None else sorted(self.spaces))


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made just now.

    Attributes:
        secret: the key itself, `hk_…`: shown once, and kept nowhere.
    """

    key: ApiKey
    secret: str

    def view(self) -> dict[str, Any]:
        """Return the key as JSON, with the secret, this once."""
        return {"key": self.secret, **self.key.view()}


@dataclass(frozen=True, slots=True)
class TeamSpace:
    """A part of a team's memory with a wall of its own.

    Attributes:
        name: unique in the team.
        owner: the id of the principal whose private space it is; None of a shared one.
        retention_days: what is older is forgotten; None keeps all.
    """

    id: str
    team: str
    name: str
    owner: str | None = None
    is_private: bool = False
    retention_days: int | None = None

    @property
    def tenant(self) -> str:
        """The value that the rows of this space have as their tenant."""
        return self.team if self.id == COMMON else f"{self.team}/{self.id}"

    def view(self) -> SpaceView:
        """Return the space as JSON."""
        return view_of(SpaceView, self, private=self.is_private)


COMMON = "common"
"""The id and the name of a team's first space, which is there without having been made."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may do in a space.

    Attributes:
        grantee: a principal's id, or a group's.
        name: of that principal or group.
    """

    space: str
    grantee: str
    name: str
    is_group: bool
    access: Access

    def view(self) -> GrantView:
        """Return the grant as JSON."""
        return view_of(GrantView, self, to=self.name, kind="group" if self.is_group else "principal")


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who asks, as their key or their login says, and what they may.

    Attributes:
        key: None where somebody has logged in, or has the database itself.
        spaces: those that they may read, each with what they may do there; their own first.
        is_operator: whether it is whoever holds the database, who manages everything and has no space of their own.
    """

    principal: Principal
    key: ApiKey | None
    scopes: frozenset[KeyScope]
    spaces: tuple[tuple[TeamSpace, Access], ...]
    is_operator: bool = False

    @property
    def own(self) -> TeamSpace:
        """The space in which they record where they name none.

        Raises:
            NotFoundError: the key does not reach any space.
        """
        if not self.spaces:
            raise NotFoundError("This key reaches no space. See: harken whoami")
        return self.spaces[0][0]

    def require(self, *scopes: KeyScope) -> None:
        """Pass if all of these scopes are there.

        Raises:
            ScopeError: names the one that is missing.
        """
        for scope in scopes:
            if scope not in self.scopes:
                raise ScopeError(scope.value)

    def space(self, name: str | None, wanted: Access = Access.READ) -> TeamSpace:
        """The space of that name or id, or their own, if they may do there what is wanted.

        Raises:
            NotFoundError: there is none that they may see, or more than one.
            ScopeError: they may see it, and not do what is wanted.
        """
        found = [each for each in self.spaces if name == each[0].id] or self._called(name)
        if len(found) > 1:
            ids = ", ".join(space.id for space, _ in found)
            raise NotFoundError(f"Several spaces are called {name}. Name one by its id: {ids}")
        if not found:
            raise NotFoundError(f"There is no space {name}. See: harken space list")
        space, access = found[0]
        if not access.allows(wanted):
            raise ScopeError(wanted.value, space.name)
        return space

    def _called(self, name: str | None) -> list[tuple[TeamSpace, Access]]:
        return list(self.spaces[:1]) if name is None else [each for each in self.spaces if each[0].name == name]

    def view(self) -> dict[str, Any]:
        """Return who speaks, and what they may, as JSON."""
        return {
            "principal": self.principal.view(),
            "team": self.principal.team,
            "key": self.key.view() if self.key else None,
            "scopes": [scope.value for scope in KeyScope if scope in self.scopes],
            "spaces": [{**space.view(), "access": access.value} for space, access in self.spaces],
        }


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request of a team's server: never any text.

    Attributes:
        principal: the id of whom it was made for; likewise the key.
        space: the id of the space that was named; None where none was.
        verb: the operation.
        via: by which door: `http`, `mcp` or `view`.
        status: as HTTP says how it was answered.
        ids: of what it was about, and of what it brought or changed.
    """

    at: datetime
    team: str
    principal: str
    key: str | None
    space: str | None
    verb: str
    via: str
    status: int
    ids: tuple[str, ...] = ()

    def view(self) -> AuditView:
        """Return the line as JSON."""
        return view_of(AuditView, self, at=format_moment(self.at))


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """How a record came into a space.

    Attributes:
        uid: the record's id in that space.
        kind: `message`, `conversation`, `memory`, `experience`…
        principal: whose words they are; empty where that is nobody of the team.
        sharer: who has copied it there; None where it was recorded there.
        source_space: where it was copied from; likewise.
    """

    space: str
    uid: str
    kind: str
    principal: str
    at: datetime
    sharer: str | None = None
    source_space: str | None = None
    source_uid: str | None = None
