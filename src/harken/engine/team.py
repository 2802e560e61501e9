"""Team: who speaks by which key, and the memory that they get to see and to write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harken.engine.engine import Harken
from harken.model.team import Access, ApiKey, Grant, KeyScope, NewKey, Principal, PrincipalKind, Speaker, TeamSpace

if TYPE_CHECKING:
    from harken.providers.embedder import Embedder


class Members:
    """Principals, keys, groups, spaces and grants; every verb says first who asks for it."""

    def operator(self, team: str | None = None) -> Speaker:
        """Whoever holds the database: may manage everything in a team, that of the settings unless one is named."""
        raise NotImplementedError

    def create_principal(
        self,
        by: Speaker,
        name: str,
        kind: PrincipalKind = PrincipalKind.USER,
        email: str | None = None,
        is_admin: bool = False,
    ) -> Principal:
        """Make a principal with a private space."""
        raise NotImplementedError

    def principals(self, by: Speaker) -> list[Principal]:
        """Everybody in the team."""
        raise NotImplementedError

    def create_key(
        self,
        by: Speaker,
        principal: str | None = None,
        scopes: Collection[KeyScope] | None = None,
        spaces: Sequence[str] | None = None,
        expires: datetime | None = None,
    ) -> NewKey:
        """Make a key for oneself, or, as an administrator, for another principal by name or id."""
        raise NotImplementedError

    def list_keys(self, by: Speaker, principal: str | None = None) -> list[ApiKey]:
        """One's own keys, or another's, newest first."""
        raise NotImplementedError

    def revoke_key(self, by: Speaker, key: str) -> ApiKey:
        """Revoke a key by its id, or by how it begins."""
        raise NotImplementedError

    def rotate_key(self, by: Speaker, key: str, overlap_seconds: int = 0) -> NewKey:
        """Make a key like another, which is revoked now or expires after the overlap."""
        raise NotImplementedError

    def create_space(self, by: Speaker, name: str) -> TeamSpace:
        """Make a shared space; whoever asks administers it."""
        raise NotImplementedError

    def grant(self, by: Speaker, space: str, to: str, access: Access) -> Grant:
        """Let a principal or a group, by name, read, write or administer a space."""
        raise NotImplementedError

    def revoke(self, by: Speaker, space: str, of: str) -> None:
        """Take back what was granted."""
        raise NotImplementedError

    def grants(self, by: Speaker, space: str) -> list[Grant]:
        """Who may do what in a space."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Erased:
    """What erasing a principal took away: how many records, and how many copies that others had of them."""

    principal: str
    records: int
    copies: int


class Team(Members):
    """The memory of a team on a server: one object for a process, safe to use from several threads.

    Args:
        home: folder of settings, as for `Harken`.
        settings: values above the settings file and the environment; `store` has to be a server's URL.
        env: the environment; None takes the process's own.
        embedder: stands in place of the configured model.
    Raises:
        ConfigError: the store is no server, or a setting is out of range.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        embedder: Embedder | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        raise NotImplementedError

    def speaker(self, token: str) -> Speaker:
        """Who speaks by a key, looked up anew each time, so that a revoked key is refused from then on.

        Raises:
            KeyRefusedError: it is unknown, has expired, or was revoked.
        """
        raise NotImplementedError

    def speaker_of(self, email: str, team: str | None = None) -> Speaker:
        """Who has logged in with an address that a provider has vouched for.

        Raises:
            KeyRefusedError: no principal of the team has that address.
        """
        raise NotImplementedError

    def memory(self, speaker: Speaker, space: str | None = None) -> Harken:
        """The memory as a speaker gets to see it; what is written goes to their own space, or the one named.

        Reading sees the union of the spaces that the speaker may read. The object is the team's: never close it, and
        ask for it anew with each request.

        Raises:
            NotFoundError: there is no space of that name that they may see.
            ScopeError: they may not write there.
        """
        raise NotImplementedError

    def share(self, by: Speaker, uid: str, to: str) -> str:
        """Copy a message, exchange, conversation, memory or experience into a space; the id of the copy."""
        raise NotImplementedError

    def unshare(self, by: Speaker, uid: str, space: str | None = None) -> list[str]:
        """Forget the copies of something, or those in one space; their ids."""
        raise NotImplementedError

    def export_principal(self, by: Speaker, principal: str, target: Path) -> int:
        """Write everything of a principal to a file; how many lines."""
        raise NotImplementedError

    def erase_principal(self, by: Speaker, principal: str) -> Erased:
        """Erase a principal: no word of theirs stays in any table."""
        raise NotImplementedError

    def start_workers(self) -> None:
        """Embed and summarize in all spaces in the background from now on."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the workers and give everything back."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
